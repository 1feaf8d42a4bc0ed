#include "slots.h"

#include <stdlib.h>
#include <string.h>

void *block_new(size_t bytes) {
    size_t rounded = (bytes + 127) / 64 * 64;
    void *block = aligned_alloc(64, rounded);
    return block ? memset(block, 0, rounded) : NULL;
}

void block_free(void *block) { free(block); }

void weights_round(const MoecTable *table, const float *weights, void *rounded) {
    (void)table, (void)weights, (void)rounded;
}

void graph_run(const MoecGraphEntry *graph, MoecRun *run) { graph->run(run); }

void update_run(const MoecUpdate *update, float *weight, const float *gradient, float *const *state, long n,
                const float *scalars) {
    update->run(weight, gradient, state, n, scalars);
}
