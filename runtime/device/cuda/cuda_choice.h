/* cuda_choice: which of cuBLASLt's algorithms makes one product fastest on this device. The first
 * time its candidates are timed; what was chosen is kept in the cache under device, version and
 * shape. */
#ifndef CUDA_CHOICE_H
#define CUDA_CHOICE_H

#include "device/cuda/cuda.h"

/* Where the operands of a product lie; 0 where it has none. */
typedef struct BlasOperands {
    CudaPointer a, b, c, add, bias, kept;
} BlasOperands;

/* The library at work on a device. */
typedef struct BlasWork {
    CudaDevice *device;
    const CudaBlas *blas;
    BlasHandle *handle;
    BlasPreference *preference;
    CudaPointer workspace;
    bool keep;             /* use the cache */
    BlasOperands operands; /* to try candidates on; 0: the first candidate is taken untried */
    int timed, found;      /* how many products were timed, how many found in the cache */
} BlasWork;

/* One product as the library is asked for it. */
typedef struct BlasTask {
    BlasProduct *product;
    BlasLayout *left, *right, *added, *result; /* b', a', what is added, c' */
    long calls;                    /* of the batch dimension that the library does not do itself */
    size_t a_step, b_step, c_step; /* in bytes */
} BlasTask;

enum { BLAS_WORKSPACE = 32 << 20 };

/* c (+)= a b, with its epilogue; false when the library does not want to. */
bool cuda_multiply(const BlasWork *work, const BlasTask *task, const BlasChoice *choice,
                   const MoecProduct *product, const BlasOperands *operands);
/* Tells the library where the operands of the epilogue lie: how they are aligned is part of its
 * choice.
 */
bool cuda_epilogue(const BlasWork *work, const BlasTask *task, const MoecProduct *product,
                   const BlasOperands *operands);
/* An algorithm for operands that begin at multiples of `alignment` bytes; false when there is none.
 */
bool cuda_choose(BlasWork *work, const BlasTask *task, const MoecProduct *product, int alignment,
                 BlasChoice *choice);

#endif
