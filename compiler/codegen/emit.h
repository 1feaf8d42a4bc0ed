/* emit: what the parts of the C emitter share. */
#ifndef EMIT_H
#define EMIT_H

#include "schedule/kernel.h"
#include "moec.h"
#include "loop/lower/lower.h"

/* As MoecOwnProduct of runtime/abi/abi.h. */
typedef struct OwnProduct {
    const char *kernel;
    long alignment;
} OwnProduct;

typedef struct Emitter Emitter;
typedef struct Module Module;

/* The optimizer's step: its lines, what it is given. */
typedef struct Update {
    const char *head, *body;
    Launch launch;
    List scalars, states; /* Tensor * */
} Update;

/* How a target spells the head of a kernel and the call of it. */
typedef struct ParameterStyle {
    const char *function;             /* before its name */
    const char *seed, *seed_argument; /* the seed of the run */
    const char *memory;               /* before the type of an array */
    const char *alone;                /* before the name of one that overlaps no other */
    const char *address;              /* before an argument */
} ParameterStyle;

/* A kernel while it is written, and what the emitter goes back to behind it. */
typedef struct KernelText {
    int bindings, indent;
    Text *run;
    FormBlock body;
    const char *bounds; /* of its threads, between its type and its name, or NULL */
    Text parameters, arguments;
} KernelText;

/* Where a kernel stands in a text, and its head up to the parameters' end. */
typedef struct KernelPlace {
    size_t first, end;
    const char *head;
} KernelPlace;

/* The kernels of a device: their text, and what of it is whose. */
typedef struct DeviceText {
    Text text;
    List kernels; /* char *: the names of the kernels, by number */
    List pieces;  /* MoecPiece * */
} DeviceText;

/* What targets do differently with the units of a schedule. */
typedef struct EmitTarget {
    ParameterStyle parameters;
    /* Writes the function of a kernel into emitter->functions and the call of it at the current
     * line. */
    void (*kernel)(Emitter *emitter, Kernel *kernel);
    /* A dense product; number: its number in the table, as C text. */
    void (*product)(Emitter *emitter, const Contraction *contraction, const char *number);
    /* epilogue: see ScheduleUnit. */
    void (*call)(Emitter *emitter, const Statement *statement, Kernel *epilogue);
    void (*grouped)(Emitter *emitter, const Contraction *contraction, Kernel *epilogue);
    /* Units from a place on that share a launch; of devices. */
    void (*rows)(Emitter *emitter, const List *units, int first, int count);
    void (*clear)(Emitter *emitter, const char *name, size_t bytes); /* memory of a run to 0 */
    /* The loops of the optimizer's kernel; then the function or kernel that holds them. */
    Launch (*nests)(Emitter *emitter, const Kernel *kernel);
    void (*update)(Module *module, const Update *update);
    const char *update_function; /* its entry of MoecUpdate */
    bool apart;                  /* kernels stand in a text of their own */
    bool marks;                  /* the program says when a unit ends: see MoecHost.mark */
    bool variants; /* the host chooses between variants of a kernel: see MoecHost.launch_variant */
} EmitTarget;

extern const EmitTarget target_c, target_cuda, target_cuda_alone;

struct Emitter {
    Lowering lower;     /* of the kernel that is being written, and what it is lowered from */
    const char *prefix; /* of the functions of this program: "train" */
    bool *declared;     /* by tensor->id: the function that runs the program needs a pointer */
    int kernels;        /* how many have been written */
    int dense;          /* the same of dense products: some have two entries in the table */
    List *products;     /* Product *, of all programs */
    double flops, product_flops, repeats; /* repeats: how often what is written runs */

    Text *functions;    /* of the module, or of its device: the kernels */
    List *kernel_texts; /* KernelPlace *: where each of the module stands in there */
    Text *out;          /* what lines are added to */
    int indent;
    List *forms; /* receives the form of all kernels, KernelForm *, instead of a text; or NULL */

    /* programs for a device */
    const EmitTarget *target;
    DeviceText *device; /* of all programs */
    List *own_products; /* OwnProduct *: by number of the product */
};

/* ---- emit_names.c ---- */

/* One line (or several, where it is long) at the current indent. */
void emit_line(Emitter *emitter, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A C string literal, quoted. */
const char *quoted(Arena *arena, const char *text);
/* `file.moe:12` of a span, or an empty text. */
const char *line_of(Arena *arena, Span span);
/* The axes of a tensor: "[batch, s, d]". */
const char *axes_of(Arena *arena, const Tensor *tensor);

/* ---- emit_forms.c ---- */

/* A kernel is complete: its body goes into the text, and its form where it is asked for. */
void finish_form(Emitter *emitter, const char *name, FormBlock *body, Text *text, int indent);

/* ---- emit_kernel.c ---- */

/* The units of a schedule as C: see EmitTarget. */
void emit_kernel(Emitter *emitter, Kernel *kernel);
void emit_call(Emitter *emitter, const Statement *statement, Kernel *epilogue);
void emit_dense(Emitter *emitter, const Contraction *contraction, const char *number);
void emit_grouped(Emitter *emitter, const Contraction *contraction, Kernel *epilogue);
/* A name with a number of its own, after the last tensor that is made there. */
const char *kernel_name(Emitter *emitter, const Kernel *kernel, const Nest *nest);
/* Parameters and arguments of what a kernel turned out to use, after those that are there. */
void add_parameters(Emitter *emitter, Text *parameters, Text *arguments);
/* What is lowered between these two is a function of its own, whose name and parameters are known
 * at its end. nest: the part of the kernel that it holds, or NULL; begin: its first lines. */
void open_kernel(Emitter *emitter, Kernel *kernel, KernelText *text);
void close_kernel(Emitter *emitter, KernelText *text, const Nest *nest, const char *name,
                  const char *begin);
/* The equations of a kernel as a comment: those in a nest, or all (NULL). */
void add_equations(Emitter *emitter, const Kernel *kernel, const Nest *nest);

Launch emit_update_nests(Emitter *emitter, const Kernel *kernel);
void emit_scan(Emitter *emitter, const Statement *scan);

/* ---- emit_calls.c, emit_units.c ---- */

/* An operand of a call without the dimensions that steps of repeats and numbers fix. */
typedef struct Shape {
    int rank;
    long size[MAX_RANK];
    const Index *index[MAX_RANK];
} Shape;

Shape shape_of(const Expr *operand);
/* Counts the operations of an attention. */
/* How many places there are to attend to; the cache of a window has fewer keys. */
long attend_places(const Emitter *emitter, const Statement *statement);
void count_attend(Emitter *emitter, const Statement *statement);
/* The equation of a unit and where it stands, as a comment. */
void emit_equation(Emitter *emitter, const Statement *statement);
/* outer, size and inner of the dimension that a choice is made along. */
void top_sizes(const Statement *statement, long sizes[3]);
const char *numbers_text(Emitter *emitter, const long *numbers, int count); /* "{1, 2}" */
/* The row-major strides of a further part of the group of a pack, by dimension of the mask. */
void through_strides(const Shape *mask, const Expr *through, long strides[MAX_RANK]);
void emit_units(Emitter *emitter, const List *units);

/* ---- emit_program.c, emit_update.c, emit_table.c ---- */

/* What the table says of one program after it was emitted. */
typedef struct Emitted {
    Program *program;
    const char *prefix;
    int first_product, product_count, dense, kernels;
    size_t arena_bytes; /* the temporaries of its plan, and what calls need behind them */
    double flops, product_flops;
} Emitted;

/* The layout of the weights and states blocks: each parameter of any program once, by path. What is
 * frozen lies at the end of the block. */
typedef struct Layout {
    List tensors;    /* Tensor * */
    size_t *offsets; /* by place in tensors */
    size_t bytes, frozen_bytes, whole_bytes;
    size_t unit;  /* what offsets are multiples of */
    Table places; /* int *: places in tensors, by path */
} Layout;

Layout layout_of(Arena *arena, Program *const *programs, int count, Role role);
/* The tensors of that role, in their order. */
List tensors_with(Arena *arena, const Program *program, Role role);
/* What a table says of a tensor. */
MoecTensorInfo tensor_info(Arena *arena, const Tensor *tensor, size_t offset);

/* All programs of one text, and what they add to. */
struct Module {
    Arena *arena;
    const EmitTarget *target;
    List *forms;       /* see Emitter */
    Text functions;    /* of the text with the table */
    List kernel_texts; /* KernelPlace *: of the kernels in there */
    DeviceText device;
    List products;     /* Product * */
    List own_products; /* OwnProduct * */
    List sizes;        /* SizeConstant * */
    Layout weights, states;
    List emitted; /* Emitted * */
    bool update;
    int *groups;  /* of parameters, by place in weights: see MoecUpdate.own; NULL without update */
    Type rounded; /* that some program reads weights as; TYPE_REAL: none does */
};

/* Every program into the functions of a module. */
Module *emit_module(Arena *arena, Schedule *const *schedules, int count, const EmitTarget *target,
                    List *forms);
void emit_products(Text *text, const List *products);
/* `, .a_type = MOEC_BF16` where that is so. */
void emit_type(Text *text, const char *operand, Type type);
void emit_program(Module *module, Schedule *schedule, const char *prefix);
void emit_update(Module *module, Program *program);
/* "MOEC_SCALAR_RATE" */
const char *scalar_text(MoecScalar kind);
void emit_table(Module *module, Text *text, const char *model);
/* What the text holds, as a comment: its graphs, what they are given and what they need. */
void emit_overview(const Module *module, Text *text);

/* ---- emit_cuda_*.c ---- */

void emit_cuda_kernel(Emitter *emitter, Kernel *kernel);
void emit_cuda_call(Emitter *emitter, const Statement *statement, Kernel *epilogue);
void emit_cuda_attend(Emitter *emitter, const Statement *statement, Kernel *epilogue);
void emit_cuda_dense(Emitter *emitter, const Contraction *contraction, const char *number);
void emit_cuda_grouped(Emitter *emitter, const Contraction *contraction, Kernel *epilogue);
void emit_cuda_rows(Emitter *emitter, const List *units, int first, int count);
/* The template of a tile: its text, a part of the name of a kernel, its size; the same for
 * warpgroups, and a larger one for them, or NULL. */
typedef struct Tile {
    const char *text, *name, *bounds;
    long height, breadth;
    const char *wgmma, *wide;
    bool single; /* hands over single results */
    int threads;
} Tile;
/* A tile of one row. It is as broad as leaves enough of them for a whole device; columns: of all
 * that the launch computes. */
Tile row_tile(Emitter *emitter, const Contraction *contraction, long columns);
/* What the store of a template computes from an element of its result, as a function in place; and
 * what the kernel that calls the template needs for it, with the arguments of its launch. A
 * template of another operation hands over the row and the column of the element in the same way,
 * with as many loops of the target in the row as it says. width > 1: so many neighbours at a time,
 * of which the template hands over the first one's place. */
typedef struct Functor {
    const char *text; /* "[&](long row, long column, float sum) { ... }" */
    Text parameters, arguments;
} Functor;
Functor emit_functor(Emitter *emitter, Kernel *epilogue, int rows, int width);
/* What a store computes with: how many loops of the target make the row, how many neighbours come
 * at a time, the statement of a dual or NULL, what its line is indented. */
typedef struct Store {
    int rows, width;
    const Statement *dual;
    int indent;
} Store;
/* The text of a store for a line that is indented that much, once the kernel has begun; and what
 * all stores since then turned out to use. */
const char *store_text(Emitter *emitter, Kernel *epilogue, Store store);
void end_stores(Emitter *emitter, int bindings, Text *parameters, Text *arguments);
/* The equations of a store as a comment above the kernel that is written next. */
void emit_equations_above(Emitter *emitter, const Kernel *epilogue);
void emit_cuda_scan(Emitter *emitter, const Statement *scan);
Launch emit_cuda_update_nests(Emitter *emitter, const Kernel *kernel);
void emit_cuda_update(Module *module, const Update *update);
/* Gives a kernel its number; the name is that of the number as well. */
const char *device_kernel(Emitter *emitter, const char *name);
/* What was written since the last piece ended is all of a kernel, or of one of its variants; NULL:
 * what several kernels need. */
void end_piece(DeviceText *device, const char *kernel);
/* The line that launches a kernel; arguments: "&a, &b". */
void emit_launch(Emitter *emitter, const char *name, Launch launch, const char *arguments);
/* The same with that many bytes of shared memory beyond what the kernel declares. */
void emit_launch_with(Emitter *emitter, const char *name, Launch launch, long shared,
                      const char *arguments);
/* For the launch of a kernel with several variants, entries of MoecWritten: so many elements from a
 * place on; after the kernel of an epilogue, all that it stores, or false. */
void put_written(Emitter *emitter, const Expr *target, long count, bool rounded, Text *written);
bool put_targets(Emitter *emitter, const Kernel *epilogue, bool rounded, Text *written);

#endif
