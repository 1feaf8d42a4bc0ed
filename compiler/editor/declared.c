#include "editor/cursor_context.h"

#include <string.h>

static bool is_declaration(const Node *node) {
    switch (node->kind) {
    case NODE_OPTION:
    case NODE_AXIS:
    case NODE_SEQUENCE:
    case NODE_PARAM:
    case NODE_STATE:
    case NODE_INPUT:
    case NODE_EQUATION:
    case NODE_FOR:
        return true;
    default:
        return false;
    }
}

/* The states of a scan are in a list. */
static bool holds_declarations(const Node *node) {
    return node_holds_statements(node) || (node && node->kind == NODE_LIST);
}

static const Node *nth_declaration(const Node *block, int *left) {
    for (int i = 0; i < block->count; i++) {
        const Node *node = block->kids[i];
        if (!node) continue;
        if (is_declaration(node) && (*left)-- == 0) return node;
        const Node *inner = holds_declarations(node) ? nth_declaration(node, left) : NULL;
        if (inner) return inner;
    }
    return NULL;
}

const Node *next_declaration(const Node *block, int *at) {
    int left = (*at)++;
    return nth_declaration(block, &left);
}

static const Node *formal_of(const Node *layer, const char *name) {
    if (layer->kind != NODE_LAYER) return NULL;
    for (int i = 0; i < layer->kids[0]->count; i++)
        if (!strcmp(layer->kids[0]->kids[i]->name, name)) return layer->kids[0]->kids[i];
    return NULL;
}

static const Node *in_layer(Unit *unit, const Node *layer, const char *name) {
    const Node *found = formal_of(layer, name), *best = NULL;
    int at = 0;
    for (const Node *node; !found && (node = next_declaration(layer_body(layer), &at));)
        if (!strcmp(node->name, name) && !best) best = node;
    if (!found && !best) best = option_of(unit, layer, name);
    return found ? found : best;
}

/* A dotted name can be longer than the name of an option: `heads.q` of attention, or `act`
 * alone. */
const Node *declared(Unit *unit, const CursorContext *cursor) {
    if (!*cursor->word) return NULL;
    const Node *found = NULL;
    if (cursor->kind == CURSOR_OPTION && cursor->layer)
        found = option_of(unit, cursor->layer, cursor->word);
    if (cursor->kind == CURSOR_BODY && cursor->layer)
        found = in_layer(unit, cursor->layer, cursor->word);
    if (!found && cursor->kind != CURSOR_OPTION) {
        const Node *model = find_model(unit, cursor->word);
        found = model ? model : named_layer(unit, cursor->word);
    }
    return found;
}

const char *comment_above(Arena *arena, const Node *node) {
    const char *text = node->span.source->text;
    int first = node->span.start;
    while (first > 0 && text[first - 1] != '\n') first--;
    int from = first;
    while (from > 0) {
        int line = from - 1;
        while (line > 0 && text[line - 1] != '\n') line--;
        int sign = line;
        while (text[sign] == ' ' || text[sign] == '\t') sign++;
        if (text[sign] != '#') break;
        from = line;
    }
    Text out = text_new(arena);
    for (int at = from; at < first;) {
        while (text[at] == ' ' || text[at] == '\t') at++;
        while (text[at] == '#') at++;
        at += text[at] == ' ';
        int end = at;
        while (text[end] != '\n') end++;
        text_add_bytes(&out, text + at, (size_t)(end - at));
        text_add(&out, "\n");
        at = end + 1;
    }
    return out.text;
}

const char *line_of_declaration(Arena *arena, const Node *node) {
    enum { MAX_LENGTH = 160 };
    const char *text = node->span.source->text;
    int start = node->span.start, end = start;
    const int last = node->aliases ? node->aliases->span.start : node->span.end;
    while (end < last && end - start < MAX_LENGTH && text[end] != '\n' && text[end] != '{') end++;
    while (end > start && text[end - 1] == ' ') end--;
    return arena_copy(arena, text + start, (size_t)(end - start));
}
