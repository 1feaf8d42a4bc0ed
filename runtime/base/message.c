#include "base/message.h"

#include "base/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static _Thread_local FILE *elsewhere;

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

static void print_message(const char *kind, const char *format, va_list arguments) {
    char *text = NULL;
    int length = vasprintf(&text, format, arguments);
    if (length < 0) return;
    clean(text);
    fprintf(message_file(), "moec: %s: %s\n", kind, text);
    free(text);
}

void item_message(const char *what, const char *name) {
    char *text = NULL;
    if (asprintf(&text, "  %s  %s\n", what, name) < 0) return;
    clean(text);
    fputs(text, message_file());
    free(text);
}

bool error_message(const char *remedy, const char *format, ...) {
    progress_clear();
    fflush(stdout);
    va_list arguments;
    va_start(arguments, format);
    print_message("error", format, arguments);
    va_end(arguments);
    if (remedy) fprintf(message_file(), "  help: %s\n", remedy);
    return false;
}

void note_message(const char *format, ...) {
    progress_clear();
    fflush(stdout);
    va_list arguments;
    va_start(arguments, format);
    print_message("note", format, arguments);
    va_end(arguments);
}
