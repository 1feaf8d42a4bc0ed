#include "command/arguments.h"

#include "base/message.h"
#include "moec.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int arguments_wrong(const Command *command, const char *remedy, const char *format, ...) {
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    error_message(remedy, "%s", message);
    fprintf(stderr, "usage: moec %s %s\n", command->name, command->forms);
    return EXIT_USAGE;
}

static int print_help(const Command *command, const Option *options) {
    printf("usage: moec %s %s\n\n%s\n", command->name, command->forms, command->summary);
    if (options->kind != OPTION_END) printf("\noptions:\n");
    for (const Option *option = options; option->kind != OPTION_END; option++) {
        char left[64];
        snprintf(left, sizeof left, "%s%s%s", option->name, option->argument ? " " : "",
                 option->argument ? option->argument : "");
        printf("  %-22s %s\n", left, option->help);
    }
    return 0;
}

/* False when `text` is not what the option takes. */
static bool take_value(const Option *option, const char *text) {
    char *end = NULL;
    errno = 0;
    switch (option->kind) {
    case OPTION_TEXT:
        *(const char **)option->value = text;
        return *text != 0; /* no name, path or text is empty */
    case OPTION_COUNT: {
        double number = strtod(text, &end); /* 4e6 is a whole number, too */
        *(long *)option->value = (long)number;
        return *text && !*end && number >= 0 && number < 0x1p62 && number == floor(number);
    }
    case OPTION_NUMBER:
        *(double *)option->value = strtod(text, &end);
        return *text && !*end && isfinite(*(double *)option->value);
    case OPTION_LIST: {
        TextList *list = option->value;
        if (list->count == LIST_LIMIT) return false;
        list->items[list->count++] = text;
        return true;
    }
    default:
        return false;
    }
}

static const Option *find_option(const Option *options, const char *text, size_t length) {
    for (const Option *option = options; option->kind != OPTION_END; option++)
        if (strlen(option->name) == length && strncmp(option->name, text, length) == 0)
            return option;
    return NULL;
}

/* "did you mean --steps?", or where to look. */
static int unknown_option(const Command *command, const Option *options, const char *text) {
    const char *names[LIST_LIMIT];
    int count = 0;
    char name[64], remedy[96] = "see moec help, or --help after the command";
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "="), text);
    for (; options[count].kind != OPTION_END && count < LIST_LIMIT; count++)
        names[count] = options[count].name;
    const char *near = moec_nearest(name, names, count);
    if (near) snprintf(remedy, sizeof remedy, "did you mean %s?", near);
    return arguments_wrong(command, remedy, "%s is not an option of moec %s", text, command->name);
}

/* One option at argv[*at]; its value may be the next argument or stand after '='. */
static int read_option(const Command *command, const Option *options, int argc, char **argv,
                       int *at) {
    const char *text = argv[*at], *equals = strchr(text, '=');
    const Option *option =
        find_option(options, text, equals ? (size_t)(equals - text) : strlen(text));
    if (!option) return unknown_option(command, options, text);
    if (option->kind == OPTION_FLAG) {
        *(bool *)option->value = true;
        return equals ? arguments_wrong(command, NULL, "%s takes no value", option->name) : -1;
    }
    const char *value = equals ? equals + 1 : *at + 1 < argc ? argv[++*at] : NULL;
    if (!value)
        return arguments_wrong(command, NULL, "%s needs a value: %s %s", option->name, option->name,
                               option->argument);
    if (!take_value(option, value))
        return arguments_wrong(command, NULL, "'%s' is not a value that %s takes (%s: %s)", value,
                               option->name, option->argument, option->help);
    return -1;
}

/* An argument that is no option. */
static int take_operand(const Command *command, const char *text, int most, TextList *operands) {
    if (operands->count >= most)
        return arguments_wrong(command, "put texts with spaces in quotes",
                               "one argument too many: %s", text);
    if (!*text) return arguments_wrong(command, NULL, "the first argument is empty");
    operands->items[operands->count++] = text;
    return -1;
}

/* Options of commands that set an option of the spec. */
static const struct {
    const char *command, *name, *sets;
} spec_options[] = {
    {"train", "--steps", "train.steps"},
    {"train", "--seed", "train.seed"},
    {"run", "--context", "train.context_length"},
    {"emit", "--context", "train.context_length"},
    {"serve", "--context", "train.context_length"},
    {"verify", "--context", "train.context_length"},
    {"verify", "--batch", "train.batch_size"},
};

static bool is_given(const char *name, int argc, char **argv) {
    size_t length = strlen(name);
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strncmp(argv[i], name, length) == 0 && strchr("=", argv[i][length])) return true;
    return false;
}

/* One command line sets an option of the spec in one way. */
static int check_sets(const Command *command, const TextList *sets, int argc, char **argv) {
    for (size_t i = 0; i < sizeof spec_options / sizeof spec_options[0]; i++) {
        const char *name = spec_options[i].name, *path = spec_options[i].sets;
        if (strcmp(spec_options[i].command, command->name) || !is_given(name, argc, argv)) continue;
        for (int k = 0; k < sets->count; k++)
            if (moec_sets(sets->items[k], path))
                return arguments_wrong(command, "give one of them", "%s and --set %s both set %s",
                                       name, sets->items[k], path);
    }
    return -1;
}

static int read_all(const Command *command, const Option *options, int argc, char **argv, int most,
                    TextList *operands) {
    bool only_operands = false;
    for (int i = 1; i < argc; i++) {
        int code = -1;
        if (!only_operands && strcmp(argv[i], "--") == 0)
            only_operands = true;
        else if (!only_operands && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0))
            return print_help(command, options);
        else if (!only_operands && argv[i][0] == '-' && argv[i][1])
            code = read_option(command, options, argc, argv, &i);
        else
            code = take_operand(command, argv[i], most, operands);
        if (code >= 0) return code;
    }
    if (!operands->count && most)
        return arguments_wrong(command, NULL, "moec %s: the first argument is missing",
                               command->name);
    const Option *set = find_option(options, "--set", strlen("--set"));
    return set && set->kind == OPTION_LIST ? check_sets(command, set->value, argc, argv) : -1;
}

int arguments_read(const Command *command, const Option *options, int argc, char **argv,
                   const char **operand) {
    TextList operands = {0};
    int code = read_all(command, options, argc, argv, operand ? 1 : 0, &operands);
    if (operand) *operand = operands.items[0];
    return code;
}

int arguments_read_all(const Command *command, const Option *options, int argc, char **argv,
                       TextList *operands) {
    return read_all(command, options, argc, argv, LIST_LIMIT, operands);
}
