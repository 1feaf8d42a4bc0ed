/* abi: the interface between generated programs and the runtime. Both include this file and share
 * nothing else.
 *
 * Tensors are row-major float (or int32_t, or bf16) arrays, dimensions in the order of `axes`.
 *
 * A program for a device has the same table and the same functions, but they launch kernels instead
 * of computing. There every pointer to an element is one of the device: all blocks of MoecRun,
 * every inputs[slot] and outputs[slot] (the arrays of pointers themselves are the host's), scalars
 * too. The kernels are in a second source text, which the runtime compiles for the device;
 * table->kernels names them (extern "C") and MoecHost.launch calls them by their number:
 *
 *     host->launch(host->self, kernel, grid, 1, block, 0, arguments)
 *
 * arguments[i] points to the value of the kernel's i-th parameter, as cuLaunchKernel wants it; it
 * is read before launch returns. Blocks and grids have one dimension unless grid_y > 1. All work of
 * one run is issued in launch order on one stream and depends only on device memory. With fixed
 * addresses, a run can be recorded once and replayed. Only first_micro_batch and last_micro_batch
 * select different launches. The seed is read from run->device_seed, on the device. */
#ifndef MOEC_ABI_H
#define MOEC_ABI_H

#ifndef __CUDACC_RTC__ /* which has them without */
#include <stddef.h>
#include <stdint.h>
#endif

enum { MOEC_ABI = 22, MOEC_MAX_RANK = 10 };

/* Where a tensor lives. Offsets are in bytes from the start of the block and multiples of 64. */
typedef enum MoecBlock {
    MOEC_WEIGHTS,   /* parameters, shared by all graphs of a table */
    MOEC_GRADIENTS, /* same layout as MOEC_WEIGHTS, without frozen parameters */
    MOEC_STATES,    /* states of layers, shared by all graphs */
    MOEC_INPUTS,    /* slot number, not an offset: run->inputs[slot] */
    MOEC_OUTPUTS,   /* slot number: run->outputs[slot] */
    MOEC_CACHE,     /* decode caches */
    MOEC_ARENA      /* temporaries of one graph */
} MoecBlock;

typedef enum MoecInit { MOEC_INIT_CONSTANT, MOEC_INIT_NORMAL, MOEC_INIT_UNIFORM } MoecInit;
typedef enum MoecInput {
    MOEC_INPUT_TOKEN, /* int32_t, the token at the position */
    MOEC_INPUT_NEXT,  /* int32_t, the token at the next position */
    MOEC_INPUT_REAL,
    MOEC_INPUT_CLASS, /* int32_t */
    MOEC_INPUT_SCALAR /* one number, see MoecScalar */
} MoecInput;

/* Meaning of a scalar input. */
typedef enum MoecScalar {
    /* optimizer option that a parameter group can override; 1 = no override */
    MOEC_SCALAR_OPTION,
    MOEC_SCALAR_RATE,          /* the learning rate, after the schedule */
    MOEC_SCALAR_STEP,          /* of training, from 1 */
    MOEC_SCALAR_STEPS,         /* of the run */
    MOEC_SCALAR_CLIP,          /* the factor of the gradient */
    MOEC_SCALAR_MATRIX,        /* whether the parameter is one, see MoecTensor.matrix: 1 */
    MOEC_SCALAR_SCHEDULE_STEP, /* from 0: the argument of MoecUpdate.rate; of a refinement */
    MOEC_SCALAR_SCHEDULE_STEPS,
    MOEC_SCALAR_LOSS_SCALE, /* factor of the loss before the backward pass */
    MOEC_SCALAR_POSITION,   /* of the first new token of a decode step */
    MOEC_SCALAR_PROCESS,    /* of those that share a micro-batch, from 0 */
    MOEC_SCALAR_TEMPERATURE /* of the sampling of a refinement */
} MoecScalar;

/* Storage types of real numbers. MOEC_BYTE: integers -127 .. 127 with a scale stored separately.
 * MOEC_E4M3, MOEC_E5M2: operands of products on a device, see MoecScales. */
typedef enum MoecType {
    MOEC_F32,
    MOEC_BF16,
    MOEC_INT8,
    MOEC_BYTE,
    MOEC_INT4,
    MOEC_TERNARY,
    MOEC_E4M3,
    MOEC_E5M2,
    MOEC_FP8,
    MOEC_MXFP8,
    MOEC_MXFP4,
    MOEC_NVFP4
} MoecType;

/* MOEC_INT8: groups of MOEC_GROUP adjacent values, each `scale` times an integer. An int8 tensor
 * and every slice passed to a product start at a group. */
enum { MOEC_GROUP = 64 };
typedef struct MoecGroup {
    float scale;
    signed char steps[MOEC_GROUP];
} MoecGroup;

/* Elements of a mask of attention that are bits of one float. */
enum { MOEC_WORD = 16 };

/* MOEC_INT4: a matrix [n][k] in panels of MOEC_PANEL columns, the last one filled up with zeros. A
 * panel is k / MOEC_PANEL_DEPTH of these, one after the other. Bits 4 i .. 4 i + 3 of
 * steps[w][j] are element 8 w + i of column j, an integer in 0 .. 15; its value is scale[j], a
 * binary16 number, times (the integer - 8). */
enum { MOEC_PANEL = 16, MOEC_PANEL_DEPTH = 32 };
typedef struct MoecInt4 {
    uint16_t scale[MOEC_PANEL];
    uint32_t steps[MOEC_PANEL_DEPTH / 8][MOEC_PANEL];
} MoecInt4;

/* MOEC_TERNARY: the same with parts of MOEC_TERNARY_DEPTH terms. Element i of column j is two bits
 * of steps[i / 16][j], the lower one is bit MOEC_TERNARY_BIT(i): an integer in 0 .. 2. Its value is
 * scale[j] times (the integer - 1). With this order, four words of MoecInt4 with the same elements
 * have them in the same bytes. */
#define MOEC_TERNARY_BIT(i) ((i) % 8 / 2 * 8 + (i) / 8 % 2 * 4 + (i) % 2 * 2)
enum { MOEC_TERNARY_DEPTH = 64 };
typedef struct MoecTernary {
    float scale[MOEC_PANEL];
    uint32_t steps[MOEC_TERNARY_DEPTH / 16][MOEC_PANEL];
} MoecTernary;

/* MOEC_FP8, MOEC_MXFP8: the same with numbers of E4M3: codes[i][j] of element i of column j. The
 * value is the number times 2^(scale[j] - 127), or infinite if scale[j] is 255: a weight of the
 * group was not finite. With MOEC_FP8, all parts of a column have one scale. */
typedef struct MoecFp8 {
    uint8_t scale[MOEC_PANEL], codes[MOEC_PANEL_DEPTH][MOEC_PANEL];
} MoecFp8;

/* MOEC_MXFP4: the same with numbers of E2M1, in the order of MoecInt4. Bits, from the highest: the
 * sign, two of the exponent, one digit. The format of OCP, Microscaling Formats 1.0 (2023). */
typedef struct MoecMxfp4 {
    uint8_t scale[MOEC_PANEL];
    uint32_t codes[MOEC_PANEL_DEPTH / 8][MOEC_PANEL];
} MoecMxfp4;

/* MOEC_NVFP4: the same, and each half of a column of the part has another factor, a number of E4M3.
 * All parts of a column have one scale. */
typedef struct MoecNvfp4 {
    uint8_t scale[MOEC_PANEL], factor[2][MOEC_PANEL];
    uint32_t codes[MOEC_PANEL_DEPTH / 8][MOEC_PANEL];
} MoecNvfp4;

/* A parameter as `type`: `batch` matrices in panels, or elements in their order, n of them.
 * Offsets in bytes from the start of the weights and of the rounded weights; strides in elements
 * of the parameter. */
typedef struct MoecWeightCopy {
    MoecType type;
    size_t weights, packed;
    long batch, n, k;
    long batch_stride, n_stride, k_stride;
} MoecWeightCopy;

/* Reduction of a probe output over several calls: mean or maximum. */
typedef enum MoecProbe { MOEC_PROBE_NONE, MOEC_PROBE_MEAN, MOEC_PROBE_LARGEST } MoecProbe;

typedef struct MoecTensor {
    /* public path; for a tensor stacked over a repeat axis "block.{2*i+1}.ffn.up": axis 0 is the
     * step i and each step is a tensor of its own in files */
    const char *name;
    const char *axes; /* names, comma separated: "block,dim,hidden" */
    MoecBlock block;
    size_t offset;
    int rank;
    long shape[MOEC_MAX_RANK];
    int is_int;
    MoecType type; /* of reals; only caches are ever anything but float: bf16, bytes */
    MoecInit init; /* constant: a.  normal: mean a, deviation b.  uniform: a to b */
    double a, b;
    MoecInput input;
    MoecScalar scalar; /* inputs of kind MOEC_INPUT_SCALAR */
    long vocabulary;   /* integer inputs: values are 0 .. vocabulary-1; 0: any */
    /* parameters: 1 when it is multiplied and summed over, or looked up in (weight decay
     * applies) */
    int matrix;
    int frozen; /* parameters: not trained, the optimizer leaves it alone */
    int whole;  /* parameters: updated by MOEC_GRAPH_STEP instead of MoecUpdate */
    /* parameters: those of one group are updated with the same numbers, see MoecUpdate.own */
    int group;
    /* parameters: from 1, the clip group, whose gradients have at most the norm `clip`; 0: those
     * that the global norm limits. Inputs of kind MOEC_SCALAR_CLIP: the group of their factor. */
    int clip_group;
    double clip;     /* 0: no clipping */
    MoecProbe probe; /* outputs */
    /* parameters of a program of a mesh: 1 + the dimension of the keys that divide it over the
     * processes of a group; 0: none. Each process reads its part and has slots in the gradient: see
     * MoecExchange. */
    int divided;
} MoecTensor;

/* Operands of MOEC_E4M3 or MOEC_E5M2 consist of units: element [i,j][m,k] of a is a unit times
 * a_scale[i a_batch[0] + j a_batch[1] + m a_m + k / block a_k]; block 0: all terms of a sum share a
 * scale. b likewise, with n instead of m. */
typedef struct MoecScales {
    long block, a_m, a_k, b_k, b_n;
    long a_batch[2], b_batch[2];
} MoecScales;

/* One dense product of fixed shape: c[i,j][m,n] (+)= sum_k a[i,j][m,k] * b[i,j][k,n]. Strides in
 * elements; of each operand one of the two inner strides is 1. c_n is always 1. Two batch
 * dimensions, 1 when unused. */
typedef struct MoecProduct {
    long m, n, k;
    long a_m, a_k, b_k, b_n, c_m;
    long batch[2], a_batch[2], b_batch[2], c_batch[2];
    int accumulate;
    int rounded; /* a and b are rounded to bf16, sums stay f32 */
    MoecType a_type, b_type, c_type;
    /* Device programs without batch dimensions: operations before the result is stored, a sum of
     * MoecEpilogueOp, applied in the order of that enumeration. c receives their result; nothing
     * accumulates. */
    int epilogue_ops;
    /* row strides of the `add` and `kept` operands; 0 = unused */
    long add_m, kept_m;
    float scale;       /* of MOEC_SCALE */
    MoecScales scales; /* of units */
} MoecProduct;

typedef enum MoecEpilogueOp {
    MOEC_ADD = 1,  /* add[m,n], of the type of c, goes to the sum */
    MOEC_BIAS = 2, /* bias[n], of the type of c, too */
    MOEC_KEEP = 4, /* stores the current value to kept[m,n], of the type of c */
    MOEC_GELU = 8, /* x becomes 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) */
    /* alone: x times the derivative of that at kept[m,n], which is only read */
    MOEC_GELU_BACK = 16,
    MOEC_SCALE = 32 /* before all others: the sum is multiplied by `scale` */
} MoecEpilogueOp;

/* The operands of an epilogue, and the scales of units; NULL where there is none. */
typedef struct MoecEpilogue {
    const void *add, *bias;
    void *kept; /* MOEC_GELU_BACK: read */
    const float *a_scale, *b_scale;
} MoecEpilogue;

/* The program's own kernel for a dense product, launched if the host does not compute it. */
typedef struct MoecOwnProduct {
    int kernel; /* the program's own, see MoecTable.kernels */
    /* alignment in bytes of all addresses and strides of the operands; at most 16 */
    int alignment;
} MoecOwnProduct;

/* Masks of attention. */
enum { MOEC_MASK_CAUSAL, MOEC_MASK_NONE, MOEC_MASK_WINDOW };
/* The log-sum-exp of a query that attends to no chosen key; its output is 0. */
#define MOEC_NO_KEY (-8e37f)

typedef struct MoecRun MoecRun;

/* The variants that a kernel may have: NAME, NAME_wgmma, NAME_wide; and how one of them is
 * launched. */
enum { MOEC_VARIANT_FIRST, MOEC_VARIANT_WGMMA, MOEC_VARIANT_WIDE, MOEC_VARIANT_COUNT };
typedef struct MoecKernelVariant {
    unsigned grid, block, shared_bytes;
} MoecKernelVariant;

/* Elements that a kernel writes. */
typedef struct MoecWritten {
    void *at;
    long count;
    MoecType type;
    /* nonzero: derived from values rounded to bf16, at different points in each variant */
    int rounded;
} MoecWritten;

/* Numbers of bf16 that a kernel multiplies: `matrices` matrices of `lines` lines of `length`
 * neighbours, with so many elements from one line to the next and from one matrix to the next.
 * Multiples of 16 bytes. */
typedef struct MoecMatrices {
    const void *at;
    long length, lines, matrices;
    long line, matrix; /* matrix: without meaning where there is one */
} MoecMatrices;

/* An exchange between the processes of a mesh. The operands are contiguous arrays of float or
 * int32_t. SUM, MAX, MIN: from and to have `size` elements. GATHER: [outer][size][inner] of each
 * process become [outer][processes * size][inner].
 *
 * The others exchange rows of `size` elements in `groups` groups. These belong to `keys` keys; each
 * process has an equal part of the keys. COUNTS, from: the first row of each group and the number
 * of rows. Its results:
 *
 *     table[processes][groups + 1]   the operands of all processes
 *     group[rows]                    of each received row
 *     first[groups + 1]              received row of each part of a slot
 *     slot[rows]                     of each received row
 *     key[rows], key_count arrays    of each received row: its group is their row-major number
 *
 * Received rows are in order of key, process, row of the process. Key number i of a process and
 * process p have slot i * processes + p. Its parts are the groups of the key. DISPATCH: rows become
 * received rows; COMBINE: the reverse. */
typedef enum MoecExchangeKind {
    MOEC_EXCHANGE_SUM,
    MOEC_EXCHANGE_MAX,
    MOEC_EXCHANGE_MIN,
    MOEC_EXCHANGE_GATHER,
    MOEC_EXCHANGE_COUNTS,
    MOEC_EXCHANGE_DISPATCH,
    MOEC_EXCHANGE_COMBINE
} MoecExchangeKind;
typedef struct MoecExchange {
    MoecExchangeKind kind;
    const char *name; /* for messages */
    long outer, size, inner;
    long groups, keys;
    long rows; /* room for received rows */
    long each; /* rows of each process for each one, itself too; 0: depends on the data */
    int key_count;
    long key_sizes[MOEC_MAX_RANK];
} MoecExchange;

/* The most results of an exchange. */
enum { MOEC_EXCHANGE_RESULTS = 5 + MOEC_MAX_RANK };

/* Services of the host for a program. A NULL pointer means that the program's own kernels do the
 * work. */
typedef struct MoecHost {
    void *self;
    /* product `index` of the table; returns 0 when it was done, 1 when the caller shall do it
     * itself. epilogue: NULL when the product has none */
    int (*product)(void *self, int index, const void *a, const void *b, void *c,
                   const MoecEpilogue *epilogue);
    /* programs for a device only, where both are never NULL: kernel `kernel` of the table; `bytes`
     * zeros */
    void (*launch)(void *self, int kernel, unsigned grid_x, unsigned grid_y, unsigned block,
                   unsigned shared_bytes, void **arguments);
    void (*zero)(void *self, void *memory, size_t bytes);
    /* like launch, for a kernel with several variants (MOEC_VARIANT_COUNT entries): the host
     * selects one by autotuning. For the comparison it needs the written elements, a list that ends
     * with an entry whose `at` is NULL. Launches with an equal first variant and equal first
     * size_bytes of the first argument have equal run times. All variants except the first expect a
     * tensor map (MoecMap of wgmma.cuh) for each entry of `matrices` after the arguments.
     * That list ends with an entry whose `at` is NULL, the arguments end with NULL. matrices ==
     * NULL: all variants have the same arguments. launch_variant == NULL: use launch */
    void (*launch_variant)(void *self, int kernel, const MoecKernelVariant *variants,
                           size_t size_bytes, const MoecWritten *written,
                           const MoecMatrices *matrices, void **arguments);
    /* programs whose units of work are timed only: unit `unit` of the schedule ends here; negative:
     * a run begins */
    void (*mark)(void *marked, int unit);
    void *marked;
    /* programs of a mesh only, never NULL there. table: of DISPATCH and COMBINE. Until the end the
     * program neither writes an operand nor accesses a result; it may begin further exchanges.
     * Exchanges end in the order in which they begin. */
    void (*exchange_begin)(void *mesh, const MoecExchange *exchange, const void *from,
                           const int *table, void *const *to);
    void (*exchange_end)(void *mesh, const MoecExchange *exchange);
    void *mesh;
} MoecHost;

/* Phases of a split training graph (moec_split_training). The backward phase reads the arena,
 * inputs and outputs that the forward phase filled. */
typedef enum MoecPart { MOEC_PART_ALL, MOEC_PART_FORWARD, MOEC_PART_BACKWARD } MoecPart;

struct MoecRun {
    float *weights, *gradients, *states, *cache;
    /* the weights as bf16, element for element, or those of table->packed; NULL when table->round
     * is */
    const void *rounded;
    unsigned char *arena;      /* 64-byte aligned, graph->arena_bytes */
    const void *const *inputs; /* by slot; float or int32_t; scalars too are pointers */
    float *const *outputs;     /* by slot */
    uint64_t seed;             /* of the random numbers of this call */
    int first_micro_batch;     /* gradients are made; otherwise they are added to */
    int last_micro_batch;      /* updates of layer states run only then */
    MoecPart part;
    const MoecHost *host;
    const uint64_t *device_seed; /* device programs: address of `seed` in device memory */
};

typedef enum MoecGraphKind {
    MOEC_GRAPH_FORWARD,
    MOEC_GRAPH_TRAIN,
    MOEC_GRAPH_DECODE,
    MOEC_GRAPH_MEASURE,
    MOEC_GRAPH_STEP, /* reads gradients, writes weights: the optimizer on whole parameters */
    MOEC_GRAPH_GATHER,
    MOEC_GRAPH_REFINE, /* outputs: the next values of inputs with the same names */
    /* writes tensors that decoding reads and that depend on weights alone, after the parameters in
     * the block of weights; to be run whenever those have changed, before MoecTable.round */
    MOEC_GRAPH_PREPARE
} MoecGraphKind;

/* Maximum number of new tokens per decode step that window caches reserve room for, in every graph
 * with at least one token. A prompt is processed in steps of this size; all decode graphs share the
 * caches. */
enum { MOEC_STEP_TOKENS = 32 };

typedef struct MoecGraphEntry {
    MoecGraphKind kind;
    void (*run)(const MoecRun *run);
    /* context: window length, or length of the caches when decoding; tokens: new ones a step */
    long batch, context, tokens;
    size_t arena_bytes, cache_bytes;
    /* by slot; outputs: named ones, then "loss", then aux and probes */
    const MoecTensor *inputs, *outputs, *caches;
    int input_count, output_count, cache_count;
    int first_product, product_count; /* its share of the table's products */
    /* of matrix products and attention in one call, a multiply-add is two */
    double flops;
    double product_flops; /* of the matrix products alone: the floor of the benchmark */
} MoecGraphEntry;

/* A scalar argument of the optimizer, with its name in the spec. */
typedef struct MoecUpdateScalar {
    MoecScalar kind;
    const char *name;
} MoecUpdateScalar;

/* The optimizer update of one parameter. weight, gradient and state[] are arrays of n elements;
 * scalars has the order of the list below. rounded receives the new weights as converted by
 * MoecTable.round, or is NULL. */
typedef struct MoecUpdate {
    void (*run)(float *weight, const float *gradient, float *const *state, long n,
                const float *scalars, void *rounded);
    double (*rate)(double step, double steps); /* the schedule's factor of the learning rate */
    const char *const *state_names;
    int state_count;
    const MoecUpdateScalar *scalars;
    int scalar_count;
    /* Per-group factors of the scalars: scalar_count factors for each of group_count groups. The
     * parameters of one group belong to one clip group. */
    const float *own;
    int group_count;
    /* For device programs, where `run` is NULL: updates all parameters in one launch. The pointers
     * weights, gradients and each entry of `states` (a host array) are whole device blocks. The
     * scalars are in device memory, scalar_count per group. If not NULL, `rounded` receives the
     * weights as converted by MoecTable.round. */
    void (*launch)(const MoecHost *host, float *weights, const float *gradients,
                   float *const *states, const float *scalars, void *rounded);
} MoecUpdate;

typedef struct MoecTable {
    int abi;
    const char *model;
    const MoecTensor *parameters, *states;
    int parameter_count, state_count;
    size_t weight_bytes, state_bytes;
    /* size of the frozen parameters at the end of the weights block; the blocks of gradients and of
     * MoecUpdate states are shorter by this size */
    size_t frozen_bytes;
    /* size of the matrix-updated parameters before the frozen ones; they have no MoecUpdate
     * state */
    size_t whole_bytes;
    const MoecGraphEntry *graphs;
    int graph_count;
    const MoecUpdate *update; /* NULL when not compiled in */
    const MoecProduct *products;
    int product_count;
    /* NULL when no program reads `rounded`: makes it from the weights. To be called whenever those
     * have changed otherwise than by the optimizer, before the next run. */
    void (*round)(const MoecHost *host, const float *weights, void *rounded);
    const MoecWeightCopy *packed; /* inference: the parts of `rounded` */
    int packed_count;
    size_t packed_bytes;
    /* size of the last weights, of which programs read only these parts, or the
     * results of MOEC_GRAPH_PREPARE */
    size_t alone_bytes;
    const char *const *kernels; /* programs for a device: the names of their kernels by number */
    int kernel_count;
    const MoecOwnProduct *own_products; /* the same: by number of the product */
} MoecTable;

#endif
