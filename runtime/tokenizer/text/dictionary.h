/* dictionary: tables that find things: numbers by strings, numbers by pairs of numbers, and all
 * words that a text begins with. */
#ifndef TOKENIZER_DICTIONARY_H
#define TOKENIZER_DICTIONARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Strings with their numbers. The bytes belong to the caller and must stay. */
typedef struct WordEntry {
    const char *bytes;
    uint32_t length;
    int32_t number; /* -1: an empty slot */
} WordEntry;

typedef struct Dictionary {
    WordEntry *slots;
    size_t size, count; /* size: a power of two */
} Dictionary;

/* Replaces the number of a string that is there. */
void dictionary_put(Dictionary *dictionary, const char *bytes, size_t length, int32_t number);
int32_t dictionary_find(const Dictionary *dictionary, const char *bytes, size_t length); /* or -1 */
void dictionary_free(Dictionary *dictionary);

/* Two numbers to two others. */
typedef struct TokenPair {
    uint64_t key; /* PAIR_EMPTY: a slot that is empty */
    int32_t first, second;
} TokenPair;

#define PAIR_EMPTY UINT64_MAX

typedef struct PairTable {
    TokenPair *slots;
    size_t size, count;
} PairTable;

static inline uint64_t pair_key(int32_t left, int32_t right) {
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}
/* The pair of a key, new with first = second = -1 when there was none. Valid until the next call.
 */
TokenPair *pairs_put(PairTable *table, uint64_t key);
const TokenPair *pairs_find(const PairTable *table, uint64_t key); /* NULL: none */
void pairs_free(PairTable *table);

/* Words as paths of bytes from node 0. */
typedef struct Trie {
    PairTable edges;  /* (node, byte) to the next node */
    int32_t *numbers; /* [node]: of the word that ends there, -1: none */
    int32_t count, capacity;
} Trie;

/* Assigns the number to the word; replaces an earlier number. */
void trie_put(Trie *trie, const char *bytes, size_t length, int32_t number);
/* The node after `byte`, or -1. */
static inline int32_t trie_next(const Trie *trie, int32_t node, unsigned char byte) {
    const TokenPair *edge = pairs_find(&trie->edges, pair_key(node, byte));
    return edge ? edge->first : -1;
}
/* The longest word that the bytes begin with: its number and length, or -1. from: node to start at.
 */
int32_t trie_longest(const Trie *trie, int32_t from, const char *bytes, size_t length,
                     size_t *matched);
/* The node that the bytes lead to from node 0, or -1. */
int32_t trie_walk(const Trie *trie, const char *bytes, size_t length);
void trie_free(Trie *trie);

#endif
