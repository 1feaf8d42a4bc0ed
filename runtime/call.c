#include "call.h"

#include "complain.h"
#include "examples.h"
#include "memory.h"

#include <stdlib.h>
#include <string.h>

/* Every element of an input or output takes four bytes: float or int32_t. */
enum { ELEMENT = 4 };

static size_t slot_bytes(const MoecTensor *tensor) {
    return (tensor_count(tensor) * ELEMENT + 63) / 64 * 64;
}

Call *call_open(Model *model, const MoecGraphEntry *graph, float *cache) {
    Call *call = memory_new(sizeof *call);
    call->model = model;
    call->graph = graph;
    call->inputs = memory_new(sizeof(void *) * (size_t)(graph->input_count + 1));
    call->outputs = memory_new(sizeof(float *) * (size_t)(graph->output_count + 1));
    bool good = true;
    for (int i = 0; i < graph->input_count; i++) {
        call->inputs[i] = memory_map(slot_bytes(&graph->inputs[i]));
        call->bytes += slot_bytes(&graph->inputs[i]);
        good = good && call->inputs[i];
    }
    for (int i = 0; i < graph->output_count; i++) {
        call->outputs[i] = memory_map(slot_bytes(&graph->outputs[i]));
        call->bytes += slot_bytes(&graph->outputs[i]);
        good = good && call->outputs[i];
    }
    call->cache = cache;
    if (!cache && graph->cache_bytes) {
        call->cache = memory_map(graph->cache_bytes);
        call->owns_cache = true;
        call->bytes += graph->cache_bytes;
        good = good && call->cache;
    }
    if (good) return call;
    char size[16];
    complain("make the batch or the context smaller", "no memory for %s",
             memory_text(size, (double)call->bytes));
    call_close(call);
    return NULL;
}

void call_close(Call *call) {
    if (!call) return;
    for (int i = 0; i < call->graph->input_count; i++)
        memory_unmap(call->inputs[i], slot_bytes(&call->graph->inputs[i]));
    for (int i = 0; i < call->graph->output_count; i++)
        memory_unmap(call->outputs[i], slot_bytes(&call->graph->outputs[i]));
    if (call->owns_cache) memory_unmap(call->cache, call->graph->cache_bytes);
    free(call->inputs);
    free(call->outputs);
    free(call);
}

void call_set_windows(Call *call, const int32_t *windows) {
    if (call_foreign_input(call)) {
        examples_set(call, windows);
        return;
    }
    for (int i = 0; i < call->graph->input_count; i++) {
        const MoecTensor *input = &call->graph->inputs[i];
        if (input->input != MOEC_INPUT_TOKEN && input->input != MOEC_INPUT_NEXT) continue;
        long sequence = input->shape[input->rank - 1], batch = (long)tensor_count(input) / sequence;
        int32_t *to = call->inputs[i]; /* [batch, sequence] */
        for (long b = 0; b < batch; b++)
            memcpy(to + b * sequence,
                   windows + b * (sequence + 1) + (input->input == MOEC_INPUT_NEXT),
                   sizeof *to * (size_t)sequence);
    }
}

void call_set_tokens(Call *call, const int32_t *tokens) {
    for (int i = 0; i < call->graph->input_count; i++) {
        const MoecTensor *input = &call->graph->inputs[i];
        if (input->input == MOEC_INPUT_TOKEN)
            memcpy(call->inputs[i], tokens, sizeof *tokens * tensor_count(input));
    }
}

static int find_input(const Call *call, const char *name) {
    for (int i = 0; i < call->graph->input_count; i++)
        if (call->graph->inputs[i].input == MOEC_INPUT_SCALAR &&
            strcmp(call->graph->inputs[i].name, name) == 0)
            return i;
    return -1;
}

bool call_has_input(const Call *call, const char *name) {
    return find_input(call, name) >= 0;
}

void call_set_scalar(Call *call, const char *name, double value) {
    int slot = find_input(call, name);
    if (slot < 0) return;
    if (call->graph->inputs[slot].is_int)
        *(int32_t *)call->inputs[slot] = (int32_t)value;
    else
        *(float *)call->inputs[slot] = (float)value;
}

const MoecTensor *call_foreign_input(const Call *call) {
    for (int i = 0; i < call->graph->input_count; i++) {
        const MoecTensor *input = &call->graph->inputs[i];
        if (input->input == MOEC_INPUT_REAL || input->input == MOEC_INPUT_CLASS) return input;
    }
    return NULL;
}

long call_vocabulary(const Call *call) {
    for (int i = 0; i < call->graph->input_count; i++)
        if (call->graph->inputs[i].input == MOEC_INPUT_TOKEN ||
            call->graph->inputs[i].input == MOEC_INPUT_NEXT)
            return call->graph->inputs[i].vocabulary;
    return 0;
}

void call_run(Call *call, uint64_t seed, bool last_micro_batch) {
    Model *model = call->model;
    MoecRun run = {
        .weights = model->weights,
        .gradients = model->gradients,
        .states = model->layer_states,
        .cache = call->cache,
        .arena = model->arena,
        .inputs = (const void *const *)call->inputs,
        .outputs = call->outputs,
        .seed = seed,
        .last_micro_batch = last_micro_batch,
        .host = &model->host,
    };
    call->graph->run(&run);
}

int call_output(const Call *call, const char *name) {
    for (int i = 0; i < call->graph->output_count; i++)
        if (strcmp(call->graph->outputs[i].name, name) == 0) return i;
    return -1;
}
