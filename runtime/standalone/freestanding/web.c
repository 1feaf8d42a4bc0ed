/* web: the functions that the worker of the page calls. */
#include "lexicon.h"
#include "model.h"

#include <stdlib.h>

#define EXPORTED(name) __attribute__((export_name(#name)))

/* The weights of model.c, which the page writes before the first token. */
unsigned char moec_floats[MODEL_FLOAT_BYTES] __attribute__((aligned(16)));
unsigned char moec_rounded[MODEL_ROUNDED_BYTES + 1] __attribute__((aligned(16)));

static Model model;
static const float *logits;
static Lexicon *lexicon; /* NULL: tokens are bytes */
static char byte[1];

enum { NO_ROOM = -1, NO_TOKENIZER = -2, ENDED = -3, FULL = -4, DAMAGED = -5 };

EXPORTED(web_weights) void *web_weights(int rounded) {
    return rounded ? moec_rounded : moec_floats;
}

EXPORTED(web_room) void *web_room(size_t bytes) {
    return malloc(bytes);
}

/* bytes: of web_room. */
EXPORTED(web_tokenizer) int web_tokenizer(void *bytes, size_t length) {
    return lexicon_read(&lexicon, bytes, length) == LEXICON_FINE ? 0 : DAMAGED;
}

static int read_token(int32_t token) {
    const int error = model_step(&model, token, &logits);
    return error == MODEL_FULL ? FULL : error ? DAMAGED : 0;
}

/* Reads the prompt, text of web_room; returns the number of its tokens, or an error. */
EXPORTED(web_start) long web_start(char *text) {
    int32_t *tokens = NULL;
    long count = 0;
    int error = 0;
    model_reset(&model);
    if (lexicon && !lexicon_encodes(lexicon)) return NO_TOKENIZER;
    if (lexicon) count = lexicon_encode(lexicon, text, &tokens);
    if (count < 0) return NO_ROOM;
    for (long i = 0; lexicon && i < count && !error; i++) error = read_token(tokens[i]);
    for (; !lexicon && text[count] && !error; count++)
        error = read_token((unsigned char)text[count]);
    free(tokens);
    free(text);
    return error ? error : count;
}

/* Number `index` of the text: a token, or ENDED. */
EXPORTED(web_next) int32_t web_next(float temperature, uint64_t seed, uint32_t index) {
    const int32_t token = model_pick(logits, temperature, model_random(seed, index));
    return lexicon && lexicon_ends(lexicon, token) ? ENDED : token;
}

EXPORTED(web_step) int web_step(int32_t token) {
    return read_token(token);
}

/* The bytes of a token. */
EXPORTED(web_text) const char *web_text(int32_t token) {
    size_t length;
    byte[0] = (char)token;
    return lexicon ? lexicon_text(lexicon, token, &length) : byte;
}

EXPORTED(web_text_length) size_t web_text_length(int32_t token) {
    size_t length = 1;
    if (lexicon) lexicon_text(lexicon, token, &length);
    return length;
}
