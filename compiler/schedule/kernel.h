/* kernel: how a program is executed: products, calls, fused loop nests, and where each tensor
 * lives.
 *
 * contraction recognises matrix products, fuse groups everything else into loop nests, plan gives
 * every tensor a place. An emitter turns the result, a Schedule, into the text of one target.
 */
#ifndef KERNEL_H
#define KERNEL_H

#include "ir/ir.h"

/* ---- products ---- */

/* c[i,j][m,n] (+)= sum_k a[i,j][m,k] * b[i,j][k,n]; strides in elements; as MoecProduct of
 * runtime/abi/abi.h. */
typedef struct Product {
    long m, n, k;
    long a_m, a_k, b_k, b_n, c_m;
    long batch[2], a_batch[2], b_batch[2], c_batch[2];
    bool accumulate;
    bool rounded; /* operands may be rounded to bf16 */
    Type a_type, b_type, c_type;
    int endings; /* a sum of Ending; then c is what comes out of them */
    long add_m, kept_m;
    double scale; /* ENDING_SCALE */
} Product;

/* What a product of a device does before it stores, in this order: see MoecEnding. */
typedef enum Ending {
    ENDING_ADD = 1,
    ENDING_BIAS = 2,
    ENDING_KEEP = 4,
    ENDING_GELU = 8,
    ENDING_GELU_BACK = 16,
    ENDING_SCALE = 32 /* before all others */
} Ending;

/* A loop around a product, for what neither the matrix nor its batch dimensions can express. */
typedef struct OuterLoop {
    Index *index;
    bool summed; /* the product accumulates from the second turn on */
} OuterLoop;

typedef enum ContractionKind {
    CONTRACTION_PRODUCT,        /* product */
    CONTRACTION_ROWS_BY_WEIGHT, /* grouped: c[r,n] (+)= sum_k a[r,k] * b[group of r][k,n] */
    CONTRACTION_ROWS_BY_ROWS    /* grouped: c[g][k,n] += sum over rows r of g  a[r,k] * b[r,n] */
} ContractionKind;

/* A statement as a matrix product. The operands are reads of the statement, `a` and `b` perhaps
 * swapped; an address is that of the element where all loops are 0. In a grouped product product.k
 * and product.n hold the sizes, a_m the row stride of a, b_k b_n the strides of b, c_m the row
 * stride of c, batch[0] the number of groups, b_batch[0] or c_batch[0] the step between them. */
typedef struct Contraction {
    ContractionKind kind;
    Product product;
    Expr *a, *b, *c;
    Expr *add, *bias, *kept; /* of its endings, or NULL */
    int outer_count;
    OuterLoop outer[MAX_LOOPS];
    Relation *relation;         /* grouped */
    Tensor *gather, *gather_b;  /* grouped: row of `a` (of `b`) for each packed row, or NULL */
    struct Contraction *second; /* another one of the same rows that adds to the same result in the
                                   same tiles, or NULL */
    const Statement *statement; /* of a second one, of a fellow */
    struct Contraction *fellow; /* of a row: another one of the same row and of the same sizes; the
                                   store has both results of a column; or NULL */
    bool row; /* dense, of a device, with a single row: ours, with a store that computes */
} Contraction;

/* Every line of an operand is stored as bf16 and begins at a multiple of 16 bytes. */
bool lies_in_pieces(const Expr *read);
/* The same of its type, where the step between lines that lie apart is `across`. */
bool lines_begin_in_pieces(const Expr *read, long across);

/* The statement as a product, or NULL when it is none. */
Contraction *contraction(Program *program, const Statement *statement);
/* The same when it can be one unit of work of the program's target, with what the target makes of
 * its operands. */
Contraction *unit_product(Program *program, const Statement *statement);

/* Strides of a read: the element that `read` touches moves by strides[i] when loops[i] goes up by
 * one. False when a subscript is neither a plain loop index nor free of the loops. */
bool strides_of(const Expr *read, Index *const *loops, int count, long *strides);

/* ---- loop nests ---- */

typedef struct Nest Nest;

/* A statement inside a nest. `order` are its loops from outside to inside, path[j] the nest that
 * iterates order[j]. */
typedef struct Member Member;
struct Member {
    Statement *statement;
    int depth;
    Index *order[MAX_LOOPS + 1];
    Nest *path[MAX_LOOPS + 1];
    int kept;    /* loops before the first reduced one; == depth without a reduction */
    bool column; /* the last loop belongs to the target and runs inside the reduced loops: one sum
                    for each of its turns */
    bool across; /* where no sum is a column: neighbours in memory are turns of the target's last
                    loop */
    int block;   /* place in order of the loop over blocks of the last one, or -1 */
    long block_size;
    Member *running; /* sums exponentials less this largest of the same loop: see running.c */
    bool is_run;     /* is such a largest */
    const char *sum, *part, *partial; /* what a reduction is kept in, named by the emitter */
    const char *before; /* what the largest was before this turn, or this thread's own */
    const char *given;  /* the value, where it is at hand and not computed; or NULL */
    bool sum_is_local;
};

/* A loop with what runs inside it, or one member. */
struct Nest {
    Member *member; /* a leaf; NULL for a loop */
    Index *index;
    long size; /* turns */
    long step; /* >1: a loop over blocks of `step` turns of a loop further in, `total` in all */
    long total;
    Nest *block;      /* a loop over one block: the loop over the blocks */
    List children;    /* Nest * */
    const char *text; /* name of the variable, given by the emitter */
};

/* Where a tensor that is used in one nest only is kept there. */
typedef enum LocalKind { LOCAL_SCALAR, LOCAL_ROW } LocalKind;

typedef struct Local {
    Tensor *tensor;
    LocalKind kind;
    bool stored;   /* scalars: the tensor has memory as well, because others read it */
    Nest *scope;   /* the loop in whose body it is declared */
    int covered;   /* how many loops of the target are fixed there */
    long size;     /* rows: elements */
    Member *first; /* writes it first */
} Local;

typedef struct Kernel {
    List members; /* Member *, in program order */
    Nest *root;   /* a list of loops and leaves: root->children; root itself iterates nothing */
    List locals;  /* Local * */
    double work;  /* operations */
} Kernel;

/* ---- schedule ---- */

typedef enum UnitKind { UNIT_KERNEL, UNIT_CONTRACTION, UNIT_CALL, UNIT_REPEAT } UnitKind;

typedef struct ScheduleUnit {
    UnitKind kind;
    int first, last;      /* places in the linear order, a repeat covers its body */
    Statement *statement; /* contraction, call, repeat */
    Kernel *kernel;
    Contraction *contraction;
    Kernel *epilogue; /* of a contraction or a call: its statement and what is computed as its
                         result is stored; or NULL */
    List body;        /* ScheduleUnit * */
    bool once;
    bool beside; /* a row that shares a launch with the unit before: neither touches what the other
                    writes */
} ScheduleUnit;

/* Where a tensor lives. */
typedef struct Place {
    bool used;    /* some unit needs its memory */
    bool slots;   /* a carried tensor: turn t lives in slot t & 1 */
    bool cleared; /* zero at the start of each run */
    int first, last;
    size_t bytes, offset;
    const Tensor *over; /* it lies where this one lay, or NULL: see takeover.c */
    bool taken;         /* another tensor takes over its memory */
} Place;

typedef struct Schedule {
    Program *program;
    List units;    /* ScheduleUnit * */
    Place *places; /* by tensor->id */
    size_t arena_bytes;
} Schedule;

/* fuse: every statement of a program in a unit. */
Schedule *fuse(Program *program);

/* The local of a tensor in a kernel, or NULL. */
Local *local_in(const Kernel *kernel, const Tensor *tensor);

/* Whether two accesses of one tensor stay apart in different turns of a loop: both subscript the
 * same dimension with it. */
bool same_turn(const Expr *one, const Index *first, const Expr *other, const Index *second);

/* The relation whose lists say which rows a scatter adds to an entry, y[b[r],s[r],d] += x[r,d] with
 * r its rows; else NULL. */
const Relation *listed_rows(const Program *program, const Statement *statement);

/* No two turns of `row`, over the rows of a relation, have the same place in the target: it is
 * subscripted with all their coordinates. */
bool lands_alone(const Program *program, const Statement *statement, const Index *row);

/* takeover: which tensors take over the memory of another; after lifetimes, before offsets. */
void takeover(Schedule *schedule);

/* plan: a place for every tensor that needs memory; no two that live at the same time overlap. */
void plan(Schedule *schedule);
/* The plan as text: one line a tensor, offsets and lifetimes, then the total. */
char *print_plan(Arena *arena, const Schedule *schedule);

#endif
