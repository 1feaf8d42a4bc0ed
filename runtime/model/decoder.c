#include "model/decoder.h"

#include "base/message.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* True if two graphs have the same cache layout, a requirement for sharing caches. */
static bool same_caches(const MoecGraphEntry *a, const MoecGraphEntry *b) {
    if (a->cache_bytes != b->cache_bytes || a->cache_count != b->cache_count) return false;
    for (int i = 0; i < a->cache_count; i++)
        if (a->caches[i].offset != b->caches[i].offset || a->caches[i].type != b->caches[i].type ||
            strcmp(a->caches[i].name, b->caches[i].name) != 0)
            return false;
    return true;
}

static bool open_calls(Decoder *decoder, const MoecGraphEntry *step,
                       const MoecGraphEntry *prefill) {
    decoder->step = call_open(decoder->model, step, NULL);
    if (!decoder->step) return false;
    if (prefill && same_caches(step, prefill))
        decoder->prefill = call_open(decoder->model, prefill, decoder->step->cache);
    const MoecTensor *foreign = call_foreign_input(decoder->step);
    if (foreign)
        return error_message("text generation requires a model with token inputs only",
                             "input '%s' is not a token", foreign->name);
    decoder->logits = call_output(decoder->step, "logits");
    decoder->proposals = call_output(decoder->step, "proposals");
    return decoder->logits >= 0 ||
           error_message("add `output logits` to the model", "the model has no output 'logits'");
}

Decoder *decoder_of(Model *model, const MoecGraphEntry *step, const MoecGraphEntry *prefill,
                    long length) {
    Decoder *decoder = memory_new(sizeof *decoder);
    decoder->model = model;
    decoder->length = length;
    decoder->rows = step->batch > 0 ? step->batch : 1;
    if (open_calls(decoder, step, prefill)) return decoder;
    decoder_close(decoder);
    return NULL;
}

Decoder *decoder_beside(const Decoder *other) {
    Decoder *decoder = memory_new(sizeof *decoder);
    *decoder = (Decoder){.model = other->model,
                         .rows = other->rows,
                         .length = other->length,
                         .logits = other->logits,
                         .proposals = other->proposals};
    decoder->step = call_open(other->model, other->step->graph, other->step->cache);
    if (decoder->step) return decoder;
    decoder_close(decoder);
    return NULL;
}

static GraphShape decode_shape(long rows, long length, long tokens) {
    return (GraphShape){.graph = MOEC_DECODE, .batch = rows, .context = length, .tokens = tokens};
}

/* Learned position embeddings end at the training context length. */
static bool places_reach(MoecCompiler *compiler, long length, long context) {
    const char *learned = length > context ? moec_learned_positions(compiler) : NULL;
    if (!learned) return true;
    AUTO_FREE char *help = memory_format(
        "use at most %ld tokens including the prompt, or train with --set train.context_length=%ld",
        context, length);
    error_message(help,
                  "'%s' has learned embeddings for %ld positions (train.context_length), but the "
                  "text can have %ld tokens",
                  learned, context, length);
    return false;
}

/* A prefill graph writes PREFILL_TOKENS positions, which prompts and caches must have. */
static Model *open_shapes(Device *device, MoecCompiler *compiler, long rows, long expected,
                          long length) {
    const GraphShape shapes[] = {decode_shape(rows, length, 1),
                                 decode_shape(rows, length, PREFILL_TOKENS)};
    return model_open(device, compiler, shapes, expected >= PREFILL_TOKENS ? 2 : 1, true);
}

Model *decoder_model(Device *device, MoecCompiler *compiler, long rows, long length) {
    long context = (long)moec_option_number(compiler, "train.context_length", 256);
    if (!places_reach(compiler, length, context)) return NULL;
    return open_shapes(device, compiler, rows, length, length);
}

Decoder *decoder_over(Model *model, long length) {
    const MoecGraphEntry *graphs = model->table->graphs;
    return decoder_of(model, &graphs[0], model->table->graph_count > 1 ? &graphs[1] : NULL, length);
}

Decoder *decoder_open(Device *device, MoecCompiler *compiler, long rows, long expected,
                      long length) {
    long context = (long)moec_option_number(compiler, "train.context_length", 256);
    long places = length > context ? length : context;
    if (!places_reach(compiler, length, context)) return NULL;
    if (length > context)
        note_message("the text exceeds the training context of %ld tokens (train.context_length)",
                     context);
    Model *model = open_shapes(device, compiler, rows, expected, places);
    if (!model) return NULL;
    Decoder *decoder = decoder_over(model, places);
    if (decoder)
        decoder->owns_model = true;
    else
        model_close(model);
    return decoder;
}

void decoder_close(Decoder *decoder) {
    if (!decoder) return;
    call_close(decoder->prefill);
    call_close(decoder->step);
    if (decoder->owns_model) model_close(decoder->model);
    free(decoder);
}

long decoder_vocabulary(const Decoder *decoder) {
    const MoecTensor *logits = &decoder->step->graph->outputs[decoder->logits];
    return logits->shape[logits->rank - 1];
}

long decoder_model_width(const Model *model, const char *output) {
    const MoecGraphEntry *step = &model->table->graphs[0];
    for (int i = 0; i < step->output_count; i++)
        if (strcmp(step->outputs[i].name, output) == 0)
            return step->outputs[i].shape[step->outputs[i].rank - 1];
    return 0;
}

bool decoder_reset(Decoder *decoder) {
    Call *step = decoder->step;
    Device *device = decoder->model->device;
    bool fresh = decoder->position == 0;
    decoder->position = 0;
    return fresh || !step->graph->cache_bytes ||
           device->kind->zero(device, step->cache, step->graph->cache_bytes);
}

/* next: the token after these, or -1. */
static bool run_part(Decoder *decoder, const int32_t *tokens, long count, int32_t next,
                     Call **call) {
    *call = decoder->fed = count == PREFILL_TOKENS ? decoder->prefill : decoder->step;
    call_set_tokens(*call, tokens, next);
    call_set_scalar(*call, MOEC_SCALAR_POSITION, (double)decoder->position);
    decoder->position += count;
    return call_run(*call, 0, false);
}

const float *decoder_advance(Decoder *decoder, const int32_t *tokens, long count, int32_t next) {
    Call *call;
    return run_part(decoder, tokens, count, next, &call) ? call_get(call, decoder->logits) : NULL;
}

const float *decoder_proposals(const Decoder *decoder) {
    const MoecTensor *output = &decoder->fed->graph->outputs[decoder->proposals];
    const float *all = call_get(decoder->fed, decoder->proposals);
    return all ? all + tensor_count(output) - output->shape[output->rank - 1] : NULL;
}

/* The call that computed the last of the tokens; *last: the index of its logits there. */
static Call *feed_parts(Decoder *decoder, const int32_t *tokens, long count, long *last) {
    Call *call = decoder->step;
    long part = 1;
    for (; count > 0; tokens += part, count -= part) {
        part = decoder->prefill && count >= PREFILL_TOKENS ? PREFILL_TOKENS : 1;
        if (!run_part(decoder, tokens, part, count > part ? tokens[part] : -1, &call)) return NULL;
    }
    *last = part - 1;
    return call;
}

const float *decoder_feed(Decoder *decoder, const int32_t *tokens, long count) {
    long last;
    Call *call = feed_parts(decoder, tokens, count, &last);
    const float *logits = call ? call_get(call, decoder->logits) : NULL;
    return logits ? logits + last * decoder_vocabulary(decoder) : NULL;
}

bool decoder_finds_likely(const Decoder *decoder) {
    return decoder->model->device->kind->most_likely != NULL;
}

static bool find_likely(Decoder *decoder, const Call *call, long first, long rows,
                        int32_t *likely) {
    const Model *model = decoder->model;
    const long vocabulary = decoder_vocabulary(decoder);
    const float *logits = call->outputs_there[decoder->logits] + first * vocabulary;
    bool good = true;
    for (long at = 0, count; good && at < rows; at += count) {
        count = rows - at < DEVICE_LIKELY_ROWS ? rows - at : DEVICE_LIKELY_ROWS;
        good = model->device->kind->most_likely(model->engine, logits + at * vocabulary, count,
                                                vocabulary, likely + at);
    }
    return good;
}

bool decoder_feed_likely(Decoder *decoder, const int32_t *tokens, long count, int32_t *likely) {
    long last;
    Call *call = feed_parts(decoder, tokens, count, &last);
    return call && find_likely(decoder, call, last, 1, likely);
}

bool decoder_advance_likely(Decoder *decoder, const int32_t *tokens, long count, int32_t *likely) {
    Call *call;
    return run_part(decoder, tokens, count, -1, &call) &&
           find_likely(decoder, call, 0, decoder->rows * count, likely);
}
