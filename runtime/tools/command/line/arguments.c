#include "tools/command/line/arguments.h"

#include "base/memory.h"
#include "base/message.h"
#include "base/threads.h"
#include "moec.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Values of the options of every command. */
static struct {
    bool help, quiet, verbose;
    const char *color;
    long threads;
} common;

static char **whole_line;
static const char *old_command;

/* One call of arguments_read. */
typedef struct Reading {
    const Command *command;
    Option table[TABLE_LIMIT + 1];
    int count, argc, at, limit; /* limit: largest number of operands */
    char **argv;
    TextList *operands;
} Reading;

/* Texts that live as long as the process: renamed flags that were used, and settings. */
static TextList old_names, new_names, setting_texts;

static struct {
    ShowOptions *show;
    void *data;
} description;

void arguments_begin(char **argv, const char *old_name) {
    whole_line = argv;
    old_command = old_name;
}

int arguments_wrong(const Command *command, const char *help, const char *format, ...) {
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    AUTO_FREE char *example = memory_format("for example: moec %s", command->examples[0]);
    error_message(help ? help : example, "%s", message);
    fprintf(message_file(), "usage: moec %s %s\n", command->name, command->forms);
    return EXIT_USAGE;
}

/* ---- the table ---- */

static const Option *find_option(const Reading *reading, const char *text, size_t length) {
    for (const Option *option = reading->table; option->kind != OPTION_END; option++)
        if (option->kind != OPTION_GROUP && strlen(option->name) == length &&
            strncmp(option->name, text, length) == 0)
            return option;
    return NULL;
}

static void add_option(Reading *reading, Option option) {
    if (option.kind != OPTION_GROUP && find_option(reading, option.name, strlen(option.name)))
        return;
    reading->table[reading->count++] = option;
}

static void make_table(Reading *reading, const Option *options, int option_count) {
    const Command *command = reading->command;
    for (int i = 0; i < option_count; i++) add_option(reading, options[i]);
    int count;
    FlagSetting *settings = flag_settings(&count);
    if (command->settings & ~(unsigned)(SET_THREADS | SET_WAIT | STOPS_WITH_0))
        add_option(reading, (Option){.kind = OPTION_GROUP, .name = "model settings"});
    for (int i = 0; i < count; i++)
        if (settings[i].mask & command->settings)
            add_option(reading, (Option){OPTION_SETTING, settings[i].name, settings[i].argument,
                                         &settings[i], settings[i].help});
    add_option(reading, (Option){.kind = OPTION_GROUP, .name = "common options"});
    if (command->settings & SET_THREADS)
        add_option(reading, (Option){OPTION_COUNT, "--threads", "N", &common.threads,
                                     "number of threads (default: all processors)"});
    const Option others[] = {
        {OPTION_FLAG, "--quiet", NULL, &common.quiet, "errors and the result only"},
        {OPTION_FLAG, "--verbose", NULL, &common.verbose,
         "compiler commands, cache hits and phase times"},
        {OPTION_TEXT, "--color", "auto|always|never", &common.color,
         "color of messages (default auto: on a terminal without NO_COLOR)"},
        {OPTION_FLAG, "--help", NULL, &common.help, "this text"},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) add_option(reading, others[i]);
}

/* ---- values ---- */

/* The possible value nearest to the text as a question, or NULL. */
static char *near_value(const char *argument, const char *text) {
    const char *names[LIST_LIMIT];
    int count = 0;
    char *copy = memory_format("%s", argument), *rest = NULL;
    for (char *name = strtok_r(copy, "|", &rest); name && count < LIST_LIMIT;
         name = strtok_r(NULL, "|", &rest))
        names[count++] = name;
    const char *near = moec_nearest(text, names, count);
    char *help = near ? memory_format("did you mean %s?", near) : NULL;
    free(copy);
    return help;
}

static bool is_value(const char *argument, const char *text) {
    size_t length = strlen(text);
    for (const char *at = argument; *at; at += strcspn(at, "|"), at += *at == '|')
        if (strcspn(at, "|") == length && strncmp(at, text, length) == 0) return true;
    return false;
}

/* Whether the option names a directory, which cannot be stdin or stdout. */
static bool is_directory(const char *argument) {
    return !strcmp(argument, "DIR") || !strcmp(argument, "RUN");
}

/* Stores the value; false if the option does not accept it. */
static bool take_value(const Option *option, const char *text) {
    char *end = NULL;
    switch (option->kind) {
    case OPTION_TEXT:
        *(const char **)option->value = text;
        return *text && (!strchr(option->argument, '|') || is_value(option->argument, text)) &&
               !(is_directory(option->argument) && !strcmp(text, "-"));
    case OPTION_COUNT: {
        double number = strtod(text, &end); /* accepts 4e6 */
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

/* The value of a setting is checked here and passed on as text. */
static bool take_setting(const Option *option, const char *text) {
    union {
        long count;
        double number;
        const char *text;
    } value;
    FlagSetting *setting = option->value;
    const Option checked = {setting->kind, option->name, option->argument, &value, option->help};
    if (!take_value(&checked, text)) return false;
    setting->text = setting->kind == OPTION_COUNT ? memory_format("%ld", value.count) : text;
    return true;
}

/* "forward, train or decode" for forward|train|decode: a new string. */
static char *listed(const char *argument) {
    char *text = memory_format("%s", "");
    for (const char *at = argument; *at;) {
        int length = (int)strcspn(at, "|");
        const char *next = at + length + (at[length] == '|');
        const char *before = at == argument ? "" : *next ? ", " : " or ";
        text = memory_append(text, "%s%.*s", before, length, at);
        at = next;
    }
    return text;
}

static int wrong_value(const Reading *reading, const Option *option, const char *text) {
    bool choice = strchr(option->argument, '|') != NULL;
    AUTO_FREE char *near = choice ? near_value(option->argument, text) : NULL,
                   *values = choice ? listed(option->argument) : NULL;
    const OptionKind kind =
        option->kind == OPTION_SETTING ? ((const FlagSetting *)option->value)->kind : option->kind;
    int code;
    if (kind == OPTION_LIST)
        code = arguments_wrong(reading->command, "use fewer values",
                               "%s is repeated more than %d times", option->name, LIST_LIMIT);
    else
        code = arguments_wrong(reading->command, near ? near : option->help,
                               "%s expects %s, got '%s'", option->name,
                               values                  ? values
                               : kind == OPTION_COUNT  ? "an integer from 0"
                               : kind == OPTION_NUMBER ? "a number"
                                                       : option->argument,
                               text);
    return code;
}

/* ---- options ---- */

static void note_renamed(char *old, char *now) {
    if (old_names.count == LIST_LIMIT) return;
    old_names.items[old_names.count++] = old;
    new_names.items[new_names.count++] = now;
}

/* One note for all old names, after the line was read: -q may follow them. */
static void print_renamed(const Command *command) {
    if (old_command)
        note_message("command '%s' is now '%s'; the old name will be removed in version 0.4",
                     old_command, command->name);
    if (!old_names.count) return;
    AUTO_FREE char *text = memory_format("%s", "");
    for (int i = 0; i < old_names.count; i++)
        text = memory_append(text, "%s'%s' is now '%s'", i ? ", " : "", old_names.items[i],
                             new_names.items[i]);
    note_message("flag %s; the old name%s will be removed in version 0.4", text,
                 old_names.count > 1 ? "s" : "");
}

/* "did you mean --steps?", or the list of options. */
static int unknown_option(const Reading *reading, const char *text) {
    const char *names[TABLE_LIMIT];
    int count = 0;
    AUTO_FREE char *name = memory_format("%.*s", (int)strcspn(text, "="), text);
    for (const Option *option = reading->table; option->kind != OPTION_END; option++)
        if (option->kind != OPTION_GROUP) names[count++] = option->name;
    const char *theirs = flag_of_others(name),
               *near = theirs && find_option(reading, theirs, strcspn(theirs, " "))
                           ? theirs
                           : moec_nearest(name, names, count);
    char letter = near ? flag_letter(near) : 0;
    AUTO_FREE char *help =
        !near    ? memory_format("moec %s --help lists the options", reading->command->name)
        : letter ? memory_format("did you mean -%c, %s?", letter, near)
                 : memory_format("did you mean %s?", near);
    return arguments_wrong(reading->command, help, "unknown option %s of moec %s", name,
                           reading->command->name);
}

static const Option *with_letter(const Reading *reading, char letter) {
    for (const Option *option = reading->table; option->kind != OPTION_END; option++)
        if (option->kind != OPTION_GROUP && flag_letter(option->name) == letter) return option;
    return NULL;
}

/* The option that the text names, also by an old name; *renamed: the row of that. */
static const Option *named(const Reading *reading, const char *text, size_t length,
                           const RenamedFlag **renamed) {
    const Option *option = find_option(reading, text, length);
    if (option) return option;
    char *name = memory_format("%.*s", (int)length, text);
    *renamed = flag_renamed(reading->command->name, name);
    if (*renamed) option = find_option(reading, (*renamed)->name, strlen((*renamed)->name));
    if (option) note_renamed(name, memory_format("%s", option->name));
    if (!option) free(name);
    return option;
}

static int read_option_value(const Reading *reading, const Option *option, const char *value) {
    if (!value)
        return arguments_wrong(reading->command, option->help, "%s requires a value: %s %s",
                               option->name, option->name, option->argument);
    const char *now = flag_renamed_value(option->name, value);
    if (now && (!strchr(option->argument, '|') || is_value(option->argument, now)) &&
        !is_value(option->argument, value)) {
        note_renamed(memory_format("%s %s", option->name, value),
                     memory_format("%s %s", option->name, now));
        value = now;
    }
    bool good =
        option->kind == OPTION_SETTING ? take_setting(option, value) : take_value(option, value);
    return good ? -1 : wrong_value(reading, option, value);
}

/* The option at argv[at]. Its value follows in the same argument ("--steps=5", "-n5") or is the
 * next one. */
static int read_option(Reading *reading) {
    const char *text = reading->argv[reading->at], *value = NULL;
    const RenamedFlag *renamed = NULL;
    const Option *option;
    if (text[1] == '-') {
        const char *equals = strchr(text, '=');
        option = named(reading, text, equals ? (size_t)(equals - text) : strlen(text), &renamed);
        value = equals ? equals + 1 : NULL;
    } else {
        option = with_letter(reading, text[1]);
        value = text[2] ? text + 2 : NULL;
    }
    if (!option) return unknown_option(reading, text);
    const char *next = reading->at + 1 < reading->argc ? reading->argv[reading->at + 1] : NULL;
    if (option->kind == OPTION_FLAG) {
        *(bool *)option->value = true;
        const char *dropped = renamed ? renamed->value : NULL;
        if (dropped && next && !value && !strcmp(next, dropped)) reading->at++;
        if (!value || (dropped && !strcmp(value, dropped))) return -1;
        return arguments_wrong(reading->command, "write the flag alone", "%s has no value",
                               option->name);
    }
    if (!value && next) reading->at++;
    return read_option_value(reading, option, value ? value : next);
}

static int read_operand(const Reading *reading, const char *text) {
    TextList *operands = reading->operands;
    if (operands->count >= reading->limit)
        return arguments_wrong(reading->command, "quote arguments that contain spaces",
                               "unexpected argument: %s", text);
    if (!*text) return arguments_wrong(reading->command, NULL, "the first argument is empty");
    operands->items[operands->count++] = text;
    return -1;
}

/* ---- after reading ---- */

/* Settings override --set: later entries of the list win. */
static void apply_settings(const Reading *reading) {
    const Option *set = find_option(reading, "--set", strlen("--set"));
    for (const Option *option = reading->table; set && option->kind != OPTION_END; option++) {
        const FlagSetting *setting = option->kind == OPTION_SETTING ? option->value : NULL;
        TextList *list = set->value;
        if (!setting || !setting->text) continue;
        char *text = memory_format("%s=%s", setting->path, setting->text);
        setting_texts.items[setting_texts.count++] = text;
        list->items[list->count++] = text;
    }
}

static void apply_common(const Reading *reading) {
    /* A process that holds its messages stays quiet. */
    message_level(common.quiet || message_is_quiet() ? -1 : common.verbose);
    moec_print_notes(!common.quiet);
    if (common.color) message_color(common.color);
    const unsigned settings = reading->command->settings;
    if (settings & SET_THREADS) threads_begin(whole_line, common.threads, settings & SET_WAIT);
    print_renamed(reading->command);
    environment_check();
}

static int read_all(Reading *reading) {
    bool only_operands = false;
    for (reading->at = 1; reading->at < reading->argc; reading->at++) {
        const char *text = reading->argv[reading->at];
        int code = -1;
        if (!only_operands && strcmp(text, "--") == 0)
            only_operands = true;
        else if (!only_operands && text[0] == '-' && text[1] && text[1] != ':')
            code = read_option(reading);
        else
            code = read_operand(reading, text);
        if (code >= 0) return code;
        if (common.help) {
            help_print(reading->command, reading->table);
            return 0;
        }
    }
    if (!reading->operands->count && reading->limit)
        return arguments_wrong(reading->command, NULL, "moec %s requires an argument: %.*s",
                               reading->command->name, (int)strcspn(reading->command->forms, " "),
                               reading->command->forms);
    apply_common(reading);
    apply_settings(reading);
    return -1;
}

static int read_table(Reading *reading, const Option *options, int count, int argc, char **argv) {
    reading->argc = argc;
    reading->argv = argv;
    make_table(reading, options, count);
    if (!description.show) return read_all(reading);
    description.show(reading->command, reading->table, description.data);
    return 0;
}

int arguments_read(const Command *command, const Option *options, int count, int argc, char **argv,
                   const char **operand) {
    TextList operands = {0};
    Reading reading = {.command = command, .limit = operand ? 1 : 0, .operands = &operands};
    int code = read_table(&reading, options, count, argc, argv);
    if (operand) *operand = operands.items[0];
    return code;
}

int arguments_read_all(const Command *command, const Option *options, int count, int argc,
                       char **argv, TextList *operands) {
    Reading reading = {.command = command, .limit = LIST_LIMIT, .operands = operands};
    return read_table(&reading, options, count, argc, argv);
}

void arguments_describe(const Command *command, ShowOptions *show, void *data) {
    char *argv[] = {(char *)(uintptr_t)command->name, NULL};
    description.show = show;
    description.data = data;
    command->run(command, 1, argv);
    description.show = NULL;
}
