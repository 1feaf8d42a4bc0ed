/* arena: memory with one lifetime. The compiler allocates from the arena of its caller and never
 * frees a part of it. */
#ifndef ARENA_H
#define ARENA_H

#include "abi/text_find.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct Arena Arena;

Arena *arena_new(void);
void arena_free(Arena *arena);
void arena_clear(Arena *arena); /* ends the lifetime of its memory, for the next use of the arena */

size_t arena_bytes(const Arena *arena); /* allocated so far */
/* Changes with every byte of its contents. */
unsigned long long arena_hash(const Arena *arena);
/* Limits the total size to `bytes`; 0: the memory of the machine. At the limit, or if the system
 * has no more memory, `full` is called and does not return. A small reserve is left for its
 * message. Without `full` the process ends with a message. */
void arena_limit(Arena *arena, size_t bytes, void (*full)(void *data), void *data);

void *arena_alloc(Arena *arena, size_t bytes);                   /* zeroed; aligned for any type */
char *arena_copy(Arena *arena, const char *text, size_t length); /* a terminated copy */
char *arena_take(Arena *arena, char *text); /* a copy of a text from malloc, which is freed */
char *arena_format(Arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *arena_vformat(Arena *arena, const char *format, va_list arguments) __attribute__((nonnull));

/* A growing list of pointers. An empty list is all zeros. */
typedef struct List {
    void **items;
    int count;
    int capacity;
} List;

/* A loop over the items of a list, also over those that its body appends:
 * LIST_EACH(const Tensor, tensor, &program->tensors) ... with const Tensor *tensor. The outer loop
 * declares the item and runs once. */
#define LIST_EACH(Type, item, list)                                                                \
    for (Type *item = NULL, **item##_once = &item; item##_once; item##_once = NULL)                \
        for (int item##_at = 0;                                                                    \
             item##_at < (list)->count && (item = (list)->items[item##_at], true); item##_at++)

void list_push(Arena *arena, List *list, void *item);
/* Adds a copy of an item of `bytes` bytes; returns the copy. */
void *list_copy(Arena *arena, List *list, const void *item, size_t bytes);
int list_find(const List *list, const void *item); /* its index, or -1 */
/* The first item whose pointer at the offset `member` is `pointer`, or the text `name`; or NULL. */
void *list_find_by(const List *list, size_t member, const void *pointer);
void *list_named(const List *list, size_t member, const char *name);
void list_remove(List *list, const void *item);
bool list_has_text(const List *list, const char *text); /* of a list of const char * */
/* Inserts the items before index `position`; appends them if `position` is the count. */
void list_insert(Arena *arena, List *list, int position, const List *items);
void list_append(Arena *arena, List *list, const List *items);

/* Whether the path is that of `outer` and further names; all paths are within "". */
bool path_is_within(const char *path, const char *outer);

/* Growing text. An empty one is all zeros; `text` is always terminated once something was added. */
typedef struct Text {
    char *text;
    size_t length;
    size_t capacity;
    Arena *arena;
} Text;

Text text_new(Arena *arena); /* "" */
void text_add(Text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_add_bytes(Text *text, const char *bytes, size_t length);

#endif
