/* opencl: a third target, as a test of the lowered form: pointwise kernels and reductions as OpenCL
 * C, without matrix products. Only tests/checks/opencl.sh uses it. */
#ifndef OPENCL_H
#define OPENCL_H

#include "schedule/kernel.h"

typedef struct OpenclKernel {
    const char *name;
    size_t items, group; /* work items in total, and per group */
    List tensors;        /* Tensor *: its arguments, in order */
} OpenclKernel;

/* The kernels of a schedule of loop nests, without a repeat, as one text; `kernels` receives
 * OpenclKernel * in launch order. NULL if the schedule has other kernels. */
const char *emit_opencl(Arena *arena, Schedule *schedule, List *kernels);

#endif
