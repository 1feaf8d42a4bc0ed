/* blocks for a CUDA device: memory, launches, copies of inputs and outputs. Replaces blocks.c. */
#include <cuda_runtime.h>

extern "C" {
#include "blocks.h"
#include "count.h"

extern const void *const moec_kernel_functions[]; /* kernels.cu, by number */
int moec_blas_product(void *self, int index, const void *a, const void *b, void *c,
                      const MoecEpilogue *epilogue); /* products_cuda.cu */
}

#include "sums.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLAIN_SHARED = 48 << 10, MAX_GRAPHS = 8 };

/* Exits on a device error, since the results are lost. */
static void check(cudaError_t error, const char *what) {
    if (error == cudaSuccess) return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    exit(1);
}

static void start(const void *function, dim3 grid, unsigned block, unsigned shared_bytes,
                  void **arguments) {
    check(cudaLaunchKernel(function, grid, dim3(block), arguments, shared_bytes, 0),
          "cannot launch a kernel");
}

static void launch(void *, int kernel, unsigned grid_x, unsigned grid_y, unsigned block,
                   unsigned shared_bytes, void **arguments) {
    const void *function = moec_kernel_functions[kernel];
    if (shared_bytes > PLAIN_SHARED)
        check(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   (int)shared_bytes),
              "a kernel needs more shared memory than the device has");
    start(function, dim3(grid_x, grid_y), block, shared_bytes, arguments);
}

static void zero(void *, void *memory, size_t bytes) {
    check(cudaMemsetAsync(memory, 0, bytes, 0), "cannot clear memory");
}

static const MoecHost host = {NULL, moec_blas_product, launch, zero};

/* ---- blocks ---- */

extern "C" void *block_new(size_t bytes) {
    void *block = NULL;
    if (cudaMalloc(&block, bytes + 64) != cudaSuccess) return NULL;
    block_zero(block, bytes + 64);
    return block;
}

extern "C" void block_free(void *block) {
    cudaFree(block);
}

extern "C" void block_put(void *block, size_t offset, const void *from, size_t bytes) {
    check(cudaMemcpy((char *)block + offset, from, bytes, cudaMemcpyHostToDevice),
          "cannot copy to the device");
}

extern "C" void block_get(const void *block, size_t offset, void *to, size_t bytes) {
    check(cudaMemcpy(to, (const char *)block + offset, bytes, cudaMemcpyDeviceToHost),
          "cannot copy from the device");
}

extern "C" void block_zero(void *block, size_t bytes) {
    zero(NULL, block, bytes);
}

extern "C" double block_squares(const float *block, size_t count) {
    static double *there, *sums;
    static size_t room;
    const size_t chunks = (count + MOEC_SUM_CHUNK - 1) / MOEC_SUM_CHUNK;
    double total = 0;
    if (chunks > room) {
        cudaFree(there);
        free(sums);
        check(cudaMalloc((void **)&there, chunks * sizeof *there), "out of device memory");
        sums = (double *)malloc(chunks * sizeof *sums);
        room = chunks;
    }
    long long length = (long long)count;
    void *arguments[] = {&block, &length, &there};
    start((const void *)moec_square_chunks, dim3((unsigned)chunks), MOEC_SUM_THREADS, 0, arguments);
    block_get(there, 0, sums, chunks * sizeof *sums);
    for (size_t i = 0; i < chunks; i++) total += sums[i];
    return total;
}

/* ---- work ---- */

/* Inputs, outputs and seed of a graph in device memory. */
typedef struct Mirror {
    const MoecGraphEntry *graph;
    void **inputs, **outputs;
    uint64_t *seed;
} Mirror;

static void **mirror_slots(const MoecTensor *tensors, int count) {
    void **slots = (void **)calloc((size_t)count + 1, sizeof *slots);
    for (int i = 0; slots && i < count; i++)
        check(cudaMalloc(&slots[i], 4 * tensor_count(&tensors[i]) + 4), "out of device memory");
    return slots;
}

static Mirror *mirror_of(const MoecGraphEntry *graph) {
    static Mirror mirrors[MAX_GRAPHS];
    Mirror *mirror = mirrors;
    while (mirror->graph && mirror->graph != graph) mirror++;
    if (mirror->graph) return mirror;
    mirror->graph = graph;
    mirror->inputs = mirror_slots(graph->inputs, graph->input_count);
    mirror->outputs = mirror_slots(graph->outputs, graph->output_count);
    check(cudaMalloc((void **)&mirror->seed, sizeof *mirror->seed), "out of device memory");
    return mirror;
}

extern "C" void graph_run(const MoecGraphEntry *graph, MoecRun *run) {
    Mirror *mirror = mirror_of(graph);
    MoecRun there = *run;
    for (int i = 0; i < graph->input_count; i++)
        block_put(mirror->inputs[i], 0, run->inputs[i], 4 * tensor_count(&graph->inputs[i]));
    block_put(mirror->seed, 0, &run->seed, sizeof run->seed);
    there.inputs = (const void *const *)mirror->inputs;
    there.outputs = (float *const *)mirror->outputs;
    there.host = &host;
    there.device_seed = mirror->seed;
    graph->run(&there);
    for (int i = 0; i < graph->output_count; i++)
        block_get(mirror->outputs[i], 0, run->outputs[i], 4 * tensor_count(&graph->outputs[i]));
    check(cudaDeviceSynchronize(), "the device failed");
}

extern "C" void weights_round(const MoecTable *table, const float *weights, void *rounded) {
    if (table->round) table->round(&host, weights, rounded);
}

extern "C" void update_run(const MoecTable *table, float *weights, const float *gradients,
                           float *const *states, const float *scalars, void *rounded) {
    static float *numbers;
    size_t bytes =
        (size_t)table->update->group_count * (size_t)table->update->scalar_count * sizeof *numbers;
    if (!numbers) check(cudaMalloc((void **)&numbers, bytes + 4), "out of device memory");
    block_put(numbers, 0, scalars, bytes);
    table->update->launch(&host, weights, gradients, states, numbers, rounded);
    check(cudaDeviceSynchronize(), "the device failed");
}
