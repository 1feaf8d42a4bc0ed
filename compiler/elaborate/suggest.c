/* suggest: the help line of an unknown option. The first of these that exists:
 *
 *     lr                option of an inner layer          train.lr
 *     layer             similar option of the layer       layers
 *     batch_size        longest common part               train.batch
 *     anything else     all options of the layer
 */
#include "elaborate/elaborate.h"

#include <string.h>

enum { MAX_INNER = 3 };

/* The length of the common part of two names, up to the first dot of the option: the whole name, or
 * with `part` one name between underscores of the other ("heads" of num_heads for heads.q). */
static int common_length(Arena *arena, const char *name, const Node *option, bool part) {
    const char *head = arena_copy(arena, option->name, strcspn(option->name, "."));
    if (part) return part_length(name, head);
    bool equal = !strcmp(name, option->name) || !strcmp(name, head);
    return equal ? (int)strlen(name) : 0;
}

/* The path from a layer to an option in the default layers of its options, `depth` levels deep:
 * "train.lr" for lr in a decoder. Only an option with a common part of more than *most characters,
 * which *most receives; NULL without one. */
static const char *path_inside(Elaborator *e, const Node *layer, const char *name, int depth,
                               bool part, int *most) {
    const Node *body = layer_body(layer);
    const char *best = NULL;
    for (int i = 0; i < body->count; i++) {
        const Node *inner = default_layer(e, body->kids[i]),
                   *own = inner ? layer_body(inner) : NULL;
        const char *path = NULL;
        if (!inner || inner == layer) continue;
        if (depth > 1) path = path_inside(e, inner, name, depth - 1, part, most);
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

static const char *inner_option(Elaborator *e, const Node *layer, const char *name, bool part,
                                int most) {
    const char *best = NULL;
    for (int depth = 1; depth <= MAX_INNER; depth++) {
        const char *path = path_inside(e, layer, name, depth, part, &most);
        if (path) best = path;
    }
    return best;
}

void suggest_option(Elaborator *e, const Node *layer, const char *path, const List *names) {
    const char *near = did_you_mean(path, (const char *const *)names->items, names->count);
    const char *inside = inner_option(e, layer, path, false, 0);
    const Node *body = layer_body(layer);
    int most = near ? part_length(path, near) : 0;
    bool similar = near && !most;
    for (int i = 0; i < body->count; i++) {
        const Node *option = body->kids[i];
        int length = option->kind == NODE_OPTION ? common_length(e->arena, path, option, true) : 0;
        if (similar || length <= most) continue;
        most = length;
        near = arena_copy(e->arena, option->name, strcspn(option->name, "."));
    }
    if (!inside && !similar) inside = inner_option(e, layer, path, true, most);
    if (inside || near)
        report_help(e->reports, "did you mean '%s'?", inside ? inside : near);
    else if (names->count)
        report_help(e->reports, "use one of the options: %s",
                    names_text(e->arena, (const char *const *)names->items, names->count));
    else
        report_help(e->reports, "remove '%s': the %s has no options", path,
                    node_kind_name(layer->kind));
}
