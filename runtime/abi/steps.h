/* steps: the host program of a graph of a device as data, in execution order. An engine that
 * executes the steps needs no compiled host program.
 *
 * A step with a body (repeat, condition) covers the steps after it up to `last`. Their indices are
 * numbered from the outermost repeat on. References to other arrays are indices in MoecSteps. */
#ifndef MOEC_STEPS_H
#define MOEC_STEPS_H

#include "abi.h"

/* A block in addition to those of MoecBlock: MoecRun.rounded. */
enum { MOEC_COMPUTE_WEIGHTS = MOEC_ARENA + 1 };

/* Operands of a product. */
enum { MOEC_PRODUCT_OPERANDS = 8 };

/* Maximum depth of repeats; maximum number of intermediate values of an offset. */
enum { MOEC_STEP_DEPTH = 32, MOEC_STEP_STACK = 64 };

/* Memory of a tensor. The last two buffers of a list are the scratch memory after the temporaries
 * and the whole block of gradients, both in bytes. */
typedef struct MoecStepBuffer {
    const char *name;
    int block;     /* of MoecBlock, or MOEC_COMPUTE_WEIGHTS */
    size_t offset; /* bytes from the start of the block; inputs and outputs: the slot number */
    size_t bytes;
    size_t element; /* bytes of one element */
} MoecStepBuffer;

/* An offset as postfix operations on integers of 64 bits: a number, the index of an enclosing
 * repeat, or an operation on the last one, two or three values, which its result replaces. */
#define MOEC_STEP_OPS(OP)                                                                          \
    OP(NEG, 1, -a)                                                                                 \
    OP(ADD, 2, a + b)                                                                              \
    OP(SUB, 2, a - b)                                                                              \
    OP(MUL, 2, a *b)                                                                               \
    OP(DIV, 2, a / b)                                                                              \
    OP(MOD, 2, a % b)                                                                              \
    OP(REMAINDER, 2, (a % b + b) % b)                                                              \
    OP(BIT_AND, 2, a &b)                                                                           \
    OP(LEAST, 2, a < b ? a : b)                                                                    \
    OP(GREATEST, 2, a > b ? a : b)                                                                 \
    OP(EQ, 2, a == b)                                                                              \
    OP(NE, 2, a != b)                                                                              \
    OP(LT, 2, a < b)                                                                               \
    OP(LE, 2, a <= b)                                                                              \
    OP(GT, 2, a > b)                                                                               \
    OP(GE, 2, a >= b)                                                                              \
    OP(SELECT, 3, a ? b : c)

typedef enum MoecStepOp {
    MOEC_STEP_NUMBER,
    MOEC_STEP_INDEX,
#define MOEC_STEP_OP(name, count, value) MOEC_STEP_##name,
    MOEC_STEP_OPS(MOEC_STEP_OP)
#undef MOEC_STEP_OP
        MOEC_STEP_OP_COUNT
} MoecStepOp;

typedef struct MoecStepTerm {
    MoecStepOp op;
    long number; /* the number; the depth of the repeat */
} MoecStepTerm;

enum { MOEC_STEP_READS = 1, MOEC_STEP_WRITES = 2, MOEC_STEP_ADDS = 4 };

/* An element of a buffer, and all elements after it. */
typedef struct MoecStepOperand {
    int buffer;                 /* -1: absent, NULL */
    int first_term, term_count; /* elements from the start of the buffer; no terms: 0 */
    int access;                 /* a sum of MOEC_STEP_READS and so on; 0: unknown */
} MoecStepOperand;

/* Limits of a kernel of a device: its arguments and their bytes; elements that it writes; operands
 * in boxes. */
enum {
    MOEC_STEP_ARGUMENTS = 512,
    MOEC_STEP_ARGUMENT_BYTES = 8192,
    MOEC_STEP_WRITTEN = 64,
    MOEC_STEP_MATRICES = 4
};

/* An argument of a kernel, or a field of a record. */
typedef enum MoecStepValueKind {
    MOEC_VALUE_NUMBER,
    MOEC_VALUE_INDEX, /* of an enclosing repeat; number: its depth */
    MOEC_VALUE_SEED,
    MOEC_VALUE_OPERAND, /* number: of the operand */
    MOEC_VALUE_RECORD,  /* the next values, number: how many of them */
    MOEC_VALUE_ADDS     /* 0 in the first micro-batch, else 1 */
} MoecStepValueKind;

typedef struct MoecStepValue {
    MoecStepValueKind kind;
    long number;
    size_t offset, bytes; /* of a field in its record; of a record: its size */
} MoecStepValue;

/* As MoecWritten and MoecMatrices, with the number of an operand as address. */
typedef struct MoecStepWritten {
    int operand;
    long count;
    MoecType type;
    int rounded;
} MoecStepWritten;

typedef struct MoecStepMatrix {
    int operand;
    long length, lines, matrices, line, matrix;
} MoecStepMatrix;

/* The launch of a kernel with several variants: see MoecHost.launch_variant. */
typedef struct MoecStepVariants {
    MoecKernelVariant variants[MOEC_VARIANT_COUNT];
    size_t size_bytes;
    int written_count, matrix_count;
    MoecStepWritten written[MOEC_STEP_WRITTEN];
    MoecStepMatrix matrices[MOEC_STEP_MATRICES];
} MoecStepVariants;

typedef enum MoecStepCondition {
    MOEC_WHEN_FIRST_MICRO_BATCH,
    MOEC_WHEN_LAST_MICRO_BATCH,
    MOEC_WHEN_FORWARD_PART, /* of a step in two phases, unless only the other one runs */
    MOEC_WHEN_BACKWARD_PART
} MoecStepCondition;

typedef enum MoecStepKind {
    MOEC_STEP_LAUNCH,   /* a kernel; values: its arguments */
    MOEC_STEP_PRODUCT,  /* operands: a, b, c, and those of MoecEpilogue */
    MOEC_STEP_CLEAR,    /* zero bytes of its operand */
    MOEC_STEP_EXCHANGE, /* operands: from, the table of rows, results: MoecHost.exchange_begin */
    MOEC_STEP_EXCHANGE_END,
    MOEC_STEP_REPEAT,
    MOEC_STEP_WHEN
} MoecStepKind;

typedef struct MoecStep {
    MoecStepKind kind;
    int last; /* number of the last step of its body; its own number: none */
    int first_operand, operand_count;
    int first_value, value_count;
    union {
        struct {
            const char *kernel; /* of several variants the first one */
            int number;         /* in MoecTable.kernels; -1 if it has none */
            long blocks, shared_bytes;
            int threads;
            const MoecStepVariants *variants; /* or NULL */
        } launch;
        struct {
            int row;        /* in `products` */
            int begins;     /* the next row in the first micro-batch */
            unsigned first; /* a bit for each repeat, from the outermost on: if not all of their
                               indices are 0, the row `more` */
            int more;
            const char *own; /* kernel for hosts without a library, or NULL */
            int number;      /* of this kernel; or -1 */
            long blocks;
        } product;
        size_t bytes;
        const MoecExchange *exchange; /* the begin and the end have the same one */
        struct {
            long count;
            int depth, reverse;
        } repeat;
        MoecStepCondition when;
    };
} MoecStep;

typedef struct MoecSteps {
    const MoecStep *steps;
    const MoecStepBuffer *buffers;
    const MoecStepOperand *operands;
    const MoecStepTerm *terms;
    const MoecStepValue *values;
    const MoecProduct *products;
    int step_count, buffer_count, operand_count, term_count, value_count, product_count;
} MoecSteps;

/* The offset of an operand in elements. indices: of the enclosing repeats. */
static inline long moec_step_offset(const MoecSteps *steps, const MoecStepOperand *operand,
                                    const long *indices) {
    long stack[MOEC_STEP_STACK] = {0};
    int count = 0;
    for (int i = 0; i < operand->term_count; i++) {
        const MoecStepTerm *term = &steps->terms[operand->first_term + i];
        long *top = &stack[count];
        switch (term->op) {
        case MOEC_STEP_NUMBER:
        case MOEC_STEP_INDEX:
            *top = term->op == MOEC_STEP_NUMBER ? term->number : indices[term->number];
            count++;
            break;
#define MOEC_STEP_OP(name, inputs, value)                                                          \
    case MOEC_STEP_##name: {                                                                       \
        const long a = top[-(inputs)], b = (inputs) > 1 ? top[1 - (inputs)] : 0, c = top[-1];      \
        (void)b, (void)c;                                                                          \
        top[-(inputs)] = (value);                                                                  \
        count -= (inputs)-1;                                                                       \
        break;                                                                                     \
    }
            MOEC_STEP_OPS(MOEC_STEP_OP)
#undef MOEC_STEP_OP
        case MOEC_STEP_OP_COUNT:
            break;
        }
    }
    return stack[0];
}

#endif
