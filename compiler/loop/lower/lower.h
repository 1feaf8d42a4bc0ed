/* lower: a schedule's kernels as loops of the lowered form: what the parts of it share.
 *
 * Who writes a kernel says which one it is (begin_kernel), lowers its nests for a processor
 * (lower_nests) or for a device (lower_device_nest), and finds in `used`, `uses_seed` and
 * `repeats_used` what it has to be given.
 */
#ifndef LOWER_H
#define LOWER_H

#include "analysis/range.h"
#include "loop/form.h"
#include "schedule/kernel.h"
#include "schedule/nest.h"

/* A name that is taken, or a variable, while what may use it is written. */
typedef struct Binding {
    const Index *index; /* that it stands for, or NULL */
    const Term *name;
} Binding;

typedef struct Lanes Lanes; /* see lower_lanes.c */

/* With how many blocks and threads a kernel is launched. */
typedef struct Launch {
    const char *grid; /* blocks, as C text; NULL: as many as there are spans of parameters */
    int block;        /* threads of a block */
} Launch;

typedef struct Lowering {
    Arena *arena;
    Program *program;
    Schedule *schedule;
    const char **names; /* by tensor->id: what C calls it */
    List *sizes;        /* SizeConstant *, of all programs; NULL: sizes are numbers */
    FormBlock *block;   /* what nodes are added to */

    /* bindings in scope, innermost last */
    Binding *bindings;
    int binding_count, binding_capacity;

    /* the kernel that is being lowered */
    Kernel *kernel;
    bool *used, *written; /* by tensor->id: touched in memory */
    bool *known;          /* by place in kernel->locals: the variable exists */
    const Term **locals;  /* the variables */
    bool uses_seed;
    bool in_template;  /* the store of a template */
    List repeats_used; /* Index * of repeats around */
    Lanes *lanes; /* iterations that a thread takes together, while they are lowered, or NULL */
    size_t scratch_bytes; /* memory that a device needs beyond the arena */
} Lowering;

/* ---- lower_names.c ---- */

/* Gives every tensor of the program a name that is free in C. */
void name_tensors(Lowering *lower, bool device);
void bind_scatter_names(Lowering *lower);
/* `wanted`, changed where C or something in scope has the name already; stays taken until the
 * bindings are dropped. */
const char *bind_name(Lowering *lower, const Index *index, const char *wanted);
/* A variable of the kernel that is being lowered, for an index or NULL; it gets its name later. */
const Term *bind_variable(Lowering *lower, const Index *index, const char *wanted);
/* Another index with a name that is bound already. */
void bind_index(Lowering *lower, const Index *index, const Term *name);
const Term *bound_index(const Lowering *lower, const Index *index);
/* What a name must not be here. */
Around names_around(const Lowering *lower);
/* What C calls an element of a tensor: "float". */
const char *type_name(const Tensor *tensor);

/* ---- lower_nodes.c ---- */

/* Each adds to lower->block. An array of `size` begins as `initial` says, or NULL. */
FormNode *lower_let(Lowering *lower, const char *type, const Term *name, const Term *value);
/* The place of a loop: nothing when nothing uses it. */
void lower_place(Lowering *lower, const Term *name, const Term *value);
/* A let before all else of an iteration, by a name that nothing else has. */
void lower_head(Lowering *lower, const char *type, const char *name, const Term *value);
FormNode *lower_array(Lowering *lower, const char *type, const Term *name, long size,
                      const char *initial);
void lower_set(Lowering *lower, const Term *target, const Term *value);
/* target = the reduction of it and the value. */
FormNode *lower_join(Lowering *lower, const Term *target, Reduction reduction, const Term *value);
FormNode *lower_do(Lowering *lower, const Term *call);
void lower_barrier(Lowering *lower);
/* What follows goes into its body, up to lower_end. step: NULL for 1. */
FormNode *lower_for(Lowering *lower, const char *type, const Term *name, const Term *from,
                    const Term *to, const Term *step);
/* A loop up to `to` that threads of a device share out. */
FormNode *lower_shared(Lowering *lower, const Term *name, const Term *to, FormBy by);
FormNode *lower_count(Lowering *lower, const char *type, const Term *name, long size,
                      FormLayout layout);
FormNode *lower_if(Lowering *lower, const Term *condition, FormLayout layout);
/* FORM_SCOPE, FORM_GROUP */
void lower_scope(Lowering *lower, FormKind kind);
void lower_end(Lowering *lower);
const Term *named(Lowering *lower, const char *name);
const Term *whole(Lowering *lower, long number);

/* ---- lower_sizes.c ---- */

/* A constant of a text: the size of an axis. */
typedef struct SizeConstant {
    const Axis *axis;
    const char *name;
    bool of_kernels; /* kernels use it, not only what launches them */
} SizeConstant;

/* The size of an axis in a kernel, and in a line of what runs the program. */
const Term *size_term(Lowering *lower, const Axis *axis);
const char *size_text(Lowering *lower, const Axis *axis);
/* The constant of an axis, or NULL. */
SizeConstant *size_constant(const List *sizes, const Axis *axis);
/* Declares all of them, or only those of kernels. */
void add_sizes(Text *text, const List *sizes, bool only_kernels);

/* ---- lower_whole.c ---- */

/* Integers give what reals give: no value on the way to it is beyond what both hold. */
bool counts_exactly(const Program *program, const Expr *expr);
/* An index; the value of an expression as an integer of 64 bits. */
const Term *index_term(Lowering *lower, Index *index);
const Term *integer_term(Lowering *lower, const Expr *expr);

/* ---- lower_values.c ---- */

/* The value of an expression as a float. */
const Term *real_term(Lowering *lower, const Expr *expr);
/* What has to hold of the loops written out lest every factor of a product be read outside of its
 * tensor, where all are 0; NULL: nothing. */
const Term *product_guard(Lowering *lower, const Expr *value);
/* The same in double precision: see tables.c. */
const Term *double_term(Lowering *lower, const Expr *expr);
/* The element that `access` names, in memory or in a local; `inside` receives the condition under
 * which it exists, or NULL. */
const Term *element_term(Lowering *lower, const Expr *access, const Term **inside);
/* `name + offset` of the element of a read where all loops are 0. */
const Term *pointer_term(Lowering *lower, const Expr *access);
const char *pointer_text(Lowering *lower, const Expr *access);
/* Bytes of which its place is a multiple, whatever the loops around are: a power of two, at most
 * 16. */
long place_alignment(const Lowering *lower, const Expr *access);
const char *number_text(Arena *arena, double number);
bool is_computed(const Expr *sub);

/* ---- lower_statement.c ---- */

/* Makes the kernel the one that is being lowered. */
void begin_kernel(Lowering *lower, Kernel *kernel);
/* The value of a statement; what occurs in it more than once gets a name. */
const Term *value_of(Lowering *lower, const Statement *statement);
/* Into the target, in memory. */
FormNode *lower_write(Lowering *lower, const Statement *statement, bool adds, const Term *value);
void lower_member(Lowering *lower, Member *member);
/* Names what the largest is so far, for the sum that fades when it grows. */
void keep_before(Lowering *lower, Member *largest);
/* Stores `value` into the target of the member's statement. */
void lower_store(Lowering *lower, Member *member, const Term *value);
/* The local scalar that the sum of a reduction can be kept in, else NULL. */
const Term *scalar_of(const Lowering *lower, const Member *member, Local **local);

/* ---- lower_loops.c ---- */

void lower_nests(Lowering *lower, Nest *root);
/* The loops of a nest: who runs in them, one of them opened, a loop with all that it contains, what
 * comes before and after it. level: its place among the loops of its members. */
bool is_inside(const Member *member, const Nest *nest);
bool reduces_at(const Member *member, const Nest *nest);
bool is_innermost(const Nest *nest);
/* So many iterations of it, by the name of its axis where that has as many. */
const Term *nest_size(Lowering *lower, const Nest *nest, long size);
Member *member_at(const Lowering *lower, int at);
void bind_loop(Lowering *lower, Nest *nest);
void close_loop(Lowering *lower, int bindings);
void begin_sums(Lowering *lower, const Nest *nest);
void end_sums(Lowering *lower, const Nest *nest);
void lower_rows(Lowering *lower, const Nest *nest);
void lower_body(Lowering *lower, Nest *nest, int level);
void lower_loop(Lowering *lower, Nest *nest, int level);

/* ---- lower_scan.c ---- */

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
Kernel *scan_kernel(Lowering *lower, const Statement *scan);
/* Names the loops of the cells, in every statement, from the number of the cell. */
void bind_cells(Lowering *lower, const Statement *scan, const ScanCells *cells, const Term *cell);
/* The loop over places, opened; its index is no parameter of the kernel. */
void open_places(Lowering *lower, const Statement *scan);
void close_places(Lowering *lower, const Statement *scan);
/* The loops of a statement that are not bound: those of the target, then the reduced ones. */
int free_loops(const Lowering *lower, const Statement *statement, Index **loops, int *kept);
/* What is reduced over such loops, stored. */
void lower_reduction(Lowering *lower, const Statement *statement, Index **loops, int count);
void lower_scan(Lowering *lower, const Statement *scan);

/* ---- lower_device.c, lower_lanes.c, lower_sums.c, lower_columns.c, lower_device_scan.c ---- */

/* How many parts of a size there are. */
static inline long ceil_div(long count, long size) {
    return (count + size - 1) / size;
}
Launch lower_device_nest(Lowering *lower, Nest *nest);
/* Who takes iterations of a loop that is shared out. */
typedef enum Sharing {
    THREADS_ALONE,
    COLUMNS_OF_THREADS,
    COLUMNS_IN_SLICES, /* see lower_columns.c */
    SHARED_IN_BLOCK,
    SHARED_BY_ALL
} Sharing;
/* How many loops from `nest` inwards each member runs in with an element of its own; who takes
 * iterations inside the last. */
int chain_of(const Lowering *lower, const Nest *nest);
Sharing sharing_of(const Lowering *lower, const Nest *nest, const Nest *last, int length);
/* Several iterations of a nest's outer loops, each long enough for many threads. */
bool shares_iterations(const Lowering *lower, const Nest *nest);
void lower_shared_loop(Lowering *lower, Nest *nest, int level, Sharing sharing);
/* The loop variables of a chain from the number of the iteration. */
void lower_places(Lowering *lower, Nest *const *loops, int length, const Term *iteration);
/* Two values of a reduction into one: "MoecSum::join($0, $1)". */
const char *join_of(const Member *member);
/* Iterations of the innermost loop that a thread takes together; NULL when they are better taken
 * one by one. The loop is bound. alone: no other loop is shared out with it, so that the last of
 * them may be fewer. */
Lanes *lanes_of(Lowering *lower, const Nest *nest, bool alone);
/* Iterations of a loop that has others inside. */
Lanes *lanes_around(Lowering *lower, const Nest *nest);
/* That many iterations in any case; the loop has a multiple of them. */
Lanes *lanes_of_width(Lowering *lower, const Nest *nest, int width);
int lanes_width(const Lanes *lanes); /* 1 without lanes */
/* The place of the first of them, the number of one of them. */
const Term *lanes_from(const Lanes *lanes);
const Term *lanes_number(const Lanes *lanes);
/* The body of the loop for all of them; the place of the first has the name lanes_from. */
void lower_lanes(Lowering *lower, Lanes *lanes, Nest *nest, int level);
/* The same for what is written between these. */
void begin_lanes(Lowering *lower, Lanes *lanes);
void end_lanes(Lowering *lower, Lanes *lanes);
/* The variable of a lane for an element in memory, a float; NULL when it has none. */
const Term *lane_term(Lowering *lower, const Expr *access, bool read, bool write);
/* A nest that is one large sum over everything: its parts, by many blocks, then the sum of
 * those. */
bool sums_in_two(const Lowering *lower, const Nest *nest);
void lower_parts_of_sums(Lowering *lower, Nest *nest);
Launch launch_of_parts(void);
Launch lower_sums_of_parts(Lowering *lower, Nest *nest);
/* A nest of sums of a few long columns: the sums of their slices, then the sums of those. */
bool columns_in_two(const Lowering *lower, Nest *nest);
Launch lower_parts_of_columns(Lowering *lower, Nest *nest);
Launch lower_sums_of_columns(Lowering *lower, Nest *nest);
/* A nest that is one scatter. */
bool scatters_rows(const Lowering *lower, const Nest *nest);
Launch lower_scatter(Lowering *lower, Nest *nest);
/* Everything below `root` in one block. */
Launch lower_device_block(Lowering *lower, Nest *root);
Launch lower_device_scan(Lowering *lower, const Statement *scan);

#endif
