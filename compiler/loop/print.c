/* print: the lowered form as lines of C or CUDA, which have the same syntax; differences are in the
 * terms and hints of the lowering. */
#include "loop/form.h"

#include <string.h>

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

/* The first iteration of a thread or block, and the step to its next one. */
static const struct {
    const char *first, *step;
} spellings[] = {[BY_ALL] = {"moec_first()", "moec_step()"},
                 [BY_BLOCKS] = {"moec_block()", "moec_blocks()"},
                 [BY_COLUMNS] = {"32 * moec_block()", "32 * moec_blocks()"},
                 [BY_THREADS] = {"moec_thread()", "moec_threads()"},
                 [BY_COLUMN] = {"moec_thread() / 32", "moec_threads() / 32"},
                 [BY_THE_FIRST] = {"moec_thread() == 0 ? 0 : $0", NULL}};

/* The term times `width`. */
static const Term *times(Arena *arena, int width, const Term *one) {
    return width > 1 ? term(arena, term_product, term_whole(arena, width), one) : one;
}

static const Term *first_of(Arena *arena, const FormNode *loop) {
    const Term *from = loop->values[0];
    if (loop->by == BY_ONE) return from;
    const Term *own =
        times(arena, loop->width, term(arena, spellings[loop->by].first, loop->values[1]));
    return term_is_zero(from) ? own : term(arena, term_sum, from, own);
}

static const Term *step_of(Arena *arena, const FormNode *loop) {
    const char *spelling = spellings[loop->by].step;
    return spelling ? times(arena, loop->width, term(arena, spelling)) : loop->values[2];
}

static const char *for_text(Arena *arena, const FormNode *node) {
    const char *name = term_text(arena, node->name);
    const Term *by = step_of(arena, node);
    const char *step = by ? arena_format(arena, "%s += %s", name, term_text(arena, by))
                          : arena_format(arena, "%s++", name);
    return arena_format(arena, "for (%s %s = %s; %s < %s%s; %s)", node->type, name,
                        term_text(arena, first_of(arena, node)), name,
                        term_text(arena, node->values[1]), node->text ? node->text : "", step);
}

const char *declared_text(Arena *arena, const FormNode *let) {
    const char *name = term_text(arena, let->name);
    if (let->rows) name = arena_format(arena, "%s[%ld]", name, let->rows);
    return let->size ? arena_format(arena, "%s[%ld]", name, let->size) : name;
}

/* Rounding, maximum and minimum are calls. */
static const char *set_text(Arena *arena, const FormNode *node) {
    const Term *target = node->values[0], *value = node->values[1];
    bool added = node->reduces == REDUCE_SUM;
    if (node->rounds)
        return arena_format(arena, "%s;",
                            term_text(arena, term(arena, "moec_store(&$0, $1)", target, value)));
    if (node->reduces != REDUCE_NONE && !added)
        value = term(arena, node->reduces == REDUCE_MAX ? "moec_max($0, $1)" : "moec_min($0, $1)",
                     target, value);
    return arena_format(arena, "%s %s %s;", term_text(arena, target), added ? "+=" : "=",
                        term_text(arena, value));
}

/* Adds the outer variables of one reduction in a block: "max:a, b". */
static void add_joined(Text *text, const FormBlock *block, Reduction reduction, const char *sign) {
    for (const FormNode *node = block->first; node; node = node->next) {
        const Term *target = node->values[0];
        if (node->reduces == reduction && target->kind == TERM_NAME &&
            !form_declares(block, target))
            text_add(text, "%s%s%s", text->length ? ", " : sign, text->length ? "" : ":",
                     term_text(text->arena, target));
        add_joined(text, &node->body, reduction, sign);
    }
}

/* Prints the hint for the C compiler in the line before a loop. */
static void print_run(Text *text, const FormNode *node, int indent) {
    static const char *const signs[] = {"", "+", "max", "min"};
    Text line = {.arena = text->arena};
    if (node->run & RUN_UNROLLED) print_line(text, 0, "#pragma unroll");
    if (node->run & RUN_ROLLED) print_line(text, 0, "#pragma unroll 1");
    if (!(node->run & (RUN_PARALLEL | RUN_VECTOR))) return;
    text_add(&line, "MOEC_OMP(%s%s%s%s", node->run & RUN_PARALLEL ? "parallel for" : "",
             node->run == (RUN_PARALLEL | RUN_VECTOR) ? " " : "",
             node->run & RUN_VECTOR ? "simd" : "",
             node->run & RUN_PARALLEL ? " schedule(static)" : "");
    if (node->alone)
        text_add(&line, " if(%s > %ld)", term_text(text->arena, node->values[1]), node->alone);
    for (int i = REDUCE_SUM; i <= REDUCE_MIN && node->run & RUN_VECTOR; i++) {
        Text joined = {.arena = text->arena};
        add_joined(&joined, &node->body, (Reduction)i, signs[i]);
        if (joined.length) text_add(&line, " reduction(%s)", joined.text);
    }
    text_add(&line, ")");
    print_line(text, indent, line.text);
}

/* The line of a node, without its body. */
static const char *node_text(Arena *arena, const FormNode *node) {
    const char *value = node->values[0] ? term_text(arena, node->values[0]) : NULL;
    switch (node->kind) {
    case FORM_FOR:
        return for_text(arena, node);
    case FORM_LET:
        return arena_format(arena, "%s%s %s%s%s;", node->shared ? "__shared__ __align__(16) " : "",
                            node->type, declared_text(arena, node), value ? " = " : "",
                            value ? value : "");
    case FORM_SET:
        return set_text(arena, node);
    case FORM_IF:
        return arena_format(arena, "if (%s)", value);
    case FORM_SCOPE:
    case FORM_GROUP:
        return "{";
    case FORM_BARRIER:
        return "moec_barrier();";
    case FORM_DO:
        return arena_format(arena, "%s;", value);
    }
    return "";
}

static void print_node(Text *text, const FormNode *node, int indent) {
    Arena *arena = text->arena;
    const char *line = node_text(arena, node);
    bool opens = node->body.first || node->kind == FORM_FOR || node->kind == FORM_IF;
    if (node->kind == FORM_FOR) print_run(text, node, indent);
    if (!opens) {
        print_line(text, indent, line);
    } else if (node->kind == FORM_SCOPE) {
        print_line(text, indent, "{");
        print_block(text, &node->body, indent + 1);
        print_line(text, indent, "}");
    } else if (node->layout == ON_SAME_LINE) {
        print_line(text, indent,
                   arena_format(arena, "%s %s", line, node_text(arena, node->body.first)));
    } else {
        bool braces = node->layout == IN_BRACES;
        print_line(text, indent, braces ? arena_format(arena, "%s {", line) : line);
        print_block(text, &node->body, indent + 1);
        if (braces) print_line(text, indent, "}");
    }
}

void print_block(Text *text, const FormBlock *block, int indent) {
    for (const FormNode *node = block->first; node; node = node->next)
        print_node(text, node, indent);
}
