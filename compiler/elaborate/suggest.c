/* suggest: the help line of an unknown option, value or layer. For an option, the first
 * of these that exists:
 *
 *     lr                option of an inner layer                         train.lr
 *     d_model           option that declares it: `suggest [d_model]`     dim
 *     layer             similar option of the layer                      layers
 *     bias_count        longest common part                              ffn.bias
 *     anything else     all options of the layer
 */
#include "elaborate/elaborate.h"

#include <string.h>

enum { MAX_INNER = 3, MAX_LAYERS_SHOWN = 3 };

/* ---- suggestions of declarations ---- */

typedef struct DeclarationSearch {
    Elaborator *e;
    const char *name;
    Text found;         /* paths, "a' and 'b" */
    const Node *option; /* the last one found */
} DeclarationSearch;

/* The text of the value of an alias. */
static const char *alias_text(Arena *arena, const Node *alias) {
    const Node *value = alias->kids[0];
    if (value->kind == NODE_STRING) return value->name;
    Span span = value->span;
    return arena_copy(arena, span.source->text + span.start, (size_t)(span.end - span.start));
}

static void search_option(DeclarationSearch *search, const Node *option, const char *prefix) {
    const Node *alias = alias_find(option, search->name, true);
    if (!alias && option_was(option, search->name)) alias = alias_find(option, search->name, false);
    if (!alias) return;
    Arena *arena = search->e->arena;
    const char *path =
        alias->count ? alias_text(arena, alias) : arena_format(arena, "%s%s", prefix, option->name);
    text_add(&search->found, "%s%s", search->found.length ? "' and '" : "", path);
    search->option = alias->count ? NULL : option;
}

/* The layer of an option in `given`, or by default; *inner receives the options given to it. */
static const Node *chosen_layer(Elaborator *e, const Node *option, const Record *given,
                                const Record **inner) {
    const RecordField *entry = given ? given_entry(given, option->name) : NULL;
    const Value *value = entry ? entry->value : NULL;
    *inner = value ? value->record : NULL;
    if (value && value->kind == KIND_LAYER) return value->layer;
    const Node *named = value && value->kind == KIND_WORD ? find_layer(e, value->word) : NULL;
    return named ? named : option_layer(e, option);
}

/* Searches the options `depth` layers below this one. */
static void search_below(DeclarationSearch *search, const Node *layer, const Record *given,
                         const char *prefix, int depth) {
    const Node *body = layer_body(layer);
    for (int i = 0; i < body->count; i++) {
        const Node *option = body->kids[i];
        if (option->kind != NODE_OPTION) continue;
        if (depth == 0) search_option(search, option, prefix);
        const Record *inner;
        const Node *next = depth > 0 ? chosen_layer(search->e, option, given, &inner) : NULL;
        if (next && next != layer)
            search_below(search, next, inner,
                         arena_format(search->e->arena, "%s%s.", prefix, option->name), depth - 1);
        if (next && search->found.length) return; /* one layer suffices */
    }
}

/* The options that declare a suggestion for an unknown name, as paths from `layer` or the model
 * ("a' and 'b"); *option receives the last. NULL: none. */
static const char *suggested_option(Elaborator *e, const Node *layer, const Record *given,
                                    const char *name, const char *prefix, const Node **option) {
    DeclarationSearch search = {.e = e, .name = name, .found = {.arena = e->arena}};
    for (int depth = 0; depth <= MAX_INNER && !search.found.length; depth++)
        search_below(&search, layer, given, prefix, depth);
    *option = search.option;
    return search.found.length ? search.found.text : NULL;
}

const char *suggested_value(Elaborator *e, const Node *option, const char *word) {
    const Node *alias = alias_find(option, word, true);
    return alias && alias->count ? alias_text(e->arena, alias) : NULL;
}

const char *suggested_layer(Elaborator *e, NodeKind kind, const char *name) {
    const Unit *units[] = {e->unit, standard_unit(e->unit)};
    for (int u = 0; u < 2; u++)
        LIST_EACH(const Node, layer, &units[u]->declared) {
            const Node *alias = alias_find(layer, name, true);
            if (alias && layer->kind == kind)
                return alias->count ? alias_text(e->arena, alias) : layer->name;
        }
    return NULL;
}

/* ---- similar names ---- */

/* The length of the common part of two names, up to the first dot of the option: the whole name, or
 * with `part` one name between underscores of the other ("heads" of num_heads for heads.q). */
static int common_length(Arena *arena, const char *name, const Node *option, bool part) {
    const char *head = arena_copy(arena, option->name, strcspn(option->name, "."));
    if (part) return part_length(name, head);
    bool equal = !strcmp(name, option->name) || !strcmp(name, head);
    return equal ? (int)strlen(name) : 0;
}

/* The path from a layer to an option in the layers of its options, given or by default, `depth`
 * levels deep: "train.lr" for lr in a decoder. Only an option with a common part of more than
 * *most characters, which *most receives; NULL without one. */
static const char *path_inside(Elaborator *e, const Node *layer, const Record *given,
                               const char *name, int depth, bool part, int *most) {
    const Node *body = layer_body(layer);
    const char *best = NULL;
    for (int i = 0; i < body->count; i++) {
        if (body->kids[i]->kind != NODE_OPTION) continue;
        const Record *below;
        const Node *inner = chosen_layer(e, body->kids[i], given, &below);
        const Node *own = inner ? layer_body(inner) : NULL;
        const char *path = NULL;
        if (!inner || inner == layer) continue;
        if (depth > 1) path = path_inside(e, inner, below, name, depth - 1, part, most);
        for (int j = 0; depth == 1 && j < own->count; j++) {
            const Node *option = own->kids[j];
            if (option->kind != NODE_OPTION) continue;
            int length = common_length(e->arena, name, option, part);
            if (length <= *most) continue;
            *most = length;
            size_t head = strcspn(option->name, ".");
            path = strlen(name) == strlen(option->name) ? option->name
                                                        : arena_copy(e->arena, option->name, head);
        }
        if (path) best = arena_format(e->arena, "%s.%s", body->kids[i]->name, path);
    }
    return best;
}

static const char *inner_option(Elaborator *e, const Node *layer, const Record *given,
                                const char *name, bool part, int most) {
    const char *best = NULL;
    for (int depth = 1; depth <= MAX_INNER; depth++) {
        const char *path = path_inside(e, layer, given, name, depth, part, &most);
        if (path) best = path;
    }
    return best;
}

/* A similar option of the layer, else the one with the longest common part. */
static const char *similar_option(Elaborator *e, const Node *layer, const Record *given,
                                  const char *path, const List *names) {
    const char *near = did_you_mean(path, (const char *const *)names->items, names->count);
    const Node *body = layer_body(layer);
    int most = near ? part_length(path, near) : 0;
    if (near && !most) return near;
    for (int i = 0; i < body->count; i++) {
        const Node *option = body->kids[i];
        int length = option->kind == NODE_OPTION ? common_length(e->arena, path, option, true) : 0;
        if (length <= most) continue;
        most = length;
        near = arena_copy(e->arena, option->name, strcspn(option->name, "."));
    }
    const char *inside = inner_option(e, layer, given, path, true, most);
    return inside ? inside : near;
}

bool help_with_function(Elaborator *e, const char *name) {
    if (op_find(name, 1) < 0) return false;
    report_help(e->reports, "declare a layer that applies it: layer %s(x) -> y { y = %s(x) }", name,
                name);
    return true;
}

/* The text before the last name of a path: "train." of train.batch_size. */
static const char *written_prefix(Elaborator *e, const RecordField *entry, const char *path) {
    const Span span = entry->span;
    int length = span.end - span.start - (int)strlen(path);
    if (!span.source || length <= 0) return "";
    return arena_copy(e->arena, span.source->text + span.start, (size_t)length);
}

void suggest_option(Elaborator *e, const Node *layer, const Record *given, const RecordField *entry,
                    const char *path, const List *names) {
    const Node *option = NULL;
    const char *prefix = written_prefix(e, entry, path);
    const char *near = inner_option(e, layer, given, path, false, 0);
    if (!near) near = suggested_option(e, layer, given, path, prefix, &option);
    if (!near) near = similar_option(e, layer, given, path, names);
    if (near)
        report_help(e->reports, "did you mean '%s'?", near);
    else if (layer->name && !strcmp(path, layer->name))
        report_help(e->reports, "write the options of '%s' without '%s.' before them", path, path);
    else if (names->count)
        report_help(e->reports, "use one of the options: %s",
                    names_text(e->arena, (const char *const *)names->items, names->count));
    else
        report_help(e->reports, "remove '%s': the %s has no options", path,
                    node_kind_name(layer->kind));
    const Node *kind = option ? option_layer(e, option) : NULL;
    if (kind && kind->kind != NODE_LAYER && !strstr(near, "' and '"))
        help_with_kinds(e, kind->kind, "");
}

void help_with_layers(Elaborator *e, const char *option) {
    const List *declared = &e->unit->declared;
    Text names = {.arena = e->arena};
    int count = 0;
    for (int i = 0; i < declared->count && count < MAX_LAYERS_SHOWN; i++) {
        const Node *layer = declared->items[i];
        if (layer->kind == NODE_LAYER && option_called(layer, option))
            text_add(&names, "%s%s", count++ ? ", " : "", layer->name);
    }
    if (count)
        report_help(e->reports, "choose a layer with the option '%s': %s", option, names.text);
}
