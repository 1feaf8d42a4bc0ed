/* wishes: what a program of this folder is told on its command line: pairs of a name and a
 * value. */
#ifndef WISHES_H
#define WISHES_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Where the value of a name goes: to the one place that is not NULL. */
typedef struct Wish {
    const char *name; /* "--steps" */
    const char **text;
    long *whole;
    double *real;
    uint64_t *seed;
} Wish;

/* 1 when all arguments are pairs with one of those names. */
static int wishes_read(const Wish *wishes, int known, int count, char **arguments) {
    for (int i = 1; i < count; i += 2) {
        const char *value = i + 1 < count ? arguments[i + 1] : NULL;
        const Wish *wish = wishes;
        while (wish < wishes + known && strcmp(wish->name, arguments[i]) != 0) wish++;
        if (!value || wish == wishes + known) return 0;
        if (wish->text) *wish->text = value;
        if (wish->whole) *wish->whole = strtol(value, NULL, 10);
        if (wish->real) *wish->real = strtod(value, NULL);
        if (wish->seed) *wish->seed = strtoull(value, NULL, 10);
    }
    return 1;
}

#endif
