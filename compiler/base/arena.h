/* arena: memory with one lifetime. The compiler allocates from an arena that its caller made and
 * never frees a part of it. */
#ifndef ARENA_H
#define ARENA_H

#include <stdarg.h>
#include <stddef.h>

typedef struct Arena Arena;

Arena *arena_new(void);
void arena_free(Arena *arena);

size_t arena_bytes(const Arena *arena); /* what it has taken so far */
/* From now on no more than `bytes` in all; 0: what the machine has. `full` is called instead of
 * taking more, or where there is no more memory, and does not return; there is a little left for
 * what it has to say. Without `full` the process ends with a message. */
void arena_limit(Arena *arena, size_t bytes, void (*full)(void *data), void *data);

void *arena_alloc(Arena *arena, size_t bytes);                   /* zeroed; aligned for any type */
char *arena_copy(Arena *arena, const char *text, size_t length); /* a terminated copy */
char *arena_format(Arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *arena_vformat(Arena *arena, const char *format, va_list arguments) __attribute__((nonnull));

/* A growing list of pointers. An empty list is all zeros. */
typedef struct List {
    void **items;
    int count;
    int capacity;
} List;

void list_push(Arena *arena, List *list, void *item);
int list_find(const List *list, const void *item); /* its place; -1: it is not there */
/* The items ahead of the one that is at `place` now; at the end where place is the count. */
void list_insert(Arena *arena, List *list, int place, const List *items);

/* Growing text. An empty one is all zeros; `text` is always terminated once something was added. */
typedef struct Text {
    char *text;
    size_t length;
    size_t capacity;
    Arena *arena;
} Text;

void text_add(Text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_add_bytes(Text *text, const char *bytes, size_t length);

#endif
