/* detokenize: the steps from the strings of tokens to text ("decoder" of the file). */
#ifndef DETOKENIZE_H
#define DETOKENIZE_H

#include "tokenizer/text/text.h"
#include "tokenizer/vocabulary.h"

typedef enum DecoderKind {
    DECODE_BYTE_LEVEL,    /* letters back to bytes, all as one string */
    DECODE_METASPACE,     /* character to spaces, at the beginning to nothing */
    DECODE_BYTE_FALLBACK, /* "<0x41>" to bytes */
    DECODE_FUSE,          /* all as one string */
    DECODE_STRIP,         /* up to `start` and `stop` times `character` off each string */
    DECODE_REPLACE,       /* pattern by content */
    DECODE_WORDPIECE,     /* content: prefix of word continuations */
    DECODE_BPE            /* content: the suffix that ends a word */
} DecoderKind;

typedef struct DecoderStep {
    DecoderKind kind;
    int32_t character;
    long start, stop;
    bool keeps_first; /* a space at the beginning stays */
    bool cleanup;     /* no spaces before punctuation */
    Pattern *pattern;
    Text content;
} DecoderStep;

typedef struct DecoderList {
    DecoderStep *items;
    int count;
    bool present; /* without a decoder strings are put together with spaces */
} DecoderList;

/* Frees the items and the array. */
void decoders_free(DecoderList *list);

/* Strings of tokens, one after the other: ends[i] is where the i-th ends. */
typedef struct Strings {
    Text text;
    size_t *ends;
    size_t count, capacity;
} Strings;

void strings_end(Strings *strings); /* the text appended so far becomes a string */
void strings_free(Strings *strings);
AUTO_OBJECT(Strings, strings_free)
/* Applies the steps to the strings and appends the result. False after a message. */
bool decode_strings(const DecoderList *list, Matcher *matcher, Strings *strings, Text *out);
/* Text that a token adds after other tokens; can end inside a character. False after a message. */
bool decode_alone(const DecoderList *list, Matcher *matcher, const Name *name, Text *out);
/* True if the next token can change the text of these strings: they end inside a character. */
bool decode_waits(const DecoderList *list, const Strings *strings);

#endif
