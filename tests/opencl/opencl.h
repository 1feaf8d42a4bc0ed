/* opencl: a third target, as a test of the lowered form: pointwise kernels and reductions as OpenCL
 * C. No product: nothing but tests/checks/opencl.sh uses it. */
#ifndef OPENCL_H
#define OPENCL_H

#include "schedule/kernel.h"

typedef struct OpenclKernel {
    const char *name;
    size_t items, group; /* work items, and those of them that share memory */
    List tensors;        /* Tensor *: its arguments, in their order */
} OpenclKernel;

/* The kernels of a schedule that is made of nests alone, without a repeat, as one text; kernels
 * receives OpenclKernel *, in the order of their launches. NULL where there is more than nests. */
const char *emit_opencl(Arena *arena, Schedule *schedule, List *kernels);

#endif
