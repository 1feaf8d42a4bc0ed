/* ir: the program in index notation.
 *
 * A program is a list of statements. A loop statement defines, for every value of its indices,
 *
 *     y[b,s,f] = sum[d] x[b,s,d] * up[d,f]     reduction: sum over the indices missing on the left
 *     demb[tokens[b,s],d] += dx[b,s,d]         scatter: computed subscripts on the left
 *
 * A call statement is one of the few operations that are not loops: attention, top-k selection,
 * dispatch. A repeat statement runs its body `count` times. Its index selects the slice of each
 * tensor that differs between iterations (weights, residual stream, saved activations); such a
 * tensor has one more axis. The size of a program therefore does not depend on the depth, and there
 * is no special kind of tensor for it. A scan does the same along any axis, one position after the
 * other. A scan is one call: other passes treat it as a statement that reads and writes tensors.
 *
 * Everything is allocated in program->arena and owned by it. Expressions are immutable trees and
 * may be shared. Passes may modify statements and tensors.
 */
#ifndef IR_H
#define IR_H

#include "abi/abi.h"
#include "base/diagnostics.h"
#include "ir/target.h"
#include "base/table.h"

#include <stdbool.h>
#include <stdint.h>

/* Source equations have at most MAX_DIMENSIONS dimensions: a repeat adds one to the tensors that
 * its iterations save. */
enum { MAX_RANK = 10, MAX_DIMENSIONS = MAX_RANK - 1, MAX_LOOPS = 14 };

/* ---- axes, indices, tensors ---- */

typedef enum AxisKind {
    AXIS_PLAIN,
    AXIS_BATCH,    /* the sequences of a micro-batch */
    AXIS_SEQUENCE, /* time: causal masks and scans run along it */
    AXIS_REPEAT,   /* depth */
    AXIS_ROWS,     /* dispatched rows of a relation (made by route) */
    AXIS_ELEMENTS  /* all elements of one parameter (update programs); size known at run time */
} AxisKind;

typedef struct Axis {
    const char *name;
    long size;
    AxisKind kind;
    Span span, asked; /* asked: where the user set its size or chose its layer */
    bool of_blocks;   /* of positions: its size grows with the context (set by decode) */
    long padded; /* loops over a dimension of a tensor may stop at this size (see pad.c); 0: not */
    double expected; /* rows whose number depends on the data: the expected number; 0: all */
} Axis;

/* A loop variable. Two indices are the same only if they are the same pointer. */
typedef struct Index {
    const char *name;
    Axis *axis;
    bool of_repeat; /* of a repeat statement: in scope in its body, never iterated there */
} Index;

typedef enum Role {
    ROLE_PARAMETER, /* trained; lives in the weights block */
    ROLE_STATE, /* not trained, kept and saved (running statistics; m and v in update programs) */
    ROLE_INPUT, /* passed by the runtime to each call */
    ROLE_GRADIENT, /* adjoint of a parameter; lives in the gradients block; `of` is the parameter.
                      Statements only add to it */
    ROLE_CACHE,    /* kept between decode steps */
    ROLE_OUTPUT,   /* returned to the caller: logits, loss, aux and probe values */
    ROLE_ROUNDED,  /* a parameter in a type of weight_type.def; `of` is the parameter.
                      Recomputed after each change of the weights */
    ROLE_TEMP
} Role;

/* REAL: float in C, double in the interpreter. INT: int32. BF16: a real that is rounded when it is
 * stored (storage.c). DOUBLE: double in C, too (tables.c). BYTE: a real in -127 .. 127
 * (store_caches.c). E4M3, E5M2: numbers of these formats (byte_operands.c). The others are
 * multiples of a scale that a group of elements shares: see weight_type.h. */
typedef enum Type {
    TYPE_REAL,
    TYPE_INT,
    TYPE_DOUBLE,
    TYPE_BYTE,
    TYPE_E4M3,
    TYPE_E5M2,
#define WEIGHT_TYPE(name, ...) TYPE_##name,
#include "ir/weight_type.def"
#undef WEIGHT_TYPE
    TYPES
} Type;
/* Bytes of one element; of TYPE_INT8 without its scale. Not of a type with several columns. */
long type_bytes(Type type);

/* constant: a.  normal: mean a, standard deviation b.  uniform: from a to b. */
typedef struct Init {
    MoecInit kind;
    double a, b;
} Init;

/* Option of an optimizer for one parameter. "lr": a factor. ".init": the initial deviation. */
typedef struct OwnNumber {
    const char *name;
    double value;
} OwnNumber;

/* ---- meshes: see transform/mesh ----
 *
 * The processes of a mesh run the same local program. Process r is at index r of MESH_DATA. Each E
 * consecutive processes are a group of MESH_EXPERT: it has all parameters that rows select once,
 * and r is at index r % E. */
typedef enum MeshAxis { MESH_DATA, MESH_EXPERT, MESH_AXES } MeshAxis;

typedef struct MeshSizes {
    long size[MESH_AXES];
    Span span[MESH_AXES]; /* of the text that sets them */
    long micro_batches;   /* of a step, if `data` is the number of processes of each; or 0 */
} MeshSizes;

/* WHOLE: every process has the whole tensor. DIVIDED: each has an equal part of a dimension. Over
 * MESH_EXPERT the tensor keeps its shape: a process reads its part of a parameter, and a gradient
 * has slots, see transform/mesh/mesh_rows.c. TERMS: each has a term of the full shape, the tensor
 * is their sum. */
typedef enum PlacementKind { PLACED_WHOLE, PLACED_DIVIDED, PLACED_TERMS } PlacementKind;
typedef struct Placement {
    PlacementKind kind;
    int dimension; /* DIVIDED */
    long parts;    /* the same, over MESH_EXPERT: processes of a group */
} Placement;

typedef enum CollectiveKind {
    COLLECTIVE_SUM, /* all-reduce */
    COLLECTIVE_MAX, /* the same, largest or smallest value */
    COLLECTIVE_MIN,
    COLLECTIVE_GATHER,   /* all-gather: parts of a dimension */
    COLLECTIVE_COUNTS,   /* of the rows that each process receives */
    COLLECTIVE_DISPATCH, /* all-to-all of rows to the processes with their keys */
    COLLECTIVE_COMBINE   /* and back */
} CollectiveKind;

/* A parameter as matrices [batch][n][k]: its axes in another order. */
typedef struct Matrices {
    int order[MAX_RANK]; /* by axis: the axis of the parameter */
    long batch, n, k;
    long batch_stride, n_stride, k_stride; /* in the parameter */
} Matrices;

typedef struct Tensor {
    int id;                /* index in program->tensors */
    const char *name;      /* unique in the program, an identifier: the name in generated code */
    const char *stem;      /* the same before a number was appended */
    const char *spec_name; /* temporaries: the name in the spec after the path of its layer,
                          "block.{i}.attention.q"; NULL: a pass made it */
    const char *path; /* parameters and states: the public name, "block.{i}.attention.query". "{i}"
                         or "{2*i+1}" is the step of the repeat, present exactly when axes[0] is an
                         AXIS_REPEAT axis */
    Role role;
    Type type;
    int rank;
    Axis *axes[MAX_RANK];
    Init init;          /* parameters and states */
    MoecInput input;    /* inputs */
    MoecInput declared; /* inputs: the kind in the spec; `input` of examples is MOEC_INPUT_CLASS */
    MoecScalar scalar;  /* inputs that are scalars */
    long vocabulary;    /* integers: values are 0 .. vocabulary-1; 0: unknown */
    struct Tensor *of;  /* gradients: the parameter; adjoints of temporaries: the tensor */
    struct Matrices *matrices; /* of types with columns (weight_type.h); else NULL */
    double active;       /* parameters: fraction that one token uses, 1 for all (filled by cost) */
    int fan_in, fan_out; /* parameters */
    int lead; /* parameters and states: number of axes before those of the declaration: the repeat
                 axis and the axes over which the layer is applied */
    struct ParameterFacts *facts; /* parameters: see parameter_facts.h; NULL in update programs */
    int repeats;     /* parameters: iterations of the repeats it was declared in, 0: of none */
    bool frozen;     /* parameters: not trained */
    long spare;      /* parameters: elements after the last one, which are 0 (see pad.c) */
    bool whole;      /* parameters: updated by GRAPH_STEP, not by GRAPH_UPDATE */
    bool prepared;   /* parameters: computed from others by GRAPH_PREPARE, see prepare.c */
    List own;        /* OwnNumber *, parameters: optimizer options of this parameter */
    int clip_group;  /* parameters, and scalars with their factor: see abi.h */
    double clip;     /* parameters of a clip group: maximum norm of its gradients */
    MoecProbe probe; /* outputs */
    bool of_adjoint; /* outputs: a copy of a tensor in the forward pass, which the pass gradient
                        replaces by one of its gradient */
    bool observed;   /* temporaries: such a copy reads it, so readers must keep reading it */
    bool cached;     /* named by `cache t`: decode stores it and recomputes everything derived from
                        it */
    bool head;       /* parameters: no product of another parameter follows theirs */
    bool copied_alone; /* parameters: no program reads them in f32, but one a smaller copy */
    bool of_cached;    /* parameters: multiplied by a cached tensor (smaller_weights.c) */
    bool kept;         /* computed outside of repeats and read by the backward pass */
    bool carried; /* by a repeat: element i + 1 of the first axis is of iteration i, element 0 is
                        the value before it */
    bool part;    /* part of an equation: no name in the source refers to it */
    bool integer, small;         /* temporaries: of integers (integers.c), of operand_formats.c */
    bool selects, implied;       /* the mask of a reduction; one that changes no value */
    double share;                /* masks: the stated share of entries that are not zero; 0: none */
    const char *dense;           /* masks: why all entries are computed, or NULL (set by route) */
    Span span;                   /* where it is defined */
    Placement placed[MESH_AXES]; /* in the local program of a mesh */
} Tensor;

/* ---- expressions ---- */

typedef enum OpCode {
#define OP(name, ...) OP_##name,
#include "ir/op.def"
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
typedef enum OpZero { ZERO_NONE, ZERO_FIRST, ZERO_ANY, ZERO_CHOSEN } OpZero;
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
/* The operation with the spelling `text` and that many arguments, or -1. */
int op_find(const char *text, int arity);
/* The value in double precision, which defines every operation except random ones; those return 0
 * here. Remainders have the sign of the divisor. Every value except 0 is true. */
double op_value(OpCode op, double a, double b, double c);
/* The same for `count` values each; unused arguments may be NULL. */
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

/* Operations that a statement names: see call.def. Each has a row with its hooks: see call.h. */
typedef enum CallKind {
#define CALL(name, row) CALL_##name,
#include "ir/call.def"
#undef CALL
    CALLS
} CallKind;
typedef struct CallRow CallRow;

typedef enum MaskKind { MASK_CAUSAL, MASK_NONE, MASK_WINDOW } MaskKind;

typedef struct AttendOptions {
    MaskKind mask;
    long window;    /* MASK_WINDOW: query i sees keys i-window+1 .. i; with a position, k and v may
                       be ring buffers: the key of position p is in row p % rows */
    double scale;   /* of the scores, applied before cap and softmax */
    double cap;     /* scores become cap*tanh(score/cap); 0: none */
    bool sink;      /* a learned logit per head is added to the softmax denominator */
    bool documents; /* in addition to the mask: only keys of the query's own document */
    bool chosen, words; /* only where the operand `chosen` is not 0; words: see mask_words.c */
    long block[3];      /* chosen: the queries, heads and keys per element of that operand */
    double share;   /* chosen: of its elements that are expected not to be 0; 0: not known yet */
    bool scaled[2]; /* keys, values: TYPE_BYTE with a scale per row */
    bool position, bias; /* bias: that operand is added to the scores, by distance of positions */
    long best;           /* decoding reads only the `best` values with the largest weights, without
                  renormalization; 0: all */
} AttendOptions;

typedef struct Statement Statement;
typedef struct ExternCall ExternCall;

/* One application of a layer, or one iteration of a repeat in it, for printers that keep layers
 * apart. Set by elaborate; later passes ignore it. */
typedef struct Application {
    struct Application *caller; /* NULL: the outermost layer */
    const char *name;           /* of the layer or of the repeat */
    const char *path;           /* "block.{i}.attention"; "" at the root */
    Span call;
    List formals; /* Formal * */
} Application;

/* An argument that is a whole tensor, with its name inside the layer. */
typedef struct Formal {
    const char *name;
    const Tensor *tensor;
} Formal;

typedef struct Block {
    List statements; /* Statement * */
} Block;

/* A function of a file that an `extern` of a layer names: see syntax/extern_file.c. */
typedef struct ExternFunction {
    const char *target, *name; /* "c" or "cuda"; a C identifier */
    const Source *file;
    Span span; /* of the statement */
} ExternFunction;

/* The size of an axis, as a function receives it: dimension `back` before the end of an operand,
 * inputs first. */
typedef struct ExternSize {
    const char *name;
    int operand, back;
} ExternSize;

/* A number times sizes, by number. */
typedef struct ExternProduct {
    long factor;
    int sizes[MAX_RANK], count;
} ExternProduct;

/* The call of such a function, which replaces the equations of an application of a layer: see
 * calls/hand_written.c. */
struct ExternCall {
    const ExternFunction *function;
    const ExternCall *gradient; /* computes the gradients of the inputs; NULL: derived */
    bool backward;              /* this is the gradient of another call */
    const Statement *forward;   /* backward: that call */
    const char *layer;          /* its name */
    Span span, result;          /* of the layer; of the equation of its first result */
    List options;               /* const char *: "eps = 1e-6" */
    List inputs, outputs;       /* const char *: names, without those of `equations` */
    int equations; /* the last inputs of the statement: the results by the equations, until the
                      pass externs */
    ExternSize sizes[MAX_RANK + MAX_LOOPS];
    int size_count;
    int named;                      /* dimensions of the first input after the rows */
    ExternProduct blocks, space;    /* per row: GPU: blocks; floats of the workspace */
    Expr *workspace;                /* last output of the statement, after `outputs`; or NULL */
    long threads, shared;           /* GPU: threads of a block, bytes */
    double flops;                   /* of the equations */
    const char *types, *parameters; /* of the function: "long, const float *"; with names */
};

struct Statement {
    StatementKind kind;
    Span span;
    Span asked; /* of an equation of the standard library: where the user chose or applied its
                   layer */
    Application *application; /* that it belongs to; NULL: added around the layers */

    /* STATEMENT_LOOP: for all loops: target (= or +=) reduction of value. `loops` holds every
     * iterated index: first those of the target in its order, then the reduced ones. The index of
     * an enclosing repeat is in scope but not iterated, hence not in `loops`.
     *
     * With reduction NONE, a target subscript computed from a loop index is a scatter: iterations
     * that hit the same element are added in loop order. With accumulate false it stores instead,
     * and the elements must be distinct (a cache written at position+s); other elements keep their
     * value. A computed subscript of the target outside of the axis is dropped.
     *
     * A subscript of repeat indices and numbers only, x[i+1,b,s,d], is fixed and no scatter. One
     * that runs over a part of its axis, x[4*i+b,s,d], counts as plain (see sub_loop). */
    Expr *target; /* EXPR_READ */
    bool accumulate;
    Reduction reduction;
    int loop_count;
    Index *loops[MAX_LOOPS];
    Expr *bound; /* the number of dispatched rows that its loop over rows visits; NULL: all */
    Expr *value;
    const struct ProductForm *product; /* of a matrix product, after the pass products; or NULL */
    bool exact;                        /* see precision.c */
    bool in_double;                    /* see tables.c */
    bool once; /* update of a state: runs only on the last micro-batch of a step */

    /* STATEMENT_CALL; row: NULL for other statements */
    CallKind call;
    const CallRow *row;
    List inputs, outputs; /* Expr *, reads */
    AttendOptions attention;
    struct {
        long k;
        int dimension;
    } top;
    struct {
        bool key[MAX_RANK];
        bool bounded; /* the number of rows depends on the data */
    } pack;
    struct {
        CollectiveKind kind;
        MeshAxis over;
        int dimension; /* GATHER: of the result */
        long keys;     /* DISPATCH, COMBINE: values of the first key */
        long each;     /* the same: rows of each process for each one; 0: depends on the data */
    } collective;
    const ExternCall *external;

    /* STATEMENT_REPEAT, scan: for index = 0 .. axis->size-1, or downwards when reverse */
    Index *index;
    bool reverse;
    Block body;
    bool ordered;     /* STATEMENT_REPEAT: the statements of its body are ordered for low memory */
    const char *slow; /* scan: reason for sequential execution; NULL: not analyzed yet */
    bool again;       /* its result costs more memory than its recomputation is worth */
    bool remade;      /* recomputed before its first use: see rematerialize.c */
};

/* ---- programs ---- */

typedef enum Graph {
    GRAPH_FORWARD, /* outputs (logits), loss when the model has one, aux and probe values */
    GRAPH_TRAIN,   /* loss, aux, probes, and gradients, added up in the gradients block */
    GRAPH_DECODE,  /* one step: |sequence| new tokens at `position`; reads and writes caches */
    GRAPH_UPDATE,  /* the optimizer: one parameter, axis ELEMENTS */
    GRAPH_MEASURE, /* evaluation: loss, aux and probe values, log-likelihood of the next tokens */
    GRAPH_STEP,    /* optimizer updates that need whole matrices */
    GRAPH_GATHER,  /* step_mean of one micro-batch; outputs have the names of the states */
    GRAPH_REFINE,  /* the next values of inputs: see elaborate/refine.c */
    GRAPH_PREPARE  /* values of a decoding step that depend on weights alone: see prepare.c */
} Graph;

/* Properties of a program that a pass leaves and later passes need: see the table in driver.c. */
typedef enum PassProperty {
    IS_FORWARD = 1 << 0,       /* no gradients, caches or other additions to the equations */
    IS_COMPLETE = 1 << 1,      /* with the gradients, caches and measurements of its graph */
    HAS_TABLES = 1 << 2,       /* statements in double precision are marked */
    HAS_NO_DEAD_CODE = 1 << 3, /* after the additions */
    IS_ROUTED = 1 << 4,        /* masks are dispatched where possible */
    IS_GATHERED = 1 << 5,      /* products read the sources of their rows */
    HAS_PRODUCTS = 1 << 6,     /* Statement.product is set */
    IS_EXACT = 1 << 7,         /* statements that selections depend on are marked */
    HAS_STORAGE = 1 << 8,      /* tensors have their storage types */
    IS_SCHEDULED = 1 << 9,
    IS_PLANNED = 1 << 10, /* with the memory of its temporaries */
    IS_MAPPED = 1 << 18,  /* with the threads of each loop */
    IS_LOWERED = 1 << 11, /* from here on: of a module */
    IS_PARALLEL = 1 << 12,
    HAS_OWNERS = 1 << 13,   /* one thread stores each element */
    HAS_ROWS = 1 << 14,     /* rows that several threads read are shared */
    HAS_VECTORS = 1 << 15,  /* loops of vector lanes are marked */
    HAS_BARRIERS = 1 << 16, /* and no groups */
    HAS_NAMES = 1 << 17
} PassProperty;

/* A row-index table that replaces several subscripts: table[r] is the row-major number of of[0][r],
 * of[1][r], ... With of = {b, s}, x[b[r],s[r],d] is row table[r] of x as a matrix. */
typedef struct Flat {
    Tensor *table;
    Tensor *of[MAX_RANK];
    int count;
} Flat;

/* A relation found by route, one for each pack; kept for fusion, cost and printing. Relations of
 * the same mask (one in the forward and one in the backward part of a repeat) share their rows axis
 * and have their own tensors. */
typedef struct Relation {
    Tensor *mask;
    Axis *rows;
    Tensor *coordinate[MAX_RANK]; /* by dimension of the mask without its repeat axis */
    Tensor *group, *row_of, *start, *list;
    bool key[MAX_RANK];
    Tensor *group_of[MAX_RANK]; /* tensors over rows whose row-major number is the group */
    int group_of_count;
    List flats; /* Flat *; start and list are indexed by the first one (table `other`) */
    /* The number of the parameters of each row, if `group` has parts of the rows with equal ones;
     * or NULL: that of the group. */
    Tensor *number;
    bool assumed;           /* nothing states the expected number of rows */
    struct Relation *outer; /* the relation that defines the rows on which this one is defined, or
                               NULL */
} Relation;

/* sum[n in mask] e, or another reduction over selected entries, as in the source. */
typedef struct MaskedReduction {
    Expr *mask;
    const Axis *axis;
    long entries; /* of e per element of the result, selected or not */
    Span span, asked;
} MaskedReduction;

/* How a state of a scan is computed (after chunk_scan). */
typedef struct ScanForm {
    const char *name;
    Span span;
    long chunk_size;  /* 1: sequential */
    const char *slow; /* reason for sequential execution, or NULL */
} ScanForm;

/* Forms of computation that a program can have: see program_form.def. Those of calls follow. */
typedef enum ProgramForm {
#define PROGRAM_FORM(name, text) HAS_##name,
#include "ir/program_form.def"
#undef PROGRAM_FORM
    PROGRAM_FORMS
} ProgramForm;

typedef struct OperandFormats OperandFormats;
typedef struct Program {
    Arena *arena;
    Reports *reports;
    const char *name;
    Graph graph;
    const CallRow *const *calls; /* by CallKind */
    List axes;                   /* Axis * */
    List tensors;                /* Tensor * */
    Table names; /* Named *: numbers in use after names of tensors (see tensor_new) */
    Block body;
    Axis *batch, *sequence; /* NULL when the model has none */
    Tensor *loss;           /* ROLE_OUTPUT, rank 0; NULL when there is none */
    List outputs; /* Tensor *, named outputs first (logits), then loss, aux, probes; names as in the
                     spec */
    List relations;                /* Relation * (after route) */
    List scans;                    /* ScanForm * (after chunk_scan) */
    List masked;                   /* MaskedReduction * */
    List applied;                  /* Tensor *, Tensor *: a parameter, the result of its layer */
    List scores;                   /* Tensor *: attention scores outside of the attention kernel,
                                      stored in full */
    bool by_training, by_decoding; /* the spec tests for this mode, or its calls differ in it */
    bool gathers, reads_length, refines; /* a step_mean; size(s); a refinement in the spec */
    long context;                        /* decode: length of the caches */
    bool input_gradients; /* training also returns the gradients of real inputs as outputs */
    Tensor *cotangent;    /* training: an input that the second phase waits for, or NULL: see
                             moec_split_training */
    long mesh[MESH_AXES]; /* local programs: sizes of the mesh; 0: not local */
    Tensor *mesh_index[MESH_AXES]; /* an int input: the index of the process; NULL: not needed */
    bool rounded; /* operands of products are rounded to bf16, unless a statement is exact */
    const OperandFormats *formats;   /* of operands, see operand_formats.c; NULL: none */
    Type weights, head_weights;      /* types of parameters in products: see smaller_weights.c */
    Type caches;                     /* type of the attention caches: see store_caches.c */
    const Target *target;            /* the machine: the CPU until a pass selects another */
    unsigned properties;             /* PassProperty: of the passes so far */
    bool lowered;                    /* the passes of its machine have run */
    struct Program *prepare;         /* decode: writes the prepared tensors; NULL: there are none */
    bool has[PROGRAM_FORMS + CALLS]; /* forms made by the passes so far */
} Program;

Program *program_new(Arena *arena, Reports *reports, const char *name, Graph graph,
                     const CallRow *const *calls);
Axis *axis_new(Program *program, const char *name, long size, AxisKind kind, Span span);
double axis_expected(const Axis *axis); /* number of elements that is expected */
/* Creates a tensor named `name`, with a number appended if the name is in use. */
Tensor *tensor_new(Program *program, const char *name, Role role, Type type, int rank,
                   Axis *const *axes, Span span);
/* The same over the axes of loops. */
Tensor *tensor_over(Program *program, const char *name, Role role, Type type, Index *const *loops,
                    int rank, Span span);
const Tensor *parameter_called(const Program *program, const char *path); /* or NULL */
Index *index_new(Program *program, const char *name, Axis *axis);
Index *index_over(Program *program, Axis *axis); /* named as the axis */
/* Drops all tensors except `kept` (by id), with their names, and renumbers the rest. */
void tensors_keep(Program *program, const bool *kept);
long tensor_elements(const Tensor *tensor);

/* Constructors fold numbers and drop + 0, * 1, * 0, / 1. */
Expr *expr_number(Program *program, double number);
Expr *expr_index(Program *program, Index *index);
Expr *expr_read(Program *program, Tensor *tensor, Expr *const *subs); /* copies the array */
Expr *expr_read_indices(Program *program, Tensor *tensor, Index *const *indices);
/* Unused arguments are NULL. */
Expr *expr_apply(Program *program, OpCode op, Expr *a, Expr *b, Expr *c);
/* The same read or application with other arguments; an application is folded again. */
Expr *expr_with_args(Program *program, const Expr *expr, Expr *const *args);
bool expr_equal(const Expr *a, const Expr *b);
/* Equal after replacing the first indices of one with those of the other, in order. */
bool expr_matches(const Expr *a, Index *const *a_loops, const Expr *b, Index *const *b_loops,
                  int count);
/* Equal for expressions that match. */
uint64_t expr_hash(uint64_t hash, const Expr *expr, Index *const *loops, int count);
bool expr_is_number(const Expr *expr, double number);
/* Comparisons and their logical combinations: 1 or 0. */
bool expr_is_truth(const Expr *expr);
bool expr_uses_index(const Expr *expr, const Index *index);
bool expr_has_reads(const Expr *expr);
bool expr_is_step(const Expr *expr); /* repeat indices and numbers only */
bool indices_have(Index *const *indices, int count, const Index *index);
bool statement_loops_over(const Statement *statement, const Index *index);
bool tensor_has_axis(const Tensor *tensor, const Axis *axis);
bool expr_reads(const Expr *expr, const Tensor *tensor);
/* A computed subscript: one that folds to an index of another axis stays computed, since a plain
 * index never leaves its dimension. */
Expr *sub_over(Program *program, Expr *sub, const Axis *axis);
/* ---- whole.c ---- */
/* The largest integer that a real distinguishes from its neighbors. */
#define WHOLE_MAX 0x1.fffffffffffffp52
/* True if the value is an integer, as in subscripts. A subscript is computed in 64 bits. */
bool expr_is_whole(const Expr *expr);
/* True if its operands are integers as well: constants, indices, tokens. */
bool expr_counts(const Expr *expr);
/* The same, but a named equation with integer values counts as one, before `keep_integers`. */
bool expr_names_whole(const Expr *expr);
/* True if it is computed in 64 bits in every context: a remainder or quotient of integers, or a
 * comparison of expressions that count. */
bool expr_is_exact(const Expr *expr);
/* True for floor(a / b) of integers. */
bool expr_is_quotient(const Expr *expr);
/* True for floor(index / size) with an integer of at least 1. */
bool expr_is_block(const Expr *expr, const Index *index, long *size);
/* A real without a fraction as an integer. */
int64_t whole_of(double number);
/* The value that defines an operation on integers; the quotient is floor(a / b). */
int64_t whole_value(OpCode op, int64_t a, int64_t b, int64_t c);
int64_t whole_quotient(int64_t a, int64_t b);
/* A simpler expression for integers that are split and joined again, or NULL. */
Expr *whole_fold(OpCode op, Expr *a, const Expr *b);

/* Replaces index from[i] by to[i] everywhere, including subscripts. A read outside of an axis is 0.
 * A target may therefore become a number, which stores nothing. */
Expr *expr_substitute(Program *program, Expr *expr, Index *const *from, Expr *const *to, int count);
/* Calls visit for the expression and everything below it, subscripts included, parents first. */
void expr_walk(Expr *expr, void (*visit)(Expr *expr, void *data), void *data);

/* A loop statement appended to block: loops are the plain indices of target in order, then
 * `reduced`. For a scatter the remaining indices of value and subscripts are passed as reduced with
 * REDUCE_NONE. */
Statement *statement_loop(Program *program, Block *block, Expr *target, bool accumulate,
                          Reduction reduction, Index *const *reduced, int reduced_count,
                          Expr *value, Span span);
/* target = value, without a reduction. */
Statement *statement_assign(Program *program, Block *block, Expr *target, Expr *value, Span span);
Statement *statement_call(Program *program, Block *block, CallKind call, Span span);
Statement *statement_repeat(Program *program, Block *block, Index *index, bool reverse, Span span);
bool statement_is_scatter(const Statement *statement);
/* True for a selection of the largest values: a call that sets statement->top. */
bool statement_selects(const Statement *statement);
/* The loop index with which a subscript runs over its axis or over a part of it: `index`, or `first
 * + index` where `first` consists of repeat indices and numbers and the sum never leaves the axis.
 * NULL for any other subscript. */
Index *sub_loop(const Expr *sub, const Axis *axis);
/* True if it consists of loop indices, repeat indices and numbers and never leaves the axis. */
bool sub_is_inside(const Expr *sub, const Axis *axis);
/* All statements, repeats and scans before their bodies. */
void block_walk(Block *block, void (*visit)(Statement *statement, void *data), void *data);
/* The same from last to first, bodies before their statements. */
void block_walk_back(Block *block, void (*visit)(Statement *statement, void *data), void *data);

/* The dimension of an operand that a selection selects along, over all subscripts; -1: none. */
int top_dimension(const Statement *top, const Expr *operand);

/* ---- mesh_names.c ---- */
const char *mesh_axis_name(MeshAxis axis);        /* "data" */
const char *collective_name(CollectiveKind kind); /* "all-reduce" */

/* ---- scan.c ---- */
bool statement_is_scan(const Statement *statement);
/* A scan without a body yet. */
Statement *statement_scan(Program *program, Block *block, Index *index, bool reverse, Span span);
/* Sets inputs and outputs of a scan from the reads and writes of its body. */
void scan_operands(Program *program, Statement *scan);
/* Another statement, no repeat, with indices from[i] replaced by to[i] in operands and body; not in
 * any block. */
Statement *statement_copy(Program *program, const Statement *statement, Index *const *from,
                          Expr *const *to, int count);

/* print: the program as text, one statement per line; the output of `moec dump`. */
char *print_program(Arena *arena, const Program *program);
const char *graph_name(Graph graph); /* "train" */
char *print_expr(Arena *arena, const Expr *expr);
char *print_statement(Arena *arena, const Statement *statement);
/* verify: NULL if the program is well formed, else an error message (a bug in the last pass). */
char *well_formed(Arena *arena, const Program *program);

/* rewrite: replacing reads in expressions and statements. */

/* Replaces every read for which `replace` returns an expression, not NULL. The subscripts of the
 * read are already rewritten. */
typedef Expr *Replace(Program *program, Expr *read, void *data);
Expr *rewrite_expr(Program *program, Expr *expr, Replace *replace, void *data);
/* The same in all operands of a statement, including bodies of repeats; with `targets` also in
 * targets and outputs. */
void rewrite_statement(Program *program, Statement *statement, bool targets, Replace *replace,
                       void *data);
/* Replaces one tensor by another wherever the statement reads or writes it. */
void rewrite_tensor(Program *program, Statement *statement, const Tensor *from, Tensor *to);

/* True if products of the program read copies of parameters: see smaller_weights.c. */
bool reads_copies(const Program *program);

#endif
