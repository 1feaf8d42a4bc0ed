/* speech: the text of a model as it comes out: tokens to text, ended by strings that stop it. */
#ifndef SPEECH_H
#define SPEECH_H

#include "tokenizer/tokenizer.h"

typedef enum Writing {
    WRITING_BYTES,  /* tokens are bytes of text */
    WRITING_TOKENS, /* numbers, each after a space */
    WRITING_TEXT    /* as a tokenizer says it */
} Writing;

/* Appends the tokens of a text that the model goes on from: behind what the tokenizer puts before a
 * text. encoder: of the tokenizer, NULL for bytes. False after a message. */
bool speech_tokens(Writing writing, const Tokenizer *tokenizer, Encoder *encoder, const char *bytes,
                   size_t length, TokenList *out);

typedef struct Speech Speech;

/* stops: strings that end the text and do not belong to it; one that is a token of the tokenizer
 * ends it as that token, too. */
Speech *speech_new(Writing writing, const Tokenizer *tokenizer, const char *const *stops,
                   int stop_count);
void speech_free(Speech *speech);
/* The text begins anew, behind the tokens of a prompt: what comes next may begin with a space.
 * False after a message. */
bool speech_begin(Speech *speech, const TokenList *prompt);
/* Takes the next token and appends what can be written now: whole characters, and nothing that may
 * be the beginning of a stop. *ended: a stop has come. False after a message. */
bool speech_add(Speech *speech, int32_t token, Text *out, bool *ended);
/* Appends what is left. False after a message. */
bool speech_end(Speech *speech, Text *out);

#endif
