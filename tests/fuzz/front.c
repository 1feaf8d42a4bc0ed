/* A fuzz target for the front end: the input is any bytes as a spec. The formatted text of a valid
 * spec must parse to the same tree, and formatting it again must not change it. See
 * tests/README.md. */
#include "passes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool equal_texts(const char *a, const char *b) {
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool equal(const Node *a, const Node *b) {
    if (!a || !b) return a == b;
    if (a->kind != b->kind || a->count != b->count || !equal_texts(a->name, b->name)) return false;
    for (int i = 0; i < a->count; i++)
        if (!equal(a->kids[i], b->kids[i])) return false;
    return true;
}

static void fail(const char *what, const char *first, const char *second) {
    fprintf(stderr, "%s\n---- first\n%s\n---- second\n%s\n", what, first, second);
    abort();
}

static void check_format(Arena *arena, Reports *reports, const Source *source, const Node *file) {
    Source once = {.path = "once.moe", .text = format_tree(arena, source, file)};
    once.length = strlen(once.text);
    const Node *again = parse(arena, reports, &once);
    if (reports->errors || !again) fail(reports_text(reports, arena), source->text, once.text);
    if (!equal(file, again)) fail("the tree changed", source->text, once.text);
    const char *twice = format_tree(arena, &once, again);
    if (strcmp(once.text, twice) != 0) fail("formatting again changed the text", once.text, twice);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    Arena *arena = arena_new();
    Reports reports = {.arena = arena};
    const Source source = {.path = "fuzz.moe",
                           .text = arena_copy(arena, (const char *)data, size),
                           .length = size};
    const Node *file = parse(arena, &reports, &source);
    reports_text(&reports, arena);
    if (file && reports.errors == 0) check_format(arena, &reports, &source, file);
    Reports entry_reports = {.arena = arena};
    parse_entry(arena, &entry_reports, &source);
    reports_text(&entry_reports, arena);
    arena_free(arena);
    return 0;
}
