/* graph: a graph of the program with its memory. Included by the program of a mode alone. */
#ifndef GRAPH_H
#define GRAPH_H

#include "blocks.h"
#include "count.h"
#include "weights.h"

#include <stdlib.h>
#include <string.h>

extern const MoecTable moec_table;

typedef struct Graph {
    const MoecGraphEntry *entry;
    float *weights, *states;
    void *rounded; /* see weights_round */
    unsigned char *arena;
    void **inputs, **outputs; /* by slot */
} Graph;

static inline void slots_free(void **slots, int count) {
    for (int i = 0; slots && i < count; i++) free(slots[i]);
    free(slots);
}

/* The program's own memory for each of `count` tensors, zeros, every element four bytes; NULL when
 * there is none. */
static inline void **slots_new(const MoecTensor *tensors, int count) {
    void **slots = (void **)calloc((size_t)count + 1, sizeof *slots);
    for (int i = 0; slots && i < count; i++) {
        slots[i] = calloc(tensor_count(&tensors[i]) + 1, 4);
        if (!slots[i]) {
            slots_free(slots, i);
            return NULL;
        }
    }
    return slots;
}

/* The slot of an input by its kind and, when that is not NULL, its name; -1 when there is none. */
static inline int slot_find(const MoecTensor *inputs, int count, MoecInput kind, const char *name) {
    for (int i = 0; i < count; i++)
        if (inputs[i].input == kind && (!name || strcmp(inputs[i].name, name) == 0)) return i;
    return -1;
}

/* The slot of a scalar, or -1. */
static inline int slot_of_scalar(const MoecTensor *inputs, int count, MoecScalar kind) {
    for (int i = 0; i < count; i++)
        if (inputs[i].input == MOEC_INPUT_SCALAR && inputs[i].scalar == kind) return i;
    return -1;
}

/* The slot of an output by its name; -1 when there is none. */
static inline int slot_of_output(const MoecGraphEntry *entry, const char *name) {
    for (int i = 0; i < entry->output_count; i++)
        if (strcmp(entry->outputs[i].name, name) == 0) return i;
    return -1;
}

/* The graph of that kind, or NULL. */
static inline const MoecGraphEntry *graph_entry(MoecGraphKind kind) {
    for (int i = 0; i < moec_table.graph_count; i++)
        if (moec_table.graphs[i].kind == kind) return &moec_table.graphs[i];
    return NULL;
}

/* Allocates the memory; returns 0 when there is none. graph_close frees it in either case. */
static inline int graph_open(Graph *graph, const MoecGraphEntry *entry, size_t arena_bytes) {
    graph->entry = entry;
    graph->weights = block_new(kept_bytes(&moec_table));
    graph->rounded = block_new(rounded_bytes(&moec_table));
    graph->states = block_new(moec_table.state_bytes);
    graph->arena = block_new(arena_bytes);
    graph->inputs = slots_new(entry->inputs, entry->input_count);
    graph->outputs = slots_new(entry->outputs, entry->output_count);
    return graph->weights && graph->rounded && graph->states && graph->arena && graph->inputs &&
           graph->outputs;
}

/* Reads the weights and the states. The file has smaller weights (MoecTable.packed); those of a
 * program that rounds all operands to bf16 are rounded here. */
static inline WeightsResult graph_read(Graph *graph, const char *path) {
    WeightsResult result =
        weights_read(path, &moec_table, block_put, graph->weights, graph->rounded, graph->states);
    if (result == WEIGHTS_FINE && !moec_table.packed_count)
        weights_round(&moec_table, graph->weights, graph->rounded);
    return result;
}

/* A run with this memory. */
static inline MoecRun graph_memory(const Graph *graph) {
    return (MoecRun){
        .weights = graph->weights,
        .rounded = graph->rounded,
        .states = graph->states,
        .arena = graph->arena,
        .inputs = (const void *const *)graph->inputs,
        .outputs = (float *const *)graph->outputs,
    };
}

static inline void graph_close(Graph *graph) {
    if (!graph->entry) return;
    block_free(graph->weights);
    block_free(graph->rounded);
    block_free(graph->states);
    block_free(graph->arena);
    slots_free(graph->inputs, graph->entry->input_count);
    slots_free(graph->outputs, graph->entry->output_count);
}

#endif
