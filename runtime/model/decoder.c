#include "model/decoder.h"

#include "base/message.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* Both graphs can share caches only when these are laid out alike. */
static bool same_caches(const MoecGraphEntry *a, const MoecGraphEntry *b) {
    if (a->cache_bytes != b->cache_bytes || a->cache_count != b->cache_count) return false;
    for (int i = 0; i < a->cache_count; i++)
        if (a->caches[i].offset != b->caches[i].offset || a->caches[i].type != b->caches[i].type ||
            strcmp(a->caches[i].name, b->caches[i].name) != 0)
            return false;
    return true;
}

static bool open_calls(Decoder *decoder) {
    const MoecTable *table = decoder->model->table;
    decoder->step = call_open(decoder->model, &table->graphs[0], NULL);
    if (!decoder->step) return false;
    if (table->graph_count > 1 && same_caches(&table->graphs[0], &table->graphs[1]))
        decoder->prefill = call_open(decoder->model, &table->graphs[1], decoder->step->cache);
    const MoecTensor *foreign = call_foreign_input(decoder->step);
    if (foreign)
        return error_message("only models of tokens generate text", "the input '%s' is not a token",
                             foreign->name);
    decoder->logits = call_output(decoder->step, "logits");
    return decoder->logits >= 0 ||
           error_message("add `output logits` to the model", "the model has no output 'logits'");
}

Decoder *decoder_open(MoecCompiler *compiler, long expected, long length) {
    return decoder_open_on(device_cpu(), compiler, expected, length);
}

Decoder *decoder_open_on(Device *device, MoecCompiler *compiler, long expected, long length) {
    long context = (long)moec_option_number(compiler, "train.context", 256);
    Decoder *decoder = memory_new(sizeof *decoder);
    decoder->length = length > context ? length : context;
    if (length > context)
        note_message(
            "the text goes beyond the %ld tokens that the model was trained on (train.context)",
            context);
    const GraphShape shapes[] = {
        {.graph = MOEC_DECODE, .batch = 1, .context = decoder->length, .tokens = 1},
        {.graph = MOEC_DECODE, .batch = 1, .context = decoder->length, .tokens = PREFILL_TOKENS},
    };
    decoder->model =
        model_open_on(device, compiler, shapes, expected >= PREFILL_TOKENS ? 2 : 1, true);
    if (decoder->model && open_calls(decoder)) return decoder;
    decoder_close(decoder);
    return NULL;
}

void decoder_close(Decoder *decoder) {
    if (!decoder) return;
    call_close(decoder->prefill);
    call_close(decoder->step);
    model_close(decoder->model);
    free(decoder);
}

long decoder_vocabulary(const Decoder *decoder) {
    const MoecTensor *logits = &decoder->step->graph->outputs[decoder->logits];
    return logits->shape[logits->rank - 1];
}

bool decoder_reset(Decoder *decoder) {
    Call *step = decoder->step;
    Device *device = decoder->model->device;
    bool fresh = decoder->position == 0;
    decoder->position = 0;
    return fresh || !step->graph->cache_bytes ||
           device->kind->zero(device, step->cache, step->graph->cache_bytes);
}

const float *decoder_feed(Decoder *decoder, const int32_t *tokens, long count) {
    Call *last = decoder->step;
    while (count > 0) {
        Call *call = decoder->prefill && count >= PREFILL_TOKENS ? decoder->prefill : decoder->step;
        long part = call == decoder->prefill ? PREFILL_TOKENS : 1;
        call_set_tokens(call, tokens);
        call_set_scalar(call, "position", (double)decoder->position);
        if (!call_run(call, 0, false)) return NULL;
        decoder->position += part;
        tokens += part;
        count -= part;
        last = call;
    }
    const MoecTensor *logits = &last->graph->outputs[decoder->logits];
    const float *all = call_get(last, decoder->logits);
    size_t before = tensor_count(logits) - (size_t)logits->shape[logits->rank - 1];
    return all ? all + before : NULL;
}
