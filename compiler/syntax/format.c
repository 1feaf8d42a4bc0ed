#include "syntax/format.h"

#include <string.h>

/* format: write a tree as text in the canonical format. Comments come from the source and keep
 * their position relative to their neighbors; single blank lines are kept. A simple record or block
 * on one line keeps its line if it fits.
 *
 *     param up [ d , f ],open[d,f]                 param up[d,f], open[d,f]
 *     y[s,d]=sum[f](h[s,f]*down[f,d])     -->      y[s,d] = sum[f] h[s,f] * down[f,d]
 */

typedef struct Comment {
    int start, end;
} Comment;

typedef struct Formatter {
    Arena *arena;
    const Source *source;
    List comments; /* Comment *, in order */
    int next;      /* the first comment that is not written yet */
    Text out;
    Line line, trial;
    int indent;
    int position; /* in the source: end of the text written so far */
    bool fresh;   /* start of a block: no blank line */
} Formatter;

static void find_comments(Formatter *format) {
    const char *text = format->source->text;
    int length = (int)format->source->length;
    for (int at = 0; at < length; at++) {
        if (text[at] == '"') {
            /* A string ends at its quote; the parser has checked that there is one. */
            for (at++; at < length && text[at] != '"' && text[at] != '\n';) at++;
        } else if (text[at] == '#') {
            Comment *comment = arena_alloc(format->arena, sizeof *comment);
            comment->start = at;
            while (at < length && text[at] != '\n') at++;
            comment->end = at;
            while (strchr(" \t\r", text[comment->end - 1])) comment->end--;
            list_push(format->arena, &format->comments, comment);
        }
    }
}

static const Comment *pending(const Formatter *format, int before) {
    if (format->next >= format->comments.count) return NULL;
    const Comment *comment = format->comments.items[format->next];
    return comment->start < before ? comment : NULL;
}

static bool has_comment(const Formatter *format, Span span) {
    int low = format->next, high = format->comments.count;
    while (low < high) {
        int middle = (low + high) / 2;
        const Comment *comment = format->comments.items[middle];
        if (comment->start < span.start)
            low = middle + 1;
        else
            high = middle;
    }
    return low < format->comments.count &&
           ((Comment *)format->comments.items[low])->start < span.end;
}

static int newlines(const Formatter *format, int from, int to) {
    int count = 0;
    for (int i = from; i < to && count < 2; i++) count += format->source->text[i] == '\n';
    return count;
}

static void blank_line(Formatter *format, bool wanted) {
    if (wanted && !format->fresh) text_add(&format->out, "\n");
    format->fresh = false;
}

/* Writes the comments before `start`, and one blank line for any number of blank lines. */
static void begin_node(Formatter *format, int start, int comments_before, bool blank) {
    for (const Comment *comment; (comment = pending(format, comments_before)); format->next++) {
        blank_line(format, blank || newlines(format, format->position, comment->start) > 1);
        blank = false;
        text_add(&format->out, "%*s", format->indent, "");
        text_add_bytes(&format->out, format->source->text + comment->start,
                       (size_t)(comment->end - comment->start));
        text_add(&format->out, "\n");
        if (format->position < comment->end) format->position = comment->end;
    }
    blank_line(format, blank || newlines(format, format->position, start) > 1);
    if (format->position < start) format->position = start;
}

/* Ends the line with the comment that follows `end` on its line in the source. */
static void end_line(Formatter *format, int end) {
    line_write(&format->line, &format->out, format->indent);
    line_clear(&format->line);
    if (format->position < end) format->position = end;
    const char *text = format->source->text;
    int at = end;
    while (at < (int)format->source->length && strchr(" \t\r,", text[at])) at++;
    const Comment *comment = pending(format, at + 1);
    if (comment && comment->start == at) {
        text_add(&format->out, "  ");
        text_add_bytes(&format->out, text + at, (size_t)(comment->end - at));
        format->position = comment->end;
        format->next++;
    }
    text_add(&format->out, "\n");
}

static void format_add(Formatter *format, const char *text) {
    line_add(&format->line, text);
}

static void open_block(Formatter *format, const char *bracket, Span span) {
    format_add(format, bracket);
    end_line(format, span.start + 1);
    format->indent += INDENT_COLUMNS;
    format->fresh = true;
    format->position = span.start + 1;
}

static void close_block(Formatter *format, const char *bracket, Span span) {
    /* Comments at the end of a block; a blank line before the bracket is not kept. */
    int end = span.end - 1;
    while (pending(format, end)) {
        const Comment *comment = pending(format, end);
        begin_node(format, comment->start, comment->start + 1, false);
        format->fresh = true;
        format->position = comment->end;
        if (newlines(format, format->position, end) > 1 && pending(format, end))
            format->fresh = false;
    }
    format->fresh = false;
    format->indent -= INDENT_COLUMNS;
    format->position = end;
    format_add(format, bracket);
}

/* ---- values ---- */

/* Whether a value can extend over several lines, with comments between them. */
static bool is_divisible(const Node *value) {
    return value->kind == NODE_RECORD || value->kind == NODE_LIST || value->kind == NODE_MADE;
}

/* A line break after the bracket of a record requests one entry per line. */
static bool is_spread(const Formatter *format, const Node *value) {
    if (value->kind == NODE_RECORD && value->count > 0 &&
        newlines(format, value->span.start, value->kids[0]->span.start) > 0)
        return true;
    bool entry = value->kind == NODE_ENTRY || value->kind == NODE_VARY ||
                 value->kind == NODE_TUNE || value->kind == NODE_OPTION;
    if (!entry && !is_divisible(value)) return false; /* an operation is on one line */
    for (int i = 0; i < value->count; i++)
        if (value->kids[i] && is_spread(format, value->kids[i])) return true;
    return false;
}

static bool fits_on_line(Formatter *format, const Node *value) {
    size_t used = (size_t)format->indent + format->line.text.length;
    if (used >= LINE_COLUMNS) return false;
    line_clear(&format->trial);
    format->trial.limit = LINE_COLUMNS - used;
    line_expr(&format->trial, value);
    return !line_is_full(&format->trial) && !has_comment(format, value->span) &&
           !is_spread(format, value);
}

/* Comments inside a statement or an entry before this offset move before it: the start of its block
 * or value, if that can contain comments. */
static int head_end(const Formatter *format, const Node *node) {
    switch (node->kind) {
    case NODE_REPEAT:
    case NODE_SCAN:
        return node->kids[2]->span.start;
    case NODE_IF:
    case NODE_FOR:
    case NODE_KIND:
        return node->kids[1]->span.start;
    case NODE_MATCH:
        return node->kids[0]->span.end;
    case NODE_ENTRY:
    case NODE_VARY:
    case NODE_TUNE:
        return is_divisible(node->kids[0]) ? node->kids[0]->span.start : node->span.end;
    case NODE_OPTION:
        return node->kids[2] && is_divisible(node->kids[2]) &&
                       has_comment(format, node->kids[2]->span)
                   ? node->kids[2]->span.start
                   : node->span.end;
    default:
        return node->span.end;
    }
}

/* Whether an option or entry fits on one line: it is short and not spread, and contains no comment.
 * The first of several rows may contain comments that move before it. */
static bool is_aligned_row(Formatter *format, const Node *node, bool first) {
    Span span = node->span;
    if (first) span.start = head_end(format, node);
    return line_is_row(&format->trial, node, LINE_COLUMNS - format->indent) &&
           !has_comment(format, span) && !is_spread(format, node);
}

/* Writes the rows from kid i up to a blank line, a comment or a kid that is not a row. Returns the
 * next kid. */
static int format_rows(Formatter *format, const Node *parent, int i) {
    int end = i;
    for (; end < parent->count && parent->kids[end]->kind == parent->kids[i]->kind; end++) {
        Span between = {format->source, end > i ? parent->kids[end - 1]->span.end : 0,
                        parent->kids[end]->span.start};
        if (end > i &&
            (has_comment(format, between) || newlines(format, between.start, between.end) > 1))
            break;
        if (!is_aligned_row(format, parent->kids[end], end == i)) break;
    }
    int most = LINE_COLUMNS - format->indent;
    RowColumns columns = line_row_columns(&format->trial, parent->kids + i, end - i, most);
    for (int k = i; k < end; k++) {
        const Node *node = parent->kids[k];
        begin_node(format, node->span.start, head_end(format, node), false);
        line_row(&format->line, node, &columns);
        end_line(format, node->span.end);
    }
    return end;
}

static void format_value(Formatter *format, const Node *value);

static void format_record(Formatter *format, const Node *record) {
    if (record->count == 0 && !has_comment(format, record->span)) {
        format_add(format, "{}");
        return;
    }
    open_block(format, "{", record->span);
    for (int i = 0; i < record->count; i++) {
        NodeKind kind = record->kids[i]->kind;
        i = format_rows(format, record, i);
        if (i == record->count) break;
        if (record->kids[i]->kind != kind) { /* in an experiment: other rows */
            i--;
            continue;
        }
        const Node *entry = record->kids[i];
        begin_node(format, entry->span.start, head_end(format, entry), false);
        line_entry_head(&format->line, entry, 0);
        format_value(format, entry->kids[0]);
        end_line(format, entry->span.end);
    }
    close_block(format, "}", record->span);
}

static void format_value(Formatter *format, const Node *value) {
    if (!is_divisible(value) || fits_on_line(format, value)) {
        line_expr(&format->line, value);
    } else if (value->kind == NODE_RECORD) {
        format_record(format, value);
    } else if (value->kind == NODE_MADE) {
        format_add(format, value->name);
        format_add(format, " ");
        format_record(format, value->kids[0]);
    } else {
        open_block(format, "[", value->span);
        for (int i = 0; i < value->count; i++) {
            begin_node(format, value->kids[i]->span.start, value->kids[i]->span.start, false);
            format_value(format, value->kids[i]);
            format_add(format, ",");
            end_line(format, value->kids[i]->span.end);
        }
        close_block(format, "]", value->span);
    }
}

/* ---- statements ---- */

static void format_block(Formatter *format, const Node *block);

static void format_option(Formatter *format, const Node *option) {
    line_option_head(&format->line, option, 0);
    if (option->kids[2]) format_value(format, option->kids[2]);
    static const RowColumns plain = {0, 0, 0};
    line_option_text(&format->line, option, &plain);
}

/* KEYWORD name[subs] = expr, without the missing parts. */
static void format_definition(Line *line, const char *keyword, const Node *node, const Node *subs,
                              const Node *expr) {
    line_add(line, keyword);
    if (node->name) line_add(line, node->name);
    line_subs(line, subs);
    if (!expr) return;
    line_add(line, " = ");
    line_expr(line, expr);
}

static void parameter(Line *line, const Node *node) {
    line_add(line, node->name);
    line_subs(line, node->kids[0]);
    if (node->kids[1]) line_add(line, " ~ ");
    if (node->kids[1]) line_expr(line, node->kids[1]);
    line_attributes(line, node->kids[2]);
}

/* Statements without a block in them. */
static void simple(Formatter *format, const Node *node) {
    Line *line = &format->line;
    switch (node->kind) {
    case NODE_OPTION:
        format_option(format, node);
        break;
    case NODE_AXIS:
    case NODE_SEQUENCE:
    case NODE_AUX:
        line_add(line, node_kind_name(node->kind));
        format_definition(line, " ", node, NULL, node->kids[0]);
        break;
    case NODE_STATE:
    case NODE_UPDATE:
    case NODE_REFINE:
    case NODE_PROVIDE:
    case NODE_REQUEST:
        line_add(line, node_kind_name(node->kind));
        format_definition(line, " ", node, node->kids[0], node->kids[1]);
        break;
    case NODE_EQUATION:
        format_definition(line, "", node, node->kids[0], node->kids[1]);
        break;
    case NODE_LOSS:
        format_definition(line, "loss", node, NULL, node->kids[0]);
        break;
    case NODE_PROBE:
        format_definition(line, "probe ", node, node->kids[0], node->kids[1]);
        line_aliases(line, node->aliases, "  ");
        break;
    case NODE_OUTPUT:
    case NODE_CACHE:
        line_add(line, node_kind_name(node->kind));
        format_definition(line, " ", node, NULL, NULL);
        break;
    case NODE_PARAM:
        line_add(line, "param ");
        parameter(line, node);
        break;
    case NODE_INPUT:
        format_definition(line, "input ", node, node->kids[0], NULL);
        line_add(line, ": ");
        line_add(line, node->kids[1]->name);
        if (node->kids[2]) line_add(line, " = ");
        if (node->kids[2]) line_expr(line, node->kids[2]);
        break;
    case NODE_REQUIRE:
        line_add(line, "require ");
        line_expr(line, node->kids[0]);
        line_break(line, 0);
        line_add(line, " ");
        line_expr(line, node->kids[1]);
        break;
    case NODE_EXTERN:
        line_extern(line, node);
        break;
    default:
        break;
    }
}

static void format_if(Formatter *format, const Node *node) {
    for (;;) {
        format_add(format, "if ");
        line_expr(&format->line, node->kids[0]);
        format_add(format, " ");
        format_block(format, node->kids[1]);
        if (!node->kids[2]) return;
        format_add(format, " else ");
        if (node->kids[2]->kind != NODE_IF) break;
        node = node->kids[2];
    }
    format_block(format, node->kids[2]);
}

static void format_case(Formatter *format, const Node *node) {
    const Node *patterns = node->kids[0];
    begin_node(format, node->span.start, node->kids[1]->span.start, false);
    for (int i = 0; i < patterns->count; i++) {
        if (i > 0) format_add(format, ", ");
        line_expr(&format->line, patterns->kids[i]);
    }
    format_add(format, patterns->count ? " => " : "else => ");
    format_block(format, node->kids[1]);
    end_line(format, node->span.end);
}

static void format_match(Formatter *format, const Node *node) {
    format_add(format, "match ");
    line_expr(&format->line, node->kids[0]);
    format_add(format, " ");
    /* The bracket has no node; it is the first one after the expression, outside comments. */
    Span span = node->span;
    span.start = node->kids[0]->span.end;
    while (span.start < span.end - 1 && format->source->text[span.start] != '{') {
        if (format->source->text[span.start] == '#')
            while (format->source->text[span.start] != '\n') span.start++;
        else
            span.start++;
    }
    open_block(format, "{", span);
    for (int i = 1; i < node->count; i++) format_case(format, node->kids[i]);
    close_block(format, "}", span);
}

static void format_scan(Formatter *format, const Node *node) {
    const Node *states = node->kids[0];
    format_add(format, "scan ");
    for (int i = 0; i < states->count; i++) {
        const Node *state = states->kids[i];
        if (i > 0) format_add(format, ", ");
        format_add(format, state->name);
        line_subs(&format->line, state->kids[0]);
        if (!state->kids[1]) continue;
        format_add(format, " from ");
        line_expr(&format->line, state->kids[1]);
    }
    format_add(format, " over ");
    format_add(format, node->name);
    if (node->kids[1]) format_add(format, " reversed");
    format_add(format, " ");
    format_block(format, node->kids[2]);
}

static void format_statement(Formatter *format, const Node *node) {
    switch (node->kind) {
    case NODE_USE:
        format_add(format, "use ");
        format_add(format, node->name);
        break;
    case NODE_RULE:
    case NODE_UNREAD:
    case NODE_TENSOR:
        line_layout(&format->line, node);
        break;
    case NODE_ENTRY:
        line_entry_head(&format->line, node, 0);
        format_value(format, node->kids[0]);
        break;
    case NODE_REPEAT:
        format_add(format, "repeat ");
        format_add(format, node->name);
        format_add(format, "[");
        format_add(format, node->kids[0]->name);
        format_add(format, " < ");
        line_expr(&format->line, node->kids[1]);
        format_add(format, node->number == 1 ? "] shared " : "] ");
        format_block(format, node->kids[2]);
        break;
    case NODE_SCAN:
        format_scan(format, node);
        break;
    case NODE_FOR:
        format_add(format, "for ");
        format_add(format, node->name);
        format_add(format, " in ");
        line_expr(&format->line, node->kids[0]);
        format_add(format, " ");
        format_block(format, node->kids[1]);
        break;
    case NODE_KIND:
        format_add(format, "kind ");
        format_add(format, node->name);
        if (node->kids[0]) format_add(format, " if ");
        if (node->kids[0]) line_expr(&format->line, node->kids[0]);
        format_add(format, " ");
        format_block(format, node->kids[1]);
        break;
    case NODE_IF:
        format_if(format, node);
        break;
    case NODE_MATCH:
        format_match(format, node);
        break;
    default:
        simple(format, node);
        break;
    }
}

/* The parameters of one list: those that follow without the keyword, up to a comment. */
static int parameters(Formatter *format, const Node *block, int i) {
    const Node *const *kids = (const Node *const *)block->kids;
    int last = i;
    while (last + 1 < block->count && kids[last + 1]->kind == NODE_PARAM &&
           kids[last + 1]->span.start == kids[last + 1]->name_span.start &&
           !has_comment(format,
                        (Span){format->source, kids[last]->span.end, kids[last + 1]->span.start}))
        last++;
    begin_node(format, kids[i]->span.start, kids[last]->span.end, false);
    simple(format, kids[i]);
    for (int k = i + 1; k <= last; k++) {
        format_add(format, ",");
        line_break(&format->line, 0);
        format_add(format, " ");
        parameter(&format->line, kids[k]);
    }
    end_line(format, kids[last]->span.end);
    return last;
}

static bool is_simple(const Node *node) {
    switch (node->kind) {
    case NODE_REPEAT:
    case NODE_SCAN:
    case NODE_IF:
    case NODE_FOR:
    case NODE_MATCH:
    case NODE_KIND:
    case NODE_USE:
    case NODE_RULE:
    case NODE_UNREAD:
    case NODE_TENSOR:
    case NODE_ENTRY:
        return false;
    default:
        return true;
    }
}

/* `{ y = x }`: one simple statement that is on one line and fits. */
static bool format_short_block(Formatter *format, const Node *block) {
    if (block->count > 1 || has_comment(format, block->span)) return false;
    if (block->count == 0) {
        format_add(format, "{}");
        return true;
    }
    const Node *node = block->kids[0];
    if (newlines(format, block->span.start, block->span.end) > 0 || !is_simple(node)) return false;
    size_t length = format->line.text.length;
    int breaks = format->line.break_count;
    format_add(format, "{ ");
    simple(format, node);
    format_add(format, " }");
    if ((size_t)format->indent + format->line.text.length <= LINE_COLUMNS) return true;
    format->line.text.length = length;
    format->line.break_count = breaks;
    return false;
}

static void format_block(Formatter *format, const Node *block) {
    if (format_short_block(format, block)) return;
    open_block(format, "{", block->span);
    for (int i = 0; i < block->count; i++) {
        if (block->kids[i]->kind == NODE_OPTION) i = format_rows(format, block, i);
        if (i == block->count) break;
        const Node *node = block->kids[i];
        if (node->kind == NODE_PARAM) {
            i = parameters(format, block, i);
            continue;
        }
        begin_node(format, node->span.start, head_end(format, node), false);
        format_statement(format, node);
        end_line(format, node->span.end);
    }
    close_block(format, "}", block->span);
}

/* ---- items ---- */

static void formal(Formatter *format, const Node *node) {
    format_add(format, node->name);
    line_subs(&format->line, node->kids[0]);
}

static void format_layer(Formatter *format, const Node *node) {
    const Node *formals = node->kids[0];
    format_add(format, node->name);
    if (formals->count > 0) format_add(format, "(");
    for (int i = 0; i < formals->count; i++) {
        if (i > 0) format_add(format, ", ");
        formal(format, formals->kids[i]);
    }
    if (formals->count > 0) format_add(format, ")");
    if (node->kids[1]) {
        format_add(format, " -> ");
        formal(format, node->kids[1]);
        for (int i = 1; i < node->kids[1]->count; i++) {
            format_add(format, ", ");
            formal(format, node->kids[1]->kids[i]);
        }
    }
    line_aliases(&format->line, node->aliases, " ");
    format_add(format, " ");
    format_block(format, node->kids[2]);
}

static void format_model(Formatter *format, const Node *node) {
    format_add(format, node->name);
    format_add(format, " = ");
    format_add(format, node->kids[0]->name);
    if (node->kids[1]) {
        format_add(format, " ");
        format_value(format, node->kids[1]);
    }
    if (node->count > 2) {
        format_add(format, " transfer ");
        format_add(format, node->kids[2]->name);
        if (node->kids[2]->kids[0]) {
            format_add(format, " ");
            format_value(format, node->kids[2]->kids[0]);
        }
        format_add(format, " from ");
        format_add(format, node->kids[3]->name);
    }
}

static void format_item(Formatter *format, const Node *node) {
    format_add(format, node_kind_name(node->kind));
    format_add(format, " ");
    switch (node->kind) {
    case NODE_LAYER:
        format_layer(format, node);
        break;
    case NODE_MODEL:
        format_model(format, node);
        break;
    case NODE_OPTIMIZER:
    case NODE_SCHEDULE:
    case NODE_PARAMETRIZATION:
        format_add(format, node->name);
        line_aliases(&format->line, node->aliases, " ");
        format_add(format, " ");
        format_block(format, node->kids[0]);
        break;
    case NODE_LAYOUT:
        format_add(format, node->name);
        format_add(format, node->number == 1 ? " = " : " for ");
        format_add(format, node->kids[0]->name);
        format_add(format, " ");
        format_block(format, node->kids[1]);
        break;
    case NODE_EXPERIMENT:
    case NODE_MACHINE:
        format_add(format, node->name);
        if (node->count > 1) {
            format_add(format, " = ");
            format_add(format, node->kids[1]->name);
        }
        format_add(format, " ");
        format_value(format, node->kids[0]);
        break;
    default:
        format_add(format, node->name);
        break; /* USE */
    }
}

/* Offset of the first bracket of an item: comments before it are written before the item. */
static int item_head_end(const Node *node) {
    switch (node->kind) {
    case NODE_LAYER:
        return node->kids[2]->span.start;
    case NODE_MODEL:
        return node->kids[1] ? node->kids[1]->span.start : node->span.end;
    case NODE_USE:
        return node->span.end;
    case NODE_LAYOUT:
        return node->kids[1]->span.start;
    default:
        return node->kids[0]->span.start;
    }
}

char *format_tree(Arena *arena, const Source *source, const Node *file) {
    Formatter format = {.arena = arena, .source = source, .out = {.arena = arena}, .fresh = true};
    format.line = (Line){.arena = arena, .text = {.arena = arena}};
    format.trial = format.line;
    text_add(&format.out, "%s", "");
    find_comments(&format);
    for (int i = 0; i < file->count; i++) {
        const Node *item = file->kids[i];
        bool blank = i > 0 && !(item->kind == NODE_USE && file->kids[i - 1]->kind == NODE_USE);
        begin_node(&format, item->span.start, item_head_end(item), blank);
        format_item(&format, item);
        end_line(&format, item->span.end);
    }
    while (format.next < format.comments.count) {
        const Comment *comment = format.comments.items[format.next];
        blank_line(&format, newlines(&format, format.position, comment->start) > 1);
        text_add_bytes(&format.out, source->text + comment->start,
                       (size_t)(comment->end - comment->start));
        text_add(&format.out, "\n");
        format.position = comment->end;
        format.next++;
    }
    return format.out.text;
}
