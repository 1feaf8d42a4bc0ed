/* blame: find the option in the source that causes an invalid size or condition.
 *
 *     require key_dim <= head_dim "..."       model base = decoder { attention.head_dim = 16 }
 *                                             model wide = base { attention.cached_key_dim = 32 }
 *
 * The names of the condition are followed through option defaults and axis sizes, outward through
 * the layers being applied. Among the options that the user set, the result is one of the last
 * model, because a variant changes its base. Among those, it is one of the innermost layer.
 */
#include "elaborate/elaborate.h"

#include <string.h>

enum { MAX_FOLLOWED = 12 };

typedef struct Blame {
    const Elaborator *e;
    const RecordField *latest;
    int layer; /* the depth of its layer */
    int depth; /* of the followed names */
} Blame;

static void blame_node(Blame *blame, const Frame *frame, const Node *node);

/* "heads.q" of a NAME or of nested FIELDs; NULL for another expression. */
static const char *blamed_path(const Blame *blame, const Node *node) {
    if (node->kind == NODE_NAME) return node->name;
    const char *inner = node->kind == NODE_FIELD ? blamed_path(blame, node->kids[0]) : NULL;
    return inner ? arena_format(blame->e->arena, "%s.%s", inner, node->name) : NULL;
}

/* The declaration of a name in a body or in its blocks; `span`: its location, or none for any. */
static const Node *declaration(const Node *block, NodeKind kind, const char *name, Span span) {
    for (int i = 0; i < block->count; i++) {
        const Node *node = block->kids[i];
        if (!node) continue;
        bool same = node->kind == kind && !strcmp(node->name, name);
        if (same && (!span.source || node->span.start == span.start)) return node;
        const Node *inner =
            node_holds_statements(node) ? declaration(node, kind, name, span) : NULL;
        if (inner) return inner;
    }
    return NULL;
}

static void blame_entry(Blame *blame, const Frame *frame, const RecordField *entry) {
    const RecordField *latest = blame->latest;
    if (!is_written(entry->value->span)) return;
    bool later = !latest || entry->order > latest->order ||
                 (entry->order == latest->order && frame->depth > blame->layer);
    if (!later) return;
    blame->latest = entry;
    blame->layer = frame->depth;
}

static bool blame_option(Blame *blame, const Frame *frame, const char *path) {
    const Node *option = declaration(layer_body(frame->layer), NODE_OPTION, path, (Span){0});
    const RecordField *entry = option && frame->given ? given_entry(frame->given, path) : NULL;
    if (entry)
        blame_entry(blame, frame, entry);
    else if (option && option->kids[2])
        blame_node(blame, frame, option->kids[2]);
    return option != NULL;
}

/* An axis belongs to the layer that declares it: this one or an outer one. */
static void blame_axis(Blame *blame, const Frame *frame, const Axis *axis) {
    for (; frame; frame = frame->caller) {
        const Node *body = layer_body(frame->layer);
        bool inside = body->span.source == axis->span.source &&
                      body->span.start <= axis->span.start && axis->span.end <= body->span.end;
        const Node *node = inside ? declaration(body, NODE_AXIS, axis->name, axis->span) : NULL;
        if (!node) continue;
        blame_node(blame, frame, node->kids[0]);
        return;
    }
}

static void blame_name(Blame *blame, const Frame *frame, const char *path) {
    if (blame_option(blame, frame, path)) return;
    const Node *node = declaration(layer_body(frame->layer), NODE_AXIS, path, (Span){0});
    if (node) {
        blame_node(blame, frame, node->kids[0]);
        return;
    }
    const Binding *formal = frame == blame->e->frame ? scope_find(blame->e->scope, path) : NULL;
    if (formal && formal->value->kind == KIND_AXIS) blame_axis(blame, frame, formal->value->axis);
}

static void blame_node(Blame *blame, const Frame *frame, const Node *node) {
    const char *path = node ? blamed_path(blame, node) : NULL;
    if (!node || blame->depth == MAX_FOLLOWED) return;
    blame->depth++;
    if (path) blame_name(blame, frame, path);
    for (int i = 0; !path && i < node->count; i++) blame_node(blame, frame, node->kids[i]);
    blame->depth--;
}

static Span blamed(const Blame *blame) {
    return blame->latest ? blame->latest->value->span : (Span){0};
}

Span blamed_here(const Elaborator *e, const Node *node) {
    Blame blame = {.e = e};
    if (e->frame) blame_node(&blame, e->frame, node);
    return blamed(&blame);
}

Span blamed_axes(const Elaborator *e, const Axis *a, const Axis *b) {
    Blame blame = {.e = e};
    blame_axis(&blame, e->frame, a);
    blame_axis(&blame, e->frame, b);
    return blamed(&blame);
}
