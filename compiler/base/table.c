/* table: open addressing over buckets, at most half full. */
#include "base/table.h"
#include "base/must.h"

#include <string.h>

static Bucket **find_slot(const Table *table, uint64_t hash) {
    size_t slot = (size_t)hash & (table->capacity - 1);
    while (table->slots[slot] && table->slots[slot]->hash != hash)
        slot = (slot + 1) & (table->capacity - 1);
    return &table->slots[slot];
}

static void grow_table(Arena *arena, Table *table) {
    Table larger = {.capacity = table->capacity ? 2 * table->capacity : 64, .count = table->count};
    larger.slots = arena_alloc(arena, larger.capacity * sizeof *larger.slots);
    for (size_t i = 0; i < table->capacity; i++)
        if (table->slots[i]) *find_slot(&larger, table->slots[i]->hash) = table->slots[i];
    *table = larger;
}

void table_add(Arena *arena, Table *table, uint64_t hash, void *item) {
    if (2 * (table->count + 1) > table->capacity) grow_table(arena, table);
    MUST(2 * table->count < table->capacity);
    Bucket **slot = find_slot(table, hash);
    if (!*slot) {
        *slot = arena_alloc(arena, sizeof **slot);
        (*slot)->hash = hash;
        table->count++;
    }
    list_push(arena, &(*slot)->items, item);
}

const List *table_find(const Table *table, uint64_t hash) {
    static const List nothing;
    const Bucket *bucket = table->capacity ? *find_slot(table, hash) : NULL;
    return bucket ? &bucket->items : &nothing;
}

/* Multiplication carries a change upwards, the shift brings it down again: slots are chosen by low
 * bits. */
uint64_t hash_word(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    return hash ^ (hash >> 32);
}

uint64_t hash_bytes(uint64_t hash, const char *bytes, size_t length) {
    for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001B3u;
    return hash_word(hash, length);
}

uint64_t hash_text(uint64_t hash, const char *text) {
    return hash_bytes(hash, text, strlen(text));
}
