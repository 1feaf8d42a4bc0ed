/* text_find: a text in an array of texts. */
#ifndef TEXT_FIND_H
#define TEXT_FIND_H

#include <string.h>

/* The index of the first equal text, or -1. */
static inline int text_find(const char *const *texts, int count, const char *text) {
    for (int i = 0; i < count; i++)
        if (strcmp(texts[i], text) == 0) return i;
    return -1;
}

#endif
