/* wishes: what a program of this folder is told on its command line: pairs of a name and a
 * value. */
#ifndef WISHES_H
#define WISHES_H

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
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

/* 1 when the text is what the name takes: numbers are whole texts, none is below 0. */
static int wish_take(const Wish *wish, const char *text) {
    char *end = (char *)(uintptr_t)text;
    int number = *text >= '0' && *text <= '9';
    errno = 0;
    if (wish->text) *wish->text = text;
    if (wish->whole) *wish->whole = strtol(text, &end, 10);
    if (wish->seed) *wish->seed = strtoull(text, &end, 10);
    if (wish->real) *wish->real = strtod(text, &end);
    if (wish->text) return *text != 0;
    return number && !*end && !errno && (!wish->real || isfinite(*wish->real));
}

/* 1 when all arguments are pairs with one of those names; else it has said which is not. */
static int wishes_read(const Wish *wishes, int known, int count, char **arguments) {
    for (int i = 1; i < count; i += 2) {
        const char *value = i + 1 < count ? arguments[i + 1] : NULL;
        const Wish *wish = wishes;
        while (wish < wishes + known && strcmp(wish->name, arguments[i]) != 0) wish++;
        if (wish == wishes + known) {
            fprintf(stderr, "%s: there is no option %s\n", arguments[0], arguments[i]);
            return 0;
        }
        if (!value || !wish_take(wish, value)) {
            fprintf(stderr, "%s: %s takes a %s, not '%s'\n", arguments[0], wish->name,
                    wish->text   ? "text"
                    : wish->real ? "number from 0"
                                 : "whole number from 0",
                    value ? value : "");
            return 0;
        }
    }
    return 1;
}

#endif
