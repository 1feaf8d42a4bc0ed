/* equation_text: a statement as a comment of a text. */
#include "module/lowered.h"

#include <ctype.h>
#include <string.h>

/* `file.moe:12` of a span, or an empty text. */
static const char *line_of(Arena *arena, Span span) {
    if (!span.source) return "";
    const char *path = span.source->path, *slash = strrchr(path, '/');
    bool embedded = path_is_standard(path);
    Text text = {.arena = arena};
    for (const char *c = slash && !embedded ? slash + 1 : path; *c; c++)
        text_add(&text, "%c", isalnum((unsigned char)*c) || strchr("._-/", *c) ? *c : '_');
    text_add(&text, ":%d", span_line(span));
    return text.text;
}

const char *equation_text(Arena *arena, const Statement *statement) {
    const char *equation = print_statement(arena, statement);
    const char *place = line_of(arena, statement->span);
    return arena_format(arena, "%.*s%s%s", (int)strcspn(equation, "\n"), equation,
                        *place ? "   -- " : "", place);
}
