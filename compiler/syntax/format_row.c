#include "syntax/format.h"

/* Rows: consecutive options and entries share their columns.
 *
 *     option heads.q: int in 1.. = 8      "query heads"
 *     option scale:   real       = 0.125  "of the scores"
 */

enum { WIDEST_HEAD = 60, GAP = 2 };

static void pad_line(Line *line, int columns) {
    for (int at = line_columns(line); at < columns; at++) line_add(line, " ");
}

static void add_bound(Line *line, const Node *value) {
    if (!value) return;
    bool plain = value->kind == NODE_NUMBER ||
                 (value->kind == NODE_UNARY && value->kids[0]->kind == NODE_NUMBER);
    if (!plain) line_add(line, "(");
    line_expr(line, value);
    if (!plain) line_add(line, ")");
}

/* `in [a, b]` or `in 1..8` */
static void add_limits(Line *line, const Node *limits) {
    line_add(line, " in ");
    if (limits->kind == NODE_LIST) {
        line_expr(line, limits);
        return;
    }
    add_bound(line, limits->kids[0]);
    line_add(line, "..");
    add_bound(line, limits->kids[1]);
}

void line_option_head(Line *line, const Node *option, int name_columns) {
    line_add(line, "option ");
    line_add(line, option->name);
    line_add(line, ":");
    pad_line(line, name_columns - 1);
    line_add(line, " ");
    line_add(line, option->kids[0]->name);
    if (option->kids[1]) add_limits(line, option->kids[1]->kids[0]);
    if (option->kids[2]) line_add(line, " = ");
}

/* "was [tied, halves => half]  suggest [d_model]" */
void line_aliases(Line *line, const Node *aliases, const char *gap) {
    static const char *const words[] = {"was [", "suggest ["};
    for (int suggested = 0; suggested < 2; suggested++) {
        int count = 0;
        for (int i = 0; aliases && i < aliases->count; i++) {
            const Node *alias = aliases->kids[i];
            if ((alias->number == 1) != (suggested == 1)) continue;
            if (count) line_add(line, ",");
            line_break(line, 0);
            line_add(line, count ? " " : gap);
            if (!count++) line_add(line, words[suggested]);
            line->nesting = 1;
            line_add(line, alias->name);
            if (alias->count) line_add(line, " => ");
            if (alias->count) line_expr(line, alias->kids[0]);
        }
        line->nesting = 0;
        if (count) line_add(line, "]");
    }
}

static void line_description(Line *line, const Node *option, const RowColumns *columns) {
    if (!option->kids[3]) return;
    line_break(line, 0);
    /* Text that does not fit into the column starts as far left as possible. */
    Line text = {.arena = line->arena, .text = {.arena = line->arena}};
    line_expr(&text, option->kids[3]);
    if (columns->head + line_columns(&text) <= columns->most) pad_line(line, columns->head - GAP);
    line_add(line, "  ");
    line_expr(line, option->kids[3]);
}

void line_option_text(Line *line, const Node *option, const RowColumns *columns) {
    line_description(line, option, columns);
    line_aliases(line, option->aliases, "  ");
}

static const char *entry_word(const Node *entry) {
    return entry->kind == NODE_EQUALISE ? "match "
           : entry->kind == NODE_VARY   ? "vary "
           : entry->kind == NODE_TUNE   ? "tune "
                                        : "";
}

void line_entry_head(Line *line, const Node *entry, int name_columns) {
    bool match = entry->kind == NODE_EQUALISE;
    line_add(line, entry_word(entry));
    line_add(line, entry->name);
    if (!*entry->name) return; /* vary { ... } */
    if (!match) pad_line(line, name_columns - 1);
    line_add(line, match ? " by " : " = ");
}

static void line_row_head(Line *line, const Node *node, int name_columns) {
    bool option = node->kind == NODE_OPTION;
    if (option)
        line_option_head(line, node, name_columns);
    else
        line_entry_head(line, node, name_columns);
    const Node *value = node->kids[option ? 2 : 0];
    if (value) line_expr(line, value);
}

bool line_is_row(Line *trial, const Node *node, int most) {
    line_clear(trial);
    trial->limit = (size_t)most;
    line_row_head(trial, node, 0);
    return !line_is_full(trial);
}

void line_row(Line *line, const Node *node, const RowColumns *columns) {
    line_row_head(line, node, columns->name);
    if (node->kind == NODE_OPTION) line_option_text(line, node, columns);
}

RowColumns line_row_columns(Line *trial, Node *const *nodes, int count, int most) {
    RowColumns columns = {.most = most};
    trial->limit = 8 * LINE_COLUMNS;
    for (int i = 0; i < count; i++) {
        line_clear(trial);
        line_add(trial, nodes[i]->kind == NODE_OPTION ? "option : " : entry_word(nodes[i]));
        if (nodes[i]->kind != NODE_OPTION) line_add(trial, " ");
        line_add(trial, nodes[i]->name);
        int width = line_columns(trial);
        if (width > columns.name) columns.name = width;
    }
    for (int i = 0; i < count; i++) {
        if (nodes[i]->kind != NODE_OPTION || !nodes[i]->kids[3]) continue;
        line_clear(trial);
        line_row_head(trial, nodes[i], columns.name);
        int width = line_columns(trial) + GAP;
        if (width > columns.head && width <= WIDEST_HEAD) columns.head = width;
    }
    return columns;
}
