/* speech: incremental detokenizer that recognizes the end of a text. */
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

/* How texts are written, and where they end. */
typedef struct SpeechRule {
    Writing writing;
    const Tokenizer *tokenizer;
    /* Stop sequences end the text and are not part of it. One that is a token of the tokenizer also
     * ends the text as a token. */
    const char *const *stops;
    int stop_count;
    bool ignore_eos; /* special tokens do not end the text */
} SpeechRule;

typedef enum SpeechEnd {
    SPEECH_CONTINUES,
    SPEECH_STOPPED, /* by a stop sequence */
    SPEECH_COMPLETE /* by a special token of the tokenizer, for example end of text */
} SpeechEnd;

/* The texts and the tokenizer of the rule must exist as long. */
Speech *speech_new(const SpeechRule *rule);
void speech_free(Speech *speech);
/* Starts a new text after the prompt tokens; the next text may start with a space. False after a
 * message. */
bool speech_begin(Speech *speech, const TokenList *prompt);
/* Adds the next token and appends the text that is final: whole characters, and nothing that may
 * start a stop sequence. False after a message. */
bool speech_add(Speech *speech, int32_t token, Text *out, SpeechEnd *end);
/* Appends the rest of a text that continues. False after a message. */
bool speech_end(Speech *speech, Text *out);

#endif
