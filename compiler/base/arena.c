#include "base/arena.h"

#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 1 << 16 };

typedef struct Block {
    struct Block *next;
    size_t used, size;
    alignas(max_align_t) char bytes[];
} Block;

struct Arena {
    Block *blocks;
};

Arena *arena_new(void) {
    Arena *arena = calloc(1, sizeof *arena);
    if (!arena) abort();
    return arena;
}

void arena_free(Arena *arena) {
    if (!arena) return;
    for (Block *block = arena->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    free(arena);
}

void *arena_alloc(Arena *arena, size_t bytes) {
    size_t align = alignof(max_align_t);
    size_t need = (bytes + align - 1) / align * align;
    if (need == 0) need = align;
    Block *block = arena->blocks;
    if (!block || block->size - block->used < need) {
        size_t size = need > BLOCK_BYTES ? need : BLOCK_BYTES;
        block = calloc(1, sizeof *block + size);
        if (!block) abort();
        block->size = size;
        block->next = arena->blocks;
        arena->blocks = block;
    }
    void *memory = block->bytes + block->used;
    block->used += need;
    return memory;
}

char *arena_copy(Arena *arena, const char *text, size_t length) {
    char *copy = arena_alloc(arena, length + 1);
    if (length) memcpy(copy, text, length);
    return copy;
}

char *arena_vformat(Arena *arena, const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = arena_alloc(arena, (size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    return text;
}

char *arena_format(Arena *arena, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = arena_vformat(arena, format, arguments);
    va_end(arguments);
    return text;
}

void list_push(Arena *arena, List *list, void *item) {
    if (list->count == list->capacity) {
        int capacity = list->capacity ? 2 * list->capacity : 8;
        void **items = arena_alloc(arena, (size_t)capacity * sizeof *items);
        if (list->count) memcpy(items, list->items, (size_t)list->count * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = item;
}

void text_add_bytes(Text *text, const char *bytes, size_t length) {
    if (text->length + length + 1 > text->capacity) {
        size_t capacity = text->capacity ? text->capacity : 256;
        while (capacity < text->length + length + 1) capacity *= 2;
        char *grown = arena_alloc(text->arena, capacity);
        if (text->length) memcpy(grown, text->text, text->length);
        text->text = grown;
        text->capacity = capacity;
    }
    memcpy(text->text + text->length, bytes, length);
    text->length += length;
    text->text[text->length] = 0;
}

void text_add(Text *text, const char *format, ...) {
    char small[512];
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(small, sizeof small, format, arguments);
    va_end(arguments);
    if (length < (int)sizeof small)
        text_add_bytes(text, small, (size_t)length);
    else {
        char *large = arena_vformat(text->arena, format, again);
        text_add_bytes(text, large, (size_t)length);
    }
    va_end(again);
}
