#include "syntax/format.h"

#include "base/utf8.h"

#include <string.h>

/* Binding strength of an expression; the levels are those of the grammar. */
enum {
    LEVEL_OR = 1,
    LEVEL_AND,
    LEVEL_NOT,
    LEVEL_COMPARE,
    LEVEL_SUM,
    LEVEL_TERM, /* ends in a reduction, which includes the rest of the product */
    LEVEL_PRODUCT,
    LEVEL_UNARY,
    LEVEL_POWER,
    LEVEL_POSTFIX,
    LEVEL_COUNT
};

bool line_is_full(const Line *line) {
    return line->limit > 0 && line->text.length > line->limit;
}

void line_clear(Line *line) {
    line->text.length = 0;
    line->break_count = 0;
    line->nesting = 0;
    line->tight = false;
}

void line_add(Line *line, const char *text) {
    if (!line_is_full(line)) text_add_bytes(&line->text, text, strlen(text));
}

void line_break(Line *line, int level) {
    if (line->limit > 0) return;
    if (line->break_count == line->break_capacity) {
        int capacity = line->break_capacity ? 2 * line->break_capacity : 32;
        Break *breaks = arena_alloc(line->arena, (size_t)capacity * sizeof *breaks);
        if (line->break_count)
            memcpy(breaks, line->breaks, (size_t)line->break_count * sizeof *breaks);
        line->breaks = breaks;
        line->break_capacity = capacity;
    }
    line->breaks[line->break_count++] =
        (Break){line->text.length, line->nesting * LEVEL_COUNT + level};
}

static bool ends_in_reduction(const Node *expr) {
    while (expr->kind == NODE_UNARY && strcmp(expr->name, "-") == 0) expr = expr->kids[0];
    return expr->kind == NODE_REDUCE;
}

static int binary_level(const char *name) {
    static const struct {
        const char *names;
        int level;
    } levels[] = {
        {" or ", LEVEL_OR},   {" and ", LEVEL_AND},       {" == != < <= > >= ", LEVEL_COMPARE},
        {" + - ", LEVEL_SUM}, {" * / % ", LEVEL_PRODUCT}, {" ^ ", LEVEL_POWER},
    };
    char spaced[8] = " ";
    strncat(spaced, name, 4);
    strcat(spaced, " ");
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (strstr(levels[i].names, spaced)) return levels[i].level;
    return LEVEL_POSTFIX;
}

static int precedence_of(const Node *expr) {
    switch (expr->kind) {
    case NODE_REDUCE:
        return LEVEL_TERM;
    case NODE_UNARY:
        if (strcmp(expr->name, "not") == 0) return LEVEL_NOT;
        return ends_in_reduction(expr) ? LEVEL_TERM : LEVEL_UNARY;
    case NODE_BINARY:
        return binary_level(expr->name);
    default:
        return LEVEL_POSTFIX;
    }
}

static void add_at(Line *line, const Node *expr, int level);

/* Comma-separated parts: arguments, entries of a record or of a call, elements. */
static void line_parts_of(Line *line, const Node *list) {
    line->nesting++;
    for (int i = 0; i < list->count && !line_is_full(line); i++) {
        if (i > 0) {
            line_add(line, ",");
            line_break(line, 0);
            line_add(line, " ");
        }
        line_expr(line, list->kids[i]);
    }
    line->nesting--;
}

void line_subs(Line *line, const Node *subs) {
    if (!subs || subs->count == 0) return;
    bool tight = line->tight;
    line->tight = true;
    line_add(line, "[");
    for (int i = 0; i < subs->count; i++) {
        if (i > 0) line_add(line, ",");
        line_expr(line, subs->kids[i]);
    }
    line_add(line, "]");
    line->tight = tight;
}

/* x^-0.5: a minus in an exponent needs no parentheses. */
static void add_exponent(Line *line, const Node *expr) {
    while (expr->kind == NODE_UNARY && strcmp(expr->name, "-") == 0) {
        line_add(line, "-");
        expr = expr->kids[0];
    }
    add_at(line, expr, LEVEL_POWER);
}

static void add_binary(Line *line, const Node *expr) {
    int level = binary_level(expr->name);
    if (level == LEVEL_POWER) {
        add_at(line, expr->kids[0], LEVEL_POSTFIX);
        line_add(line, "^");
        add_exponent(line, expr->kids[1]);
        return;
    }
    bool spaced = !line->tight || level < LEVEL_COMPARE;
    add_at(line, expr->kids[0], level == LEVEL_COMPARE ? LEVEL_SUM : level);
    if (!line->tight) line_break(line, level);
    if (spaced) line_add(line, " ");
    line_add(line, expr->name);
    if (spaced) line_add(line, " ");
    /* A reduction in a product has parentheses for readability, also on the right, where they are
     * optional. */
    add_at(line, expr->kids[1], level + 1);
}

static void add_reduce(Line *line, const Node *expr) {
    const Node *binders = expr->kids[0];
    int names = binders->count - (binders->number == 1);
    line_add(line, expr->name);
    line_add(line, "[");
    for (int i = 0; i < names; i++) {
        if (i > 0) line_add(line, ",");
        line_add(line, binders->kids[i]->name);
    }
    if (names < binders->count) {
        line_add(line, " in ");
        line_expr(line, binders->kids[names]);
    }
    line_add(line, "] ");
    add_at(line, expr->kids[1], LEVEL_TERM);
}

static void line_call(Line *line, const Node *expr) {
    bool tight = line->tight;
    line->tight = false;
    add_at(line, expr->kids[0], LEVEL_POSTFIX);
    line_add(line, "(");
    line_parts_of(line, expr->kids[1]);
    if (expr->kids[2]) {
        line_add(line, ";");
        line_break(line, 0);
        line_add(line, " ");
        line_parts_of(line, expr->kids[2]);
    }
    line_add(line, ")");
    line->tight = tight;
}

static void add_record(Line *line, const Node *record) {
    line_add(line, record->count ? "{ " : "{");
    line_parts_of(line, record);
    line_add(line, record->count ? " }" : "}");
}

static void add_enclosed(Line *line, const char *before, const char *text, const char *after) {
    line_add(line, before);
    line_add(line, text);
    line_add(line, after);
}

static void line_range(Line *line, const Node *range) {
    if (range->kids[0]) line_expr(line, range->kids[0]);
    line_add(line, "..");
    if (range->kids[1]) line_expr(line, range->kids[1]);
}

static void line_list(Line *line, const Node *list) {
    line_add(line, "[");
    line_parts_of(line, list);
    line_add(line, "]");
}

static void add_tuple(Line *line, const Node *tuple) {
    for (int i = 0; i < tuple->count; i++) {
        line_add(line, i ? "," : "(");
        line_add(line, tuple->kids[i]->name);
    }
    line_add(line, ")");
}

void line_expr(Line *line, const Node *expr) {
    if (line_is_full(line)) return;
    switch (expr->kind) {
    case NODE_STRING:
        add_enclosed(line, "\"", expr->name, "\"");
        break;
    case NODE_LABELLED:
        add_enclosed(line, expr->name, "@", expr->kids[0]->name);
        break;
    case NODE_LIST:
        line_list(line, expr);
        break;
    case NODE_RANGE:
        line_range(line, expr);
        break;
    case NODE_FIELD:
        add_at(line, expr->kids[0], LEVEL_POSTFIX);
        line_add(line, ".");
        line_add(line, expr->name);
        break;
    case NODE_INDEXED:
        add_at(line, expr->kids[0], LEVEL_POSTFIX);
        line_subs(line, expr->kids[1]);
        break;
    case NODE_CALL:
        line_call(line, expr);
        break;
    case NODE_TUPLE:
        add_tuple(line, expr);
        break;
    case NODE_ELLIPSIS:
        line_add(line, "...");
        break;
    case NODE_REDUCE:
        add_reduce(line, expr);
        break;
    case NODE_UNARY:
        line_add(line, strcmp(expr->name, "not") == 0 ? "not " : "-");
        add_at(line, expr->kids[0], precedence_of(expr));
        break;
    case NODE_BINARY:
        add_binary(line, expr);
        break;
    case NODE_RECORD:
        add_record(line, expr);
        break;
    case NODE_MADE:
        add_enclosed(line, expr->name, " ", "");
        add_record(line, expr->kids[0]);
        break;
    case NODE_ENTRY:
    case NODE_VARY:
    case NODE_TUNE:
    case NODE_EQUALISE:
        line_entry_head(line, expr, 0);
        line_expr(line, expr->kids[0]);
        break;
    default: /* NUMBER, NAME */
        line_add(line, expr->name);
    }
}

static void add_at(Line *line, const Node *expr, int level) {
    if (line_is_full(line)) return;
    if (precedence_of(expr) >= level) {
        line_expr(line, expr);
        return;
    }
    line->nesting++;
    line_add(line, "(");
    line_expr(line, expr);
    line_add(line, ")");
    line->nesting--;
}

/* from KEY = value in LIMITS else value if OPTION == WORD */
static void line_rule(Line *line, const Node *rule) {
    line_add(line, rule->name);
    line_add(line, " = ");
    line_expr(line, rule->kids[0]);
    if (rule->kids[1]) line_add(line, " in ");
    if (rule->kids[1]) line_expr(line, rule->kids[1]->kids[0]);
    if (rule->kids[2]) line_add(line, " else ");
    if (rule->kids[2]) line_expr(line, rule->kids[2]);
    if (rule->kids[3]) line_add(line, " if ");
    if (rule->kids[3]) line_expr(line, rule->kids[3]);
}

void line_layout(Line *line, const Node *row) {
    if (row->kind == NODE_TENSOR) {
        add_enclosed(line, "\"", row->name, "\"");
        line_subs(line, row->kids[0]);
        line_add(line, " = ");
        line_expr(line, row->kids[1]);
        return;
    }
    line_add(line, "from ");
    if (row->kind == NODE_RULE) line_rule(line, row);
    if (row->kind == NODE_UNREAD) line_parts_of(line, row);
}

static int columns(const char *text, size_t length) {
    int total = 0;
    for (size_t at = 0; at < length;) {
        unsigned character = ' ';
        int bytes = utf8_decode(text + at, length - at, &character);
        total += utf8_width(character);
        at += bytes ? (size_t)bytes : 1;
    }
    return total;
}

int line_columns(const Line *line) {
    return columns(line->text.text ? line->text.text : "", line->text.length);
}

void line_write(Line *line, Text *out, int indent) {
    size_t from = 0;
    int next = 0; /* the first break that is not passed */
    for (;;) {
        text_add(out, "%*s", indent, "");
        /* The best break that fits; if none fits, the next one. */
        int best = -1;
        size_t rest = line->text.length - from;
        bool fits = rest <= (size_t)LINE_COLUMNS * 4 &&
                    indent + columns(line->text.text + from, rest) <= LINE_COLUMNS;
        for (int i = next; i < line->break_count && !fits; i++) {
            size_t length = line->breaks[i].at - from;
            bool inside = length <= (size_t)LINE_COLUMNS * 4 &&
                          indent + columns(line->text.text + from, length) <= LINE_COLUMNS;
            if (!inside && best >= 0) break;
            if (best < 0 || line->breaks[i].level <= line->breaks[best].level) best = i;
            if (!inside) break;
        }
        if (best < 0) {
            text_add_bytes(out, line->text.text + from, rest);
            return;
        }
        text_add_bytes(out, line->text.text + from, line->breaks[best].at - from);
        text_add(out, "\n");
        if (from == 0) indent += CONTINUE_COLUMNS;
        from = line->breaks[best].at;
        while (line->text.text[from] == ' ') from++;
        next = best + 1;
    }
}

void line_attributes(Line *line, const Node *record) {
    for (int i = 0; record && i < record->count; i++) {
        const Node *attribute = record->kids[i];
        line_add(line, i ? ", " : " { ");
        line_add(line, attribute->name);
        if (attribute->kids[0]) line_add(line, " = ");
        if (attribute->kids[0]) line_expr(line, attribute->kids[0]);
    }
    if (record) line_add(line, " }");
}

void line_extern(Line *line, const Node *node) {
    line_add(line, "extern ");
    line_add(line, node->name);
    line_add(line, " ");
    line_expr(line, node->kids[0]);
    line_attributes(line, node->kids[1]);
}
