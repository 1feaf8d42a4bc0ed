/* vocabulary: how the pieces of a text become token numbers ("model" of the file). */
#ifndef TOKENIZER_VOCABULARY_H
#define TOKENIZER_VOCABULARY_H

#include "tokenizer/text/dictionary.h"
#include "tokenizer/text/text.h"

typedef enum ModelKind {
    VOCABULARY_BPE,
    VOCABULARY_UNIGRAM,
    VOCABULARY_WORDPIECE,
    VOCABULARY_WORDS
} ModelKind;

/* The string of a token; bytes == NULL: there is no such token. */
typedef struct Name {
    const char *bytes;
    uint32_t length;
} Name;

typedef struct Vocabulary {
    ModelKind kind;
    Name *names;   /* [size] */
    int32_t size;  /* the highest number of a token, and one */
    int32_t count; /* of tokens */
    Dictionary numbers;
    int32_t unknown;       /* -1: none */
    char *unknown_name;    /* name in the file; NULL: none */
    int32_t fallback[256]; /* "<0x41>"; -1: none */
    bool byte_fallback;

    /* BPE */
    PairTable merges; /* (left, right): rank, and result of the merge */
    bool fuse_unknown, ignore_merges;
    bool byte_level; /* pieces are raw bytes; letters[byte] is the initial symbol */
    int32_t letters[256];
    Dictionary words; /* byte level: whole tokens as raw bytes, when merges are ignored for them */
    bool cuts_at_spaces; /* no merge joins anything to a "▁" after it: words go alone */
    Text prefix, suffix; /* affixes of word continuations and of word ends */

    /* Unigram, WordPiece */
    Trie trie;
    double *scores; /* [size] */
    double unknown_score;
    int32_t continuing; /* trie node after the prefix "##" */
    long word_limit;    /* characters of a word */

    char **owned; /* memory of names that are not in the file's own spelling */
    int owned_count;
} Vocabulary;

/* Frees the members, not the structure. */
void vocabulary_free(Vocabulary *vocabulary);

/* Scratch of one thread. */
typedef struct PathNode {
    double score;
    size_t start;
    int32_t token; /* -1: nothing ends here yet */
} PathNode;

typedef struct ModelWork {
    TokenList symbols;
    int32_t *before, *after; /* [symbols] neighbours */
    uint64_t *heap;
    size_t heap_count, heap_capacity, linked;
    PathNode *path;
    size_t path_capacity;
    TokenList reversed;
} ModelWork;

/* Frees the members, not the structure. */
void model_work_free(ModelWork *work);

/* Appends the tokens of one piece; false after a message. */
bool bpe_encode(const Vocabulary *vocabulary, ModelWork *work, const char *bytes, size_t length,
                TokenList *out);
bool unigram_encode(const Vocabulary *vocabulary, ModelWork *work, const char *bytes, size_t length,
                    TokenList *out);
bool wordpiece_encode(const Vocabulary *vocabulary, const char *bytes, size_t length,
                      TokenList *out);
bool words_encode(const Vocabulary *vocabulary, const char *bytes, size_t length, TokenList *out);

/* Appends the unknown token; false after a message when the file has none. */
bool unknown_add(const Vocabulary *vocabulary, TokenList *out);
/* Appends the bytes as tokens "<0x41>"; false when one of them is missing. */
bool fallback_add(const Vocabulary *vocabulary, const char *bytes, size_t length, TokenList *out);

#endif
