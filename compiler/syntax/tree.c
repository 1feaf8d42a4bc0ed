#include "syntax/tree.h"

#include <string.h>

static const char *const kind_names[NODE_KIND_COUNT] = {
    [NODE_FILE] = "file",         [NODE_USE] = "use",
    [NODE_LAYER] = "layer",       [NODE_OPTIMIZER] = "optimizer",
    [NODE_SCHEDULE] = "schedule", [NODE_PARAMETRIZATION] = "parametrization",
    [NODE_MODEL] = "model",       [NODE_EXPERIMENT] = "experiment",
    [NODE_FORMALS] = "formals",   [NODE_FORMAL] = "formal",
    [NODE_BLOCK] = "block",       [NODE_OPTION] = "option",
    [NODE_ALIASES] = "aliases",   [NODE_ALIAS] = "alias",
    [NODE_TYPE] = "type",         [NODE_LIMITS] = "limits",
    [NODE_AXIS] = "axis",         [NODE_SEQUENCE] = "sequence",
    [NODE_PARAM] = "param",       [NODE_STATE] = "state",
    [NODE_INPUT] = "input",       [NODE_EQUATION] = "equation",
    [NODE_UPDATE] = "update",     [NODE_LOSS] = "loss",
    [NODE_AUX] = "aux",           [NODE_PROBE] = "probe",
    [NODE_OUTPUT] = "output",     [NODE_CACHE] = "cache",
    [NODE_REPEAT] = "repeat",     [NODE_IF] = "if",
    [NODE_MATCH] = "match",       [NODE_CASE] = "case",
    [NODE_FOR] = "for",           [NODE_REQUIRE] = "require",
    [NODE_KIND] = "kind",         [NODE_RECORD] = "record",
    [NODE_SCAN] = "scan",         [NODE_ENTRY] = "entry",
    [NODE_VARY] = "vary",         [NODE_TUNE] = "tune",
    [NODE_EQUALISE] = "match",    [NODE_MADE] = "made",
    [NODE_NUMBER] = "number",     [NODE_STRING] = "string",
    [NODE_NAME] = "name",         [NODE_LABELLED] = "labelled",
    [NODE_LIST] = "list",         [NODE_RANGE] = "range",
    [NODE_FIELD] = "field",       [NODE_INDEXED] = "indexed",
    [NODE_CALL] = "call",         [NODE_SUBS] = "subscripts",
    [NODE_ELLIPSIS] = "ellipsis", [NODE_REDUCE] = "reduce",
    [NODE_BINDERS] = "binders",   [NODE_UNARY] = "unary",
    [NODE_BINARY] = "binary",     [NODE_LAYOUT] = "layout",
    [NODE_MACHINE] = "machine",   [NODE_RULE] = "from",
    [NODE_UNREAD] = "from",       [NODE_TENSOR] = "tensor",
    [NODE_TUPLE] = "tuple",       [NODE_PROVIDE] = "provide",
    [NODE_REQUEST] = "request",   [NODE_EXTERN] = "extern",
    [NODE_REFINE] = "refine",
};

Node *node_new(Arena *arena, NodeKind kind, Span span) {
    Node *node = arena_alloc(arena, sizeof *node);
    node->kind = kind;
    node->span = span;
    node->name_span = span;
    return node;
}

Node *node_named(Arena *arena, NodeKind kind, Span span, const char *name, Span name_span) {
    Node *node = node_new(arena, kind, span);
    node->name = name;
    node->name_span = name_span;
    return node;
}

void node_add(Arena *arena, Node *node, Node *kid) {
    /* The list of kids grows at the powers of two, so its capacity need not be kept. */
    if ((node->count & (node->count - 1)) == 0) {
        int capacity = node->count ? 2 * node->count : 1;
        Node **kids = arena_alloc(arena, (size_t)capacity * sizeof *kids);
        for (int i = 0; i < node->count; i++) kids[i] = node->kids[i];
        node->kids = kids;
    }
    node->kids[node->count++] = kid;
    if (kid && kid->depth >= node->depth) node->depth = kid->depth + 1;
}

const Node *node_called(const List *nodes, const char *name) {
    return list_named(nodes, offsetof(Node, name), name);
}

const char *node_kind_name(NodeKind kind) {
    return kind_names[kind];
}

bool node_holds_statements(const Node *node) {
    return node && (node->kind == NODE_BLOCK || node->kind == NODE_IF || node->kind == NODE_MATCH ||
                    node->kind == NODE_CASE || node->kind == NODE_FOR ||
                    node->kind == NODE_REPEAT || node->kind == NODE_SCAN);
}

bool node_mentions(const Node *node, const char *name) {
    if (!node) return false;
    if (node->kind == NODE_NAME && strcmp(node->name, name) == 0) return true;
    for (int i = 0; i < node->count; i++)
        if (node_mentions(node->kids[i], name)) return true;
    return false;
}
