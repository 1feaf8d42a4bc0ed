/* emit: declarations shared by the emitters. */
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

/* The optimizer step: its lines and its inputs. */
typedef struct Update {
    const char *head, *body;
    Launch launch;
    List scalars, states; /* Tensor * */
} Update;

/* Syntax of the head of a kernel and of its call on a target. */
typedef struct ParameterStyle {
    const char *function;             /* before the name */
    const char *seed, *seed_argument; /* the seed of the run */
    const char *memory;               /* before the type of an array */
    const char *alone;                /* before the name of an array that overlaps no other */
    const char *address;              /* before an argument */
} ParameterStyle;

/* A kernel under construction, and the emitter state to restore after it. */
typedef struct KernelText {
    int bindings, indent;
    Text *run;
    FormBlock body;
    const char *bounds; /* of its threads, between its type and its name, or NULL */
    Text parameters, arguments;
} KernelText;

/* Range of a kernel in a text, and its head up to the end of the parameters. */
typedef struct KernelPlace {
    size_t first, end;
    const char *head;
} KernelPlace;

/* The text of the GPU kernels and the range of each. */
typedef struct DeviceText {
    Text text;
    List kernels; /* char *: the names of the kernels, by number */
    List pieces;  /* MoecPiece * */
} DeviceText;

/* Differences between targets in the units of a schedule. */
typedef struct EmitTarget {
    ParameterStyle parameters;
    /* Writes the function of a kernel to emitter->functions and its call to the current line. */
    void (*kernel)(Emitter *emitter, Kernel *kernel);
    /* A dense product; number: its index in the table, as C text. */
    void (*product)(Emitter *emitter, const ScheduleUnit *unit, const char *number);
    /* epilogue: see ScheduleUnit. */
    void (*call)(Emitter *emitter, const Statement *statement, Kernel *epilogue);
    void (*grouped)(Emitter *emitter, const ScheduleUnit *unit);
    /* `count` units from `first` on that share a launch; GPUs only. */
    void (*rows)(Emitter *emitter, const List *units, int first, int count);
    void (*clear)(Emitter *emitter, const char *name, size_t bytes); /* sets memory of a run to 0 */
    /* The loops of the optimizer kernel; then the function or kernel that contains them. */
    Launch (*nests)(Emitter *emitter, const Kernel *kernel);
    void (*update)(Module *module, const Update *update);
    const char *update_function; /* its entry of MoecUpdate */
    bool apart;                  /* kernels are in a separate text */
    bool marks;                  /* the program marks the end of each unit: see MoecHost.mark */
    bool variants; /* the host selects a variant of a kernel: see MoecHost.launch_variant */
} EmitTarget;

extern const EmitTarget target_c, target_cuda, target_cuda_alone;

struct Emitter {
    Lowering lower;     /* of the current kernel, and its input */
    const char *prefix; /* of the functions of this program: "train" */
    bool *declared;     /* by tensor->id: the run function needs a pointer */
    int kernels;        /* number of kernels so far */
    int dense;          /* the same for dense products; some have two entries in the table */
    List *products;     /* Product *, of all programs */
    double flops, product_flops, repeats; /* repeats: number of executions of the current lines */

    Text *functions;    /* of the module, or of its GPU text: the kernels */
    List *kernel_texts; /* KernelPlace *: ranges of the kernels of the module in `functions` */
    Text *out;          /* receives lines */
    int indent;
    List *forms; /* receives the forms of all kernels, KernelForm *, instead of a text; or NULL */

    /* GPU programs */
    const EmitTarget *target;
    DeviceText *device; /* of all programs */
    List *own_products; /* OwnProduct *: by number of the product */
};

/* ---- emit_names.c ---- */

/* Adds one line, broken if it is too long, at the current indentation. */
void emit_line(Emitter *emitter, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A C string literal, quoted. */
const char *quoted(Arena *arena, const char *text);
/* `file.moe:12` of a span, or an empty text. */
const char *line_of(Arena *arena, Span span);
/* The axes of a tensor: "[batch, s, d]". */
const char *axes_of(Arena *arena, const Tensor *tensor);

/* ---- emit_forms.c ---- */

/* Completes a kernel: prints its body to the text, and adds its form to the list on request. */
void finish_form(Emitter *emitter, const char *name, FormBlock *body, Text *text, int indent);

/* ---- emit_kernel.c ---- */

/* The units of a schedule as C: see EmitTarget. */
void emit_kernel(Emitter *emitter, Kernel *kernel);
void emit_call(Emitter *emitter, const Statement *statement, Kernel *epilogue);
void emit_dense(Emitter *emitter, const ScheduleUnit *unit, const char *number);
void emit_grouped(Emitter *emitter, const ScheduleUnit *unit);
/* A name with a unique number, after the last tensor that the kernel computes. */
const char *kernel_name(Emitter *emitter, const Kernel *kernel, const Nest *nest);
/* Adds parameters and arguments for everything that a kernel uses, after existing ones. */
void add_parameters(Emitter *emitter, Text *parameters, Text *arguments);
/* Between these two calls a separate function is lowered. Its name and parameters are known at the
 * end. nest: the part of the kernel in it, or NULL; begin: its first lines. */
void open_kernel(Emitter *emitter, Kernel *kernel, KernelText *text);
void close_kernel(Emitter *emitter, KernelText *text, const Nest *nest, const char *name,
                  const char *begin);
/* Adds the equations of a kernel as a comment: those in a nest, or all (NULL). */
void add_equations(Emitter *emitter, const Kernel *kernel, const Nest *nest);

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
/* count_attend: adds the operations of an attention. */
/* The number of positions to attend to; the cache of a window has fewer keys. */
long attend_places(const Emitter *emitter, const Statement *statement);
void count_attend(Emitter *emitter, const Statement *statement);
/* The equation of a unit and its source line, as a comment. */
void emit_equation(Emitter *emitter, const Statement *statement);
/* Outer size, size and inner size of the dimension that top selects along. */
void top_sizes(const Statement *statement, long sizes[3]);
const char *numbers_text(Emitter *emitter, const long *numbers, int count); /* "{1, 2}" */
/* The row-major strides of a further part of the group of a pack, by dimension of the mask. */
void through_strides(const Shape *mask, const Expr *through, long strides[MAX_RANK]);
void emit_units(Emitter *emitter, const List *units);

/* ---- emit_program.c, emit_update.c, emit_table.c ---- */

/* Facts about one emitted program for the table. */
typedef struct Emitted {
    Program *program;
    const char *prefix;
    int first_product, product_count, dense, kernels;
    size_t arena_bytes; /* temporaries of its plan, and the scratch memory of calls after them */
    double flops, product_flops;
} Emitted;

/* Offsets in the weights or states block: each parameter of any program once, by path. Frozen
 * parameters are at the end. */
typedef struct Layout {
    List tensors;    /* Tensor * */
    size_t *offsets; /* by index in tensors */
    size_t bytes, frozen_bytes, whole_bytes;
    size_t unit;  /* alignment of the offsets */
    Table places; /* int *: indices in tensors, by path */
} Layout;

Layout layout_of(Arena *arena, Program *const *programs, int count, Role role);
/* The tensors of that role, in order. */
List tensors_with(Arena *arena, const Program *program, Role role);
/* The table entry of a tensor. */
MoecTensorInfo tensor_info(Arena *arena, const Tensor *tensor, size_t offset);

/* All programs of one text, and their common parts. */
struct Module {
    Arena *arena;
    const EmitTarget *target;
    List *forms;       /* see Emitter */
    Text functions;    /* of the text with the table */
    List kernel_texts; /* KernelPlace *: of the kernels in `functions` */
    DeviceText device;
    List products;     /* Product * */
    List own_products; /* OwnProduct * */
    List sizes;        /* SizeConstant * */
    Layout weights, states;
    List emitted; /* Emitted * */
    bool update;
    int *groups;  /* of parameters, by index in weights: see MoecUpdate.own; NULL without update */
    Type rounded; /* type of the compute weights of a program; TYPE_REAL: none */
};

/* Emits every program into the functions of a module. */
Module *emit_module(Arena *arena, Schedule *const *schedules, int count, const EmitTarget *target,
                    List *forms);
void emit_products(Text *text, const List *products);
/* Adds `, .a_type = MOEC_BF16` for a bf16 operand. */
void emit_type(Text *text, const char *operand, Type type);
void emit_program(Module *module, Schedule *schedule, const char *prefix);
void emit_update(Module *module, Program *program);
/* "MOEC_SCALAR_RATE" */
const char *scalar_text(MoecScalar kind);
void emit_table(Module *module, Text *text, const char *model);
/* Adds the contents of the text as a comment: its graphs, their inputs and sizes. */
void emit_overview(const Module *module, Text *text);

/* ---- emit_cuda_*.c ---- */

void emit_cuda_kernel(Emitter *emitter, Kernel *kernel);
void emit_cuda_call(Emitter *emitter, const Statement *statement, Kernel *epilogue);
void emit_cuda_attend(Emitter *emitter, const Statement *statement, Kernel *epilogue);
void emit_cuda_dense(Emitter *emitter, const ScheduleUnit *unit, const char *number);
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
    const char *text; /* "[&](long row, long column, float sum) { ... }" */
    Text parameters, arguments;
} Functor;
Functor emit_functor(Emitter *emitter, Kernel *epilogue, int rows, int width);
/* Inputs of a store: the number of target loops in the row, the number of adjacent elements, the
 * statement of a dual product or NULL, the indentation of its line. */
typedef struct Store {
    int rows, width;
    const Statement *dual;
    int indent;
} Store;
/* store_text: the text of a store for a line with that indentation, after the start of the kernel.
 * end_stores: parameters of everything that the stores since then use. */
const char *store_text(Emitter *emitter, Kernel *epilogue, Store store);
void end_stores(Emitter *emitter, int bindings, Text *parameters, Text *arguments);
/* Adds the equations of a store as a comment above the next kernel. */
void emit_equations_above(Emitter *emitter, const Kernel *epilogue);
void emit_cuda_scan(Emitter *emitter, const Statement *scan);
Launch emit_cuda_update_nests(Emitter *emitter, const Kernel *kernel);
void emit_cuda_update(Module *module, const Update *update);
/* Assigns a number to a kernel; the number has the same name. */
const char *device_kernel(Emitter *emitter, const char *name);
/* Ends a piece: the text since the last piece is a kernel or one of its variants; NULL: shared by
 * several kernels. */
void end_piece(DeviceText *device, const char *kernel);
/* Adds the launch of a kernel; arguments: "&a, &b". */
void emit_launch(Emitter *emitter, const char *name, Launch launch, const char *arguments);
/* The same with additional shared memory in bytes. */
void emit_launch_with(Emitter *emitter, const char *name, Launch launch, long shared,
                      const char *arguments);
/* Adds entries of MoecWritten for the launch of a kernel with several variants: `count` elements
 * from the target on; after the kernel of an epilogue, all elements that it stores, or returns
 * false. */
void put_written(Emitter *emitter, const Expr *target, long count, bool rounded, Text *written);
bool put_targets(Emitter *emitter, const Kernel *epilogue, bool rounded, Text *written);

#endif
