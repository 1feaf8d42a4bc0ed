/* parts: components of a tokenizer. */
#ifndef TOKENIZER_PARTS_H
#define TOKENIZER_PARTS_H

#include "tokenizer/added.h"
#include "tokenizer/detokenize.h"
#include "tokenizer/vocabulary.h"
#include "tokenizer/normalise.h"
#include "tokenizer/split.h"
#include "tokenizer/tokenizer.h"

struct Tokenizer {
    char *name, *json;
    size_t json_length;
    NormaliserList normalisers;
    SplitterList splitters;
    Vocabulary vocabulary;
    AddedToken *added;
    int added_count;
    AddedSet plain, normalised;
    Dictionary added_numbers; /* contents */
    int32_t *added_of;        /* [size]: index in `added` of a token, or -1 */
    int32_t size;
    TokenList before, after;
    DecoderList decoders;
};

/* The string of a token; bytes NULL: there is none. */
Name tokenizer_name(const Tokenizer *tokenizer, int32_t token);

/* Calls `each` for the pieces of a text that the model would see. False after a message. */
bool encoder_split(Encoder *encoder, const char *bytes, size_t length,
                   void (*each)(void *context, const char *bytes, size_t length), void *context);
/* Whether the token is written at all. */
bool tokenizer_shows(const Tokenizer *tokenizer, int32_t token, bool skip_special);
/* Appends the strings of the tokens that are written. */
void tokenizer_strings(const Tokenizer *tokenizer, const int32_t *tokens, size_t count,
                       bool skip_special, Strings *strings);

#endif
