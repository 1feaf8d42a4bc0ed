/* lower: lowers the kernels of a schedule to loops; declarations shared by its files.
 *
 * A caller selects a kernel (begin_kernel), lowers its nests for a CPU (lower_nests) or for a GPU
 * (lower_device_nest), and finds its parameters in `used`, `uses_seed` and `repeats_used`.
 */
#ifndef LOWER_H
#define LOWER_H

#include "module/lowered.h"
#include "schedule/nest.h"

/* A name in use, or a variable, in the scope of its uses. */
typedef struct IndexName {
    const Index *index; /* its index, or NULL */
    const Term *name;
} IndexName;

typedef struct Lanes Lanes; /* see lower_lanes.c */

/* Terms of a member during the lowering of its kernel: its sum and partial sum; the maximum before
 * this iteration, or that of this thread; the value, if already computed. */
typedef struct MemberTerms {
    const Member *member;
    const Term *sum, *part, *before, *given;
    bool sum_is_local;
} MemberTerms;

/* The same of a loop: its variable; the end of its current block. */
typedef struct NestTerms {
    const Nest *nest;
    const Term *variable, *end;
} NestTerms;

typedef struct Lowering {
    Arena *arena;
    Program *program;
    Schedule *schedule;
    const char **names;  /* by tensor->id: the name in C */
    const Term **arrays; /* by tensor->id: the variable with that name, or NULL */
    List *sizes;         /* SizeConstant *, of all programs; NULL: sizes are numbers */
    FormBlock *block;    /* the block that receives nodes */

    /* bindings in scope, innermost last */
    IndexName *bindings;
    int binding_count, binding_capacity;
    List fixed; /* Term *: variables of the current kernel with a fixed name */

    /* the current kernel */
    Kernel *kernel;
    bool *used, *written;          /* by tensor->id: accessed in memory */
    bool *known;                   /* by index in kernel->locals: the variable is declared */
    const Term **locals;           /* the variables */
    List member_terms, nest_terms; /* MemberTerms *, NestTerms * */
    bool uses_seed;
    bool in_template;  /* the store of a template */
    List repeats_used; /* Index * of enclosing repeats */
    Lanes *lanes; /* iterations that a thread processes together during their lowering, or NULL */
    size_t scratch_bytes; /* memory of the GPU in addition to the arena */
} Lowering;

/* ---- lower_names.c ---- */

/* Sets a valid, unused C name for every tensor of the program. */
void name_tensors(Lowering *lower);
void bind_scatter_names(Lowering *lower);
/* `wanted`, changed if C or the scope uses the name; in use until the bindings are dropped. */
const char *bind_name(Lowering *lower, const Index *index, const char *wanted);
/* An integer variable of the current kernel, for an index or NULL; a float for the values of a
 * statement, named after its target. names.c sets the names. */
const Term *bind_variable(Lowering *lower, const Index *index, const char *wanted);
const Term *bind_real(Lowering *lower, const Statement *statement, const char *ending);
/* Binds another index to an existing name. */
void bind_index(Lowering *lower, const Index *index, const Term *name);
const Term *bound_index(const Lowering *lower, const Index *index);
/* Names in use at this point. */
Around names_around(const Lowering *lower);
/* The variable with this name: the same one in the whole kernel. */
const Term *named(Lowering *lower, TermType type, const char *name);
/* The array of a tensor in memory. */
const Term *array_term(Lowering *lower, const Tensor *tensor);

/* ---- lower_nodes.c ---- */

/* Each adds to lower->block. An array of `size` has the initializer `initial`, or NULL. */
FormNode *lower_let(Lowering *lower, const Term *name, const Term *value);
/* The same of a variable that is not set later. */
FormNode *lower_constant(Lowering *lower, const Term *name, const Term *value);
/* The index of a loop; omitted if it is unused. */
void lower_place(Lowering *lower, const Term *name, const Term *value);
/* A constant before all other nodes of an iteration. */
FormNode *lower_head(Lowering *lower, const Term *name, const Term *value);
FormNode *lower_array(Lowering *lower, const Term *name, long size, const Term *initial);
void lower_set(Lowering *lower, const Term *target, const Term *value);
/* target = the reduction of target and value. */
FormNode *lower_join(Lowering *lower, const Term *target, Reduction reduction, const Term *value);
FormNode *lower_do(Lowering *lower, const Term *call);
void lower_barrier(Lowering *lower);
/* Opens a loop that receives later nodes until lower_end. step: NULL for 1. */
FormNode *lower_for(Lowering *lower, const Term *name, const Term *from, const Term *to,
                    const Term *step);
/* A loop up to `to` that threads of a GPU share. */
FormNode *lower_shared(Lowering *lower, const Term *name, const Term *to, LoopBy by);
FormNode *lower_count(Lowering *lower, const Term *name, long size, FormLayout layout);
FormNode *lower_if(Lowering *lower, const Term *condition, FormLayout layout);
/* FORM_SCOPE, FORM_GROUP */
void lower_scope(Lowering *lower, FormKind kind);
void lower_end(Lowering *lower);
const Term *whole(Lowering *lower, long number);

/* ---- lower_sizes.c ---- */

/* The size of an axis in a kernel, and in a line of the host code. */
const Term *size_term(Lowering *lower, const Axis *axis);
const char *size_text(Lowering *lower, const Axis *axis);
/* ---- lower_whole.c ---- */

/* True if integers have the same value as reals: no intermediate value exceeds either. */
bool counts_exactly(const Program *program, const Expr *expr);
/* An index; the value of an expression as an integer of 64 bits. */
const Term *index_term(Lowering *lower, Index *index);
const Term *integer_term(Lowering *lower, const Expr *expr);

/* ---- lower_values.c ---- */

/* The value of an expression as a float. */
const Term *real_term(Lowering *lower, const Expr *expr);
/* The condition on enclosing loops that all factors of a product share. Without it every factor is
 * read outside of its tensor and is 0. NULL: there is none. */
const Term *product_guard(Lowering *lower, const Expr *value);
/* The same in double precision: see tables.c. */
const Term *double_term(Lowering *lower, const Expr *expr);
/* The element of `access`, in memory or in a local; `inside` receives the condition under which it
 * exists, or NULL. */
const Term *element_term(Lowering *lower, const Expr *access, const Term **inside);
/* `name + offset` of the element of a read where all loops are 0. */
const Term *pointer_term(Lowering *lower, const Expr *access);
/* Alignment of its address in bytes in every iteration of the enclosing loops: a power of two, at
 * most 16. */
long place_alignment(const Lowering *lower, const Expr *access);

/* ---- lower_statement.c ---- */

/* Makes the kernel the current one. */
void begin_kernel(Lowering *lower, Kernel *kernel);
MemberTerms *member_terms(Lowering *lower, const Member *member);
NestTerms *nest_terms(Lowering *lower, const Nest *nest);
/* The value of a statement; repeated subexpressions get a name. */
const Term *value_of(Lowering *lower, const Statement *statement);
/* Writes to the target in memory. */
FormNode *lower_write(Lowering *lower, const Statement *statement, bool adds, const Term *value);
void lower_member(Lowering *lower, Member *member);
/* Saves the current maximum, to rescale the sum when it increases. */
void keep_before(Lowering *lower, Member *largest);
/* A sum that is rescaled from the maximum before this iteration to the current one. */
const Term *faded(Arena *arena, const Term *sum, const MemberTerms *largest);
/* Stores `value` into the target of the member's statement. */
void lower_store(Lowering *lower, Member *member, const Term *value);
/* The local scalar that can hold the sum of a reduction, else NULL. */
const Term *scalar_of(const Lowering *lower, const Member *member, Local **local);

/* ---- lower_loops.c ---- */

void lower_nests(Lowering *lower, Nest *root);
/* Loops of a nest: a loop that is opened, a loop with its body, nodes before and after it. level:
 * its index among the loops of its members. */
/* `size` iterations of it, by the constant of its axis if that is equal. */
const Term *nest_size(Lowering *lower, const Nest *nest, long size);
/* `iterations` of a chain of loops that starts with it, as far as they are run. */
const Term *iterations_term(Lowering *lower, const Nest *nest, long iterations);
void bind_loop(Lowering *lower, Nest *nest);
void close_loop(Lowering *lower, int bindings);
/* The initial value of a sum, a maximum or a minimum; that of an array of sums. */
const Term *sum_start(Lowering *lower, Reduction reduction);
const Term *zeros(Lowering *lower);
void begin_sums(Lowering *lower, const Nest *nest);
void end_sums(Lowering *lower, const Nest *nest);
void lower_rows(Lowering *lower, const Nest *nest);
void lower_body(Lowering *lower, Nest *nest, int level);
void lower_loop(Lowering *lower, Nest *nest, int level);

/* ---- lower_scan.c ---- */

/* The scan as one kernel, for functions that need one. */
Kernel *scan_kernel(Lowering *lower, const Statement *scan);
/* Binds the loops of the instances, in every statement, to the number of the instance. Returns the
 * first index of its group, or NULL. */
const Term *bind_cells(Lowering *lower, const Statement *scan, const ScanMap *cells,
                       const Term *cell);
/* Opens the loop over positions; its index is not a parameter of the kernel. */
void open_places(Lowering *lower, const Statement *scan);
void close_places(Lowering *lower, const Statement *scan);
/* The unbound loops of a statement: those of the target, then the reduced ones. */
int free_loops(const Lowering *lower, const Statement *statement, Index **loops, int *kept);
/* Stores the reduction over these loops. */
void lower_reduction(Lowering *lower, const Statement *statement, Index **loops, int count);
void lower_scan(Lowering *lower, const Statement *scan, const ScanMap *map);

/* ---- lower_device.c, lower_lanes.c, lower_sums.c, lower_columns.c, lower_device_scan.c ---- */

/* A nest by its outer loops; everything inside a nest in one block. */
void lower_outer_loops(Lowering *lower, Nest *nest);
void lower_device_block(Lowering *lower, Nest *nest);
void lower_shared_loop(Lowering *lower, Nest *nest, int level);
/* Binds the joined loops; returns the number of bindings before. */
int bind_joined(Lowering *lower, Nest *nest, Nest **loops);
/* Their variables from the number of the iteration. */
void lower_places(Lowering *lower, Nest *const *loops, int length, const Term *iteration);
/* The operation of the member's reduction, from that of a sum: see term.def. */
TermOp reduction_op(TermOp of_sum, const Member *member);
/* `width` iterations of a loop that a thread processes together; NULL: less than 2. The loop is
 * bound. */
Lanes *lanes_of(Lowering *lower, const Nest *nest, int width);
int lanes_width(const Lanes *lanes); /* 1 without lanes */
/* The index of the first of them, the number of one of them. */
const Term *lanes_from(const Lanes *lanes);
const Term *lanes_number(const Lanes *lanes);
/* The body of the loop for all of them; lanes_from names the index of the first. */
void lower_lanes(Lowering *lower, Lanes *lanes, Nest *nest, int level);
/* The same for nodes written between these. */
void begin_lanes(Lowering *lower, Lanes *lanes);
void end_lanes(Lowering *lower, Lanes *lanes);
/* The variable of a lane for an element in memory, a float; NULL if it has none. */
const Term *lane_term(Lowering *lower, const Expr *access, bool read, bool write);
/* A nest that is one large sum over everything: partial sums of many blocks, then their sum. */
const Term *scratch_term(Lowering *lower, const Term *offset); /* an element of the partial sums */
void lower_parts_of_sums(Lowering *lower, Nest *nest);
void lower_sums_of_parts(Lowering *lower, Nest *nest);
/* A nest of sums of a few long columns: the sums of their slices, then the sums of those. */
void lower_parts_of_columns(Lowering *lower, Nest *nest);
void lower_sums_of_columns(Lowering *lower, Nest *nest);
/* A nest that is one scatter. */
void lower_added_rows(Lowering *lower, const LaunchMap *map);
void lower_scatter(Lowering *lower, const LaunchMap *map);
void lower_device_scan(Lowering *lower, const Statement *scan, const ScanMap *map);

#endif
