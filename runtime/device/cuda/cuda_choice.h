/* cuda_choice: the fastest cuBLASLt algorithm of each product, selected by measurement on this
 * device. The choice is cached by device, library version and shape. */
#ifndef CUDA_CHOICE_H
#define CUDA_CHOICE_H

#include "device/cuda/cuda.h"

/* Addresses of the operands of a product; 0 = none. */
typedef struct BlasOperands {
    CudaPointer a, b, c, add, bias, kept;
} BlasOperands;

/* State of cuBLASLt on a device. */
typedef struct BlasWork {
    CudaDevice *device;
    const CudaBlas *blas;
    BlasHandle *handle;
    BlasPreference *preference;
    CudaPointer workspace;
    bool keep; /* use the cache */
    /* memory for measurements; 0 = the first candidate is used without a measurement */
    BlasOperands operands;
    int timed, found; /* numbers of products measured and found in the cache */
} BlasWork;

/* One product in the form of cuBLASLt. */
typedef struct BlasTask {
    BlasProduct *product;
    BlasLayout *left, *right, *added, *result; /* b', a', addend, c' */
    /* iterations over the batch dimension that cuBLASLt does not handle */
    long calls;
    size_t a_step, b_step, c_step; /* in bytes */
} BlasTask;

enum { BLAS_WORKSPACE = 32 << 20 };

/* Computes c (+)= a b with its epilogue; false if cuBLASLt refuses. */
bool cuda_multiply(const BlasWork *work, const BlasTask *task, const BlasChoice *choice,
                   const MoecProduct *product, const BlasOperands *operands);
/* Passes the operand addresses of the epilogue to cuBLASLt; their alignment affects its choice. */
bool cuda_epilogue(const BlasWork *work, const BlasTask *task, const MoecProduct *product,
                   const BlasOperands *operands);
/* Selects an algorithm for operands with this alignment in bytes; false if there is none. */
bool cuda_choose(BlasWork *work, const BlasTask *task, const MoecProduct *product, int alignment,
                 BlasChoice *choice);

#endif
