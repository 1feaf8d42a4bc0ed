/* added: tokens beside the vocabulary, found in the text before it is split. */
#ifndef TOKENIZER_ADDED_H
#define TOKENIZER_ADDED_H

#include "tokenizer/text/dictionary.h"
#include "tokenizer/split.h"

typedef struct AddedToken {
    char *content;
    size_t length;
    Text shown; /* the content as it is looked for and written: normalised, if it is */
    int32_t token;
    bool single_word;             /* not inside a word */
    bool takes_left, takes_right; /* the white space beside it belongs to it */
    bool normalised;              /* looked for in the text after it was normalised */
    bool special;
} AddedToken;

/* Those that are looked for in the text as it is, or in the normalised one. */
typedef struct AddedSet {
    Trie trie;       /* numbers: places in `all` */
    bool first[256]; /* bytes that some of them begin with */
    const AddedToken *all;
    Pattern *word; /* \w, for those that stand alone */
} AddedSet;

/* The first of equal contents counts. */
void added_put(AddedSet *set, const char *bytes, size_t length, int32_t number);
/* Appends the pieces of bytes[start..start + length). */
void added_split(const AddedSet *set, Matcher *matcher, const char *bytes, const Piece *whole,
                 PieceList *result);

#endif
