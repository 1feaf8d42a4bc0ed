/* emit: what the parts of the C emitter share. */
#ifndef EMIT_H
#define EMIT_H

#include "schedule/kernel.h"
#include "moec.h"
#include "loop/form.h"
#include "schedule/nest.h"

/* A name that is taken, or a variable, while what may use it is written. */
typedef struct Binding {
    const Index *index; /* that it stands for, or NULL */
    const Term *name;
} Binding;

/* As MoecOwnProduct of runtime/abi/abi.h. */
typedef struct OwnProduct {
    const char *kernel;
    long alignment;
} OwnProduct;

typedef struct Emitter Emitter;
typedef struct Lanes Lanes; /* see emit_cuda_lanes.c */

typedef struct Module Module;

/* How the loops of one kernel are shared out, and the text of them. */
typedef struct Launch {
    const char *grid; /* blocks, as C text; NULL: as many as there are spans of parameters */
    int block;        /* threads of a block */
} Launch;

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
    Text parameters, arguments;
} KernelText;

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
    Arena *arena;
    Program *program;
    Schedule *schedule;
    const char *prefix; /* of the functions of this program: "train" */
    const char **names; /* by tensor->id: what C calls it */
    bool *declared;     /* by tensor->id: the function that runs the program needs a pointer */
    int kernels;        /* how many have been written */
    List *products;     /* Product *, of all programs */
    double flops, product_flops, repeats; /* repeats: how often what is written runs */

    Text functions; /* the kernels */
    Text *out;      /* what lines are added to */
    int indent;
    FormBlock *block; /* what nodes of a kernel are added to */
    List *forms; /* receives the form of all kernels, KernelForm *, instead of a text; or NULL */

    /* bindings in scope, innermost last */
    Binding *bindings;
    int binding_count, binding_capacity;

    /* the kernel that is being written */
    Kernel *kernel;
    bool *used, *written; /* by tensor->id: touched in memory */
    bool *known;          /* by place in kernel->locals: the variable exists */
    const Term **locals;  /* the variables */
    bool uses_seed;
    bool in_template;  /* the store of a template */
    List repeats_used; /* Index * of repeats around */

    /* programs for a device */
    const EmitTarget *target;
    List *device_kernels; /* char *: the names of the kernels of all programs, by number */
    List *own_products;   /* OwnProduct *: by number of the product */
    List *sizes;          /* SizeConstant *, of all programs; NULL: sizes are numbers */
    size_t scratch_bytes; /* memory that calls need beyond the arena */
    Lanes *lanes; /* iterations that a thread takes together, while they are written, or NULL */
};

/* ---- emit_names.c ---- */

/* Gives every tensor of the program a name that is free in C. */
void name_tensors(Emitter *emitter);
void bind_scatter_names(Emitter *emitter);
/* `wanted`, changed where C or something in scope has the name already; stays taken until the
 * bindings are dropped. */
const char *bind_name(Emitter *emitter, const Index *index, const char *wanted);
/* A variable of the kernel that is being lowered, for an index or NULL; it gets its name later. */
const Term *bind_variable(Emitter *emitter, const Index *index, const char *wanted);
/* Another index with a name that is bound already. */
void bind_index(Emitter *emitter, const Index *index, const Term *name);
const Term *bound_index(const Emitter *emitter, const Index *index);
/* What a name must not be here. */
Around names_around(const Emitter *emitter);
/* One line (or several, where it is long) at the current indent. */
void emit_line(Emitter *emitter, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A C string literal, quoted. */
const char *quoted(Arena *arena, const char *text);
/* `file.moe:12` of a span, or an empty text. */
const char *line_of(Arena *arena, Span span);
/* What C calls an element of a tensor: "float". */
const char *type_name(const Tensor *tensor);
/* The axes of a tensor: "[batch, s, d]". */
const char *axes_of(Arena *arena, const Tensor *tensor);

/* ---- emit_nodes.c ---- */

/* Each adds to emitter->block. An array of `size` begins as `initial` says, or NULL. */
FormNode *lower_let(Emitter *emitter, const char *type, const Term *name, const Term *value);
/* The place of a loop: nothing when nothing uses it. */
void lower_place(Emitter *emitter, const Term *name, const Term *value);
/* A let before all else of an iteration, by a name that nothing else has. */
void lower_head(Emitter *emitter, const char *type, const char *name, const Term *value);
FormNode *lower_array(Emitter *emitter, const char *type, const Term *name, long size,
                      const char *initial);
void lower_set(Emitter *emitter, const Term *target, const Term *value);
/* target = the reduction of it and the value. */
FormNode *lower_join(Emitter *emitter, const Term *target, Reduction reduction, const Term *value);
FormNode *lower_do(Emitter *emitter, const Term *call);
void lower_barrier(Emitter *emitter);
/* What follows goes into its body, up to lower_end. step: NULL for 1. */
FormNode *lower_for(Emitter *emitter, const char *type, const Term *name, const Term *from,
                    const Term *to, const Term *step);
/* A loop up to `to` that threads of a device share out. */
FormNode *lower_shared(Emitter *emitter, const Term *name, const Term *to, FormBy by);
FormNode *lower_count(Emitter *emitter, const char *type, const Term *name, long size,
                      FormLayout layout);
FormNode *lower_if(Emitter *emitter, const Term *condition, FormLayout layout);
/* FORM_SCOPE, FORM_GROUP */
void lower_scope(Emitter *emitter, FormKind kind);
void lower_end(Emitter *emitter);
const Term *named(Emitter *emitter, const char *name);
const Term *whole(Emitter *emitter, long number);

/* A kernel is complete: its body goes into the text, and its form where it is asked for. */
void finish_form(Emitter *emitter, const char *name, FormBlock *body, Text *text, int indent);

/* ---- emit_sizes.c ---- */

/* A constant of a text: the size of an axis. */
typedef struct SizeConstant {
    const Axis *axis;
    const char *name;
    bool of_kernels, of_run; /* who uses it */
} SizeConstant;

/* The size of an axis in a kernel, and in a line of what runs the program. */
const Term *size_term(Emitter *emitter, const Axis *axis);
const char *size_text(Emitter *emitter, const Axis *axis);
/* The constant of an axis, or NULL. */
SizeConstant *size_constant(const List *sizes, const Axis *axis);
/* Declares what those use. */
void add_sizes(Text *text, const List *sizes, bool of_kernels, bool of_run);

/* ---- emit_whole.c ---- */

/* The smallest and the largest value of a whole number. */
typedef struct Range {
    int64_t low, high;
} Range;

Range range_of(const Program *program, const Expr *expr);
/* Integers give what reals give: no value on the way to it is beyond what both hold. */
bool counts_exactly(const Program *program, const Expr *expr);
/* An index; the value of an expression as an integer of 64 bits. */
const Term *index_term(Emitter *emitter, Index *index);
const Term *integer_term(Emitter *emitter, const Expr *expr);

/* ---- emit_expr.c ---- */

/* The value of an expression as a float. */
const Term *real_term(Emitter *emitter, const Expr *expr);
/* The element that `access` names, in memory or in a local; `inside` receives the condition under
 * which it exists, or NULL. */
const Term *element_term(Emitter *emitter, const Expr *access, const Term **inside);
/* `name + offset` of the element of a read where all loops are 0. */
const Term *pointer_term(Emitter *emitter, const Expr *access);
const char *pointer_text(Emitter *emitter, const Expr *access);
/* Bytes of which its place is a multiple, whatever the loops around are: a power of two, at most
 * 16. */
long place_alignment(const Emitter *emitter, const Expr *access);
const char *number_text(Arena *arena, double number);
bool is_computed(const Expr *sub);

/* ---- emit_kernel.c, emit_loops.c ---- */

/* The units of a schedule as C: see EmitTarget. */
void emit_kernel(Emitter *emitter, Kernel *kernel);
void emit_call(Emitter *emitter, const Statement *statement, Kernel *epilogue);
void emit_dense(Emitter *emitter, const Contraction *contraction, const char *number);
void emit_grouped(Emitter *emitter, const Contraction *contraction, Kernel *epilogue);
/* Makes the kernel the one that is being written. */
/* No other tensor that the kernel uses lies in the same memory. */
bool lies_alone(const Emitter *emitter, const Tensor *tensor);
void begin_kernel(Emitter *emitter, Kernel *kernel);
/* The value of a statement; what occurs in it more than once gets a name. */
const Term *value_of(Emitter *emitter, const Statement *statement);
/* Into the target, in memory. */
FormNode *emit_write(Emitter *emitter, const Statement *statement, bool adds, const Term *value);
void emit_nests(Emitter *emitter, Nest *root);
void emit_member(Emitter *emitter, Member *member);
/* Names what the largest is so far, for the sum that fades when it grows. */
void keep_before(Emitter *emitter, Member *largest);
/* Something else in the kernel that is being written touches the memory of a tensor as well. */
bool is_touched_again(const Emitter *emitter, const Tensor *tensor);
/* Stores `value` into the target of the member's statement. */
void emit_store(Emitter *emitter, Member *member, const Term *value);
/* The local scalar that the sum of a reduction can be kept in, else NULL. */
const Term *scalar_of(const Emitter *emitter, const Member *member, Local **local);
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

/* The loops of a nest: who runs in them, one of them opened, a loop with all that it contains, what
 * comes before and after it. level: its place among the loops of its members. */
bool is_inside(const Member *member, const Nest *nest);
bool reduces_at(const Member *member, const Nest *nest);
bool is_innermost(const Nest *nest);
/* So many iterations of it, by the name of its axis where that has as many. */
const Term *nest_size(Emitter *emitter, const Nest *nest, long size);
Member *member_at(const Emitter *emitter, int at);
void bind_loop(Emitter *emitter, Nest *nest);
void close_loop(Emitter *emitter, int bindings);
void begin_sums(Emitter *emitter, const Nest *nest);
void end_sums(Emitter *emitter, const Nest *nest);
void emit_rows(Emitter *emitter, const Nest *nest);
Launch emit_update_nests(Emitter *emitter, const Kernel *kernel);
void emit_body(Emitter *emitter, Nest *nest, int level);
void emit_loop(Emitter *emitter, Nest *nest, int level);

/* ---- emit_scan.c ---- */

/* Loops that every statement of a scan has, over what none reads of another place: parts of the
 * scan that know nothing of each other. */
typedef struct ScanCells {
    int count;
    const Axis *axes[MAX_RANK];
    Index **loops[MAX_RANK]; /* of each, by statement */
    bool all;                /* no statement has other loops */
    long size;               /* how many cells */
} ScanCells;
ScanCells scan_cells(Arena *arena, const Program *program, const Statement *scan, bool device);
/* The scan as one kernel, for what looks at one. */
Kernel *scan_kernel(Emitter *emitter, const Statement *scan);
/* Names the loops of the cells, in every statement, from the number of the cell. */
void bind_cells(Emitter *emitter, const Statement *scan, const ScanCells *cells, const Term *cell);
/* The loop over places, opened; its index is no parameter of the kernel. */
void open_places(Emitter *emitter, const Statement *scan);
void close_places(Emitter *emitter, const Statement *scan);
/* The loops of a statement that are not bound: those of the target, then the reduced ones. */
int free_loops(const Emitter *emitter, const Statement *statement, Index **loops, int *kept);
/* What is reduced over such loops, stored. */
void lower_reduction(Emitter *emitter, const Statement *statement, Index **loops, int count);
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
void count_attend(Emitter *emitter, const Statement *statement);
/* The equation of a unit and where it stands, as a comment. */
void emit_equation(Emitter *emitter, const Statement *statement);
/* outer, size and inner of the dimension that a choice is made along. */
void top_sizes(const Statement *statement, long sizes[3]);
/* The row-major strides of a further part of the group of a pack, by dimension of the mask. */
void through_strides(const Shape *mask, const Expr *through, long strides[MAX_RANK]);
void emit_contraction(Emitter *emitter, const ScheduleUnit *unit);
void emit_units(Emitter *emitter, const List *units);

/* ---- emit_program.c, emit_update.c, emit_table.c ---- */

/* What the table says of one program after it was emitted. */
typedef struct Emitted {
    Program *program;
    Schedule *schedule;
    const char *prefix;
    int first_product, product_count, kernels;
    double flops, product_flops;
} Emitted;

/* The layout of the weights and states blocks: each parameter of any program once, by path. What is
 * frozen lies at the end of the block. */
typedef struct Layout {
    List tensors;    /* Tensor * */
    size_t *offsets; /* by place in tensors */
    size_t bytes, frozen_bytes, whole_bytes;
    Table places; /* int *: places in tensors, by path */
} Layout;

size_t layout_offset(const Layout *layout, const Tensor *tensor);
Layout layout_of(Arena *arena, Program *const *programs, int count, Role role);
/* The tensors of that role, in their order. */
List tensors_with(Arena *arena, const Program *program, Role role);
/* What a table says of a tensor. */
MoecTensorInfo tensor_info(Arena *arena, const Tensor *tensor, size_t offset);

/* All programs of one text, and what they add to. */
struct Module {
    Arena *arena;
    const EmitTarget *target;
    List *forms;         /* see Emitter */
    Text functions;      /* of the text with the table */
    Text device;         /* the kernels of a device */
    List products;       /* Product * */
    List device_kernels; /* char *: their names, by number */
    List own_products;   /* OwnProduct * */
    List sizes;          /* SizeConstant * */
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
Emitter *emitter_new(Module *module, Schedule *schedule, const char *prefix);
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
/* How many parts of a size there are. */
static inline long ceil_div(long count, long size) {
    return (count + size - 1) / size;
}
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
/* Closes a kernel whose parameters are known, and launches it. */
void finish_device_kernel(Emitter *emitter, KernelText *text, const Nest *nest, Launch launch);
void emit_cuda_scan(Emitter *emitter, const Statement *scan);
Launch emit_cuda_nest(Emitter *emitter, Nest *nest);
Launch emit_cuda_update_nests(Emitter *emitter, const Kernel *kernel);
void emit_cuda_update(Module *module, const Update *update);
/* Who takes iterations of a loop that is shared out. */
typedef enum Sharing {
    THREADS_ALONE,
    COLUMNS_OF_THREADS,
    COLUMNS_IN_SLICES, /* see emit_cuda_columns.c */
    SHARED_IN_BLOCK,
    SHARED_BY_ALL
} Sharing;
/* How many loops from `nest` inwards each member runs in with an element of its own; who takes
 * iterations inside the last. */
int chain_of(const Emitter *emitter, const Nest *nest);
Sharing sharing_of(const Emitter *emitter, const Nest *nest, const Nest *last, int length);
/* Several iterations of a nest's outer loops, each long enough for many threads. */
bool shares_iterations(const Emitter *emitter, const Nest *nest);
void emit_shared_loop(Emitter *emitter, Nest *nest, int level, Sharing sharing);
/* The loop variables of a chain from the number of the iteration. */
void emit_places(Emitter *emitter, Nest *const *loops, int length, const Term *iteration);
/* Two values of a reduction into one: "MoecSum::join($0, $1)". */
const char *join_of(const Member *member);
/* Iterations of the innermost loop that a thread takes together; NULL when they are better taken
 * one by one. The loop is bound. alone: no other loop is shared out with it, so that the last of
 * them may be fewer. */
Lanes *lanes_of(Emitter *emitter, const Nest *nest, bool alone);
/* Iterations of a loop that has others inside. */
Lanes *lanes_around(Emitter *emitter, const Nest *nest);
/* That many iterations in any case; the loop has a multiple of them. */
Lanes *lanes_of_width(Emitter *emitter, const Nest *nest, int width);
int lanes_width(const Lanes *lanes); /* 1 without lanes */
/* The place of the first of them, the number of one of them. */
const Term *lanes_from(const Lanes *lanes);
const Term *lanes_number(const Lanes *lanes);
/* The body of the loop for all of them; the place of the first has the name lanes_from. */
void emit_lanes(Emitter *emitter, Lanes *lanes, Nest *nest, int level);
/* The same for what is written between these. */
void begin_lanes(Emitter *emitter, Lanes *lanes);
void end_lanes(Emitter *emitter, Lanes *lanes);
/* The variable of a lane for an element in memory, a float; NULL when it has none. */
const Term *lane_term(Emitter *emitter, const Expr *access, bool read, bool write);
/* A nest that is one large sum over everything: its parts, by many blocks, then the sum of
 * those. */
bool sums_in_two(const Emitter *emitter, const Nest *nest);
void emit_parts_of_sums(Emitter *emitter, Nest *nest);
Launch launch_of_parts(void);
Launch emit_sums_of_parts(Emitter *emitter, Nest *nest);
/* A nest of sums of a few long columns: the sums of their slices, then the sums of those. */
bool columns_in_two(const Emitter *emitter, Nest *nest);
Launch emit_parts_of_columns(Emitter *emitter, Nest *nest);
Launch emit_sums_of_columns(Emitter *emitter, Nest *nest);
/* A nest that is one scatter. */
bool scatters_rows(const Emitter *emitter, const Nest *nest);
Launch emit_scatter(Emitter *emitter, Nest *nest);
/* Everything below `root` in one block. */
Launch emit_cuda_block(Emitter *emitter, Nest *root);
/* Gives a kernel its number; the name is that of the number as well. */
const char *device_kernel(Emitter *emitter, const char *name);
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
