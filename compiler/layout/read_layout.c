/* read_layout: the layouts of a unit. The statements of the base come first, and repeated
 * statements replace them. Each line is checked independently:
 *
 *     "q.{i}"[(h,e), d] = block[i].query[d,h,e]     each side has i, h, e, d once
 */
#include "layout/layout.h"

#include <string.h>

enum { MAX_BASES = 20 };

typedef struct LayoutReader {
    Unit *unit;
    Arena *arena;
    Reports *reports;
} LayoutReader;

const char *layout_path(Arena *arena, const Node *node) {
    if (node->kind == NODE_NAME) return node->name;
    if (node->kind != NODE_FIELD) return NULL;
    const char *front = layout_path(arena, node->kids[0]);
    return front ? arena_format(arena, "%s.%s", front, node->name) : NULL;
}

/* ---- one side of a line ---- */

typedef struct IndexNames {
    const char *names[LAYOUT_INDICES];
    Span spans[LAYOUT_INDICES];
    int count;
} IndexNames;

static int find_index_name(const IndexNames *names, const char *name) {
    for (int i = 0; i < names->count; i++)
        if (strcmp(names->names[i], name) == 0) return i;
    return -1;
}

static bool add_index_name(LayoutReader *reader, IndexNames *names, const char *name, Span span) {
    int before = find_index_name(names, name);
    if (before >= 0) {
        report_error(reader->reports, span, "duplicate index '%s' on one side", name);
        report_note(reader->reports, names->spans[before], "first used here");
        return report_help(reader->reports, "rename one of them");
    }
    if (names->count == LAYOUT_INDICES)
        return report_invalid(reader->reports, span, "split the line into two",
                              "too many indices: the maximum is %d", LAYOUT_INDICES);
    names->names[names->count] = name;
    names->spans[names->count++] = span;
    return true;
}

const Node *layout_index(const Node *sub, int i, bool *reversed) {
    const Node *one = sub->kind == NODE_TUPLE ? sub->kids[i] : sub;
    *reversed = one->kind == NODE_UNARY && *one->name == '-';
    if (*reversed) one = one->kids[0];
    return one->kind == NODE_NAME ? one : NULL;
}

int layout_indices(const Node *sub) {
    return sub->kind == NODE_TUPLE ? sub->count : 1;
}

static bool add_sub(LayoutReader *reader, IndexNames *names, const Node *sub, bool ours) {
    for (int i = 0; i < layout_indices(sub); i++) {
        bool reversed;
        const Node *one = layout_index(sub, i, &reversed);
        if (!one || (reversed && !ours)) {
            report_error(reader->reports, sub->span,
                         "expected an index, or several indices in parentheses");
            if (one) report_help(reader->reports, "write -%s on the right side instead", one->name);
            return false;
        }
        if (!add_index_name(reader, names, one->name, one->span)) return false;
    }
    return true;
}

static bool add_subs(LayoutReader *reader, IndexNames *names, const Node *subs, bool ours) {
    if (subs && subs->count > LAYOUT_RANK)
        return report_invalid(reader->reports, subs->span, "use fewer subscripts",
                              "too many subscripts: the maximum is %d", LAYOUT_RANK);
    for (int i = 0; subs && i < subs->count; i++)
        if (!add_sub(reader, names, subs->kids[i], ours)) return false;
    return true;
}

/* "h.{i}.weight": the names in braces. */
static bool add_holes(LayoutReader *reader, IndexNames *names, const Node *line) {
    const Source *source = line->span.source;
    for (const char *at = line->name; (at = strchr(at, '{')); at++) {
        size_t length = strcspn(at + 1, "}");
        int start = line->name_span.start + 1 + (int)(at - line->name);
        Span span = {source, start, start + (int)length + 2};
        if (!at[1 + length] || !length)
            return report_invalid(reader->reports, span,
                                  "write block.{i}.weight, with a name in the braces",
                                  "expected the name of an index in braces, such as {i}");
        if (!add_index_name(reader, names, arena_copy(reader->arena, at + 1, length), span))
            return false;
    }
    return true;
}

/* "block.{i}.attention.query" of block[i].attention.query; its indices. */
static bool add_path_text(LayoutReader *reader, Text *path, IndexNames *names, const Node *node) {
    switch (node->kind) {
    case NODE_NAME:
        text_add(path, "%s", node->name);
        return true;
    case NODE_FIELD:
        if (!add_path_text(reader, path, names, node->kids[0])) return false;
        text_add(path, ".%s", node->name);
        return true;
    case NODE_INDEXED:
        if (node->kids[1]->count == 1 && node->kids[1]->kids[0]->kind == NODE_NAME) {
            const Node *index = node->kids[1]->kids[0];
            if (!add_path_text(reader, path, names, node->kids[0])) return false;
            text_add(path, ".{%s}", index->name);
            return add_index_name(reader, names, index->name, index->span);
        }
        break;
    default:
        break;
    }
    return report_invalid(reader->reports, node->span,
                          "write the name that `moec tensors` prints, with an index for the "
                          "number of a layer: block[i].attention.query",
                          "expected the path of a parameter");
}

/* ---- arithmetic on a parameter ---- */

typedef struct Affine {
    const Node *tensor; /* NULL: a number alone */
    double factor, shift;
} Affine;

static bool affine(LayoutReader *reader, const Node *node, Affine *result);

static bool combine(LayoutReader *reader, const Node *node, Affine *result) {
    Affine a, b;
    char operation = *node->name;
    if (!affine(reader, node->kids[0], &a) || !affine(reader, node->kids[1], &b)) return false;
    bool sum = operation == '+' || operation == '-', product = operation == '*';
    if (operation == '-') b.factor = -b.factor, b.shift = -b.shift;
    if (operation == '/' && !b.tensor && b.shift != 0) b.shift = 1 / b.shift, product = true;
    if ((a.tensor && b.tensor) || !(sum || product) || node->name[1])
        return report_invalid(
            reader->reports, node->span, "write for example 2 * weight + 1",
            "unsupported expression: expected one parameter with numbers added to it or "
            "multiplied by it");
    const Affine *tensor = a.tensor ? &a : &b, *number = a.tensor ? &b : &a;
    *result = *tensor;
    if (sum) {
        result->shift = a.shift + b.shift;
        return true;
    }
    result->factor = tensor->factor * number->shift;
    result->shift = tensor->shift * number->shift;
    return true;
}

static bool affine(LayoutReader *reader, const Node *node, Affine *result) {
    if (node->kind == NODE_NUMBER) {
        *result = (Affine){NULL, 0, node->number};
        return true;
    }
    if (node->kind == NODE_UNARY && *node->name == '-') {
        if (!affine(reader, node->kids[0], result)) return false;
        result->factor = -result->factor;
        result->shift = -result->shift;
        return true;
    }
    if (node->kind == NODE_BINARY) return combine(reader, node, result);
    *result = (Affine){node, 1, 0};
    return true;
}

/* ---- lines ---- */

static bool read_layout_part(LayoutReader *reader, const Node *line, const Node *node,
                             LayoutPart *part, IndexNames *names) {
    Affine value;
    if (!affine(reader, node, &value)) return false;
    if (!value.tensor || value.factor == 0) {
        report_error(reader->reports, node->span, "expected a parameter, got a number");
        return report_help(reader->reports, "write \"%s\" = none to ignore this file tensor",
                           line->name);
    }
    const Node *tensor = value.tensor;
    *part = (LayoutPart){.node = tensor, .factor = value.factor, .shift = value.shift};
    bool indexed = tensor->kind == NODE_INDEXED;
    if (indexed) part->subs = tensor->kids[1];
    Text path = {.arena = reader->arena};
    if (!add_path_text(reader, &path, names, indexed ? tensor->kids[0] : tensor)) return false;
    part->path = path.text;
    for (int i = 0; i < names->count; i++) {
        const char *hole = arena_format(reader->arena, "{%s}", names->names[i]);
        if (strstr(line->name, hole)) continue;
        report_error(reader->reports, names->spans[i],
                     "'%s' is missing in the name of the file tensor", hole);
        return report_help(reader->reports, "add %s to the name \"%s\"", hole, line->name);
    }
    return add_subs(reader, names, part->subs, true);
}

static void report_no_left(LayoutReader *reader, Span span, const char *index) {
    report_error(reader->reports, span, "index '%s' is missing on the left side", index);
    report_help(reader->reports,
                "add it to the subscripts of the file tensor, or as {%s} to its name", index);
}

/* Checks that every index of a part occurs on the left side. */
static bool known_names(LayoutReader *reader, const IndexNames *left, const IndexNames *right) {
    for (int i = 0; i < right->count; i++) {
        if (find_index_name(left, right->names[i]) >= 0) continue;
        report_no_left(reader, right->spans[i], right->names[i]);

        return false;
    }
    return true;
}

static bool has_axis(const Layout *layout, const char *axis) {
    for (int i = 0; i < layout->axes.count; i++)
        if (strcmp(((Node *)layout->axes.items[i])->name, axis) == 0) return true;
    return false;
}

/* Checks that every index on the left side belongs to a part, numbers the parts, or is declared. */
static bool used_names(LayoutReader *reader, const Layout *layout, const IndexNames *left,
                       const bool *used, const LayoutLine *line) {
    for (int i = 0; i < left->count; i++) {
        if (used[i] || (line->choice && strcmp(line->choice, left->names[i]) == 0)) continue;
        if (has_axis(layout, left->names[i])) continue;
        report_error(reader->reports, left->spans[i], "'%s' has no index '%s'", line->parts[0].path,
                     left->names[i]);
        report_note(reader->reports, line->parts[0].node->span,
                    "the file tensor maps to this parameter");
        return report_help(reader->reports, "declare its size: axis %s = N", left->names[i]);
    }
    return true;
}

/* [a, b, c][k]: the parts, and k. */
static const Node *line_parts(const Node *value, LayoutLine *line) {
    bool listed = value->kind == NODE_INDEXED && value->kids[0]->kind == NODE_LIST &&
                  value->kids[1]->count == 1 && value->kids[1]->kids[0]->kind == NODE_NAME;
    if (listed) line->choice = value->kids[1]->kids[0]->name;
    return listed ? value->kids[0] : NULL;
}

static bool is_none(const Node *node) {
    return node->kind == NODE_NAME && strcmp(node->name, "none") == 0;
}

static bool read_line(LayoutReader *reader, const Layout *layout, LayoutLine *line) {
    const Node *node = line->node, *value = node->kids[1];
    if (is_none(value)) return true;
    if (strchr(node->name, '*')) {
        report_error(reader->reports, node->name_span,
                     "'*' matches several file tensors, but a parameter maps to one");
        return report_help(reader->reports, "write \"%s\" = none to ignore these file tensors",
                           node->name);
    }
    IndexNames left = {.count = 0};
    if (!add_holes(reader, &left, node) || !add_subs(reader, &left, node->kids[0], false))
        return false;
    const Node *list = line_parts(value, line);
    if (list && (list->count == 0 || list->count > LAYOUT_PARTS))
        return report_invalid(reader->reports, list->span, "write the parts as several lines",
                              "expected 1 to %d parts, got %d", LAYOUT_PARTS, list->count);
    if (list && find_index_name(&left, line->choice) < 0) {
        report_no_left(reader, value->kids[1]->span, line->choice);
        return false;
    }
    line->part_count = list ? list->count : 1;
    bool used[LAYOUT_INDICES] = {false};
    for (int i = 0; i < line->part_count; i++) {
        IndexNames right = {.count = 0};
        if (!read_layout_part(reader, node, list ? list->kids[i] : value, &line->parts[i],
                              &right) ||
            !known_names(reader, &left, &right))
            return false;
        for (int j = 0; j < right.count; j++) used[find_index_name(&left, right.names[j])] = true;
    }
    return used_names(reader, layout, &left, used, line);
}

/* ---- a whole layout ---- */

static bool says_again(const LayoutLine *a, const LayoutLine *b) {
    if (strcmp(a->node->name, b->node->name) == 0) return true;
    for (int i = 0; i < a->part_count; i++)
        for (int j = 0; j < b->part_count; j++)
            if (strcmp(a->parts[i].path, b->parts[j].path) == 0) return true;
    return false;
}

/* Reports a statement that repeats another one of the same layout. A statement of a base is
 * replaced. */
static bool is_own(LayoutReader *reader, const Layout *layout, const Node *before,
                   const Node *node) {
    Span all = layout->node->span, old = before->span;
    if (old.source != all.source || old.start < all.start || old.end > all.end) return false;
    report_error(reader->reports, node->span, "this repeats an earlier statement of the layout");
    report_note(reader->reports, old, "the earlier statement is here");
    report_help(reader->reports, "remove one of them");
    return true;
}

static void add_layout_line(LayoutReader *reader, Layout *layout, const Node *node) {
    LayoutLine *line = arena_alloc(reader->arena, sizeof *line);
    line->node = node;
    if (!read_line(reader, layout, line)) return;
    List *lines = &layout->lines;
    int kept = 0, replaced = -1; /* index of the first statement that it replaces */
    LIST_EACH(LayoutLine, before, lines) {
        if (!says_again(before, line))
            lines->items[kept++] = before;
        else if (is_own(reader, layout, before->node, node))
            return;
        else if (replaced < 0)
            replaced = kept++;
    }
    lines->count = kept;
    if (replaced < 0)
        list_push(reader->arena, lines, line);
    else
        lines->items[replaced] = line;
}

/* Checks the parts of a rule beyond the grammar. */
static bool check_rule(LayoutReader *reader, const Node *rule) {
    const Node *value = rule->kids[0], *words = rule->kids[1] ? rule->kids[1]->kids[0] : NULL;
    if (value->kind == NODE_CALL && !layout_repeated(value, NULL))
        return report_invalid(reader->reports, value->span,
                              "write a periodic list as from layer_types = repeat(pattern, layers)",
                              "unknown function '%s': a layout supports only repeat",
                              ((Node *)value->kids[0])->name);
    for (int i = 0; words && words->kind == NODE_RECORD && i < words->count; i++) {
        const Node *word = words->kids[i];
        if (((Node *)word->kids[0])->kind == NODE_NAME) continue;
        report_error(reader->reports, word->span,
                     "expected a word of the configuration, '=', and a word of the option");
        return report_help(reader->reports, "write { %s = WORD }", word->name);
    }
    const Node *otherwise = rule->kids[2];
    for (int i = 0; otherwise && otherwise->kind == NODE_LIST && i < otherwise->count; i++) {
        if (((Node *)otherwise->kids[i])->kind == NODE_NAME) continue;
        return report_invalid(reader->reports, otherwise->span, "write else [a, b]",
                              "expected a list of words");
    }
    if (rule->kids[3] && layout_constant(value))
        return report_invalid(reader->reports, rule->kids[3]->span,
                              "remove the condition: the value applies to every model",
                              "a rule with a constant value cannot have a condition");
    return true;
}

/* Whether two rules have the same key and condition, or two entries set the same option. */
static bool same_rule(Arena *arena, const Node *a, const Node *b) {
    if (a->kind != b->kind || strcmp(a->name, b->name) != 0) return false;
    const Node *one = a->kind == NODE_RULE ? a->kids[3] : NULL;
    const Node *other = b->kind == NODE_RULE ? b->kids[3] : NULL;
    if (!one || !other) return one == other;
    return !strcmp(layout_path(arena, one->kids[0]), layout_path(arena, other->kids[0])) &&
           !strcmp(one->kids[1]->name, other->kids[1]->name);
}

/* The first rule identifies the family: a rule of a derived layout replaces the rule of its base at
 * the same index. */
static void add_layout_rule(LayoutReader *reader, Layout *layout, Node *node) {
    if (node->kind == NODE_RULE && !check_rule(reader, node)) return;
    int kept = 0; /* of the keys that the base ignores */
    LIST_EACH(Node, key, &layout->unread)
        if (strcmp(key->name, node->name) != 0) layout->unread.items[kept++] = key;
    layout->unread.count = kept;
    for (int i = 0; i < layout->rules.count; i++) {
        Node *before = layout->rules.items[i];
        if (!same_rule(reader->arena, before, node)) continue;
        if (!is_own(reader, layout, before, node)) layout->rules.items[i] = node;
        return;
    }
    list_push(reader->arena, &layout->rules, node);
}

/* Adds a key that this layout ignores, also if its base reads it. */
static void add_unread(LayoutReader *reader, Layout *layout, Node *key) {
    for (int i = 0; i < layout->rules.count; i++) {
        const Node *before = layout->rules.items[i];
        if (before->kind != NODE_RULE || strcmp(before->name, key->name) != 0) continue;
        layout->rules.count--;
        for (int j = i; j < layout->rules.count; j++)
            layout->rules.items[j] = layout->rules.items[j + 1];
    }
    list_push(reader->arena, &layout->unread, key);
}

static void add_layout_statement(LayoutReader *reader, Layout *layout, Node *node) {
    switch (node->kind) {
    case NODE_TENSOR:
        add_layout_line(reader, layout, node);
        break;
    case NODE_AXIS:
        list_push(reader->arena, &layout->axes, node);
        break;
    case NODE_USE:
        list_push(reader->arena, &layout->uses, node);
        break;
    case NODE_UNREAD:
        for (int i = 0; i < node->count; i++) add_unread(reader, layout, node->kids[i]);
        break;
    default:
        add_layout_rule(reader, layout, node);
    }
}

static const Node *find_layout_node(const Unit *unit, const char *name) {
    return list_named(&unit->layouts, offsetof(Node, name), name);
}

static bool add_layout(LayoutReader *reader, Layout *layout, const Node *node, int depth) {
    const Node *base = node->kids[0];
    if (node->number == 1) {
        const Node *found = find_layout_node(reader->unit, base->name);
        if (!found || depth == MAX_BASES) {
            report_error(reader->reports, base->span,
                         found ? "layout '%s' is based on itself" : "unknown layout '%s'",
                         base->name);
            return report_help(reader->reports,
                               found ? "remove one 'for' of the cycle"
                                     : "add 'use %s', or write the layout in this file",
                               base->name);
        }
        const Node *own = layout->node;
        layout->node = found;
        bool good = add_layout(reader, layout, found, depth + 1);
        layout->node = own;
        if (!good) return false;
    } else {
        layout->base = base->name;
    }
    const Node *body = node->kids[1];
    for (int i = 0; i < body->count; i++) add_layout_statement(reader, layout, body->kids[i]);
    return true;
}

static void add_layout_file(Arena *arena, Layout *layout, const char *path) {
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    size_t length = strlen(base);
    if (length > 4 && !strcmp(base + length - 4, ".moe")) length -= 4;
    const char *name = arena_copy(arena, base, length);
    if (!list_has_text(&layout->files, name)) list_push(arena, &layout->files, (void *)name);
}

/* Lists the file that declares the base, the files that the layout uses, and every file outside of
 * the standard library that declares a layer. */
static void list_files(const Unit *unit, Layout *layout) {
    const Node *base = node_called(&unit->layers, layout->base);
    add_layout_file(unit->arena, layout, base ? base->span.source->path : layout->base);
    for (int i = 0; i < layout->uses.count; i++)
        add_layout_file(unit->arena, layout, ((const Node *)layout->uses.items[i])->name);
    for (int i = 0; i < unit->layers.count; i++) {
        const char *path = ((const Node *)unit->layers.items[i])->span.source->path;
        if (!path_is_standard(path)) add_layout_file(unit->arena, layout, path);
    }
}

static bool has_any_rule(const Layout *layout) {
    for (int i = 0; i < layout->rules.count; i++)
        if (((Node *)layout->rules.items[i])->kind == NODE_RULE) return true;
    return false;
}

List layouts_read(Unit *unit) {
    LayoutReader reader = {unit, unit->arena, unit->reports};
    List layouts = {0};
    LIST_EACH(const Node, node, &unit->layouts) {
        Layout *layout = arena_alloc(unit->arena, sizeof *layout);
        layout->node = node;
        layout->name = node->name;
        if (!add_layout(&reader, layout, node, 0)) continue;
        list_files(unit, layout);
        if (has_any_rule(layout)) {
            list_push(unit->arena, &layouts, layout);
            continue;
        }
        report_error(unit->reports, node->name_span,
                     "layout '%s' has no rule that identifies its model family", node->name);
        report_help(unit->reports, "add from model_type = \"%s\" as its first rule", node->name);
    }
    return layouts;
}
