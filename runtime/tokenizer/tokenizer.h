/* tokenizer: encodes and decodes text as defined by a `tokenizer.json`, with the same tokens as
 * https://github.com/huggingface/tokenizers
 *
 * Unsupported features of a file are errors when it is opened. */
#ifndef TOKENIZER_H
#define TOKENIZER_H

#include "tokenizer/text/text.h"

typedef struct Tokenizer Tokenizer;

/* NULL after a message. */
Tokenizer *tokenizer_open(const char *path);
/* The same from text in memory; messages use `name`. */
Tokenizer *tokenizer_read(const char *name, const char *json, size_t length);
void tokenizer_close(Tokenizer *tokenizer);
/* The file as it was read. */
const char *tokenizer_json(const Tokenizer *tokenizer, size_t *length);

/* The highest token number, and one: the least vocabulary of a model. */
long tokenizer_size(const Tokenizer *tokenizer);
/* The number of a token by its string, or -1. */
int32_t tokenizer_find(const Tokenizer *tokenizer, const char *bytes, size_t length);
/* Whether the token is one of those that are left out when text is written. */
bool tokenizer_is_special(const Tokenizer *tokenizer, int32_t token);

/* Scratch and a memory of words for one thread. */
typedef struct Encoder Encoder;
Encoder *encoder_new(const Tokenizer *tokenizer);
void encoder_free(Encoder *encoder);

typedef enum EncodeFlags {
    ENCODE_SPECIAL = 1,  /* add the tokens of the template */
    ENCODE_CONTINUES = 2 /* the text continues an earlier one: no prefix space */
} EncodeFlags;

/* Appends the tokens of a text; bytes that are not UTF-8 are read as U+FFFD. False after a message.
 */
bool encoder_encode(Encoder *encoder, const char *bytes, size_t length, int flags, TokenList *out);
/* How many bytes or beginnings of characters were not UTF-8 so far. */
size_t encoder_replaced(const Encoder *encoder);
/* Tokens that the template adds before and after a text. */
const TokenList *tokenizer_before(const Tokenizer *tokenizer);
const TokenList *tokenizer_after(const Tokenizer *tokenizer);

/* Appends the text of tokens. skip_special: without special tokens. Numbers that are no token are
 * left out. False after a message. */
bool tokenizer_decode(const Tokenizer *tokenizer, const int32_t *tokens, size_t count,
                      bool skip_special, Text *out);

/* Incremental decoding into whole characters: an incomplete character waits for the next token. The
 * concatenated output equals tokenizer_decode of all tokens. */
typedef struct Stream Stream;
Stream *stream_new(const Tokenizer *tokenizer, bool skip_special);
void stream_free(Stream *stream);
bool stream_add(Stream *stream, int32_t token, Text *out);
/* Appends the rest. */
bool stream_end(Stream *stream, Text *out);

#endif
