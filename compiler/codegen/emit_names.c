/* emit_names: literals of generated C. */
#include "codegen/emit.h"

#include <ctype.h>
#include <string.h>

const char *quoted(Arena *arena, const char *text) {
    Text result = {.arena = arena};
    text_add(&result, "\"");
    for (const char *c = text; *c; c++) {
        unsigned char byte = (unsigned char)*c;
        if (byte == '"' || byte == '\\')
            text_add(&result, "\\%c", byte);
        else if (byte >= ' ' && byte < 127 && byte != '?')
            text_add(&result, "%c", byte);
        else
            text_add(&result, "\\%03o", byte);
    }
    text_add(&result, "\"");
    return result.text;
}

const char *line_of(Arena *arena, Span span) {
    if (!span.source) return "";
    const char *path = span.source->path, *slash = strrchr(path, '/');
    bool embedded = path_is_standard(path);
    Text text = {.arena = arena};
    for (const char *c = slash && !embedded ? slash + 1 : path; *c; c++)
        text_add(&text, "%c", isalnum((unsigned char)*c) || strchr("._-/", *c) ? *c : '_');
    text_add(&text, ":%d", span_line(span));
    return text.text;
}

const char *axes_of(Arena *arena, const Tensor *tensor) {
    Text text = {.arena = arena};
    text_add(&text, "[");
    for (int i = 0; i < tensor->rank; i++)
        text_add(&text, "%s%s", i ? ", " : "", tensor->axes[i]->name);
    text_add(&text, "]");
    return text.text;
}
