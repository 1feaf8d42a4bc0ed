/* moec_against: the interface of a function in a shared library that `moec verify --against
 * LIBRARY.so:NAME` compares with a layer or a model.
 *
 *     int attention(const MoecAgainstCall *call, char *message);
 *
 * The function reads the given tensors, writes the values of all results and, if it computes
 * gradients, the gradient of each given tensor that has one. It finds tensors by their names in the
 * spec. Tensors are row-major and aligned to 64 bytes. Results begin as NaN, gradients as zeros.
 * Bytes before and after each tensor are checked after the call.
 */
#ifndef MOEC_AGAINST_H
#define MOEC_AGAINST_H

#include <stdint.h>

/* Return values; any other one is an error, described by `message`. */
enum { MOEC_AGAINST_GOOD = 0, MOEC_AGAINST_NO_GRADIENTS = 1 };
enum { MOEC_AGAINST_VERSION = 1, MOEC_AGAINST_MESSAGE = 256 };

typedef enum MoecAgainstType {
    MOEC_AGAINST_F32,  /* float */
    MOEC_AGAINST_BF16, /* uint16_t: the upper half of a float */
    MOEC_AGAINST_F64,  /* double */
    MOEC_AGAINST_I64   /* int64_t: tokens, document ids */
} MoecAgainstType;

typedef struct MoecAgainstTensor {
    const char *name; /* "x", "expert.up" */
    MoecAgainstType type;
    int rank;
    const int64_t *shape; /* the batch is the first dimension of arguments and results */
    int64_t count;        /* elements */
    void *values;
    /* Of a given tensor: its gradient, which the function writes. Of a result: the gradient of the
     * loss with respect to it, which the function reads; NULL for a term of the loss, where it is
     * 1. Otherwise NULL: no gradient is needed. */
    void *gradient;
} MoecAgainstTensor;

typedef struct MoecAgainstCall {
    int version; /* MOEC_AGAINST_VERSION */
    int given_count, result_count;
    MoecAgainstTensor *given;   /* arguments, parameters and states */
    MoecAgainstTensor *results; /* results, then terms of the loss */
} MoecAgainstCall;

typedef int MoecAgainstFunction(const MoecAgainstCall *call, char *message);

#endif
