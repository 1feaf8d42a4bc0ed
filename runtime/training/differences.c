#include "training/internal.h"

#include "base/message.h"
#include "base/memory.h"
#include "model/model.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 4, WIDTH = 60 };

typedef struct SpecLine {
    const char *text; /* without surrounding space */
    int length, number;
    bool common; /* also in the other spec */
} SpecLine;

typedef struct SpecLines {
    SpecLine *items;
    int count, capacity;
} SpecLines;

/* Adds the lines of a text, except for empty lines and comments. */
static void add_lines(SpecLines *lines, const char *text, size_t length) {
    const char *end = text + length;
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text)),
                   *next = newline ? newline + 1 : end, *last = newline ? newline : end;
        while (text < last && isspace((unsigned char)*text)) text++;
        while (last > text && isspace((unsigned char)last[-1])) last--;
        if (last > text && *text != '#') {
            if (lines->count == lines->capacity) {
                lines->capacity = 2 * lines->capacity + 64;
                lines->items =
                    memory_grow(lines->items, sizeof(SpecLine) * (size_t)lines->capacity);
            }
            lines->items[lines->count] =
                (SpecLine){.text = text, .length = (int)(last - text), .number = lines->count};
            lines->count++;
        }
        text = next;
    }
}

/* Lines of all files, those of the standard library only if `library`, and of all settings, without
 * the headers "file LENGTH PATH" and "set LENGTH". */
static SpecLines spec_lines(const char *bundle, bool library) {
    SpecLines lines = {0};
    const char *end = bundle + strlen(bundle), *at = strchr(bundle, '\n');
    size_t length;
    if (at) add_lines(&lines, at + 1, strcspn(at + 1, "\n")); /* the model's name */
    at = at ? strchr(at + 1, '\n') : NULL;
    while (at &&
           (sscanf(at + 1, "file %zu", &length) == 1 || sscanf(at + 1, "set %zu", &length) == 1)) {
        const char *text = strchr(at + 1, '\n');
        if (!text || length >= (size_t)(end - text)) break;
        const char *path = strchr(at + 6, ' ');
        bool standard = !strncmp(at + 1, "file ", 5) && path && !strncmp(path, " std/", 5);
        if (library || !standard) add_lines(&lines, text + 1, length);
        at = text + 1 + length;
    }
    return lines;
}

static int by_text(const void *a, const void *b) {
    const SpecLine *first = a, *second = b;
    int shorter = first->length < second->length ? first->length : second->length;
    int order = memcmp(first->text, second->text, (size_t)shorter);
    return order ? order : first->length - second->length;
}

static int by_number(const void *a, const void *b) {
    return ((const SpecLine *)a)->number - ((const SpecLine *)b)->number;
}

/* Marks common lines, each as often as it occurs in both. */
static void pair_up(SpecLines *then, SpecLines *now) {
    qsort(then->items, (size_t)then->count, sizeof(SpecLine), by_text);
    qsort(now->items, (size_t)now->count, sizeof(SpecLine), by_text);
    for (int i = 0, j = 0; i < then->count && j < now->count;) {
        int order = by_text(&then->items[i], &now->items[j]);
        if (order == 0) then->items[i].common = now->items[j].common = true;
        i += order <= 0;
        j += order >= 0;
    }
    qsort(then->items, (size_t)then->count, sizeof(SpecLine), by_number);
    qsort(now->items, (size_t)now->count, sizeof(SpecLine), by_number);
}

/* "layers = 2 | dim = 16"; NULL when there are none. */
static char *own_lines(const SpecLines *lines) {
    char *text = NULL;
    int own = 0;
    for (int i = 0; i < lines->count; i++) {
        const SpecLine *line = &lines->items[i];
        if (line->common || own++ >= SHOWN) continue;
        text = memory_append(text, "%s%.*s%s", text ? " | " : "",
                             line->length < WIDTH ? line->length : WIDTH, line->text,
                             line->length < WIDTH ? "" : "...");
    }
    return own > SHOWN ? memory_append(text, " | and %d more lines", own - SHOWN) : text;
}

/* False if there are none. */
static bool tell_lines(const char *then, const char *now, bool library) {
    SpecLines before = spec_lines(then, library), after = spec_lines(now, library);
    if (before.count && after.count) pair_up(&before, &after);
    AUTO_FREE char *old = own_lines(&before), *new = own_lines(&after);
    bool found = old || new;
    if (found)
        note_message("the spec has changed since the run started\n  was: %s\n  now: %s",
                     old ? old : "(not set)", new ? new : "(not set)");
    free(before.items);
    free(after.items);
    return found;
}

void differences_tell(const char *then, const char *now) {
    if (!strcmp(then, now)) return;
    AUTO(MoecCompiler) *old = moec_open_bundle(then, strlen(then), NULL, 0);
    AUTO(MoecCompiler) *new = moec_open_bundle(now, strlen(now), NULL, 0);
    if (!moec_same_training(old, new) && !tell_lines(then, now, false)) tell_lines(then, now, true);
}
