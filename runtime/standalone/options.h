/* options: command-line options of the programs of this folder: a name and a value, or a name. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Destination of an option: the one pointer that is not NULL. */
typedef struct Option {
    const char *name; /* "--steps" */
    const char **text;
    long *whole;
    double *real;
    uint64_t *seed;
    int *flag; /* without a value */
} Option;

/* Parses a value. Returns 1 if valid: the whole text is a number of at least 0, or a text. */
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

/* Parses all arguments. Returns 1 if all names are known; otherwise prints an error, except for -h
 * and --help: the caller calls options_usage. */
static int options_read(const Option *options, int known, int count, char **arguments) {
    for (int i = 1; i < count; i++) {
        const Option *option = options;
        while (option < options + known && strcmp(option->name, arguments[i]) != 0) option++;
        if (!strcmp(arguments[i], "-h") || !strcmp(arguments[i], "--help")) return 0;
        if (option == options + known) {
            fprintf(stderr, "%s: unknown option %s\n", arguments[0], arguments[i]);
            return 0;
        }
        if (option->flag) {
            *option->flag = 1;
            continue;
        }
        const char *value = ++i < count ? arguments[i] : NULL;
        if (!value || !option_take(option, value)) {
            fprintf(stderr, "%s: %s expects a %s, got '%s'\n", arguments[0], option->name,
                    option->text   ? "text"
                    : option->real ? "number of at least 0"
                                   : "whole number of at least 0",
                    value ? value : "");
            return 0;
        }
    }
    return 1;
}

/* Prints the usage and returns the exit code: 0 after -h or --help, else 2. */
static int options_usage(const char *usage, int count, char **arguments) {
    for (int i = 1; i < count; i++)
        if (!strcmp(arguments[i], "-h") || !strcmp(arguments[i], "--help"))
            return printf("usage: %s %s", arguments[0], usage), 0;
    fprintf(stderr, "usage: %s %s", arguments[0], usage);
    return 2;
}

#endif
