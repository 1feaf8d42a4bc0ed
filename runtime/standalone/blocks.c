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

void update_run(const MoecTable *table, float *weights, const float *gradients, float *const *states, const float *scalars) {
    const MoecUpdate *update = table->update;
    float **state = calloc((size_t)update->state_count + 1, sizeof *state);
    for (int p = 0; state && p < table->parameter_count; p++) {
        const MoecTensor *tensor = &table->parameters[p];
        size_t offset = tensor->offset / sizeof(float);
        for (int i = 0; i < update->state_count; i++)
            state[i] = states[i] + offset;
        update->run(weights + offset, gradients + offset, state, (long)block_count(tensor),
                    scalars + (tensor->matrix ? update->scalar_count : 0));
    }
    free(state);
}
