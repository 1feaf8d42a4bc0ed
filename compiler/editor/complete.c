#include "editor/cursor_context.h"

#include "moec.h"

#include <string.h>

/* complete: the possible completions at an offset. */

typedef struct Offers {
    Arena *arena;
    MoecCompletion *items;
    int count, capacity;
} Offers;

static void offer_completion(Offers *offers, const char *label, MoecCompletionKind kind,
                             const char *detail) {
    for (int i = 0; i < offers->count; i++)
        if (!strcmp(offers->items[i].label, label)) return;
    if (offers->count == offers->capacity) {
        int capacity = offers->capacity ? 2 * offers->capacity : 64;
        MoecCompletion *items = arena_alloc(offers->arena, (size_t)capacity * sizeof *items);
        if (offers->count) memcpy(items, offers->items, (size_t)offers->count * sizeof *items);
        offers->items = items;
        offers->capacity = capacity;
    }
    offers->items[offers->count++] = (MoecCompletion){label, detail, kind};
}

static void offer_all(Offers *offers, const List *nodes, MoecCompletionKind kind) {
    LIST_EACH(const Node, node, nodes)
        offer_completion(offers, node->name, kind, line_of_declaration(offers->arena, node));
}

static void offer_layers(Offers *offers, Unit *unit) {
    offer_all(offers, &unit->layers, MOEC_COMPLETES_LAYER);
    offer_all(offers, &unit->optimizers, MOEC_COMPLETES_LAYER);
    offer_all(offers, &unit->schedules, MOEC_COMPLETES_LAYER);
}

/* Options of a layer, or of the layer that the option before the last dot has as its value. */
static void offer_options(Offers *offers, Unit *unit, const CursorContext *cursor) {
    const char *dot = strrchr(cursor->word, '.'), *prefix = "";
    const Node *layer = cursor->layer, *option = NULL;
    if (dot && layer)
        option = option_of(unit, layer,
                           arena_copy(offers->arena, cursor->word, (size_t)(dot - cursor->word)));
    if (option) {
        layer = layer_of_option(unit, option);
        prefix = arena_copy(offers->arena, cursor->word, (size_t)(dot - cursor->word) + 1);
    }
    for (int i = 0; layer && i < layer_body(layer)->count; i++) {
        const Node *node = layer_body(layer)->kids[i];
        if (node->kind == NODE_OPTION)
            offer_completion(offers, arena_format(offers->arena, "%s%s", prefix, node->name),
                             MOEC_COMPLETES_OPTION, line_of_declaration(offers->arena, node));
    }
}

/* Possible values of an option: its words, true and false, layers. */
static void offer_values(Offers *offers, Unit *unit, const CursorContext *cursor) {
    const Node *option =
        cursor->layer && cursor->path ? option_of(unit, cursor->layer, cursor->path) : NULL;
    const char *type = option ? option->kids[0]->name : "layer";
    const Node *limits = option && option->kids[1] ? option->kids[1]->kids[0] : NULL;
    for (int i = 0; limits && limits->kind == NODE_LIST && i < limits->count; i++)
        if (limits->kids[i]->kind == NODE_NAME)
            offer_completion(offers, limits->kids[i]->name, MOEC_COMPLETES_WORD, cursor->path);
    if (!strcmp(type, "bool")) {
        offer_completion(offers, "true", MOEC_COMPLETES_WORD, cursor->path);
        offer_completion(offers, "false", MOEC_COMPLETES_WORD, cursor->path);
    }
    if (!strcmp(type, "layer") || !strcmp(type, "any")) {
        offer_layers(offers, unit);
        offer_completion(offers, "none", MOEC_COMPLETES_WORD, cursor->path);
    }
}

static void offer_names(Offers *offers, Unit *unit, const CursorContext *cursor) {
    static const char *const words[] = {
        "param",  "axis",    "state",   "option", "sequence", "input",  "output", "repeat",
        "scan",   "if",      "else",    "match",  "for",      "update", "probe",  "aux",
        "loss",   "require", "cache",   "sum",    "mean",     "max",    "min",    "logsumexp",
        "refine", "provide", "request", "shared", "extern"};
    const Node *layer = cursor->layer;
    for (int i = 0; layer && layer->kind == NODE_LAYER && i < layer->kids[0]->count; i++)
        offer_completion(offers, layer->kids[0]->kids[i]->name, MOEC_COMPLETES_TENSOR,
                         line_of_declaration(offers->arena, layer->kids[0]));
    int at = 0;
    for (const Node *node; layer && (node = next_declaration(layer_body(layer), &at));)
        offer_completion(offers, node->name,
                         node->kind == NODE_OPTION ? MOEC_COMPLETES_OPTION : MOEC_COMPLETES_TENSOR,
                         line_of_declaration(offers->arena, node));
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        offer_completion(offers, words[i], MOEC_COMPLETES_KEYWORD, NULL);
    for (int op = 0; op < OP_COUNT; op++)
        if (op_table[op].text[0] >= 'a' && op_table[op].text[0] <= 'z')
            offer_completion(offers, op_table[op].text, MOEC_COMPLETES_FUNCTION, NULL);
    offer_layers(offers, unit);
}

const MoecCompletion *moec_complete(MoecCompiler *compiler, size_t offset, int *count) {
    static const char *const items[] = {"use",      "layer",      "model",           "optimizer",
                                        "schedule", "experiment", "parametrization", "machine"};
    Unit *unit = moec_unit(compiler);
    Offers offers = {.arena = moec_arena(compiler)};
    *count = 0;
    if (!unit || !unit->sources.count) return NULL;
    CursorContext cursor = cursor_context(unit, offset);
    switch (cursor.kind) {
    case CURSOR_OPTION:
        offer_options(&offers, unit, &cursor);
        break;
    case CURSOR_VALUE:
        offer_values(&offers, unit, &cursor);
        break;
    case CURSOR_BODY:
        offer_names(&offers, unit, &cursor);
        break;
    case CURSOR_ITEM:
        for (size_t i = 0; i < sizeof items / sizeof *items; i++)
            offer_completion(&offers, items[i], MOEC_COMPLETES_KEYWORD, NULL);
        offer_all(&offers, &unit->models, MOEC_COMPLETES_LAYER);
        offer_layers(&offers, unit);
        break;
    }
    *count = offers.count;
    return offers.items;
}
