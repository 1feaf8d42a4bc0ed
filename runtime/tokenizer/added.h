/* added: added tokens, matched before the text is split. */
#ifndef TOKENIZER_ADDED_H
#define TOKENIZER_ADDED_H

#include "tokenizer/text/dictionary.h"
#include "tokenizer/split.h"

typedef struct AddedToken {
    char *content;
    size_t length;
    Text shown; /* text to match and to write; normalized if `normalised` */
    int32_t token;
    bool single_word;             /* not inside a word */
    bool takes_left, takes_right; /* adjacent white space belongs to the token */
    bool normalised;              /* matched in the normalized text */
    bool special;
} AddedToken;

/* Added tokens matched in the original text, or in the normalized text. */
typedef struct AddedSet {
    Trie trie;       /* numbers: indices in `all` */
    bool first[256]; /* bytes that some of them begin with */
    const AddedToken *all;
    Pattern *word; /* \w, for tokens that must be whole words */
} AddedSet;

/* The first of equal contents counts. */
void added_put(AddedSet *set, const char *bytes, size_t length, int32_t number);
/* Appends the pieces of bytes[start..start + length). */
void added_split(const AddedSet *set, Matcher *matcher, const char *bytes, const Piece *whole,
                 PieceList *result);

#endif
