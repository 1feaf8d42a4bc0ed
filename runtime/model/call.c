#include "model/call.h"

#include "abi/quantity.h"
#include "abi/refined_inputs.h"
#include "base/message.h"
#include "base/memory.h"
#include "data/random.h"

#include <stdlib.h>
#include <string.h>

/* Elements of inputs and outputs have four bytes: float or int32_t. */
enum { ELEMENT = 4 };

static size_t slot_bytes(const MoecTensor *tensor) {
    return (tensor_count(tensor) * ELEMENT + 63) / 64 * 64;
}

static size_t all_bytes(const MoecTensor *tensors, int count) {
    size_t bytes = 0;
    for (int i = 0; i < count; i++) bytes += slot_bytes(&tensors[i]);
    return bytes;
}

/* Assigns the offset of each slot in its block. Outputs with one value come first and are fetched
 * together. */
static void lay_out(Call *call) {
    const MoecGraphEntry *graph = call->graph;
    size_t at = 0;
    for (int i = 0; i < graph->input_count; at += slot_bytes(&graph->inputs[i++])) {
        call->inputs[i] = call->input_block + at;
        call->inputs_there[i] = call->input_block_there + at;
    }
    at = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < graph->output_count; i++) {
            if ((tensor_count(&graph->outputs[i]) == 1) == pass) continue;
            call->outputs[i] = (float *)(void *)(call->output_block + at);
            call->outputs_there[i] = (float *)(void *)(call->output_block_there + at);
            at += slot_bytes(&graph->outputs[i]);
        }
        if (pass == 0) call->number_bytes = at;
    }
}

static bool take_blocks(Call *call) {
    Device *device = call->model->device;
    call->input_block = memory_map(call->input_bytes);
    call->output_block = memory_map(call->output_bytes);
    call->input_block_there =
        device->apart ? device->kind->allocate(device, call->input_bytes) : call->input_block;
    call->output_block_there =
        device->apart ? device->kind->allocate(device, call->output_bytes) : call->output_block;
    /* Inputs are not pinned: the caller may change them before they are copied. */
    call->pinned = device->apart && call->output_block &&
                   device->kind->pin(device, call->output_block, call->output_bytes);
    return call->input_block && call->output_block && call->input_block_there &&
           call->output_block_there;
}

Call *call_open(Model *model, const MoecGraphEntry *graph, float *cache) {
    Call *call = memory_new(sizeof *call);
    call->model = model;
    call->graph = graph;
    call->inputs = memory_new(sizeof(void *) * (size_t)(graph->input_count + 1));
    call->inputs_there = memory_new(sizeof(void *) * (size_t)(graph->input_count + 1));
    call->outputs = memory_new(sizeof(float *) * (size_t)(graph->output_count + 1));
    call->outputs_there = memory_new(sizeof(float *) * (size_t)(graph->output_count + 1));
    call->input_bytes = all_bytes(graph->inputs, graph->input_count);
    call->output_bytes = all_bytes(graph->outputs, graph->output_count);
    call->bytes = call->input_bytes + call->output_bytes;
    bool good = take_blocks(call);
    if (good) lay_out(call);
    call->cache = cache;
    if (!cache && graph->cache_bytes) {
        call->cache = model->device->kind->allocate(model->device, graph->cache_bytes);
        call->owns_cache = true;
        call->bytes += graph->cache_bytes;
        good = good && call->cache;
    }
    if (good) return call;
    error_message("reduce train.batch_size or train.context_length",
                  "out of memory: cannot allocate %s", quantity((double)call->bytes, "B").text);
    call_close(call);
    return NULL;
}

void call_close(Call *call) {
    if (!call) return;
    Device *device = call->model->device;
    if (device->apart) {
        device->kind->release(device, call->input_block_there, call->input_bytes);
        device->kind->release(device, call->output_block_there, call->output_bytes);
        if (call->pinned) device->kind->unpin(device, call->output_block);
    }
    memory_unmap(call->input_block, call->input_bytes);
    memory_unmap(call->output_block, call->output_bytes);
    if (call->owns_cache) device->kind->release(device, call->cache, call->graph->cache_bytes);
    free(call->inputs);
    free(call->inputs_there);
    free(call->outputs);
    free(call->outputs_there);
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

void call_share_inputs(Call *to, const Call *from) {
    for (int i = 0; i < to->graph->input_count; i++) {
        for (int j = 0; j < from->graph->input_count; j++) {
            const MoecTensor *input = &from->graph->inputs[j];
            if (strcmp(to->graph->inputs[i].name, input->name) != 0) continue;
            if (to->model->device->apart)
                memcpy(to->inputs[i], from->inputs[j], tensor_count(input) * ELEMENT);
            else
                to->inputs_there[i] = from->inputs_there[j]; /* the program may have read it */
        }
    }
}

void call_set_tokens(Call *call, const int32_t *tokens, int32_t next) {
    for (int i = 0; i < call->graph->input_count; i++) {
        const MoecTensor *input = &call->graph->inputs[i];
        const size_t count = tensor_count(input), length = (size_t)call->graph->tokens;
        int32_t *to = call->inputs[i]; /* [row, length] */
        if (input->input == MOEC_INPUT_TOKEN) memcpy(to, tokens, sizeof *to * count);
        for (size_t k = 0; input->input == MOEC_INPUT_NEXT && k < count; k++)
            to[k] = (k + 1) % length ? tokens[k + 1] : next;
    }
}

static int find_scalar(const Call *call, MoecScalar kind) {
    for (int i = 0; i < call->graph->input_count; i++) {
        const MoecTensor *input = &call->graph->inputs[i];
        if (input->input == MOEC_INPUT_SCALAR && input->scalar == kind) return i;
    }
    return -1;
}

bool call_has_scalar(const Call *call, MoecScalar kind) {
    return find_scalar(call, kind) >= 0;
}

void call_set_scalar(Call *call, MoecScalar kind, double value) {
    int slot = find_scalar(call, kind);
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

long call_context(const Call *call) {
    if (examples_words(call)) return examples_words(call) - 1;
    for (int i = 0; i < call->graph->input_count; i++) {
        const MoecTensor *input = &call->graph->inputs[i];
        if (input->input == MOEC_INPUT_TOKEN || input->input == MOEC_INPUT_NEXT)
            return input->shape[input->rank - 1];
    }
    return call->graph->context;
}

long call_vocabulary(const Call *call) {
    for (int i = 0; i < call->graph->input_count; i++)
        if (call->graph->inputs[i].input == MOEC_INPUT_TOKEN ||
            call->graph->inputs[i].input == MOEC_INPUT_NEXT)
            return call->graph->inputs[i].vocabulary;
    return 0;
}

bool call_run(Call *call, uint64_t seed, bool last_micro_batch) {
    Model *model = call->model;
    Device *device = model->device;
    const ModelMemory *there = &model->there;
    MoecRun run = {
        .weights = there->weights,
        .rounded = there->rounded,
        .gradients = there->gradients,
        .states = there->layer_states,
        .cache = call->cache,
        .arena = call->arena ? call->arena : there->arena,
        .inputs = (const void *const *)call->inputs_there,
        .outputs = call->outputs_there,
        .seed = seed,
        .first_micro_batch = call->begins,
        .last_micro_batch = last_micro_batch,
        .part = call->part,
    };
    return device->kind->put(device, call->input_block_there, call->input_block,
                             call->input_bytes) &&
           device->kind->run(model->engine, call->graph, &run);
}

const float *call_get(Call *call, int slot) {
    Device *device = call->model->device;
    size_t bytes = tensor_count(&call->graph->outputs[slot]) * ELEMENT;
    bool good = device->kind->get(device, call->outputs[slot], call->outputs_there[slot], bytes);
    return good ? call->outputs[slot] : NULL;
}

bool call_get_numbers(Call *call) {
    Device *device = call->model->device;
    return device->kind->get(device, call->output_block, call->output_block_there,
                             call->number_bytes);
}

int call_output(const Call *call, const char *name) {
    for (int i = 0; i < call->graph->output_count; i++)
        if (strcmp(call->graph->outputs[i].name, name) == 0) return i;
    return -1;
}

/* ---- refinement ---- */

static bool run_refinement(Call *call, const Refinement *refinement, long step) {
    call_set_scalar(call, MOEC_SCALAR_SCHEDULE_STEP, (double)step);
    if (!call_run(call, random_bits(refinement->seed, (uint64_t)step), false)) return false;
    for (int i = 0; i < call->graph->output_count; i++)
        if (!call_get(call, i)) return false;
    return refine_inputs(call->graph, call->inputs, call->outputs) ||
           model_tell_nonsense(call->model, "a sampled value is");
}

bool refine_call(Call *call, const Refinement *refinement) {
    call_set_scalar(call, MOEC_SCALAR_SCHEDULE_STEPS, (double)refinement->steps);
    call_set_scalar(call, MOEC_SCALAR_TEMPERATURE, refinement->temperature);
    for (long step = 0; step < refinement->steps; step++)
        if (!run_refinement(call, refinement, step)) return false;
    return true;
}

Model *refining_model(Device *device, MoecCompiler *compiler, const Safetensors *weights,
                      long batch, long context) {
    const GraphShape shape = {.graph = MOEC_REFINE, .batch = batch, .context = context};
    Model *model = model_open(device, compiler, &shape, 1, true);
    if (model && model_read(model, weights, false)) return model;
    model_close(model);
    return NULL;
}
