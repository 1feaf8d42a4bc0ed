#include "tokenizer/text/dictionary.h"

#include "base/hashing.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

static WordEntry *find_word_slot(const Dictionary *dictionary, const char *bytes, size_t length) {
    size_t mask = dictionary->size - 1, at = XXH3_64bits(bytes, length) & mask;
    for (;; at = (at + 1) & mask) {
        WordEntry *slot = &dictionary->slots[at];
        if (slot->number < 0 || (slot->length == length && memcmp(slot->bytes, bytes, length) == 0))
            return slot;
    }
}

static void grow_dictionary(Dictionary *dictionary) {
    Dictionary larger = {.size = dictionary->size ? 2 * dictionary->size : 64};
    larger.slots = memory_new(sizeof(WordEntry) * larger.size);
    for (size_t i = 0; i < larger.size; i++) larger.slots[i].number = -1;
    larger.count = dictionary->count;
    for (size_t i = 0; i < dictionary->size; i++) {
        const WordEntry *word = &dictionary->slots[i];
        if (word->number >= 0) *find_word_slot(&larger, word->bytes, word->length) = *word;
    }
    free(dictionary->slots);
    *dictionary = larger;
}

void dictionary_put(Dictionary *dictionary, const char *bytes, size_t length, int32_t number) {
    if (2 * dictionary->count >= dictionary->size) grow_dictionary(dictionary);
    WordEntry *slot = find_word_slot(dictionary, bytes, length);
    dictionary->count += slot->number < 0;
    *slot = (WordEntry){bytes, (uint32_t)length, number};
}

int32_t dictionary_find(const Dictionary *dictionary, const char *bytes, size_t length) {
    return dictionary->size ? find_word_slot(dictionary, bytes, length)->number : -1;
}

void dictionary_free(Dictionary *dictionary) {
    free(dictionary->slots);
    *dictionary = (Dictionary){0};
}

/* The upper bits of a product depend on all bits of the key. */
static size_t pair_hash(uint64_t key, size_t size) {
    return (key * 0x9E3779B97F4A7C15u >> 20) & (size - 1);
}

static TokenPair *find_pair_slot(const PairTable *table, uint64_t key) {
    size_t at = pair_hash(key, table->size);
    while (table->slots[at].key != key && table->slots[at].key != PAIR_EMPTY)
        at = (at + 1) & (table->size - 1);
    return &table->slots[at];
}

static void grow_pairs(PairTable *table) {
    PairTable larger = {.size = table->size ? 2 * table->size : 64, .count = table->count};
    larger.slots = memory_new(sizeof(TokenPair) * larger.size);
    for (size_t i = 0; i < larger.size; i++) larger.slots[i].key = PAIR_EMPTY;
    for (size_t i = 0; i < table->size; i++)
        if (table->slots[i].key != PAIR_EMPTY)
            *find_pair_slot(&larger, table->slots[i].key) = table->slots[i];
    free(table->slots);
    *table = larger;
}

TokenPair *pairs_put(PairTable *table, uint64_t key) {
    if (2 * table->count >= table->size) grow_pairs(table);
    TokenPair *pair = find_pair_slot(table, key);
    if (pair->key == PAIR_EMPTY) {
        *pair = (TokenPair){key, -1, -1};
        table->count++;
    }
    return pair;
}

const TokenPair *pairs_find(const PairTable *table, uint64_t key) {
    if (!table->size) return NULL;
    const TokenPair *pair = find_pair_slot(table, key);
    return pair->key == key ? pair : NULL;
}

void pairs_free(PairTable *table) {
    free(table->slots);
    *table = (PairTable){0};
}

static int32_t new_node(Trie *trie) {
    if (trie->count == trie->capacity) {
        trie->capacity = trie->capacity ? 2 * trie->capacity : 64;
        trie->numbers = memory_grow(trie->numbers, sizeof *trie->numbers * (size_t)trie->capacity);
    }
    trie->numbers[trie->count] = -1;
    return trie->count++;
}

void trie_put(Trie *trie, const char *bytes, size_t length, int32_t number) {
    if (!trie->count) new_node(trie);
    int32_t node = 0;
    for (size_t i = 0; i < length; i++) {
        TokenPair *edge = pairs_put(&trie->edges, pair_key(node, (unsigned char)bytes[i]));
        if (edge->first < 0) edge->first = new_node(trie);
        node = edge->first;
    }
    trie->numbers[node] = number;
}

int32_t trie_longest(const Trie *trie, int32_t from, const char *bytes, size_t length,
                     size_t *matched) {
    int32_t node = trie->count ? from : -1, best = -1;
    for (size_t i = 0; node >= 0 && i < length; i++) {
        node = trie_next(trie, node, (unsigned char)bytes[i]);
        if (node >= 0 && trie->numbers[node] >= 0) {
            best = trie->numbers[node];
            *matched = i + 1;
        }
    }
    return best;
}

int32_t trie_walk(const Trie *trie, const char *bytes, size_t length) {
    int32_t node = trie->count ? 0 : -1;
    for (size_t i = 0; node >= 0 && i < length; i++)
        node = trie_next(trie, node, (unsigned char)bytes[i]);
    return node;
}

void trie_free(Trie *trie) {
    pairs_free(&trie->edges);
    free(trie->numbers);
    *trie = (Trie){0};
}
