/* options: what a program of this folder is told on its command line: pairs of a name and a
 * value. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the value of a name goes: to the one place that is not NULL. */
typedef struct Option {
    const char *name; /* "--steps" */
    const char **text;
    long *whole;
    double *real;
    uint64_t *seed;
} Option;

/* 1 when the text is what the name takes: numbers are whole texts, none is below 0. */
static int option_take(const Option *option, const char *text) {
    char *end = (char *)(uintptr_t)text;
    int number = *text >= '0' && *text <= '9';
    errno = 0;
    if (option->text) *option->text = text;
    if (option->whole) *option->whole = strtol(text, &end, 10);
    if (option->seed) *option->seed = strtoull(text, &end, 10);
    if (option->real) *option->real = strtod(text, &end);
    if (option->text) return *text != 0;
    return number && !*end && !errno && (!option->real || isfinite(*option->real));
}

/* 1 when all arguments are pairs with one of those names; else it has said which is not. */
static int options_read(const Option *options, int known, int count, char **arguments) {
    for (int i = 1; i < count; i += 2) {
        const char *value = i + 1 < count ? arguments[i + 1] : NULL;
        const Option *option = options;
        while (option < options + known && strcmp(option->name, arguments[i]) != 0) option++;
        if (option == options + known) {
            fprintf(stderr, "%s: there is no option %s\n", arguments[0], arguments[i]);
            return 0;
        }
        if (!value || !option_take(option, value)) {
            fprintf(stderr, "%s: %s takes a %s, not '%s'\n", arguments[0], option->name,
                    option->text   ? "text"
                    : option->real ? "number from 0"
                                   : "whole number from 0",
                    value ? value : "");
            return 0;
        }
    }
    return 1;
}

#endif
