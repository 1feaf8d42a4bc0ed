/* refined_inputs: values that refinements replace, for the runtime and for standalone exports. */
#ifndef REFINED_INPUTS_H
#define REFINED_INPUTS_H

#include "count.h"

#include <math.h>
#include <string.h>

/* Most samples of one run. Those of the next run have another seed, so that the samples do not
 * depend on the batch size of the program. */
enum { REFINED_AT_ONCE = 8 };
/* Most tensors of a sample: refined inputs and class labels. */
enum { REFINED_MOST = 16 };

/* The input with the name of output `output`; every output of a refinement has one. */
static inline int refined_input(const MoecGraphEntry *graph, int output) {
    int slot = 0;
    while (strcmp(graph->inputs[slot].name, graph->outputs[output].name) != 0) slot++;
    return slot;
}

/* Replaces the refined inputs by their next values; returns 0 if one is not finite. */
static inline int refine_inputs(const MoecGraphEntry *graph, void *const *inputs,
                                float *const *outputs) {
    for (int i = 0; i < graph->output_count; i++) {
        const int slot = refined_input(graph, i);
        const size_t count = tensor_count(&graph->outputs[i]);
        float *real = (float *)inputs[slot];
        int32_t *whole = (int32_t *)inputs[slot];
        for (size_t k = 0; k < count; k++) {
            if (!isfinite(outputs[i][k])) return 0;
            if (graph->inputs[slot].is_int)
                whole[k] = (int32_t)outputs[i][k];
            else
                real[k] = outputs[i][k];
        }
    }
    return 1;
}

#endif
