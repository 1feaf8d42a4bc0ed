/* unused: names that a layer declares and nothing in it reads. Each is likely a mistake, and no
 * error; layers of the standard library are not looked at.
 */
#include "elaborate/elaborate.h"

#include <string.h>

static bool is_reference(const Node *node) {
    switch (node->kind) {
    case NODE_NAME:
    case NODE_LABELLED:
    case NODE_MADE:
    case NODE_OUTPUT:
    case NODE_CACHE:
    case NODE_UPDATE:
        return true;
    default:
        return false;
    }
}

/* Does anything below say the name, whose length is given? */
static bool reads(const Node *node, const char *name, size_t length) {
    if (!node) return false;
    if (is_reference(node) && !strncmp(node->name, name, length) && !node->name[length])
        return true;
    for (int i = 0; i < node->count; i++)
        if (reads(node->kids[i], name, length)) return true;
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
    default:
        return NULL;
    }
}

static bool is_result(const Node *layer, const char *name) {
    return layer->kids[1] && !strcmp(layer->kids[1]->name, name);
}

/* `train` groups what the commands read. */
static bool is_for_commands(const Node *layer, const Node *node) {
    return node->kind == NODE_OPTION && !layer->kids[1] && !strcmp(node->name, "train");
}

static void look_at(Reports *reports, const Node *layer, const Node *node) {
    const char *kind = node ? declared_kind(node) : NULL;
    if (kind && !is_result(layer, node->name) && !is_for_commands(layer, node) &&
        !reads(layer, node->name, strcspn(node->name, ".")))
        report_warning(reports, node->name_span, "%s '%s' is read by nothing", kind, node->name);
    bool block =
        node && (node->kind == NODE_BLOCK || node->kind == NODE_IF || node->kind == NODE_MATCH ||
                 node->kind == NODE_CASE || node->kind == NODE_FOR || node->kind == NODE_REPEAT);
    for (int i = 0; block && i < node->count; i++) look_at(reports, layer, node->kids[i]);
}

/* A layer of options alone groups them: others read them. */
static bool is_group(const Node *body) {
    for (int i = 0; i < body->count; i++)
        if (body->kids[i]->kind != NODE_OPTION && body->kids[i]->kind != NODE_REQUIRE) return false;
    return true;
}

void warn_unused(Unit *unit) {
    for (int i = 0; i < unit->layers.count; i++) {
        const Node *layer = unit->layers.items[i], *body = layer_body(layer);
        if (strncmp(layer->span.source->path, "std/", 4) == 0 || is_group(body)) continue;
        look_at(unit->reports, layer, body);
    }
}
