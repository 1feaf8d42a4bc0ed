/* blocks: memory and execution of a program: blocks.c for the CPU, blocks_cuda.cu for a CUDA
 * device. Blocks are zeroed and aligned to 64 bytes. */
#ifndef BLOCKS_H
#define BLOCKS_H

#include "abi.h"

/* NULL when there is no memory; never NULL for 0 bytes. */
void *block_new(size_t bytes);
void block_free(void *block);
/* Access to the content of a block, which may be in device memory. */
void block_put(void *block, size_t offset, const void *from, size_t bytes);
void block_get(const void *block, size_t offset, void *to, size_t bytes);
void block_zero(void *block, size_t bytes);
/* The sum of squares of that many numbers, a multiple of 4. */
double block_squares(const float *block, size_t count);
/* Runs a graph, and the optimizer on all parameters; both are done when they return. Pointers are
 * whole blocks, but inputs and outputs are memory of the program (see slots_new in graph.h); each
 * of `states` is laid out like the weights; scalars are update->scalar_count numbers for each group
 * of parameters. */
void graph_run(const MoecGraphEntry *graph, MoecRun *run);
void update_run(const MoecTable *table, float *weights, const float *gradients,
                float *const *states, const float *scalars, void *rounded);
/* See MoecTable.round; `rounded` is a block of rounded_bytes. Nothing where the table has no such
 * function. */
void weights_round(const MoecTable *table, const float *weights, void *rounded);

#endif
