/* emit: declarations shared by the emitters. */
#ifndef EMIT_H
#define EMIT_H

#include "ir/call.h"
#include "module/lowered.h"
#include "moec.h"
#include "loop/lower/lower.h"

/* As MoecOwnProduct of runtime/abi/abi.h. */
typedef struct OwnProduct {
    const char *kernel;
    long alignment;
} OwnProduct;

/* Syntax of the head of a kernel and of its call on a target. */
typedef struct ParameterStyle {
    const char *function;             /* before the name */
    const char *seed, *seed_argument; /* the seed of the run */
    const char *memory;               /* before the type of an array */
    const char *alone;                /* before the name of an array that overlaps no other */
    const char *address;              /* before an argument */
    const char *begin, *seed_begin;   /* first lines of a kernel; further ones of one with a seed */
} ParameterStyle;

/* Range of a kernel in a text, and its head up to the end of the parameters. */
typedef struct KernelRange {
    size_t first, end;
    const char *head;
} KernelRange;

/* Differences between targets in the units of a schedule. */
typedef struct EmitTarget {
    ParameterStyle parameters;
    /* Adds the function of a kernel and the step that runs it. */
    void (*kernel)(Emitter *emitter, Kernel *kernel);
    /* Completes the step of a dense product; NULL: a library or the host computes it. */
    void (*product)(Emitter *emitter, const ScheduleUnit *unit, HostStep *step);
    void (*grouped)(Emitter *emitter, const ScheduleUnit *unit);
    /* `count` units from `first` on that share a launch; GPUs only. */
    void (*rows)(Emitter *emitter, const List *units, int first, int count);
    const char *clear; /* a call that sets memory of a run to 0, before its address */
    /* The loops of the optimizer kernel. */
    Launch (*nests)(Emitter *emitter, const Kernel *kernel);
    bool apart;    /* kernels are in a separate text */
    bool marks;    /* the program marks the end of each unit: see MoecHost.mark */
    bool variants; /* the host selects a variant of a kernel: see MoecHost.launch_variant */
} EmitTarget;

extern const EmitTarget target_c, target_c_hosted, target_c_marked, target_cuda, target_cuda_alone;

/* emit_module for any target. */
Module *module_for(Arena *arena, Schedule *const *schedules, int count, const EmitTarget *target,
                   bool plain);

struct Emitter {
    Lowering lower; /* of the current kernel, and its input */
    Module *module;
    const EmitTarget *target; /* of the module; for the learning rate, the host */
    Entry *entry;             /* counts its kernels, products and operations */
    bool *declared;           /* by tensor->id: the run function needs a pointer */
    double repeats;           /* number of executions of the current steps */
    int bindings;             /* before the current kernel */
    List *steps;              /* receives steps */
    List equations;           /* const Statement *: of the next step */
};

/* ---- emit_names.c ---- */

/* A C string literal, quoted. */
const char *quoted(Arena *arena, const char *text);
/* `file.moe:12` of a span, or an empty text. */
const char *line_of(Arena *arena, Span span);
/* The axes of a tensor: "[batch, s, d]". */
const char *axes_of(Arena *arena, const Tensor *tensor);

/* ---- print_functions.c ---- */

/* Adds the equations of statements as a comment. */
void print_equations(Text *text, const List *statements);
/* The parameters of a kernel as text, and its arguments. */
const char *params_text(Arena *arena, const ParameterStyle *style, const List *params);
const char *arguments_text(Arena *arena, const ParameterStyle *style, const List *arguments);
/* Prints sections. ranges, pieces: receive KernelRange * and MoecPiece *; or NULL. */
void print_functions(Text *text, const Module *module, const List *sections, List *ranges,
                     List *pieces);

/* ---- print_steps.c, print_calls.c ---- */

void print_steps(Text *text, const Module *module, const List *steps, int indent);
/* The optimizer's functions; or its GPU kernel. */
void print_update(Text *text, const Module *module, const Update *update, bool device);
/* A variant of a kernel, from the first on; a class of constants. */
void print_template_variant(Text *text, const TemplateKernel *kernel, int number,
                            const ParameterStyle *style);
void print_constants(Text *text, const TemplateOptions *options);
/* The function that runs a program. */
void print_entry(Text *text, const Module *module, const Entry *entry);
void print_call(Text *text, const HostStep *step, int indent);
void print_record(Text *text, const HostRecord *record, int indent);
__attribute__((format(printf, 3, 4))) void print_format(Text *text, int indent, const char *format,
                                                        ...);
const char *operand_text(Arena *arena, const HostStep *step, int number);

/* ---- emit_kernel.c ---- */

/* The units of a schedule as C: see EmitTarget. */
void emit_kernel(Emitter *emitter, Kernel *kernel);
void emit_grouped(Emitter *emitter, const ScheduleUnit *unit);
/* A name with a unique number, after the last tensor that the kernel computes. */
const char *kernel_name(Emitter *emitter, const Kernel *kernel, const Nest *nest);
void add_param(Arena *arena, List *params, Param param);
/* An argument: the element of a read where all loops are 0. */
void add_operand_param(Emitter *emitter, List *params, const Expr *read);
/* Adds parameters for everything that the current kernel uses, after existing ones. */
void add_params(Emitter *emitter, List *params);
/* Adds the statements of a kernel: those in a nest, or all (NULL). */
void add_statements(Arena *arena, const Kernel *kernel, const Nest *nest, List *statements);
/* Adds loops to the module, completely lowered. */
void add_loops(Emitter *emitter, LoopKernel *loops, const char *name);
/* Between these two calls a separate kernel is lowered. nest: the part of the schedule's kernel in
 * it, or NULL. Adds a step that launches it. */
LoopKernel *open_kernel(Emitter *emitter, Kernel *kernel);
void launch_kernel(Emitter *emitter, LoopKernel *loops, const Nest *nest);
Section *add_section(Arena *arena, List *sections, Section section);
Launch emit_update_nests(Emitter *emitter, const Kernel *kernel);

/* ---- emit_calls.c, emit_units.c ---- */

/* Adds a step, with the equations since the last one. */
HostStep *add_step(Emitter *emitter, HostStepKind kind);
/* Adds the launch of a kernel. */
LaunchStep *add_launch(Emitter *emitter, const char *kernel, Launch launch, const List *arguments);
/* Adds a step with all operands of a call: inputs, then outputs. Sizes get their constants in this
 * order, or backwards. */
HostStep *add_call(Emitter *emitter, const Statement *statement, HostStepKind kind, bool backwards);
/* Adds a value to the arguments of a call or to the fields of a record (field: NULL in arguments
 * and arrays): the name of a constant; numbers; an array or record that is filled later; an operand
 * of the step, -1: NULL. */
HostValue *add_name(Arena *arena, List *values, const char *field, const char *name);
HostValue *add_number(Arena *arena, List *values, const char *field, long number);
HostValue *add_real(Arena *arena, List *values, const char *field, double number);
void add_numbers(Arena *arena, List *values, const char *field, const long *numbers, int count);
HostValue *add_array(Arena *arena, List *values, const char *field, const char *type);
HostValue *add_operand(Arena *arena, List *values, const char *field, const HostStep *step,
                       int number);
/* Adds a constant of this type as an argument of a call. Returns its fields. */
List *add_options(Emitter *emitter, HostStep *step, const char *type);
/* Adds room for operands of a step; sets one to a tensor from the element where all loops are 0
 * (NULL: absent), or to the value of an integer. */
void add_operands(Emitter *emitter, HostStep *step, int count);
void set_access(Emitter *emitter, HostStep *step, int number, const Expr *access, Access kind);
void set_value(Emitter *emitter, HostStep *step, int number, const Expr *read);
/* Adds an equation to the next step. */
void emit_equation(Emitter *emitter, const Statement *statement);
void emit_units(Emitter *emitter, const List *units);

/* ---- emit_program.c, emit_update.c, emit_table.c ---- */

/* The tensors of that role, in order. */
List tensors_with(Arena *arena, const Program *program, Role role);
/* The table entry of a tensor. */
MoecTensorInfo tensor_info(Arena *arena, const Tensor *tensor, size_t offset);

void emit_products(Text *text, const List *products);
/* Adds `, .a_type = MOEC_BF16` for a bf16 operand. */
void emit_type(Text *text, const char *operand, Type type);
void emit_program(Module *module, Schedule *schedule, const char *prefix);
void emit_update(Module *module, Program *program);
/* "MOEC_SCALAR_RATE" */
const char *scalar_text(MoecScalar kind);
void emit_table(const Module *module, Text *text);
/* Adds the contents of the text as a comment: its graphs, their inputs and sizes. */
void emit_overview(const Module *module, Text *text);

/* ---- emit_cuda_*.c ---- */

void emit_cuda_kernel(Emitter *emitter, Kernel *kernel);
void emit_cuda_dense(Emitter *emitter, const ScheduleUnit *unit, HostStep *step);
void emit_cuda_grouped(Emitter *emitter, const ScheduleUnit *unit);
void emit_cuda_rows(Emitter *emitter, const List *units, int first, int count);
/* The template of a tile, the part of a kernel name, its launch bounds, its size; the same for
 * warpgroups, and a larger one for these, or NULL. */
typedef struct Tile {
    const TemplateInstance *template;
    const char *name, *bounds;
    long height, breadth;
    const TemplateInstance *wgmma, *wide;
    bool single; /* passes single results */
    int threads;
} Tile;
/* A tile of one row, as wide as possible with enough of them for a whole GPU; columns: of the whole
 * launch. */
Tile row_tile(Emitter *emitter, const ScheduleUnit *unit, long columns);

/* ---- emit_cuda_templates.c ---- */

/* A template with arguments of these kinds: a number (long), a truth value (int), a class (const
 * TemplateInstance *), the type of the elements of a tensor: "nbct". */
const TemplateInstance *template_of(Arena *arena, const char *name, const char *kinds, ...);
void add_template_argument(Arena *arena, List *arguments, const Term *argument);
void add_params_as_arguments(Arena *arena, const List *params, List *arguments);
/* A kernel with a number; its variants; their calls. */
TemplateKernel *add_template_kernel(Emitter *emitter, TemplateKernel kernel);
void add_variant(Arena *arena, TemplateKernel *kernel, TemplateVariant variant);
void add_template_call(Arena *arena, TemplateVariant *variant, TemplateCall call);
/* A store that computes an epilogue, whose first `rows` target loops are in the row, and the
 * parameters of everything that it uses. Several stores of one kernel: add_store for each between
 * begin_kernel and end_stores; dual: the statement of a dual product, or NULL. */
TemplateStore *store_of(Emitter *emitter, Kernel *epilogue, int rows, int width, List *params);
TemplateStore *add_store(Emitter *emitter, Kernel *epilogue, int rows, int width,
                         const Statement *dual);
void end_stores(Emitter *emitter, List *params, int bindings);
/* An object of a class of the type of the target. */
TemplateStore *plain_store(Emitter *emitter, const char *object, const Expr *target,
                           const Term *first, const Term *second);
Launch emit_cuda_update_nests(Emitter *emitter, const Kernel *kernel);
void lower_shares(Module *module, Update *update);
/* Assigns a number to a kernel; the number has the same name. */
const char *device_kernel(Emitter *emitter, const char *name);
/* Ends a piece: the text since the last piece is a kernel or one of its variants; NULL: shared by
 * several kernels. */
void end_piece(Module *module, const char *kernel);
/* Adds a variant to a launch. */
void add_launch_variant(Emitter *emitter, LaunchStep *step, Launch launch, const Term *shared);
/* Adds Written * for the launch of a kernel with several variants: `count` elements
 * from the target on; after the kernel of an epilogue, all elements that it stores, or returns
 * false. */
void put_written(Emitter *emitter, const Expr *target, long count, bool rounded, List *written);
bool put_targets(Emitter *emitter, const Kernel *epilogue, bool rounded, List *written);

#endif
