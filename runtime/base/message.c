#include "base/message.h"

#include "abi/error_code.h"
#include "abi/quantity.h"
#include "base/progress.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <string.h>

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
    const char *code = strcmp(kind, "error") ? NULL : error_code(text);
    clean(text);
    fprintf(message_file(), "moec: %s%s%s%s: %s\n", kind, code ? "[" : "", code ? code : "",
            code ? "]" : "", text);
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

/* Bytes of a file, or of all files in a folder. */
static double bytes_of(const char *path) {
    struct stat status;
    if (stat(path, &status) != 0) return 0;
    if (!S_ISDIR(status.st_mode)) return (double)status.st_size;
    double bytes = 0;
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        char *inside = NULL;
        if (asprintf(&inside, "%s/%s", path, entry->d_name) < 0) continue;
        bytes += bytes_of(inside);
        free(inside);
    }
    if (folder) closedir(folder);
    return bytes;
}

void written_message(const char *path, const char *next, ...) {
    char *text = NULL;
    progress_clear();
    fflush(stdout);
    if (asprintf(&text, "wrote %s (%s)", path, quantity(bytes_of(path), "B").text) >= 0) {
        clean(text);
        fprintf(message_file(), "%s\n", text);
        free(text);
    }
    va_list arguments;
    va_start(arguments, next);
    if (next && vasprintf(&text, next, arguments) >= 0) {
        clean(text);
        fprintf(message_file(), "  next: %s\n", text);
        free(text);
    }
    va_end(arguments);
}

void note_message(const char *format, ...) {
    progress_clear();
    fflush(stdout);
    va_list arguments;
    va_start(arguments, format);
    print_message("note", format, arguments);
    va_end(arguments);
}
