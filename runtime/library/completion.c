/* Text in and out: completion of a prompt, texts to tokens and back. */
#include "library/library.h"

#include "base/message.h"
#include "model/generate/batch.h"
#include "model/generate/speech.h"

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_TOKENS = 256, BYTES = 256 };

static Writing writing_of(const MoecModel *model) {
    return model->tokenizer ? WRITING_TEXT : WRITING_BYTES;
}

/* Without a tokenizer the tokens of a text are its bytes. */
static bool has_text(const MoecModel *model) {
    long vocabulary = moec_vocabulary(model);
    return model->tokenizer || vocabulary <= BYTES ||
           error_message("train it with a tokenizer, which becomes part of the checkpoint",
                         "the model has %ld tokens and no tokenizer, so text cannot be converted "
                         "to its tokens",
                         vocabulary);
}

static bool encode_prompt(const MoecModel *model, const char *text, size_t length,
                          TokenList *tokens) {
    if (!has_text(model)) return false;
    AUTO(Encoder) *encoder = model->tokenizer ? encoder_new(model->tokenizer) : NULL;
    return speech_tokens(writing_of(model), model->tokenizer, encoder, text, length, tokens);
}

/* The text with a final zero, which then belongs to the caller. */
static char *hand_over(Text *text, size_t *length) {
    if (length) *length = text->length;
    text_append(text, "", 1);
    return text->bytes;
}

/* ---- generation ---- */

typedef struct Completing {
    const MoecGeneration *how;
    Speech *speech;
    Text text;
    size_t reported; /* bytes of the text that on_text has received */
    bool good, ended;
} Completing;

/* Reports the bytes since the last report, which may be none. */
static void report_text(Completing *generation) {
    const MoecGeneration *how = generation->how;
    const Text *text = &generation->text;
    size_t from = generation->reported;
    if (!how->on_text) return;
    generation->reported = text->length;
    const char *bytes = text->bytes ? text->bytes + from : "";
    if (how->on_text(how->context, bytes, text->length - from) != 0) generation->ended = true;
}

static bool on_token(Row *row, size_t place, const float *logits) {
    Completing *generation = row->context;
    (void)logits;
    if (place >= row->prompt) {
        SpeechEnd end;
        generation->good =
            speech_add(generation->speech, row->tokens.items[place], &generation->text, &end);
        generation->ended = generation->good && end;
    }
    if (generation->good) report_text(generation);
    return generation->good && !generation->ended;
}

static bool complete(MoecModel *model, Row *row, Completing *generation) {
    Batch *batch = batch_new(model->decoder);
    bool good = batch_begin(batch, &row, 1) && speech_begin(generation->speech, &row->tokens);
    while (good && batch_active(batch)) good = batch_step(batch) && generation->good;
    batch_free(batch);
    if (row->nonsense) return model_tell_nonsense(model->model, "a logit is");
    if (!good || generation->ended) return good;
    good = speech_end(generation->speech, &generation->text);
    if (good && generation->text.length > generation->reported) report_text(generation);
    return good;
}

static bool check_prompt(const MoecModel *model, const TokenList *prompt, size_t limit) {
    long vocabulary = moec_vocabulary(model);
    for (size_t i = 0; i < prompt->count; i++)
        if (prompt->items[i] >= vocabulary)
            return error_message("use token ids of the tokenizer of the model",
                                 "token %d of the prompt is not below the vocabulary size %ld",
                                 (int)prompt->items[i], vocabulary);
    if (!prompt->count)
        return error_message("pass a text or at least one token",
                             "the prompt is empty: expected at least one token");
    size_t context = (size_t)model->length;
    return (limit <= context + 1 && prompt->count <= context + 1 - limit) ||
           error_message("load the model with a larger context, or request fewer tokens",
                         "the prompt has %zu tokens and %zu more are requested, but the context "
                         "has %zu",
                         prompt->count, limit, context);
}

static bool check_range(const char *name, double value, double most) {
    if (value >= 0 && value <= most && isfinite(value)) return true;
    return isfinite(most)
               ? error_message(NULL, "%s is %g: expected 0 to %g", name, value, most)
               : error_message(NULL, "%s is %g: expected a finite number, 0 or more", name, value);
}

static bool check_how(const MoecGeneration *how) {
    if (how->tokens < 0)
        return error_message(NULL, "tokens is %ld: expected 1 or more, or 0 for the default",
                             how->tokens);
    if (how->top_k < 0)
        return error_message(NULL, "top_k is %ld: expected 1 or more, or 0 for all tokens",
                             how->top_k);
    return check_range("temperature", how->temperature, INFINITY) &&
           check_range("top_p", how->top_p, 1) && check_range("min_p", how->min_p, 1) &&
           check_range("repetition", how->repetition, INFINITY);
}

static Sampling sampling_of(const MoecGeneration *how) {
    return (Sampling){.temperature = how->temperature,
                      .top_k = how->top_k,
                      .top_p = how->top_p > 0 ? how->top_p : 1,
                      .min_p = how->min_p,
                      .repetition = how->repetition > 0 ? how->repetition : 1,
                      .seed = how->seed};
}

/* The number of tokens to generate; by default no more than the context has room for. */
static size_t token_limit(const MoecModel *model, const MoecGeneration *how, size_t prompt) {
    size_t length = (size_t)model->length, limit = DEFAULT_TOKENS;
    if (how->tokens > 0) return (size_t)how->tokens;
    if (prompt + limit <= length) return limit;
    return prompt < length ? length - prompt : 0;
}

static bool generate_text(const Request *request) {
    MoecModel *model = request->model;
    const MoecGeneration *how = request->how;
    char **text = request->result;
    if (!library_given((const void *)text, "text")) return false;
    *text = NULL;
    if (!library_given(request->text, "prompt") || !check_how(how)) return false;
    if (!model->decoder)
        return error_message("load it with this flag",
                             "the model was loaded without MOEC_CAN_GENERATE");
    Completing generation = {.how = how, .good = true};
    Row row = {.sampling = sampling_of(how),
               .told = on_token,
               .ignores_logits = true,
               .context = &generation};
    bool good = encode_prompt(model, request->text, strlen(request->text), &row.tokens);
    row.prompt = row.tokens.count;
    row.limit = token_limit(model, how, row.prompt);
    generation.speech = speech_new(&(SpeechRule){.writing = writing_of(model),
                                                 .tokenizer = model->tokenizer,
                                                 .stops = &how->stop,
                                                 .stop_count = how->stop && *how->stop,
                                                 .ignore_eos = how->ignore_eos});
    good = good && check_prompt(model, &row.tokens, row.limit) && model_put(model->model) &&
           complete(model, &row, &generation);
    speech_free(generation.speech);
    tokens_free(&row.tokens);
    if (good)
        *text = hand_over(&generation.text, NULL);
    else
        text_free(&generation.text);
    return good;
}

int moec_generate(MoecModel *model, const char *prompt, const MoecGeneration *how, char **text) {
    static const MoecGeneration plain;
    return library_call(generate_text, &(Request){.model = model,
                                                  .text = prompt,
                                                  .how = how ? how : &plain,
                                                  .result = (void *)text});
}

/* ---- tokens ---- */

static bool encode_text(const Request *request) {
    int32_t **tokens = request->result;
    TokenList list = {0};
    if (!library_given(request->model, "model") || !library_given((const void *)tokens, "tokens") ||
        !library_given(request->length, "count") ||
        (request->count && !library_given(request->text, "text")))
        return false;
    bool good =
        encode_prompt(request->model, request->text ? request->text : "", request->count, &list);
    if (!good) tokens_free(&list);
    *tokens = good ? list.items : NULL;
    *request->length = good ? list.count : 0;
    return good;
}

/* The tokenizer does not change, so neither encoding nor decoding holds the lock. */
int moec_encode(MoecModel *model, const char *text, size_t length, int32_t **tokens,
                size_t *count) {
    return library_run(encode_text, &(Request){.model = model,
                                               .text = text,
                                               .count = length,
                                               .result = (void *)tokens,
                                               .length = count});
}

/* A vocabulary may be larger than the tokenizer; the tokens between them have no text. */
static long decodable(const MoecModel *model) {
    if (!model->tokenizer) return BYTES;
    long vocabulary = moec_vocabulary(model), size = tokenizer_size(model->tokenizer);
    return vocabulary > size ? vocabulary : size;
}

static bool decode_tokens(const Request *request) {
    const MoecModel *model = request->model;
    char **text = request->result;
    Text all = {0};
    if (!library_given(model, "model") || !library_given((const void *)text, "text")) return false;
    *text = NULL;
    if (!has_text(model) || !library_tokens(request->tokens, request->count, decodable(model)))
        return false;
    bool good = true;
    if (model->tokenizer)
        good = tokenizer_decode(model->tokenizer, request->tokens, request->count, true, &all);
    for (size_t i = 0; i < request->count && !model->tokenizer; i++) {
        char byte = (char)request->tokens[i];
        text_append(&all, &byte, 1);
    }
    if (good)
        *text = hand_over(&all, request->length);
    else
        text_free(&all);
    return good;
}

int moec_decode(MoecModel *model, const int32_t *tokens, size_t count, char **text,
                size_t *length) {
    return library_run(decode_tokens, &(Request){.model = model,
                                                 .tokens = tokens,
                                                 .count = count,
                                                 .result = (void *)text,
                                                 .length = length});
}

void moec_release(void *memory) {
    free(memory);
}
