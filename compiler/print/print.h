/* print: a module as text. Printers read the module and decide nothing: a text depends on the
 * module alone. */
#ifndef PRINT_H
#define PRINT_H

#include "module/lowered.h"

/* Syntax of a target: the head of a kernel, and its call. */
typedef struct PrintStyle {
    const char *function;             /* before the name */
    const char *seed, *seed_argument; /* the seed of the run */
    const char *memory;               /* before the type of an array */
    const char *alone;                /* before the name of an array that overlaps no other */
    const char *address;              /* before an argument */
    const char *begin, *seed_begin;   /* first lines of a kernel; further ones of one with a seed */
    const char *clear; /* a call that sets memory of a run to 0, before its address */
    const char *run;   /* type of the argument of a program */
    /* or NULL: before and after the type of a number; around the number of a parameter, after it;
       further parameters */
    const char *number, *number_end, *binding, *binding_end, *further;
} PrintStyle;

typedef struct PrintContext {
    const Module *module;
    const PrintStyle *style;
    const size_t
        *stored; /* of a freestanding program: index of the first element of each weight and
                             state, by tensor->id; else NULL */
} PrintContext;

/* ---- print_lines.c ---- */

/* Prints one line; breaks it if it is too long. */
void print_line(Text *text, int indent, const char *line);
__attribute__((format(printf, 3, 4))) void print_format(Text *text, int indent, const char *format,
                                                        ...);
/* Adds the equations of statements as a comment. */
void print_equations(Text *text, const List *statements);
/* A C string literal, quoted. */
const char *quoted(Arena *arena, const char *text);
/* The axes of a tensor: "[batch, s, d]". */
const char *axes_of(Arena *arena, const Tensor *tensor);

/* ---- print_nodes.c ---- */

/* A let and those joined to it as one declaration. */
const char *let_text(Arena *arena, const FormNode *node);
/* Prints a block as lines of C or CUDA with this indentation. */
void print_block(Text *text, const FormBlock *block, int indent);

/* ---- print_params.c ---- */

/* Whether a product over dispatched rows adds to its result. */
const char *adds_text(const ScheduleUnit *unit);
/* The parameters of a kernel as text, and its arguments. */
const char *params_text(Arena *arena, const PrintStyle *style, const List *params);
const char *arguments_text(Arena *arena, const PrintStyle *style, const List *arguments);

/* ---- print_functions.c, print_templates.c ---- */

/* Range of a kernel in a text, and its head up to the end of the parameters. */
typedef struct KernelRange {
    size_t first, end;
    const char *head;
} KernelRange;

/* Prints sections. ranges, pieces: receive KernelRange * and MoecPiece *; or NULL. */
void print_functions(Text *text, const PrintContext *context, const List *sections, List *ranges,
                     List *pieces);
/* A variant of a kernel, from the first on; a class of constants. */
void print_template_variant(Text *text, const TemplateKernel *kernel, int number,
                            const PrintStyle *style);
void print_constants(Text *text, const TemplateOptions *options);

/* ---- print_externs.c ---- */

/* The name of a file in a standalone folder. */
const char *extern_file_name(Arena *arena, const char *path);
/* Declarations of the hand-written functions of a module; their files, each once. */
void print_extern_declarations(Text *text, const Module *module);
void print_extern_files(Text *text, const Module *module);
/* The file of a GPU kernel, once in a text that has several of its kernels, and its declaration. */
void print_extern_file(Text *text, const Module *module, const ExternCall *call);

/* ---- print_steps.c, print_values.c, print_update.c ---- */

/* The function that runs a program. */
void print_entry(Text *text, const PrintContext *context, const Entry *entry);
void print_call(Text *text, const HostStep *step, int indent);
void print_record(Text *text, const HostRecord *record, int indent);
/* The optimizer's functions; or its GPU kernel. */
void print_update(Text *text, const Module *module, const Update *update, bool device);

/* ---- print_c.c, print_table.c ---- */

/* Operand types that no program multiplies; the kernels leave them out, see operands.h. */
void print_absent(Text *text, const Module *module);
/* The syntax of C. seed: the argument with the seed of the run. */
PrintStyle c_style(const char *function, const char *seed, const char *run);
/* Declares the sizes of axes, all or only those of kernels. */
void print_sizes(Text *text, const List *sizes, bool only_kernels);
void print_products(Text *text, const List *products);
/* Adds `, .a_type = MOEC_BF16` for a bf16 operand, nothing for one of f32. */
void add_type(Text *text, const char *operand, Type type);
/* "MOEC_SCALAR_RATE" */
const char *scalar_text(MoecScalar kind);
void print_table(Text *text, const Module *module);
/* Adds the contents of the text as a comment: its graphs, their inputs and sizes. */
void print_overview(Text *text, const Module *module);

#endif
