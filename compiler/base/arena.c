#include "base/arena.h"
#include "base/must.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Blocks grow with their contents, which limits their number. The system provides large blocks
 * zeroed and receives them back whole. */
enum { BLOCK_BYTES = 1 << 16, MAX_BLOCK_BYTES = 1 << 22 };

typedef struct ArenaBlock {
    struct ArenaBlock *next;
    size_t used, size;
    alignas(max_align_t) char bytes[];
} ArenaBlock;

struct Arena {
    ArenaBlock *blocks;
    ArenaBlock *spare; /* for the message when memory runs out */
    size_t bytes, limit;
    void (*full)(void *data);
    void *data;
};

static _Noreturn void no_memory(void) {
    fputs("moec: error: out of memory\n"
          "  help: reduce train.batch_size or train.context_length\n",
          stderr);
    exit(1);
}

/* A system can promise more memory than it has and end the process later. */
static size_t whole_machine(void) {
    long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && bytes > 0 ? (size_t)pages * (size_t)bytes : SIZE_MAX;
}

static ArenaBlock *block_new(size_t size) {
    ArenaBlock *block = calloc(1, sizeof *block + size);
    if (block) block->size = size;
    return block;
}

Arena *arena_new(void) {
    Arena *arena = calloc(1, sizeof *arena);
    if (!arena) no_memory();
    arena->spare = block_new(BLOCK_BYTES);
    arena->limit = whole_machine();
    return arena;
}

size_t arena_bytes(const Arena *arena) {
    return arena->bytes;
}

unsigned long long arena_hash(const Arena *arena) {
    unsigned long long hash = arena->bytes;
    for (const ArenaBlock *block = arena->blocks; block; block = block->next)
        for (size_t i = 0; i < block->used; i++)
            hash = (hash ^ (unsigned char)block->bytes[i]) * 1099511628211ULL;
    return hash;
}

void arena_limit(Arena *arena, size_t bytes, void (*full)(void *data), void *data) {
    arena->limit = bytes ? bytes : whole_machine();
    arena->full = full;
    arena->data = data;
}

void arena_free(Arena *arena) {
    if (!arena) return;
    for (ArenaBlock *block = arena->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    free(arena->spare);
    free(arena);
}

/* Keeps the newest block, which is the largest one. */
void arena_clear(Arena *arena) {
    ArenaBlock *kept = arena->blocks;
    if (!kept) return;
    for (ArenaBlock *block = kept->next, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    memset(kept->bytes, 0, kept->used);
    kept->next = NULL;
    kept->used = 0;
    arena->bytes = kept->size;
}

static void push_block(Arena *arena, ArenaBlock *block) {
    block->next = arena->blocks;
    arena->blocks = block;
    arena->bytes += block->size;
}

static void exhausted(Arena *arena) {
    if (!arena->full || !arena->spare) no_memory();
    push_block(arena, arena->spare);
    arena->spare = NULL;
    arena->full(arena->data);
}

static void grow(Arena *arena, size_t need) {
    size_t size = arena->bytes > BLOCK_BYTES ? arena->bytes : BLOCK_BYTES;
    if (size > MAX_BLOCK_BYTES) size = MAX_BLOCK_BYTES;
    if (size < need) size = need;
    if (size > arena->limit || arena->bytes > arena->limit - size) exhausted(arena);
    ArenaBlock *block = block_new(size);
    if (!block) exhausted(arena);
    push_block(arena, block);
}

void *arena_alloc(Arena *arena, size_t bytes) {
    size_t align = alignof(max_align_t);
    size_t need = (bytes + align - 1) / align * align;
    if (need == 0) need = align;
    if (!arena->blocks || arena->blocks->size - arena->blocks->used < need) grow(arena, need);
    ArenaBlock *block = arena->blocks;
    void *memory = block->bytes + block->used;
    block->used += need;
    return memory;
}

char *arena_copy(Arena *arena, const char *text, size_t length) {
    char *copy = arena_alloc(arena, length + 1);
    if (length) memcpy(copy, text, length);
    return copy;
}

/* Short texts, the common case, are formatted once. */
char *arena_vformat(Arena *arena, const char *format, va_list arguments) {
    char small[512];
    va_list again;
    va_copy(again, arguments);
    size_t length = (size_t)vsnprintf(small, sizeof small, format, again);
    va_end(again);
    if (length < sizeof small) return arena_copy(arena, small, length);
    char *text = arena_alloc(arena, length + 1);
    vsnprintf(text, length + 1, format, arguments);
    return text;
}

char *arena_take(Arena *arena, char *text) {
    char *copy = arena_copy(arena, text, strlen(text));
    free(text);
    return copy;
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

void *list_copy(Arena *arena, List *list, const void *item, size_t bytes) {
    void *copy = memcpy(arena_alloc(arena, bytes), item, bytes);
    list_push(arena, list, copy);
    return copy;
}

int list_find(const List *list, const void *item) {
    for (int i = 0; i < list->count; i++)
        if (list->items[i] == item) return i;
    return -1;
}

/* The pointer at the offset `member` of an item. */
static const void *pointer_at(const void *item, size_t member) {
    const void *pointer;
    memcpy(&pointer, (const char *)item + member, sizeof pointer);
    return pointer;
}

void *list_find_by(const List *list, size_t member, const void *pointer) {
    for (int i = 0; i < list->count; i++)
        if (pointer_at(list->items[i], member) == pointer) return list->items[i];
    return NULL;
}

void *list_named(const List *list, size_t member, const char *name) {
    for (int i = 0; i < list->count; i++)
        if (!strcmp(pointer_at(list->items[i], member), name)) return list->items[i];
    return NULL;
}

void list_remove(List *list, const void *item) {
    int kept = 0;
    for (int i = 0; i < list->count; i++)
        if (list->items[i] != item) list->items[kept++] = list->items[i];
    list->count = kept;
}

bool list_has_text(const List *list, const char *text) {
    return text_find((const char *const *)list->items, list->count, text) >= 0;
}

void list_insert(Arena *arena, List *list, int position, const List *items) {
    MUST(position >= 0 && position <= list->count);
    int count = items->count, behind = list->count - position;
    for (int i = 0; i < count; i++) list_push(arena, list, NULL);
    if (!count) return;
    void **at = list->items + position;
    memmove(at + count, at, (size_t)behind * sizeof *at);
    memcpy(at, items->items, (size_t)count * sizeof *at);
}

void list_append(Arena *arena, List *list, const List *items) {
    list_insert(arena, list, list->count, items);
}

bool path_is_within(const char *path, const char *outer) {
    const size_t length = strlen(outer);
    return !length || (!strncmp(path, outer, length) && path[length] == '.');
}

Text text_new(Arena *arena) {
    return (Text){.arena = arena, .text = (char *)(uintptr_t) ""};
}

void text_add_bytes(Text *text, const char *bytes, size_t length) {
    if (text->length + length + 1 > text->capacity) {
        size_t capacity = text->capacity ? text->capacity : 256;
        while (capacity < text->length + length + 1) capacity *= 2;
        MUST(text->arena);
        char *grown = arena_alloc(text->arena, capacity);
        if (text->length) memcpy(grown, text->text, text->length);
        text->text = grown;
        text->capacity = capacity;
    }
    if (length) memcpy(text->text + text->length, bytes, length);
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
