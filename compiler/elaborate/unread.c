/* unread: warn about declared names that the layer never reads, and about options that are set, but
 * not read with the current values of the other options. Declarations of the standard library are
 * not checked.
 */
#include "elaborate/elaborate.h"

#include <math.h>
#include <string.h>

static bool is_name_reference(const Node *node) {
    switch (node->kind) {
    case NODE_NAME:
    case NODE_LABELLED:
    case NODE_MADE:
    case NODE_OUTPUT:
    case NODE_CACHE:
    case NODE_UPDATE:
    case NODE_REFINE:
        return true;
    default:
        return false;
    }
}

/* Whether a descendant refers to the name of this length. */
static bool reads_name(const Node *node, const char *name, size_t length) {
    if (!node) return false;
    if (is_name_reference(node) && !strncmp(node->name, name, length) && !node->name[length])
        return true;
    for (int i = 0; i < node->count; i++)
        if (reads_name(node->kids[i], name, length)) return true;
    return false;
}

static const char *declared_kind(const Node *node) {
    switch (node->kind) {
    case NODE_OPTION:
        return "option";
    case NODE_AXIS:
        return "axis";
    case NODE_PARAM:
        return "parameter";
    case NODE_STATE:
        return "state";
    case NODE_INPUT:
        return "input";
    case NODE_EQUATION:
        return "equation";
    case NODE_REQUEST:
        return "request";
    default:
        return NULL;
    }
}

static bool is_result(const Node *layer, const char *name) {
    if (layer->kind == NODE_SCHEDULE) return !strcmp(name, "rate");
    if (layer->kind == NODE_OPTIMIZER) return !strcmp(name, "by");
    const Node *result = layer->kind == NODE_LAYER ? layer->kids[1] : NULL;
    bool found = result && !strcmp(result->name, name);
    for (int i = 1; result && i < result->count; i++) found |= !strcmp(result->kids[i]->name, name);
    return found;
}

/* `train` groups options that the commands read. */
static bool is_for_commands(const Node *layer, const Node *node) {
    return layer->kind == NODE_LAYER && node->kind == NODE_OPTION && !layer->kids[1] &&
           !strcmp(node->name, "train");
}

/* Collects the names that descendants refer to. */
static void add_referenced_names(Arena *arena, Table *names, Node *node) {
    if (!node) return;
    if (is_name_reference(node)) table_add(arena, names, hash_text(HASH_START, node->name), node);
    for (int i = 0; i < node->count; i++) add_referenced_names(arena, names, node->kids[i]);
}

static bool is_said(const Table *names, const char *name) {
    size_t length = strcspn(name, ".");
    const List *found = table_find(names, hash_bytes(HASH_START, name, length));
    for (int i = 0; i < found->count; i++) {
        const char *said = ((const Node *)found->items[i])->name;
        if (!strncmp(said, name, length) && !said[length]) return true;
    }
    return false;
}

/* ---- options that other layers read or set ---- */

/* Names that can hold any layer: options, variables of `for`, equations. */
static bool is_local_variable(const Node *block, const char *name) {
    for (int i = 0; i < block->count; i++) {
        const Node *node = block->kids[i];
        if (!node) continue;
        bool declares =
            node->kind == NODE_OPTION || node->kind == NODE_FOR || node->kind == NODE_EQUATION;
        if (declares && !strcmp(node->name, name)) return true;
        if (node_holds_statements(node) && is_local_variable(node, name)) return true;
    }
    return false;
}

static const char *variable_below(const Node *body, const Node *node) {
    if (node->kind == NODE_INDEXED) node = node->kids[0];
    bool named = node->kind == NODE_NAME || node->kind == NODE_LABELLED;
    return named && is_local_variable(body, node->name) ? node->name : NULL;
}

/* g.at, and g(x; axes = [h]) with any layer g: that layer can declare `at` and `axes`. */
static void add_outside(Arena *arena, Table *names, const Node *body, Node *node) {
    if (!node) return;
    if (node->kind == NODE_FIELD && variable_below(body, node->kids[0]))
        table_add(arena, names, hash_text(HASH_START, node->name), node);
    const Node *given =
        node->kind == NODE_CALL && variable_below(body, node->kids[0]) ? node->kids[2] : NULL;
    for (int i = 0; given && i < given->count; i++) {
        const char *name = given->kids[i]->name;
        table_add(arena, names, hash_bytes(HASH_START, name, strcspn(name, ".")), given->kids[i]);
    }
    for (int i = 0; i < node->count; i++) add_outside(arena, names, body, node->kids[i]);
}

/* Names that are read inside and outside of the layer. */
typedef struct DeclaredNames {
    Table inside, outside; /* Node * by name; outside: of options of any layer */
} DeclaredNames;

/* A request that names an axis, which another statement uses: request embedding[v, d]. */
static bool gives_axis(const DeclaredNames *names, const Node *layer, const Node *node) {
    const Node *subs = node->kind == NODE_REQUEST ? node->kids[0] : NULL;
    for (int i = 0; subs && i < subs->count; i++) {
        const char *name = subs->kids[i]->name;
        if (!name || node_mentions(layer->kids[0], name)) continue;
        const List *found = table_find(&names->inside, hash_text(HASH_START, name));
        for (int j = 0, uses = 0; j < found->count; j++) {
            uses += !strcmp(((const Node *)found->items[j])->name, name);
            if (uses > 1) return true;
        }
    }
    return false;
}

static void report_if_unread(Reports *reports, const DeclaredNames *names, const Node *layer,
                             const Node *node) {
    const char *kind = node ? declared_kind(node) : NULL;
    bool outside = kind && node->kind == NODE_OPTION && is_said(&names->outside, node->name);
    if (kind && !outside && !is_result(layer, node->name) && !is_for_commands(layer, node) &&
        !is_said(&names->inside, node->name) && !gives_axis(names, layer, node))
        report_warning(reports, node->name_span, "%s '%s' is never read; it has no effect", kind,
                       node->name);
    bool block = node_holds_statements(node);
    for (int i = 0; block && i < node->count; i++)
        report_if_unread(reports, names, layer, node->kids[i]);
}

/* A layer with only options groups them: other layers read them. */
static bool has_only_options(const Node *body) {
    for (int i = 0; i < body->count; i++)
        if (body->kids[i]->kind != NODE_OPTION && body->kids[i]->kind != NODE_REQUIRE) return false;
    return true;
}

static void report_unread_in_layers(Reports *reports, const List *list, DeclaredNames *names) {
    LIST_EACH(Node, layer, list) {
        const Node *body = layer_body(layer);
        if (!is_written(layer->span) || has_only_options(body)) continue;
        names->inside = (Table){0};
        add_referenced_names(reports->arena, &names->inside, layer);
        report_if_unread(reports, names, layer, body);
    }
}

void warn_unused(Unit *unit) {
    DeclaredNames names = {0};
    LIST_EACH(Node, layer, &unit->layers)
        add_outside(unit->arena, &names.outside, layer_body(layer), layer);
    report_unread_in_layers(unit->reports, &unit->layers, &names);
    report_unread_in_layers(unit->reports, &unit->optimizers, &names);
    report_unread_in_layers(unit->reports, &unit->schedules, &names);
}

/* ---- options that are set ---- */

Watch *watch_option(Elaborator *e, const Node *layer, const char *name, Span span) {
    LIST_EACH(Watch, watch, &e->watches)
        if (watch->span.source == span.source && watch->span.start == span.start &&
            watch->layer == layer && !strcmp(watch->name, name))
            return watch;
    Watch *watch = arena_alloc(e->arena, sizeof *watch);
    *watch = (Watch){.span = span, .name = name, .layer = layer};
    list_push(e->arena, &e->watches, watch);
    return watch;
}

static bool asks_for_graph(const Node *condition) {
    return reads_name(condition, "training", 8) || reads_name(condition, "decoding", 8) ||
           reads_name(condition, "probing", 7) || reads_name(condition, "speculating", 11) ||
           reads_name(condition, "refining", 8);
}

/* Whether a branch of `if training` outside of the current graph or a refinement reads the name. */
static bool reads_elsewhere(const Node *node, const char *name, size_t length) {
    if (!node) return false;
    if ((node->kind == NODE_IF && asks_for_graph(node->kids[0])) || node->kind == NODE_REFINE)
        return reads_name(node, name, length);
    if (node->kind == NODE_INPUT && reads_name(node->kids[2], name, length)) return true;
    for (int i = 0; i < node->count; i++)
        if (reads_elsewhere(node->kids[i], name, length)) return true;
    return false;
}

static bool is_used_elsewhere(const Watch *watch) {
    return reads_elsewhere(watch->layer, watch->name, strcspn(watch->name, "."));
}

/* Whether warn_unused already reports the option: no statement of a user layer reads it. */
static bool is_told(const Watch *watch) {
    return is_written(watch->layer->span) &&
           !reads_name(watch->layer, watch->name, strcspn(watch->name, "."));
}

void warn_idle(Elaborator *e) {
    LIST_EACH(const Watch, watch, &e->watches) {
        if (!watch->given || !is_written(watch->span) || watch->read || is_used_elsewhere(watch) ||
            is_told(watch))
            continue;
        const char *kind = watch->layer->kind == NODE_OPTIMIZER  ? "optimizer"
                           : watch->layer->kind == NODE_SCHEDULE ? "schedule"
                                                                 : "layer";
        report_warning(e->reports, watch->span,
                       "option '%s' has no effect: %s '%s' does not read it with the current "
                       "values of the other options",
                       watch->name, kind, watch->layer->name);
        report_help(e->reports, "remove '%s', or change the options that it depends on",
                    watch->name);
    }
}

void mark_unread(const Elaborator *e) {
    for (int pass = 0; pass < 2; pass++)
        LIST_EACH(const Watch, watch, &e->watches) {
            bool read = watch->read || is_used_elsewhere(watch);
            if (watch->setting && read == (pass == 1)) watch->setting->unread = !read;
        }
}

/* A product such as floor(8 * dim / 3) is a scaled width that is rounded on purpose. */
void warn_rounded(Elaborator *e, const Node *given) {
    const Node *args = given->kind == NODE_CALL ? given->kids[1] : NULL;
    const Node *ratio = args && args->count == 1 ? args->kids[0] : NULL;
    if (!ratio || ratio->kind != NODE_BINARY || strcmp(ratio->name, "/") != 0 ||
        given->kids[0]->kind != NODE_NAME || strcmp(given->kids[0]->name, "floor") != 0 ||
        ratio->kids[0]->kind == NODE_BINARY)
        return;
    const Value *whole = evaluate(e, ratio->kids[0]), *parts = evaluate(e, ratio->kids[1]);
    if (whole->kind != KIND_NUMBER || parts->kind != KIND_NUMBER || parts->number <= 1 ||
        whole->number == parts->number * floor(whole->number / parts->number))
        return;
    double each = floor(whole->number / parts->number);
    report_warning(e->reports, given->span, "%g is not divisible by %g: %g * %g is %g",
                   whole->number, parts->number, parts->number, each, parts->number * each);
    report_help(e->reports, "choose sizes that divide evenly, or write %g", each);
}
