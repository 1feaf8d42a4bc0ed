/* blocks for a CUDA device: memory that both sides see, and launches. Takes the place of blocks.c. */
#include <cuda_runtime.h>

extern "C" {
#include "slots.h"

extern const void *const moec_kernel_functions[]; /* kernels.cu, by number */
}

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Nothing can be done when a device fails: what it was to compute is lost. */
static void check(cudaError_t error, const char *what) {
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    exit(1);
}

static void launch(void *, int kernel, unsigned grid_x, unsigned grid_y, unsigned block, unsigned shared_bytes,
                   void **arguments) {
    check(cudaLaunchKernel(moec_kernel_functions[kernel], dim3(grid_x, grid_y), dim3(block), arguments, shared_bytes, 0),
          "a kernel cannot be launched");
}

static void zero(void *, void *memory, size_t bytes) { check(cudaMemsetAsync(memory, 0, bytes, 0), "memory cannot be cleared"); }

static const MoecHost host = {NULL, NULL, launch, zero};

extern "C" void *block_new(size_t bytes) {
    void *block = NULL;
    if (cudaMallocManaged(&block, bytes + 64) != cudaSuccess)
        return NULL;
    return memset(block, 0, bytes + 64);
}

extern "C" void block_free(void *block) { cudaFree(block); }

extern "C" void graph_run(const MoecGraphEntry *graph, MoecRun *run) {
    static uint64_t *seed;
    if (!seed)
        check(cudaMallocManaged((void **)&seed, sizeof *seed), "no memory on the device");
    *seed = run->seed;
    run->host = &host;
    run->device_seed = seed;
    graph->run(run);
    check(cudaDeviceSynchronize(), "the device failed");
}

extern "C" void weights_round(const MoecTable *table, const float *weights, void *rounded) {
    if (table->round)
        table->round(&host, weights, rounded);
}

/* The numbers stay where they are until the device has read them. */
extern "C" void update_run(const MoecTable *table, float *weights, const float *gradients, float *const *states,
                           const float *scalars) {
    static float *numbers;
    size_t bytes = 2 * (size_t)table->update->scalar_count * sizeof *numbers;
    if (!numbers)
        check(cudaMallocManaged((void **)&numbers, bytes + 4), "no memory on the device");
    memcpy(numbers, scalars, bytes);
    table->update->launch(&host, weights, gradients, states, numbers);
    check(cudaDeviceSynchronize(), "the device failed");
}
