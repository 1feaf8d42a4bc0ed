#include "base/message.h"

#include "abi/error_code.h"
#include "abi/utf8_cut.h"
#include "base/memory.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Thread_local FILE *elsewhere;
static int level;
static const char *color = "auto";

FILE *message_to(FILE *file) {
    FILE *before = elsewhere;
    elsewhere = file;
    return before;
}

FILE *message_file(void) {
    return elsewhere ? elsewhere : stderr;
}

/* Names in files can contain any bytes. Control characters, which could move the cursor or change
 * the color, are printed as '?'. */
static void clean(char *text) {
    for (unsigned char *at = (unsigned char *)text; *at; at++) {
        bool wide = at[0] == 0xC2 && at[1] >= 0x80 && at[1] < 0xA0;
        if ((*at < ' ' && *at != '\n' && *at != '\t') || *at == 0x7F || wide) *at = '?';
        if (wide) *++at = '?';
    }
}

void message_level(int new_level) {
    level = new_level;
}

bool message_is_quiet(void) {
    return level < 0;
}

bool message_is_verbose(void) {
    return level > 0;
}

void message_color(const char *mode) {
    color = mode;
}

static bool is_colored(void) {
    if (strcmp(color, "auto") != 0) return !strcmp(color, "always");
    const char *none = getenv("NO_COLOR");
    return !(none && *none) && isatty(fileno(message_file()));
}

/* Prints one line of a message; the kind after ": " is in color. */
static void print_colored(const char *line, int length) {
    static const struct {
        const char *kind, *start;
    } kinds[] = {{": error", "\033[31m"}, {": warning", "\033[33m"}, {": note", "\033[36m"}};
    FILE *file = message_file();
    const char *found = NULL, *start = NULL;
    for (int i = 0; i < 3 && is_colored(); i++) {
        const char *at = memmem(line, (size_t)length, kinds[i].kind, strlen(kinds[i].kind));
        if (at && (!found || at < found)) found = at, start = kinds[i].start;
    }
    if (!found) {
        fprintf(file, "%.*s", length, line);
        return;
    }
    const int before = (int)(found - line) + 2, word = (int)strcspn(line + before, ":");
    fprintf(file, "%.*s%s%.*s\033[0m%.*s", before, line, start, word, line + before,
            length - before - word, line + before + word);
}

void message_reports(const char *reports) {
    fflush(stdout);
    while (*reports) {
        const int length = (int)strcspn(reports, "\n");
        print_colored(reports, length + (reports[length] == '\n'));
        reports += length + (reports[length] == '\n');
    }
}

static void print_message(const char *kind, const char *format, va_list arguments) {
    AUTO_FREE char *text = NULL, *line = NULL;
    if (vasprintf(&text, format, arguments) < 0) return;
    const char *code = strcmp(kind, "error") ? NULL : error_code(text);
    clean(text);
    if (asprintf(&line, "moec: %s%s%s%s%s%s\n", kind, code ? "[" : "", code ? code : "",
                 code ? "]" : "", *kind ? ": " : "", text) >= 0) {
        const int first = (int)strcspn(line, "\n") + 1;
        print_colored(line, first);
        fputs(line + first, message_file());
    }
}

void line_message(const char *format, ...) {
    AUTO_FREE char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0) return;
    clean(text);
    fprintf(message_file(), "%s\n", text);
}

bool error_message(const char *help, const char *format, ...) {
    progress_clear();
    fflush(stdout);
    va_list arguments;
    va_start(arguments, format);
    print_message("error", format, arguments);
    va_end(arguments);
    if (help) fprintf(message_file(), "  help: %s\n", help);
    return false;
}

void note_message(const char *format, ...) {
    if (level < 0) return;
    progress_clear();
    fflush(stdout);
    va_list arguments;
    va_start(arguments, format);
    print_message("note", format, arguments);
    va_end(arguments);
}

void detail_message(const char *format, ...) {
    if (level < 1) return;
    progress_clear();
    va_list arguments;
    va_start(arguments, format);
    print_message("", format, arguments);
    va_end(arguments);
}

bool seconds_limit(const char *variable, double usual, double *limit) {
    const char *text = getenv(variable);
    char *end = NULL;
    *limit = text ? strtod(text, &end) : usual;
    if (!text || (end != text && !*end && *limit > 0 && isfinite(*limit))) return true;
    char help[80];
    snprintf(help, sizeof help, "%s=60, for example", variable);
    return error_message(help, "%s is '%.*s': expected seconds above 0", variable,
                         utf8_cut(text, 60), text);
}
