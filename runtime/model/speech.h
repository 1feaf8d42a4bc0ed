/* speech: incremental detokenizer with stop sequences. */
#ifndef SPEECH_H
#define SPEECH_H

#include "tokenizer/tokenizer.h"

typedef enum Writing {
    WRITING_BYTES,  /* tokens are bytes of text */
    WRITING_TOKENS, /* token ids, each after a space */
    WRITING_TEXT    /* text of a tokenizer */
} Writing;

/* Appends the tokens of a prompt after the tokens that the tokenizer adds before a text. encoder:
 * of the tokenizer, NULL for bytes. False after a message. */
bool speech_tokens(Writing writing, const Tokenizer *tokenizer, Encoder *encoder, const char *bytes,
                   size_t length, TokenList *out);

typedef struct Speech Speech;

/* stops: stop sequences, which end the text and are not part of it. A stop sequence that is a token
 * of the tokenizer also ends the text as a token. */
Speech *speech_new(Writing writing, const Tokenizer *tokenizer, const char *const *stops,
                   int stop_count);
void speech_free(Speech *speech);
/* Starts a new text after the prompt tokens; the next text may start with a space. False after a
 * message. */
bool speech_begin(Speech *speech, const TokenList *prompt);
/* Adds the next token and appends the text that is final: whole characters, and nothing that may
 * start a stop sequence. *ended: a stop sequence occurred. False after a message. */
bool speech_add(Speech *speech, int32_t token, Text *out, bool *ended);
/* Appends the rest. False after a message. */
bool speech_end(Speech *speech, Text *out);

#endif
