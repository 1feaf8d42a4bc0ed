/* print_lines: lines with line breaks, comments and literals. */
#include "print/print.h"

#include <stdarg.h>
#include <string.h>

/* ---- lines ---- */

enum { COLUMNS = 110 };

enum { TIGHTEST = 5, UNBROKEN };

static bool is_among(char c, const char *set) {
    return c && strchr(set, c) != NULL;
}

/* How well a line breaks at a space: after a comma or before a separate part, before operators by
 * precedence, after an assignment. UNBROKEN: not at all. */
static int looseness(const char *line, size_t i) {
    char next = line[i + 1], last = line[i - 1];
    if (line[i] != ' ' || !next || last == ' ') return UNBROKEN;
    if (last == ',' || next == ' ') return 0;
    if (last == '=' && i > 1 && is_among(line[i - 2], " +*")) return TIGHTEST;
    if (is_among(next, "&|") && line[i + 2] == next && line[i + 3] == ' ') return 1;
    if (line[i + 2] != ' ') return UNBROKEN;
    if (is_among(next, "?:")) return 1;
    if (is_among(next, "<>")) return 2;
    if (is_among(next, "+-&|^")) return 3;
    return is_among(next, "*/%") ? 4 : UNBROKEN;
}

/* The position of a line break: inside as few brackets as possible, at the loosest space, and the
 * last of these that fits, but not at the start. 0: none. */
static size_t break_at(const char *line, size_t room) {
    size_t place = 0;
    int depth = 0, least = 0;
    bool quote = false;
    for (size_t i = 1; line[i] && i < room; i++) {
        if (line[i] == '"') quote = !quote;
        if (quote) continue;
        depth += (line[i] == '(' || line[i] == '[') - (line[i] == ')' || line[i] == ']');
        int held = looseness(line, i), rank = depth * UNBROKEN + held;
        if (held == UNBROKEN) continue;
        if (!place || rank <= least || place < room / 3) {
            place = i;
            least = rank;
        }
    }
    return place;
}

void print_line(Text *text, int indent, const char *line) {
    int spaces = *line ? 4 * indent : 0;
    while (strlen(line) + (size_t)spaces > COLUMNS) {
        size_t at = break_at(line, (size_t)(COLUMNS - spaces));
        if (!at) break;
        text_add(text, "%*s%.*s\n", spaces, "", (int)at, line);
        line += at + 1;
        spaces = 4 * indent + 8;
    }
    text_add(text, "%*s%s\n", spaces, "", line);
}

void print_format(Text *text, int indent, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print_line(text, indent, arena_vformat(text->arena, format, arguments));
    va_end(arguments);
}

void print_equations(Text *text, const List *statements) {
    for (int i = 0; i < statements->count; i++)
        print_format(text, 0, "%s %s%s", i ? "  " : "/*",
                     equation_text(text->arena, statements->items[i]),
                     i == statements->count - 1 ? " */" : "");
}

/* ---- literals ---- */

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

const char *axes_of(Arena *arena, const Tensor *tensor) {
    Text text = {.arena = arena};
    text_add(&text, "[");
    for (int i = 0; i < tensor->rank; i++)
        text_add(&text, "%s%s", i ? ", " : "", tensor->axes[i]->name);
    text_add(&text, "]");
    return text.text;
}
