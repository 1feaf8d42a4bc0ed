#include "model.h"

#include "graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct Model {
    Graph graph;
    float *cache;
    int token_slot, position_slot, logits_slot;
    long vocabulary, position;
};

/* A step reads one token and, if the model uses it, the position. Its outputs include the logits.
 */
static int find_slots(Model *model, const MoecGraphEntry *graph) {
    if (!graph || graph->batch * graph->tokens != 1) return MODEL_NOT_TEXT;
    model->logits_slot = slot_of_output(graph, "logits");
    if (model->logits_slot < 0) return MODEL_NOT_TEXT;
    model->token_slot = slot_find(graph->inputs, graph->input_count, MOEC_INPUT_TOKEN, NULL);
    model->position_slot = slot_of_scalar(graph->inputs, graph->input_count, MOEC_SCALAR_POSITION);
    if (model->token_slot < 0 || graph->input_count != 1 + (model->position_slot >= 0))
        return MODEL_NOT_TEXT;
    model->vocabulary = (long)tensor_count(&graph->outputs[model->logits_slot]);
    return MODEL_FINE;
}

static int read_weights(Model *model, const char *path) {
    switch (graph_read(&model->graph, path)) {
    case WEIGHTS_FINE:
        return MODEL_FINE;
    case WEIGHTS_NO_FILE:
        return MODEL_NO_FILE;
    case WEIGHTS_NOT_OURS:
        return MODEL_NOT_OURS;
    default:
        return MODEL_DAMAGED;
    }
}

int model_open(Model **opened, const char *weights_path) {
    *opened = NULL;
    Model *model = calloc(1, sizeof *model);
    if (!model) return MODEL_NO_MEMORY;
    const MoecGraphEntry *entry = graph_entry(MOEC_GRAPH_DECODE);
    int error = find_slots(model, entry);
    if (!error && (!graph_open(&model->graph, entry, entry->arena_bytes) ||
                   !(model->cache = block_new(entry->cache_bytes))))
        error = MODEL_NO_MEMORY;
    if (!error) error = read_weights(model, weights_path);
    if (error)
        model_free(model);
    else
        *opened = model;
    return error;
}

/* Every logit is a number, and one at least is finite. */
static int is_sense(const float *logits, long count) {
    int finite = 0;
    for (long i = 0; i < count; i++) {
        if (isnan(logits[i]) || logits[i] == INFINITY) return 0;
        finite |= isfinite(logits[i]);
    }
    return finite;
}

int model_step(Model *model, int32_t token, const float **logits) {
    if (token < 0 || token >= model->vocabulary) return MODEL_BAD_TOKEN;
    if (model->position >= model->graph.entry->context) return MODEL_FULL;
    *(int32_t *)model->graph.inputs[model->token_slot] = token;
    if (model->position_slot >= 0)
        *(int32_t *)model->graph.inputs[model->position_slot] = (int32_t)model->position;
    MoecRun run = graph_memory(&model->graph);
    run.cache = model->cache;
    graph_run(model->graph.entry, &run);
    model->position++;
    *logits = model->graph.outputs[model->logits_slot];
    return is_sense(*logits, model->vocabulary) ? MODEL_FINE : MODEL_NONSENSE;
}

void model_reset(Model *model) {
    block_zero(model->cache, model->graph.entry->cache_bytes);
    model->position = 0;
}

void model_free(Model *model) {
    if (!model) return;
    graph_close(&model->graph);
    block_free(model->cache);
    free(model);
}

long model_vocabulary(const Model *model) {
    return model->vocabulary;
}

long model_context(const Model *model) {
    return model->graph.entry->context;
}

long model_position(const Model *model) {
    return model->position;
}

const char *model_error(int error) {
    static const char *const texts[] = {
        [MODEL_FINE] = "no error",
        [MODEL_NO_MEMORY] = "out of memory",
        [MODEL_NO_FILE] = "cannot open the weights file",
        [MODEL_NOT_OURS] = "the weights file belongs to another model",
        [MODEL_DAMAGED] = "the weights file is damaged",
        [MODEL_BAD_TOKEN] = "a token is outside the vocabulary",
        [MODEL_FULL] = "the context is full",
        [MODEL_NOT_TEXT] = "the model reads more than one token at a time",
        [MODEL_NONSENSE] = "the logits are not finite: the weights are damaged",
    };
    int known = error >= 0 && error < (int)(sizeof texts / sizeof texts[0]);
    return known ? texts[error] : "unknown error";
}
