/* ir: the program in index notation.
 *
 * A program is a list of statements. A loop statement says, for every value of its indices,
 *
 *     y[b,s,f] = sum[d] x[b,s,d] * up[d,f]     reduction: sum over what is not on the left
 *     demb[tokens[b,s],d] += dx[b,s,d]         scatter: on the left more than plain indices
 *
 * A call statement is one of the few operations that are not loops (attention, the choice of the
 * largest, packing of chosen rows). A repeat statement runs its body `count` times with an index at
 * hand; what differs from step to step (weights, residual stream, saved activations) is a tensor
 * with one axis more, subscripted by that index. So the size of a program does not depend on depth,
 * and there is no special kind of tensor for it. A scan does the same along any axis, place after
 * place, and is one call: to whoever does not look into it a statement that reads and writes
 * tensors.
 *
 * Everything is allocated in program->arena and owned by it. Expressions are immutable trees and
 * may be shared; statements and tensors may be changed in place by passes.
 */
#ifndef IR_H
#define IR_H

#include "abi/abi.h"
#include "base/diagnostics.h"
#include "ir/target.h"
#include "base/table.h"

#include <stdbool.h>
#include <stdint.h>

/* What is written has one dimension less than a tensor may have: a repeat adds one to what its
 * steps keep. */
enum { MAX_RANK = 10, MAX_DIMENSIONS = MAX_RANK - 1, MAX_LOOPS = 14 };

/* ---- axes, indices, tensors ---- */

typedef enum AxisKind {
    AXIS_PLAIN,
    AXIS_BATCH,    /* the sequences of a micro-batch */
    AXIS_SEQUENCE, /* time: what is causal is causal along it */
    AXIS_REPEAT,   /* depth */
    AXIS_ROWS,     /* packed rows of a relation (made by route) */
    AXIS_ELEMENTS  /* all elements of one parameter (update programs); its size is known at run time
                      only */
} AxisKind;

typedef struct Axis {
    const char *name;
    long size;
    AxisKind kind;
    Span span;
    bool padded; /* of a tensor: loops stop short of its end (see pad.c) */
} Axis;

/* A loop variable. Two indices are the same only if they are the same pointer. */
typedef struct Index {
    const char *name;
    Axis *axis;
    bool of_repeat; /* the index of a repeat statement (set by statement_repeat): in scope in its
                       body, never iterated there */
} Index;

typedef enum Role {
    ROLE_PARAMETER, /* trained; lives in the weights block */
    ROLE_STATE, /* not trained, kept and saved (running statistics; m and v in update programs) */
    ROLE_INPUT, /* given by the runtime at each call */
    ROLE_GRADIENT, /* adjoint of a parameter; lives in the gradients block; `of` is the parameter.
                      Statements only add to it */
    ROLE_CACHE,    /* kept between decode steps */
    ROLE_OUTPUT,   /* handed to the caller: logits, loss, aux and probe values */
    ROLE_ROUNDED, /* a parameter as TYPE_BF16 or TYPE_INT8; `of` is the parameter. Made whenever the
                     weights have changed */
    ROLE_TEMP
} Role;

/* float in C (double in interpreter); int32; a real that is rounded to bf16 when it is stored
 * (programs for a device, see precision.c; interpreter rounds as well); a real that is one of 255
 * multiples of a number which it shares with its INT8_GROUP neighbours (smaller_weights.c); a real
 * that is double in C, too (tables.c); a real that is one of -127 .. 127 (store_caches.c). */
typedef enum Type { TYPE_REAL, TYPE_INT, TYPE_BF16, TYPE_INT8, TYPE_DOUBLE, TYPE_BYTE } Type;
enum { INT8_GROUP = 64 };
/* Bytes of an element; of a group without the number that it shares. */
long type_bytes(Type type);

/* constant: a.  normal: mean a, standard deviation b.  uniform: from a to b. */
typedef struct Init {
    MoecInit kind;
    double a, b;
} Init;

/* An option of the optimizer that one parameter has for itself; of "lr": a factor. */
typedef struct OwnNumber {
    const char *name;
    double value;
} OwnNumber;

typedef struct Tensor {
    int id;           /* its place in program->tensors */
    const char *name; /* unique in the program, an identifier: what generated code calls it */
    const char *path; /* parameters and states: the public name, "block.{i}.attention.query". "{i}"
                         or "{2*i+1}" is the step of the repeat, present exactly when axes[0] is an
                         AXIS_REPEAT axis */
    Role role;
    Type type;
    int rank;
    Axis *axes[MAX_RANK];
    Init init;           /* parameters and states */
    MoecInput input;     /* inputs */
    MoecInput declared;  /* inputs: the kind in the spec; `input` of examples is MOEC_INPUT_CLASS */
    MoecScalar scalar;   /* inputs that are scalars */
    long vocabulary;     /* integers: values are 0 .. vocabulary-1; 0: unknown */
    struct Tensor *of;   /* gradients: the parameter; adjoints of temporaries: the tensor */
    double active;       /* parameters: share that one token visits, 1 when all (filled by cost) */
    int fan_in, fan_out; /* parameters */
    int lead; /* parameters and states: axes before its own: the iteration of a repeat, what its
                 layer is applied under */
    struct ParameterFacts *facts; /* parameters: see parameter_facts.h; NULL in update programs */
    int repeats;     /* parameters: iterations of the repeats it was declared in, 0: of none */
    bool frozen;     /* parameters: not trained */
    bool whole;      /* parameters: updated by GRAPH_STEP, not by GRAPH_UPDATE */
    List own;        /* OwnNumber *, parameters: what the optimizer reads for it alone */
    MoecProbe probe; /* outputs */
    bool cached;     /* `cache t` was said of it: decode keeps it and computes again what follows */
    bool kept;       /* made outside of repeats, and read on the way back */
    bool part;       /* of an equation: no name in the source stands for it */
    bool integer;    /* temporaries: the equation is a whole number (see integers.c) */
    Span span;       /* where it is defined */
} Tensor;

/* ---- expressions ---- */

typedef enum OpCode {
#define OP(name, ...) OP_##name,
#include "ir/op.def"
#undef OP
    OP_COUNT
} OpCode;

/* The columns of the table: see op.def. */
typedef enum OpKind { OP_KIND_VALUE, OP_KIND_TRUTH, OP_KIND_RANDOM } OpKind;
typedef enum OpLevel {
    LEVEL_OR = 1,
    LEVEL_AND,
    LEVEL_COMPARE,
    LEVEL_SUM,
    LEVEL_PRODUCT,
    LEVEL_NEGATION,
    LEVEL_POWER,
    LEVEL_ATOM
} OpLevel;
typedef enum OpZero { ZERO_NONE, ZERO_FIRST, ZERO_ANY, ZERO_ALL, ZERO_CHOSEN } OpZero;
typedef enum OpWhole { WHOLE_NEVER, WHOLE_ALWAYS, WHOLE_KEPT, WHOLE_CHOSEN } OpWhole;
typedef enum OpRounding { OP_EXACT, OP_ROUNDS } OpRounding;

typedef struct OpRow {
    const char *name, *text;
    int arity;
    OpKind kind;
    OpLevel level;
    OpZero zero;
    OpWhole whole;
    OpRounding rounding;
    int cost, weight;
    const char *c, *value; /* value: in double precision, of a, b, c */
    const char *derivative[3];
} OpRow;

extern const OpRow op_table[OP_COUNT];
/* The operation spelt `text` with that many arguments, or -1. */
int op_find(const char *text, int arity);
/* Its value in double precision, the definition of every operation but the random ones, which give
 * 0 here. Remainders have the sign of the divisor; what is true is anything but 0. */
double op_value(OpCode op, double a, double b, double c);
/* The same of `count` values each; what an operation has no use for may be NULL. */
void op_values(OpCode op, const double *const args[3], double *values, int count);
/* random operations: never folded, never moved */
bool op_is_random(OpCode op);

typedef enum ExprKind {
    EXPR_NUMBER, /* number */
    EXPR_INDEX,  /* the value of index, 0 .. size-1 */
    EXPR_READ,   /* tensor[subs]: count == tensor->rank, every sub an expression of integer value.
                    A computed sub that falls outside the axis reads 0 (shift). */
    EXPR_APPLY   /* op(args) */
} ExprKind;

typedef struct Expr {
    ExprKind kind;
    double number;
    Index *index;
    Tensor *tensor;
    OpCode op;
    int count;
    struct Expr **args; /* arguments or subscripts */
    Span span;
} Expr;

/* ---- statements ---- */

typedef enum StatementKind { STATEMENT_LOOP, STATEMENT_CALL, STATEMENT_REPEAT } StatementKind;

typedef enum Reduction { REDUCE_NONE, REDUCE_SUM, REDUCE_MAX, REDUCE_MIN } Reduction;

typedef enum CallKind {
    /* Operands are reads whose subscripts are plain indices (or index + constant for a repeat
     * axis), each written out; the leading dimensions that all operands share ("...") are iterated,
     * the named last ones belong to the operation.
     *
     * attend: causal softmax attention. Query head h reads key head floor(h*|hk|/|h|), value head
     * floor(h*|hv|/|h|).
     *   in:  q[..., s, h, e]  k[..., t, hk, e]  v[..., t, hv, c]  (sink[h] when attention.sink)
     *        (document[..., t] when attention.document_ids: a query sees the keys whose number is
     *        that of its own place)
     *        (k_scale[..., t, hk] when attention.scaled[0], v_scale[..., t, hv] when scaled[1]:
     *        what rows of k, of v are times)
     *   out: o[..., s, h, c]  lse[..., s, h]
     *   When position (the last input, a rank-0 int read) is present, query s stands at place
     *   position+s of keys 0 .. position+s (decoding); otherwise |s| == |t| and query s at s. */
    CALL_ATTEND,
    /* in: q k v (sink) (document) o lse do   out: dq dk dv (dsink).  Outputs are overwritten. */
    CALL_ATTEND_GRAD,
    /* top: marks the `top.k` largest along dimension `top.dimension` of p (ties: lowest index
     * first) with 1, the rest 0.
     *   in: p[...]  out: mask[...] of the same axes
     * Dimensions of a call are counted over subscripts that iterate: those made of steps and
     * numbers are fixed places. */
    CALL_TOP,
    /* pack (made by route): the true entries of a mask as rows, sorted by group, then by the
     * coordinates in order.
     *   in:  mask[axes] (a stacked mask: mask[i, axes], i the index of the enclosing repeat; i is
     *        no coordinate);
     *        then any number of int tensors over one axis of the mask, say pick_of[rows of an
     *        outer relation], with `vocabulary` values: further parts of the group, by that
     *        coordinate of the row
     *   out: coordinate[rows] (int), one for each dimension of the mask, in order;
     *        group[groups+1] (int): first row of each group. The group of a row is the row-major
     *        number of (values of the further inputs in order, then the coordinates of the key
     *        dimensions in order);
     *        row_of[axes] (int): row of an entry, -1 when it is not chosen;
     *        other[rows] (int): row-major number of the coordinates that are not key dimensions
     *        (0 when all are);
     *        start[others+1], list[rows] (int): the rows with each value of `other`, ascending
     *   pack.key marks the key dimensions. |rows| is static: no row beyond the last true entry
     *   exists, because the count of true entries is the same in every run (a top with static k).
     */
    CALL_PACK,
    /* scan: a recurrence. The body, loop statements alone, runs for every place of index->axis in
     * their order (downwards when `reverse`); the index is that of a repeat there. What a place
     * hands to the next one is read a place further back, S[b,s-1,h] where S[b,s,h] is written;
     * outside the axis that is 0.
     *   in:  every tensor that the body reads and does not define, those it adds to besides
     *   out: every tensor that the body writes
     * all of them whole but for the steps around the scan (see scan_operands). */
    CALL_SCAN
} CallKind;

typedef enum MaskKind { MASK_CAUSAL, MASK_NONE, MASK_WINDOW } MaskKind;

typedef struct AttendOptions {
    MaskKind mask;
    long window;    /* MASK_WINDOW: query i sees keys i-window+1 .. i; where there is a position, k
                       and v may be rings: the key of place p stands in row p % rows */
    double scale;   /* of the scores, applied before cap and softmax */
    double cap;     /* scores become cap*tanh(score/cap); 0: none */
    bool sink;      /* one learned logit a head takes part in the normaliser */
    bool documents; /* besides the mask: only keys of the query's own document */
    bool scaled[2]; /* keys, values: TYPE_BYTE, each row times a number of its own */
    bool position;
    long best; /* read only the `best` largest-weight values when decoding, weights not
                  renormalised; 0: all */
} AttendOptions;

typedef struct Statement Statement;

typedef struct Block {
    List statements; /* Statement * */
} Block;

struct Statement {
    StatementKind kind;
    Span span;
    Span asked; /* of an equation of the standard library: where the user chose or applied its
                   layer */

    /* STATEMENT_LOOP: for all loops: target (= or +=) reduction of value. `loops` holds every index
     * iterated: first those of the target in its order, then the reduced ones. An index of an
     * enclosing repeat is in scope but is not iterated, hence not in `loops`. reduction NONE with a
     * target subscript computed from a loop index is a scatter: two iterations that hit the same
     * element add up in loop order. With accumulate false it stores instead, and the places must be
     * distinct (a cache written at position+s); what it does not hit stays. A computed sub of the
     * target outside the axis is dropped. A subscript made of steps of repeats and numbers only,
     * x[i+1,b,s,d], is a fixed place and no scatter; one that runs over a part of its axis,
     * x[4*i+b,s,d], is a plain one (see sub_loop). */
    Expr *target; /* EXPR_READ */
    bool accumulate;
    Reduction reduction;
    int loop_count;
    Index *loops[MAX_LOOPS];
    Expr *value;
    bool exact;     /* see precision.c */
    bool in_double; /* see tables.c */
    bool once;      /* an update of a state: run only on the last micro-batch of a step */

    /* STATEMENT_CALL */
    CallKind call;
    List inputs, outputs; /* Expr *, reads */
    AttendOptions attention;
    struct {
        long k;
        int dimension;
    } top;
    struct {
        bool key[MAX_RANK];
    } pack;

    /* STATEMENT_REPEAT, CALL_SCAN: for index = 0 .. axis->size-1, or downwards when reverse */
    Index *index;
    bool reverse;
    Block body;
    bool ordered;     /* STATEMENT_REPEAT: its body holds little at once as it stands */
    const char *slow; /* CALL_SCAN: why it runs place by place; NULL: nobody has looked */
    bool again;       /* what it makes takes more room than making it again is worth */
    bool remade;      /* made again where it is first wanted: see rematerialize.c */
};

/* ---- programs ---- */

typedef enum Graph {
    GRAPH_FORWARD, /* outputs (logits), loss when the model has one, aux and probe values */
    GRAPH_TRAIN,   /* loss, aux, probes, and gradients, added up in the gradients block */
    GRAPH_DECODE,  /* one step: |sequence| new tokens at place `position`; caches are read and
                      written */
    GRAPH_UPDATE,  /* the optimizer: one parameter, axis ELEMENTS */
    GRAPH_MEASURE, /* for evaluation: loss, aux and probe values, and how unlikely the next tokens
                      are */
    GRAPH_STEP,    /* what optimizers do to parameters that they see as a whole */
    GRAPH_GATHER   /* step_mean: of one micro-batch, what a step wants to know of all of them before
                      their gradients; outputs under the names of the states */
} Graph;

/* A table of rows that takes the place of several subscripts: table[r] is the row-major number of
 * of[0][r], of[1][r], ... So x[b[r],s[r],d] with of = {b, s} is row table[r] of x seen as a
 * matrix. */
typedef struct Flat {
    Tensor *table;
    Tensor *of[MAX_RANK];
    int count;
} Flat;

/* A relation found by route, one for each pack; kept for fusion, cost and printing. Relations
 * packed from one mask (once in the forward and once in the backward part of a repeat) share their
 * rows axis and differ in their tensors. */
typedef struct Relation {
    Tensor *mask;
    Axis *rows;
    Tensor *coordinate[MAX_RANK]; /* by dimension of the mask without its repeat axis */
    Tensor *group, *row_of, *start, *list;
    bool key[MAX_RANK];
    Tensor *group_of[MAX_RANK]; /* tensors over rows whose row-major number is the group */
    int group_of_count;
    List flats; /* Flat *; the first (table `other`) is the one that start and list go by */
    struct Relation *outer; /* the relation on whose rows this one is defined, or NULL */
} Relation;

/* sum[n in mask] e, or another reduction of chosen entries, as written. */
typedef struct MaskedReduction {
    const Expr *mask;
    const Axis *axis;
    long entries; /* of e for each element of the result, chosen or not */
    Span span, asked;
} MaskedReduction;

/* How a state of a scan is computed (after chunk_scan). */
typedef struct ScanForm {
    const char *name;
    Span span;
    long places;      /* of a chunk; 1: place by place */
    const char *slow; /* why so, or NULL */
} ScanForm;

/* Forms of computation that a program can have: see program_form.def. */
typedef enum ProgramForm {
#define PROGRAM_FORM(name, text) HAS_##name,
#include "ir/program_form.def"
#undef PROGRAM_FORM
    PROGRAM_FORMS
} ProgramForm;

typedef struct Program {
    Arena *arena;
    Reports *reports;
    const char *name;
    Graph graph;
    List axes;    /* Axis * */
    List tensors; /* Tensor * */
    Table names;  /* Named *: the numbers that names of tensors have taken (see tensor_new) */
    Block body;
    Axis *batch, *sequence; /* NULL when the model has none */
    Tensor *loss;           /* ROLE_OUTPUT, rank 0; NULL when there is none */
    List outputs; /* Tensor *, named outputs first (logits), then loss, aux, probes; names as in the
                     spec */
    List relations;                /* Relation * (after route) */
    List scans;                    /* ScanForm * (after chunk_scan) */
    List masked;                   /* MaskedReduction * */
    List scores;                   /* Tensor *: those of attention that no kernel has, all held */
    bool by_training, by_decoding; /* the spec asked which graph this is */
    bool gathers;                  /* some state is a step_mean */
    long context;                  /* decode: length of the caches */
    bool input_gradients; /* the gradient pass gives those of real inputs as outputs, too */
    Tensor *cotangent;    /* training: an input that its second part waits for, or NULL: see
                             moec_split_training */
    bool rounded; /* products round what they multiply to bf16, unless a statement is exact */
    Type weights; /* that products read parameters as: see smaller_weights.c */
    Type caches;  /* of what attention keeps from step to step: see store_caches.c */
    const Target *target;    /* the machine: the processor until another is chosen */
    bool lowered;            /* the passes of its machine have run */
    bool has[PROGRAM_FORMS]; /* forms that the passes so far made */
} Program;

Program *program_new(Arena *arena, Reports *reports, const char *name, Graph graph);
Axis *axis_new(Program *program, const char *name, long size, AxisKind kind, Span span);
/* A tensor whose name is `name`, with a number appended when that is taken. */
Tensor *tensor_new(Program *program, const char *name, Role role, Type type, int rank,
                   Axis *const *axes, Span span);
Index *index_new(Program *program, const char *name, Axis *axis);
/* Drops all but those to be kept, by id, and numbers the rest anew; the names are free again. */
void tensors_keep(Program *program, const bool *kept);
long tensor_elements(const Tensor *tensor);

/* Constructors fold numbers and drop + 0, * 1, * 0, / 1. */
Expr *expr_number(Program *program, double number);
Expr *expr_index(Program *program, Index *index);
Expr *expr_read(Program *program, Tensor *tensor, Expr *const *subs); /* copies the array */
Expr *expr_read_indices(Program *program, Tensor *tensor, Index *const *indices);
/* Unused arguments are NULL. */
Expr *expr_apply(Program *program, OpCode op, Expr *a, Expr *b, Expr *c);
bool expr_equal(const Expr *a, const Expr *b);
/* The same when the first indices of one are taken for those of the other, in their order. */
bool expr_matches(const Expr *a, Index *const *a_loops, const Expr *b, Index *const *b_loops,
                  int count);
/* Equal for expressions that match. */
uint64_t expr_hash(uint64_t hash, const Expr *expr, Index *const *loops, int count);
bool expr_is_number(const Expr *expr, double number);
/* Comparisons and what joins them: 1 or 0. */
bool expr_is_truth(const Expr *expr);
bool expr_uses_index(const Expr *expr, const Index *index);
bool indices_have(Index *const *indices, int count, const Index *index);
bool statement_loops_over(const Statement *statement, const Index *index);
bool tensor_has_axis(const Tensor *tensor, const Axis *axis);
bool expr_reads(const Expr *expr, const Tensor *tensor);
/* A computed subscript: one that folds to an index of another axis stays computed, since a plain
 * index never leaves its dimension. */
Expr *sub_over(Program *program, Expr *sub, const Axis *axis);
/* ---- whole.c ---- */

/* The largest whole number that a real can be told apart from its neighbours by. */
#define WHOLE_MAX 0x1.fffffffffffffp52
/* Its value is a whole number: what subscripts are. Computed in 64 bits where it is a subscript. */
bool expr_is_whole(const Expr *expr);
/* Nothing but whole numbers is in it either: constants, indices, tokens. */
bool expr_counts(const Expr *expr);
/* The same where a named equation of whole numbers counts as one, before `keep_integers`. */
bool expr_names_whole(const Expr *expr);
/* Computed in 64 bits in every context: a remainder or a quotient of whole numbers, a comparison
 * of expressions that count. */
bool expr_is_exact(const Expr *expr);
/* floor(a / b) of whole numbers. */
bool expr_is_quotient(const Expr *expr);
/* A real without a fraction as a whole number. */
int64_t whole_of(double number);
/* The value of an operation on whole numbers, its definition; of floor(a / b). */
int64_t whole_value(OpCode op, int64_t a, int64_t b, int64_t c);
int64_t whole_quotient(int64_t a, int64_t b);
/* A simpler expression of whole numbers that are split and put together again, or NULL. */
Expr *whole_fold(OpCode op, Expr *a, const Expr *b);

/* Replaces index from[i] by to[i] everywhere, subscripts included. What falls outside an axis is 0;
 * so a target may become a number: nothing is stored there. */
Expr *expr_substitute(Program *program, Expr *expr, Index *const *from, Expr *const *to, int count);
/* Calls visit for the expression and everything below it, subscripts included, parents first. */
void expr_walk(Expr *expr, void (*visit)(Expr *expr, void *data), void *data);

/* A loop statement appended to block: loops are the plain indices of target in order, then
 * `reduced`. For a scatter the remaining indices of value and subscripts are passed as reduced with
 * REDUCE_NONE. */
Statement *statement_loop(Program *program, Block *block, Expr *target, bool accumulate,
                          Reduction reduction, Index *const *reduced, int reduced_count,
                          Expr *value, Span span);
Statement *statement_call(Program *program, Block *block, CallKind call, Span span);
Statement *statement_repeat(Program *program, Block *block, Index *index, bool reverse, Span span);
bool statement_is_scatter(const Statement *statement);
/* The loop index with which a subscript runs over its axis or over a part of it: `index`, or `first
 * + index` where `first` is made of steps and numbers and the sum never leaves the axis. NULL for
 * any other subscript. */
Index *sub_loop(const Expr *sub, const Axis *axis);
/* Is it made of loops, steps of repeats and numbers, and never outside of the axis? */
bool sub_is_inside(const Expr *sub, const Axis *axis);
/* All statements, repeats and scans before their bodies. */
void block_walk(Block *block, void (*visit)(Statement *statement, void *data), void *data);
/* The same from the last to the first, bodies before what they belong to. */
void block_walk_back(Block *block, void (*visit)(Statement *statement, void *data), void *data);
/* How many operands of an attention come before the position, or before o, lse and do. */
int attend_operands(const AttendOptions *options);
/* The place of the numbers of documents among the inputs of an attention that has them. */
int attend_document(const AttendOptions *options);
/* The same of what rows of keys (0), of values (1) are times. */
int attend_scale(const AttendOptions *options, int which);

/* ---- scan.c ---- */

bool statement_is_scan(const Statement *statement);
/* A scan without a body yet. */
Statement *statement_scan(Program *program, Block *block, Index *index, bool reverse, Span span);
/* Fills inputs and outputs of a scan from what its body reads and writes. */
void scan_operands(Program *program, Statement *scan);
/* Another statement, no repeat, with indices from[i] replaced by to[i] in operands and body; not in
 * any block. */
Statement *statement_copy(Program *program, const Statement *statement, Index *const *from,
                          Expr *const *to, int count);

/* print: the program as text, one statement a line; what `moec dump` shows and tests compare. */
char *print_program(Arena *arena, const Program *program);
const char *graph_name(Graph graph); /* "train" */
char *print_expr(Arena *arena, const Expr *expr);
char *print_statement(Arena *arena, const Statement *statement);
/* verify: NULL when the program is well formed, else what is wrong (a mistake of the pass that ran
 * last). */
char *well_formed(Arena *arena, const Program *program);

#endif
