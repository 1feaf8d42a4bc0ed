/* `normalise`: normalization steps before a text is split ("normalizer" of the file). */
#ifndef TOKENIZER_NORMALISE_H
#define TOKENIZER_NORMALISE_H

#include "tokenizer/text/text.h"

typedef enum NormaliserKind {
    NORMALISE_FORM, /* form */
    NORMALISE_LOWER,
    NORMALISE_STRIP,      /* left, right: white space */
    NORMALISE_ACCENTS,    /* marks away */
    NORMALISE_NONSPACING, /* the same as BERT does it */
    NORMALISE_REPLACE,    /* pattern by content */
    NORMALISE_PREPEND,    /* content */
    NORMALISE_CLEAN,      /* BERT: control characters away, white space to spaces */
    NORMALISE_IDEOGRAPHS, /* BERT: spaces around them */
    NORMALISE_NMT,        /* SentencePiece's rules for control characters and spaces */
    NORMALISE_BYTES,      /* each byte as a letter, as GPT-2 has it */
    NORMALISE_CHARSMAP
} NormaliserKind;

typedef struct Normaliser {
    NormaliserKind kind;
    NormalForm form;
    bool left, right;
    Pattern *pattern;
    Text content;
    Charsmap *charsmap;
} Normaliser;

typedef struct NormaliserList {
    Normaliser *items;
    int count;
} NormaliserList;

/* Frees the items and the array. */
void normalisers_free(NormaliserList *list);

/* Normalizes and overwrites `text`; spare: scratch. continues: the text continues an earlier one,
 * and nothing is prepended. *begins: the result still starts with text of the first character.
 * False after a message: a pattern fails, or the text grows too much. */
bool normalise(const NormaliserList *list, Matcher *matcher, Text *text, Text *spare,
               bool continues, bool *begins);

/* True if the steps of a tokenizer may make a text of `to` bytes out of one of `from` bytes: they
 * may repeat its parts, and each multiplies its length. Returns false after a message. */
bool growth_allowed(size_t from, size_t to);

/* The letter that represents a byte in byte-level vocabularies, and the inverse (-1: none). */
int32_t letter_of_byte(unsigned char byte);
int byte_of_letter(int32_t letter);
void text_append_letters(Text *text, const char *bytes, size_t length);

#endif
