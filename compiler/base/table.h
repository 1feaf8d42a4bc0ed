/* table: a hash table of items. Items of one hash keep the order of insertion. An empty table is
 * all zeros. */
#ifndef TABLE_H
#define TABLE_H

#include "base/arena.h"

#include <stdint.h>

typedef struct Bucket {
    uint64_t hash;
    List items;
} Bucket;

typedef struct Table {
    Bucket **slots;
    size_t capacity, count;
} Table;

void table_add(Arena *arena, Table *table, uint64_t hash, void *item);
/* The items with this hash, or an empty list. Different items can share a hash: the caller
 * compares. */
const List *table_find(const Table *table, uint64_t hash);

enum { HASH_START = 5381 };

/* Each function continues a hash: hash_word(hash_text(HASH_START, name), size). */
uint64_t hash_word(uint64_t hash, uint64_t word);
uint64_t hash_bytes(uint64_t hash, const char *bytes, size_t length);
uint64_t hash_text(uint64_t hash, const char *text);

#endif
