/* Text in and out: a prompt goes on, texts to tokens and back. */
#include "library/library.h"

#include "base/memory.h"
#include "base/message.h"
#include "model/batch.h"
#include "model/speech.h"

#include <stdlib.h>
#include <string.h>

static Writing writing_of(const MoecModel *model) {
    return model->tokenizer ? WRITING_TEXT : WRITING_BYTES;
}

static bool encode(const MoecModel *model, const char *text, size_t length, TokenList *tokens) {
    Encoder *encoder = model->tokenizer ? encoder_new(model->tokenizer) : NULL;
    bool good = speech_tokens(writing_of(model), model->tokenizer, encoder, text, length, tokens);
    encoder_free(encoder);
    return good;
}

/* The text, ended by a zero, as the caller's own. */
static char *hand_over(Text *text) {
    text_append(text, "", 1);
    return text->bytes;
}

/* A text as it is made. */
typedef struct Saying {
    Speech *speech;
    Text text;
    bool good, ended;
} Saying;

static bool told(Row *row, size_t place, const float *logits) {
    Saying *saying = row->context;
    (void)logits;
    if (place < row->prompt) return true;
    saying->good =
        speech_add(saying->speech, row->tokens.items[place], &saying->text, &saying->ended);
    return saying->good && !saying->ended;
}

static bool go_on(MoecModel *model, Row *row, Saying *saying) {
    Batch *batch = batch_new(model->decoder);
    bool good = batch_begin(batch, &row, 1) && speech_begin(saying->speech, &row->tokens);
    while (good && batch_active(batch)) good = batch_step(batch) && saying->good;
    batch_free(batch);
    if (row->nonsense) return model_tell_nonsense(model->model, "a logit is");
    return good && (saying->ended || speech_end(saying->speech, &saying->text));
}

static bool check_prompt(const MoecModel *model, const TokenList *prompt, size_t limit) {
    long vocabulary = moec_vocabulary(model);
    if (!model->tokenizer && vocabulary > 256)
        return error_message("train it with --tokenizer, which then is in its checkpoint",
                             "this model has %ld tokens and no tokenizer: the bytes of a text are "
                             "not its tokens",
                             vocabulary);
    for (size_t i = 0; i < prompt->count; i++)
        if (prompt->items[i] >= vocabulary)
            return error_message(NULL, "the model does not know the token %d of the prompt",
                                 (int)prompt->items[i]);
    if (!prompt->count) return error_message(NULL, "the model goes on from at least one token");
    return prompt->count + limit <= (size_t)model->length + 1 ||
           error_message("load the model with a larger context, or ask for fewer tokens",
                         "the prompt has %zu tokens and %zu more are wanted, the context is %ld",
                         prompt->count, limit, model->length);
}

static bool generate(MoecModel *model, const char *prompt, const MoecGeneration *how, char **text) {
    if (!model->decoder)
        return error_message(NULL, "the model was loaded without MOEC_CAN_GENERATE");
    Saying saying = {.good = true};
    Row row = {.limit = how->tokens > 0 ? (size_t)how->tokens : 256,
               .sampling = {.temperature = how->temperature,
                            .top_k = how->top_k,
                            .top_p = how->top_p > 0 ? how->top_p : 1,
                            .min_p = how->min_p,
                            .repetition = how->repetition > 0 ? how->repetition : 1,
                            .seed = how->seed},
               .told = told,
               .context = &saying};
    bool good = encode(model, prompt, strlen(prompt), &row.tokens);
    row.prompt = row.tokens.count;
    if (how->tokens <= 0 && row.prompt + row.limit > (size_t)model->length)
        row.limit = row.prompt < (size_t)model->length ? (size_t)model->length - row.prompt : 0;
    bool stops = how->stop && *how->stop;
    saying.speech = speech_new(writing_of(model), model->tokenizer, &how->stop, stops);
    good = good && check_prompt(model, &row.tokens, row.limit) && model_put(model->model) &&
           go_on(model, &row, &saying);
    speech_free(saying.speech);
    tokens_free(&row.tokens);
    *text = good ? hand_over(&saying.text) : NULL;
    if (!good) text_free(&saying.text);
    return good;
}

int moec_generate(MoecModel *model, const char *prompt, const MoecGeneration *how, char **text) {
    static const MoecGeneration plain;
    library_begin();
    return library_end(generate(model, prompt, how ? how : &plain, text));
}

int moec_encode(MoecModel *model, const char *text, size_t length, int32_t **tokens,
                size_t *count) {
    library_begin();
    TokenList list = {0};
    bool good = encode(model, text, length, &list);
    if (!good) tokens_free(&list);
    *tokens = list.items;
    *count = list.count;
    return library_end(good);
}

int moec_decode(MoecModel *model, const int32_t *tokens, size_t count, char **text) {
    library_begin();
    Text all = {0};
    bool good = true;
    if (model->tokenizer) good = tokenizer_decode(model->tokenizer, tokens, count, true, &all);
    for (size_t i = 0; i < count && !model->tokenizer; i++) {
        char byte = (char)tokens[i];
        text_append(&all, &byte, 1);
    }
    *text = good ? hand_over(&all) : NULL;
    if (!good) text_free(&all);
    return library_end(good);
}

void moec_release(void *memory) {
    free(memory);
}
