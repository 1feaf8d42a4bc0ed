/* opencl: a third target, as a test of the lowered form: a machine without kernels for products and attention, programmed in
 * OpenCL C. Only tests/checks/opencl.sh uses it. */
#ifndef OPENCL_H
#define OPENCL_H

#include "module/lowered.h"

extern const Target target_opencl;

typedef struct OpenclProgram {
    const char *kernels; /* OpenCL C */
    const MoecSteps *steps;
    const Entry *entry;
} OpenclProgram;

/* The module of such a program with the launches of its kernels; kernels of calls are launched and not in it. */
Module *shared_module(Arena *arena, Schedule *schedule);
/* A program that was compiled for target_opencl. False if it has kernels that the target lacks. */
bool emit_opencl(Arena *arena, Schedule *schedule, OpenclProgram *made);

#endif
