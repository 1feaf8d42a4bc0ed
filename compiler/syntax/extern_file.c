/* extern_file: the files that `extern` statements name.
 *
 *     extern c "norm.c:norm"      function `norm` of norm.c, in the folder of the spec
 *
 * Needs:   the tree of a file.
 * Leaves:  the text of each file in the unit, once; for each statement its function. The text is
 *          not parsed: a compiler of its language does that.
 */
#include "passes.h"

#include <ctype.h>
#include <string.h>

static bool is_letter(char one) {
    return isalnum((unsigned char)one) || one == '_';
}

static bool is_c_identifier(const char *name) {
    if (isdigit((unsigned char)*name) || !*name) return false;
    while (is_letter(*name)) name++;
    return !*name;
}

static const Source *find_kernel(const Unit *unit, const char *path) {
    return list_named(&unit->kernels, offsetof(Source, path), path);
}

/* The file, relative to the folder of the spec; NULL after a report. */
static const Source *read_kernel(Unit *unit, const Source *from, const Node *text, bool given) {
    Arena *arena = unit->arena;
    const char *colon = strrchr(text->name, ':'), *slash = strrchr(from->path, '/');
    const char *name = arena_copy(arena, text->name, (size_t)(colon - text->name));
    const bool apart = *name == '/' || !slash;
    const char *path =
        apart ? name
              : arena_format(arena, "%.*s%s", (int)(slash - from->path) + 1, from->path, name);
    const Source *known = find_kernel(unit, path);
    if (known) return known;
    size_t length = 0;
    const char *problem = "it is not in the checkpoint";
    char *bytes = given ? NULL : read_source_text(arena, path, &length, &problem);
    if (bytes && strlen(bytes) != length) {
        problem = "it is not a text";
        bytes = NULL;
    }
    if (!bytes) {
        report_error(unit->reports, text->span, "cannot read '%s': %s", path, problem);
        report_help(unit->reports, "write the path of the file relative to the folder of '%s'",
                    from->path);
        return NULL;
    }
    Source *source = arena_alloc(arena, sizeof *source);
    *source = (Source){.path = path, .text = bytes, .length = length, .is_kernel = true};
    list_push(arena, &unit->kernels, source);
    return source;
}

/* The words of a text that '(' follows. */
static List called_words(Arena *arena, const char *text) {
    List words = {0};
    for (const char *at = text; *at;) {
        const char *end = at;
        while (is_letter(*end)) end++;
        const char *next = end + strspn(end, " \t\n");
        if (end > at && *next == '(')
            list_push(arena, &words, arena_copy(arena, at, (size_t)(end - at)));
        at = end > at ? end : at + 1;
    }
    return words;
}

/* Text alone: a comment counts, which the linker finds later. */
static bool has_kernel_function(Unit *unit, const Source *file, const char *name, Span span) {
    const List words = called_words(unit->arena, file->text);
    if (list_has_text(&words, name)) return true;
    const char *near = did_you_mean(name, (const char *const *)words.items, words.count);
    report_error(unit->reports, span, "'%s' has no function '%s'", file->path, name);
    if (near)
        report_help(unit->reports, "did you mean '%s'?", near);
    else
        report_help(unit->reports, "define the function in the file, or correct its name");
    return false;
}

static bool is_known_target(Unit *unit, const Node *node) {
    static const char *const targets[] = {"c", "cuda"};
    if (!strcmp(node->name, targets[0]) || !strcmp(node->name, targets[1])) return true;
    return report_invalid(unit->reports, node->name_span,
                          "write extern c \"FILE.c:FUNCTION\" or "
                          "extern cuda \"FILE.cu:FUNCTION\"",
                          "unknown target '%s': expected c or cuda", node->name);
}

static bool has_both_parts(Unit *unit, const Node *text) {
    const char *colon = strrchr(text->name, ':');
    if (colon && colon > text->name && is_c_identifier(colon + 1)) return true;
    return report_invalid(unit->reports, text->span,
                          "write the name of a function after the path: \"norm.c:norm\"",
                          "extern expects \"FILE:FUNCTION\", got \"%s\"", text->name);
}

static void resolve_one(Unit *unit, const Source *from, const Node *node, bool given) {
    const Node *text = node->kids[0];
    if (!is_known_target(unit, node) || !has_both_parts(unit, text)) return;
    const char *name = strrchr(text->name, ':') + 1;
    const Source *file = read_kernel(unit, from, text, given);
    if (!file || !has_kernel_function(unit, file, name, text->span)) return;
    const ExternFile found = {node, {node->name, name, file, node->span}};
    list_copy(unit->arena, &unit->externs, &found, sizeof found);
}

void resolve_externs(Unit *unit, const Source *from, Node *node, bool given) {
    if (!node) return;
    if (node->kind == NODE_EXTERN) resolve_one(unit, from, node, given);
    for (int i = 0; i < node->count; i++) resolve_externs(unit, from, node->kids[i], given);
}

const ExternFunction *extern_function(const Unit *unit, const Node *node) {
    const ExternFile *file = list_find_by(&unit->externs, offsetof(ExternFile, node), node);
    return file ? &file->function : NULL;
}
