/* cached: the state of decoding after the last token of each sequence: caches of keys and values,
 * windows, states of recurrences. */
#include "inspect.h"

#include "base/memory.h"
#include "base/message.h"
#include "model/interpreted.h"
#include "training/spec.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The caches of a decoding program, as tensors of f32. */
typedef struct CachedState {
    const DecodedInput *input;
    MoecCompiler *compiler;
    Model *model;
    Call *call;
    const MoecCacheTensor *named;
    int named_count;
    MoecTensor *tensors; /* with the names of the spec */
    float *values;       /* of all, at the offsets of `tensors` */
} CachedState;

static GraphShape cached_shape(const DecodedInput *input) {
    return (GraphShape){
        .graph = MOEC_DECODE, .batch = input->batch, .context = input->context, .tokens = 1};
}

static bool open_cached(CachedState *state) {
    const DecodedInput *input = state->input;
    const GraphShape shape = cached_shape(input);
    state->compiler = spec_open(input->operand, input->sets);
    if (!state->compiler || !spec_generates(state->compiler)) return false;
    MoecProgram *program =
        moec_compile(state->compiler, MOEC_DECODE, shape.batch, shape.context, 1);
    if (!program) return reports_good(state->compiler) && false;
    state->named = moec_cache_tensors(state->compiler, program, &state->named_count);
    return true;
}

static bool open_cached_model(CachedState *state) {
    const DecodedInput *input = state->input;
    const GraphShape shape = cached_shape(input);
    state->model = input->device ? model_open(input->device, state->compiler, &shape, 1, true)
                                 : model_describe(state->compiler, &shape);
    if (!state->model) return false;
    model_initialise(state->model, input->seed);
    if (input->file && !model_read(state->model, input->file, false)) return false;
    if (input->device && !input->file && !model_put(state->model)) return false;
    state->call = call_open(state->model, &state->model->table->graphs[0], NULL);
    const MoecTensor *foreign = state->call ? call_foreign_input(state->call) : NULL;
    return state->call && (!foreign || error_message("show tensors without cache:",
                                                     "the input '%s' of a decoding step is not a "
                                                     "token",
                                                     foreign->name));
}

/* ---- the steps ---- */

/* The tokens of one position of every sequence. */
static void set_position(const CachedState *state, long position) {
    const DecodedInput *input = state->input;
    AUTO_FREE int32_t *tokens = memory_new(sizeof *tokens * (size_t)input->batch);
    for (long b = 0; b < input->batch; b++)
        tokens[b] = input->windows[b * (input->context + 1) + position];
    call_set_tokens(state->call, tokens, -1);
    call_set_scalar(state->call, MOEC_SCALAR_POSITION, (double)position);
}

/* Room for the values of all caches, under the names of the spec. */
static void name_caches(CachedState *state) {
    size_t bytes = 0;
    state->tensors = memory_new(sizeof *state->tensors * (size_t)(state->named_count + 1));
    for (int i = 0; i < state->named_count; i++) {
        const MoecNamedTensor *stored = &state->named[i].stored;
        MoecTensor *tensor = &state->tensors[i];
        *tensor = (MoecTensor){.name = state->named[i].spec.name,
                               .axes = stored->axes,
                               .offset = bytes,
                               .rank = stored->rank};
        memcpy(tensor->shape, stored->shape, sizeof *stored->shape * (size_t)stored->rank);
        bytes += sizeof(float) * tensor_count(tensor);
    }
    state->values = memory_new(bytes + sizeof(float));
}

static float *cached_values(const CachedState *state, int number) {
    return state->values + state->tensors[number].offset / sizeof(float);
}

static float bf16_value(const unsigned char *from) {
    const uint32_t bits = (uint32_t)from[0] << 16 | (uint32_t)from[1] << 24;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The scales of a cache of bytes, one per row, or NULL. */
static const float *scales_of(const MoecGraphEntry *graph, const MoecTensor *cache,
                              const unsigned char *block) {
    AUTO_FREE char *name = memory_format("%s_scale", cache->name);
    const float *found = NULL;
    for (int i = 0; i < graph->cache_count; i++)
        if (!strcmp(graph->caches[i].name, name))
            found = (const float *)(const void *)(block + graph->caches[i].offset);
    return found;
}

static void widen_cache(const MoecGraphEntry *graph, int number, const unsigned char *block,
                        float *to) {
    const MoecTensor *cache = &graph->caches[number];
    const unsigned char *from = block + cache->offset;
    const size_t count = tensor_count(cache),
                 row = cache->rank ? (size_t)cache->shape[cache->rank - 1] : 1;
    const float *scales = cache->type == MOEC_BYTE ? scales_of(graph, cache, block) : NULL;
    for (size_t i = 0; i < count; i++)
        if (cache->is_int)
            to[i] = (float)((const int32_t *)(const void *)from)[i];
        else if (cache->type == MOEC_BF16)
            to[i] = bf16_value(from + 2 * i);
        else if (cache->type == MOEC_BYTE)
            to[i] = (float)((const signed char *)from)[i] * (scales ? scales[i / row] : 1);
        else
            to[i] = ((const float *)(const void *)from)[i];
}

static bool decode_on_device(CachedState *state) {
    const DecodedInput *input = state->input;
    Call *call = state->call;
    for (long i = 0; i < input->context; i++) {
        set_position(state, i);
        if (!call_run(call, input->seed, false)) return false;
    }
    AUTO_FREE unsigned char *block = memory_new(call->graph->cache_bytes + 1);
    const bool good =
        !call->graph->cache_bytes ||
        input->device->kind->get(input->device, block, call->cache, call->graph->cache_bytes);
    for (int i = 0; good && i < call->graph->cache_count; i++)
        for (int j = 0; j < state->named_count; j++)
            if (!strcmp(state->named[j].stored.name, call->graph->caches[i].name))
                widen_cache(call->graph, i, block, cached_values(state, j));
    return good;
}

/* In the interpreter caches are exact: no scales. */
static bool decode_interpreted(CachedState *state) {
    const DecodedInput *input = state->input;
    MoecProgram *program =
        moec_define(state->compiler, MOEC_DECODE, input->batch, input->context, 1);
    AUTO(MoecInterpreter) *interpreter =
        interpreted_open(state->compiler, program, state->model, state->model->layer_states);
    if (!interpreter) return reports_good(state->compiler) && false;
    int count;
    const MoecCacheTensor *named = moec_cache_tensors(state->compiler, program, &count);
    const char *problem = NULL;
    for (long i = 0; i < input->context && !problem; i++) {
        set_position(state, i);
        interpreted_set_inputs(interpreter, state->call);
        problem = moec_interpreter_run(interpreter, input->seed, false);
    }
    for (int i = 0; i < state->named_count; i++)
        for (int j = 0; j < count; j++) {
            if (strcmp(state->named[i].stored.name, named[j].stored.name) != 0) continue;
            const size_t size = tensor_count(&state->tensors[i]);
            AUTO_FREE double *wide = memory_new(sizeof *wide * (size + 1));
            moec_interpreter_get(interpreter, named[j].reference, wide, size);
            for (size_t k = 0; k < size; k++) cached_values(state, i)[k] = (float)wide[k];
        }
    return !problem || error_message(NULL, "%s", problem);
}

/* ---- for inspect.c ---- */

static bool show_cached(CachedState *state, SelectedNames *selections, ShownList *list) {
    int count;
    bool good = true;
    PublicTensor *caches = public_tensors(state->tensors, state->named_count, &count);
    for (int i = 0; i < count && good; i++) {
        const SelectedName *selection = selection_of(selections, caches[i].name);
        if (!selection) continue;
        good = shown_add(list, selection, &caches[i],
                         state->values + caches[i].offset / sizeof(float));
        ShownTensor *shown = &list->items[list->count - 1];
        free(shown->name);
        shown->name = memory_format("%s%s", cached_mark, caches[i].name);
        for (int j = 0; good && j < state->named_count; j++)
            if (has_public_name(state->named[j].spec.name, caches[i].name))
                shown->file = state->named[j].spec.file, shown->line = state->named[j].spec.line;
    }
    public_free(caches, count);
    return good;
}

static void cached_close(CachedState *state) {
    free(state->tensors);
    free(state->values);
    call_close(state->call);
    model_close(state->model);
}

bool cached_show(const DecodedInput *input, const TextList *names, ShownList *list,
                 MoecCompiler **compiler) {
    CachedState state = {.input = input};
    SelectedNames selections = {0};
    bool good = open_cached(&state) && open_cached_model(&state);
    *compiler = state.compiler;
    if (good) {
        name_caches(&state);
        selections = selections_read(names, '[');
        good = selections_name(&selections, state.tensors, state.named_count) &&
               (input->device ? decode_on_device : decode_interpreted)(&state) &&
               show_cached(&state, &selections, list);
    }
    selections_free(&selections);
    cached_close(&state);
    return good;
}

void cached_list(const DecodedInput *input) {
    const GraphShape shape = cached_shape(input);
    AUTO(MoecCompiler) *compiler = spec_open_quietly(input->operand, input->sets);
    MoecProgram *program = compiler && !moec_refines(compiler)
                               ? moec_compile(compiler, MOEC_DECODE, shape.batch, shape.context, 1)
                               : NULL;
    int count = 0;
    const MoecCacheTensor *caches = program ? moec_cache_tensors(compiler, program, &count) : NULL;
    for (int i = 0; i < count; i++) {
        printf("%s%s[%s]", cached_mark, caches[i].spec.name, caches[i].spec.axes);
        if (caches[i].spec.file) printf("  %s:%d", caches[i].spec.file, caches[i].spec.line);
        puts("");
    }
}
