#include "model.h"

#include "blocks.h"
#include "weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const MoecTable moec_table;

struct Model {
    const MoecGraphEntry *graph;
    float *weights, *states, *cache;
    void *rounded; /* see weights_round */
    unsigned char *arena;
    void **inputs, **outputs; /* by slot */
    int token_slot, position_slot, logits_slot;
    long vocabulary, position;
};

static const MoecGraphEntry *decode_graph(void) {
    for (int i = 0; i < moec_table.graph_count; i++)
        if (moec_table.graphs[i].kind == MOEC_GRAPH_DECODE) return &moec_table.graphs[i];
    return NULL;
}

static int slot_of_logits(const MoecGraphEntry *graph) {
    for (int i = 0; i < graph->output_count; i++)
        if (strcmp(graph->outputs[i].name, "logits") == 0) return i;
    return -1;
}

/* A step reads one token and, if the model uses it, the position. Its outputs include the logits.
 */
static int find_slots(Model *model) {
    const MoecGraphEntry *graph = model->graph;
    if (!graph || graph->batch * graph->tokens != 1) return MODEL_NOT_TEXT;
    model->logits_slot = slot_of_logits(graph);
    if (model->logits_slot < 0) return MODEL_NOT_TEXT;
    model->token_slot = slot_find(graph->inputs, graph->input_count, MOEC_INPUT_TOKEN, NULL);
    model->position_slot = slot_of_scalar(graph->inputs, graph->input_count, MOEC_SCALAR_POSITION);
    if (model->token_slot < 0 || graph->input_count != 1 + (model->position_slot >= 0))
        return MODEL_NOT_TEXT;
    model->vocabulary = (long)block_count(&graph->outputs[model->logits_slot]);
    return MODEL_FINE;
}

static int take_memory(Model *model) {
    const MoecGraphEntry *graph = model->graph;
    model->weights = block_new(moec_table.weight_bytes);
    model->rounded = block_new(moec_table.round ? moec_table.weight_bytes / 2 : 0);
    model->states = block_new(moec_table.state_bytes);
    model->cache = block_new(graph->cache_bytes);
    model->arena = block_new(graph->arena_bytes);
    model->inputs = slots_new(graph->inputs, graph->input_count);
    model->outputs = slots_new(graph->outputs, graph->output_count);
    return model->weights && model->rounded && model->states && model->cache && model->arena &&
                   model->inputs && model->outputs
               ? MODEL_FINE
               : MODEL_NO_MEMORY;
}

static int read_weights(Model *model, const char *path) {
    switch (weights_read(path, &moec_table, block_put, model->weights, model->states)) {
    case WEIGHTS_FINE:
        weights_round(&moec_table, model->weights, model->rounded);
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
    model->graph = decode_graph();
    int error = find_slots(model);
    if (!error) error = take_memory(model);
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
    if (model->position >= model->graph->context) return MODEL_FULL;
    *(int32_t *)model->inputs[model->token_slot] = token;
    if (model->position_slot >= 0)
        *(int32_t *)model->inputs[model->position_slot] = (int32_t)model->position;
    MoecRun run = {
        .weights = model->weights,
        .rounded = model->rounded,
        .states = model->states,
        .cache = model->cache,
        .arena = model->arena,
        .inputs = (const void *const *)model->inputs,
        .outputs = (float *const *)model->outputs,
    };
    graph_run(model->graph, &run);
    model->position++;
    *logits = model->outputs[model->logits_slot];
    return is_sense(*logits, model->vocabulary) ? MODEL_FINE : MODEL_NONSENSE;
}

void model_reset(Model *model) {
    block_zero(model->cache, model->graph->cache_bytes);
    model->position = 0;
}

void model_free(Model *model) {
    if (!model) return;
    block_free(model->weights);
    block_free(model->rounded);
    block_free(model->states);
    block_free(model->cache);
    block_free(model->arena);
    if (model->graph) {
        slots_free(model->inputs, model->graph->input_count);
        slots_free(model->outputs, model->graph->output_count);
    }
    free(model);
}

long model_vocabulary(const Model *model) {
    return model->vocabulary;
}

long model_context(const Model *model) {
    return model->graph->context;
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
