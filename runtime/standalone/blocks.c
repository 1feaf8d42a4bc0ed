#ifdef __linux__
#define _DEFAULT_SOURCE /* madvise */
#include <sys/mman.h>
#endif

#include "blocks.h"
#include "count.h"

#include <stdlib.h>
#include <string.h>

enum { HUGE_PAGE = 2 << 20 };

/* Large blocks are aligned to huge pages and use them if available: a product with one row reads
 * all weights once and would otherwise need an address translation per 4 kB. */
void *block_new(size_t bytes) {
    size_t unit = bytes < HUGE_PAGE ? 64 : HUGE_PAGE, rounded = bytes / unit * unit + unit;
    void *block = aligned_alloc(unit, rounded);
#ifdef __linux__
    if (block && unit == HUGE_PAGE) madvise(block, bytes / unit * unit, MADV_HUGEPAGE);
#endif
    return block ? memset(block, 0, bytes) : NULL;
}

void block_free(void *block) {
    free(block);
}

void block_put(void *block, size_t offset, const void *from, size_t bytes) {
    memcpy((char *)block + offset, from, bytes);
}

void block_get(const void *block, size_t offset, void *to, size_t bytes) {
    memcpy(to, (const char *)block + offset, bytes);
}

void block_zero(void *block, size_t bytes) {
    memset(block, 0, bytes);
}

double block_squares(const float *block, size_t count) {
    double total = 0;
    for (size_t i = 0; i < count; i++) total += (double)block[i] * (double)block[i];
    return total;
}

void weights_round(const MoecTable *table, const float *weights, void *rounded) {
    if (table->round) table->round(NULL, weights, rounded);
}

void graph_run(const MoecGraphEntry *graph, MoecRun *run) {
    graph->run(run);
}

void update_run(const MoecTable *table, float *weights, const float *gradients,
                float *const *states, const float *scalars, void *rounded) {
    const MoecUpdate *update = table->update;
    float **state = calloc((size_t)update->state_count + 1, sizeof *state);
    for (int p = 0; state && p < table->parameter_count; p++) {
        const MoecTensor *tensor = &table->parameters[p];
        size_t offset = tensor->offset / sizeof(float);
        if (tensor->frozen || tensor->whole) continue;
        for (int i = 0; i < update->state_count; i++) state[i] = states[i] + offset;
        update->run(weights + offset, gradients + offset, state, (long)tensor_count(tensor),
                    scalars + tensor->group * update->scalar_count,
                    table->round ? (uint16_t *)rounded + offset : NULL);
    }
    free(state);
}
