/* emit: declarations shared by the emitters. */
#ifndef EMIT_H
#define EMIT_H

#include "module/lowered.h"
#include "moec.h"
#include "loop/lower/lower.h"

/* As MoecOwnProduct of runtime/abi/abi.h. */
typedef struct OwnProduct {
    const char *kernel;
    long alignment;
} OwnProduct;

typedef struct Emitter Emitter;

/* The optimizer step: declarations before its loops, its loops and its inputs. */
typedef struct Update {
    const char *head;
    LoopKernel *body;
    List scalars, states; /* Tensor * */
} Update;

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
    /* epilogue: see ScheduleUnit. */
    void (*call)(Emitter *emitter, const Statement *statement, Kernel *epilogue);
    void (*grouped)(Emitter *emitter, const ScheduleUnit *unit);
    /* `count` units from `first` on that share a launch; GPUs only. */
    void (*rows)(Emitter *emitter, const List *units, int first, int count);
    const char *clear; /* a call that sets memory of a run to 0, before its address */
    /* The loops of the optimizer kernel; then the function or kernel that contains them. */
    Launch (*nests)(Emitter *emitter, const Kernel *kernel);
    void (*update)(Module *module, const Update *update);
    const char *update_function; /* its entry of MoecUpdate */
    bool apart;                  /* kernels are in a separate text */
    bool marks;                  /* the program marks the end of each unit: see MoecHost.mark */
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
/* The function that runs a program. */
void print_entry(Text *text, const Module *module, const Entry *entry);
void print_call(Text *text, const HostStep *step, int indent);
/* The constant with the options of a call. */
void print_options(Text *text, const HostStep *step);
void print_format(Text *text, int indent, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
const char *operand_text(Arena *arena, const HostStep *step, int number);

/* ---- emit_kernel.c ---- */

/* The units of a schedule as C: see EmitTarget. */
void emit_kernel(Emitter *emitter, Kernel *kernel);
void emit_call(Emitter *emitter, const Statement *statement, Kernel *epilogue);
void emit_grouped(Emitter *emitter, const ScheduleUnit *unit);
/* A name with a unique number, after the last tensor that the kernel computes. */
const char *kernel_name(Emitter *emitter, const Kernel *kernel, const Nest *nest);
void add_param(Arena *arena, List *params, Param param);
/* An argument: the element of an access where all loops are 0. */
void add_operand_param(Emitter *emitter, List *params, const Expr *access, bool written);
/* Adds parameters for everything that the current kernel uses, after existing ones. */
void add_params(Emitter *emitter, List *params);
/* Adds the statements of a kernel: those in a nest, or all (NULL). */
void add_statements(Arena *arena, const Kernel *kernel, const Nest *nest, List *statements);
/* Adds loops to the module, completely lowered. */
void add_loops(Emitter *emitter, LoopKernel *loops, const char *name);
/* Between these two calls a separate function is lowered. nest: the part of the kernel in it, or
 * NULL. launch_kernel: the same with a step that runs it. */
LoopKernel *open_kernel(Emitter *emitter, Kernel *kernel);
void close_kernel(Emitter *emitter, LoopKernel *loops, const Nest *nest, const char *name);
void launch_kernel(Emitter *emitter, LoopKernel *loops, const Nest *nest, const char *name);
Section *add_section(Arena *arena, List *sections, Section section);
/* Adds a section with this text to a list, or to the functions of the target: as it is, or as a
 * line, broken if it is too long. */
Section *add_text(Arena *arena, List *sections, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
Section *function_text(Emitter *emitter, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void function_line(Emitter *emitter, const char *format, ...) __attribute__((format(printf, 2, 3)));

Launch emit_update_nests(Emitter *emitter, const Kernel *kernel);
void emit_scan(Emitter *emitter, const Statement *scan);

/* ---- emit_calls.c, emit_units.c ---- */

/* An operand of a call without the dimensions fixed by repeat indices and numbers. */
typedef struct Shape {
    int rank;
    long size[MAX_RANK];
    const Index *index[MAX_RANK];
} Shape;

Shape shape_of(const Expr *operand);
/* Size of the dimension `back` before the end; of all dimensions before the last `own` together. */
long size_at(const Shape *shape, int back);
long leading_size(const Shape *shape, int own);
/* count_attend: adds the operations of an attention. */
/* The number of positions to attend to; the cache of a window has fewer keys. */
long attend_places(const Program *program, const Statement *statement);
void count_attend(Emitter *emitter, const Statement *statement);
/* Adds a step, with the equations since the last one. */
HostStep *add_step(Emitter *emitter, HostStepKind kind);
/* Adds the launch of a kernel; the call of a hand-written one, with all its operands. */
LaunchStep *add_launch(Emitter *emitter, const char *kernel, Launch launch, const List *arguments);
HostStep *add_call(Emitter *emitter, const Statement *statement);
/* Adds room for operands of a step; sets one to a tensor from the element where all loops are 0
 * (NULL: absent), or to the value of an integer. */
void add_operands(Emitter *emitter, HostStep *step, int count);
void set_access(Emitter *emitter, HostStep *step, int number, const Expr *access, Access kind);
void set_value(Emitter *emitter, HostStep *step, int number, const Expr *read);
/* Adds an equation to the next step. */
void emit_equation(Emitter *emitter, const Statement *statement);
/* Outer size, size and inner size of the dimension that top selects along. */
void top_sizes(const Statement *statement, long sizes[3]);
const char *numbers_text(Arena *arena, const long *numbers, int count); /* "{1, 2}" */
/* The row-major strides of a further part of the group of a pack, by dimension of the mask. */
void through_strides(const Shape *mask, const Expr *through, long strides[MAX_RANK]);
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
void emit_cuda_call(Emitter *emitter, const Statement *statement, Kernel *epilogue);
void emit_cuda_attend(Emitter *emitter, const Statement *statement, Kernel *epilogue);
void emit_cuda_dense(Emitter *emitter, const ScheduleUnit *unit, HostStep *step);
void emit_cuda_grouped(Emitter *emitter, const ScheduleUnit *unit);
void emit_cuda_rows(Emitter *emitter, const List *units, int first, int count);
/* The template of a tile: its text, the part of a kernel name, its size; the same for warpgroups,
 * and a larger one for these, or NULL. */
typedef struct Tile {
    const char *text, *name, *bounds;
    long height, breadth;
    const char *wgmma, *wide;
    bool single; /* passes single results */
    int threads;
} Tile;
/* A tile of one row, as wide as possible with enough of them for a whole GPU; columns: of the whole
 * launch. */
Tile row_tile(Emitter *emitter, const ScheduleUnit *unit, long columns);
/* The store of a template as a lambda, with the parameters that it adds to the kernel and their
 * launch arguments. The template passes the row and the column of the element of its result.
 * Templates of other operations do the same, with a given number of target loops in the row. width
 * > 1: that many adjacent elements at a time; the template passes the index of the first. */
typedef struct Functor {
    const char *text; /* "[&](long row, long column, float sum) { LOOPS_HERE }" */
    LoopKernel *loops;
    List params;
} Functor;
Functor emit_functor(Emitter *emitter, Kernel *epilogue, int rows, int width);
/* Inputs of a store: the number of target loops in the row, the number of adjacent elements, the
 * statement of a dual product or NULL, the indentation of its line. */
typedef struct Store {
    int rows, width;
    const Statement *dual;
    int indent;
} Store;
/* store_text: the text of a store for a line with that indentation, after the start of the kernel;
 * its loops. end_stores: parameters of everything that the stores since then use. */
const char *store_text(Emitter *emitter, Kernel *epilogue, Store store, LoopKernel **loops);
List end_stores(Emitter *emitter, int bindings);
/* Adds the equations of a store as a comment above the next kernel. */
void emit_equations_above(Emitter *emitter, const Kernel *epilogue);
void emit_cuda_scan(Emitter *emitter, const Statement *scan);
Launch emit_cuda_update_nests(Emitter *emitter, const Kernel *kernel);
void emit_cuda_update(Module *module, const Update *update);
/* Assigns a number to a kernel; the number has the same name. */
const char *device_kernel(Emitter *emitter, const char *name);
/* Ends a piece: the text since the last piece is a kernel or one of its variants; NULL: shared by
 * several kernels. */
void end_piece(Module *module, const char *kernel);
/* Adds a variant to a launch. */
void add_launch_variant(Emitter *emitter, LaunchStep *step, Launch launch, const char *shared);
/* Adds Written * for the launch of a kernel with several variants: `count` elements
 * from the target on; after the kernel of an epilogue, all elements that it stores, or returns
 * false. */
void put_written(Emitter *emitter, const Expr *target, long count, bool rounded, List *written);
bool put_targets(Emitter *emitter, const Kernel *epilogue, bool rounded, List *written);
/* The variable `pack` and the launches that use it. */
void print_device_pack(Text *text, const Module *module, const HostStep *step, int indent);

#endif
