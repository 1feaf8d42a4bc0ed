/* slots: memory of the inputs and outputs of a graph, shared by blocks.c and blocks_cuda.cu. Each
 * includes it once. */
#ifndef SLOTS_H
#define SLOTS_H

#include "blocks.h"

#include <stdlib.h>
#include <string.h>

size_t block_count(const MoecTensor *tensor) {
    size_t count = 1;
    for (int i = 0; i < tensor->rank; i++) count *= (size_t)tensor->shape[i];
    return count;
}

void **slots_new(const MoecTensor *tensors, int count) {
    void **slots = (void **)calloc((size_t)count + 1, sizeof *slots);
    for (int i = 0; slots && i < count; i++) {
        slots[i] = calloc(block_count(&tensors[i]) + 1, 4);
        if (!slots[i]) {
            slots_free(slots, i);
            return NULL;
        }
    }
    return slots;
}

void slots_free(void **slots, int count) {
    for (int i = 0; slots && i < count; i++) free(slots[i]);
    free(slots);
}

int slot_find(const MoecTensor *inputs, int count, MoecInput kind, const char *name) {
    for (int i = 0; i < count; i++)
        if (inputs[i].input == kind && (!name || strcmp(inputs[i].name, name) == 0)) return i;
    return -1;
}

int slot_of_scalar(const MoecTensor *inputs, int count, MoecScalar kind) {
    for (int i = 0; i < count; i++)
        if (inputs[i].input == MOEC_INPUT_SCALAR && inputs[i].scalar == kind) return i;
    return -1;
}

#endif
