/* runner: programs as OpenCL C on a CPU device: an interpreter of step lists (runtime/abi/steps.h). Errors end the process. */
#ifndef RUNNER_H
#define RUNNER_H

#define CL_TARGET_OPENCL_VERSION 200
#include <CL/cl.h>

#include "opencl.h"

enum { RUN_SEED = 7, BLOCKS = MOEC_ARENA + 1, MAX_SLOTS = 16 };

/* A device and the program on it; memory by block, and by slot of inputs and outputs. */
typedef struct Device {
    cl_device_id id;
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    const MoecSteps *steps;
    char *blocks[BLOCKS], *slots[2][MAX_SLOTS];
    long indices[MOEC_STEP_DEPTH];
    int launches; /* of all runs */
} Device;

/* A CPU device whose kernels receive addresses inside of blocks; false: there is none. */
bool find_device(Device *device);
/* Compiles the kernels and allocates memory: caches are zero, all else is undefined. */
void device_load(Device *device, const OpenclProgram *program);
void device_unload(Device *device);
/* The memory of a buffer; copies to or from it. */
char *memory_of(Device *device, int number);
void device_copy(const Device *device, void *to, const void *from, size_t bytes);
/* Executes all steps. */
void device_run(Device *device);

#endif
