/* rename: deprecated names of options in a file, found from the text alone. The formatter writes
 * the new names, and an experiment has them in its variants.
 *
 *     part = layer { width = 2 }      -->      part = layer { size = 2 }
 *
 * The layer of a record is the one that it names, that the model or its base chose, or the default.
 */
#include "editor/cursor_context.h"
#include "elaborate/elaborate.h"

#include <string.h>

/* Where options of `layer` are set: by records, the nearest first. */
typedef struct Setters {
    const Node *records[8];
    int count;
} Setters;

typedef struct OptionRenaming {
    Unit *unit;
    const Node *body; /* of the layer that is read, or NULL */
} OptionRenaming;

static const Node *layer_named(const OptionRenaming *renaming, const char *name) {
    const Node *found = named_layer(renaming->unit, name);
    return found ? found : named_layer(standard_unit(renaming->unit), name);
}

static const Node *default_of(const OptionRenaming *renaming, const Node *option) {
    const Node *found = layer_of_option(renaming->unit, option);
    return found ? found : layer_of_option(standard_unit(renaming->unit), option);
}

/* The layer that is the value of the option in the records, or by default. */
static const Node *layer_in_option(const OptionRenaming *renaming, const Node *option,
                                   const Setters *setters) {
    for (int i = 0; i < setters->count; i++)
        for (int k = 0; setters->records[i] && k < setters->records[i]->count; k++) {
            const Node *entry = setters->records[i]->kids[k];
            if (entry->kind != NODE_ENTRY) continue;
            const Node *value = entry->kids[0], *alias = alias_find(option, entry->name, false);
            if (strcmp(entry->name, option->name) && !(alias && !alias->count)) continue;
            const bool named = value->kind == NODE_MADE || value->kind == NODE_NAME;
            const Node *layer = named ? layer_named(renaming, value->name) : NULL;
            if (layer) return layer;
        }
    return default_of(renaming, option);
}

/* The records that set options of `option`, and of the layer that these settings choose. */
static Setters below(const Setters *setters, const Node *option) {
    Setters inner = {.count = 0};
    for (int i = 0; i < setters->count; i++)
        for (int k = 0; setters->records[i] && k < setters->records[i]->count; k++) {
            const Node *entry = setters->records[i]->kids[k];
            if (entry->kind != NODE_ENTRY || strcmp(entry->name, option->name) || inner.count == 8)
                continue;
            const Node *value = entry->kids[0];
            if (value->kind == NODE_RECORD) inner.records[inner.count++] = value;
            if (value->kind == NODE_MADE) inner.records[inner.count++] = value->kids[0];
        }
    return inner;
}

/* The option with a present or former name that is a prefix of `path`; *rest: the remainder. */
static const Node *leading_option(const Node *layer, const char *path, const char **rest) {
    const Node *body = layer_body(layer), *best = NULL;
    size_t most = 0, head = strcspn(path, ".");
    for (int i = 0; i < body->count; i++) {
        const Node *option = body->kids[i];
        if (option->kind != NODE_OPTION) continue;
        size_t length = strlen(option->name);
        if (strncmp(path, option->name, length) || (path[length] && path[length] != '.')) continue;
        if (length > most) best = option;
        if (length > most) most = length;
    }
    for (int i = 0; !best && i < body->count; i++) {
        const Node *option = body->kids[i], *aliases = option->aliases;
        for (int k = 0; option->kind == NODE_OPTION && aliases && k < aliases->count; k++) {
            const Node *alias = aliases->kids[k];
            if (alias->number == 1 || alias->count || strlen(alias->name) != head) continue;
            if (!strncmp(alias->name, path, head)) best = option;
        }
        most = head;
    }
    *rest = best ? path + most + (path[most] == '.') : path;
    return best;
}

/* The option of another group that had the path, as a path; NULL: none. */
static const char *moved_path(const OptionRenaming *renaming, const char *path) {
    const Unit *units[] = {renaming->unit, standard_unit(renaming->unit)};
    for (int u = 0; u < 2; u++)
        LIST_EACH(const Node, layer, &units[u]->layers) {
            const Node *body = layer_body(layer);
            for (int k = 0; k < body->count; k++) {
                const Node *option = body->kids[k];
                if (option->kind != NODE_OPTION || !option->aliases || !strchr(path, '.')) continue;
                const Node *alias = alias_find(option, path, false);
                if (alias && !alias->count)
                    return arena_format(renaming->unit->arena, "%s.%s", layer->name, option->name);
            }
        }
    return NULL;
}

/* The path in new names. The last option and the records that set options of it are received. */
static const char *new_path(const OptionRenaming *renaming, const Node *layer, const char *path,
                            Setters *setters, const Node **last) {
    Arena *arena = renaming->unit->arena;
    const char *moved = moved_path(renaming, path);
    if (moved) path = moved;
    Text text = {.arena = arena};
    const char *rest = path;
    *last = NULL;
    while (layer && *rest) {
        const Node *option = leading_option(layer, rest, &rest);
        if (!option) break;
        text_add(&text, "%s%s", text.length ? "." : "", option->name);
        *last = option;
        layer = *rest ? layer_in_option(renaming, option, setters) : NULL;
        if (*rest) *setters = below(setters, option);
    }
    if (*rest) *last = NULL;
    if (*rest) text_add(&text, "%s%s", text.length ? "." : "", rest);
    return text.text ? text.text : path;
}

static void set_name(const OptionRenaming *renaming, Node *node, const char *what,
                     const char *now) {
    if (!strcmp(node->name, now)) return;
    report_renamed(renaming->unit->reports, node->name_span, what, node->name, now);
    node->name = now;
}

static void rename_record(const OptionRenaming *renaming, const Node *layer, Node *record,
                          const Setters *setters);

/* A value of an option: an enum, options of a layer, or a list of those. */
static void rename_value(const OptionRenaming *renaming, const Node *option, Node *value,
                         const Setters *setters) {
    if (!value) return;
    const Node *alias = value->kind == NODE_NAME ? alias_find(option, value->name, false) : NULL;
    if (alias && alias->count) set_name(renaming, value, "value", alias->kids[0]->name);
    const Setters inner = below(setters, option);
    if (value->kind == NODE_RECORD)
        rename_record(renaming, layer_in_option(renaming, option, setters), value, &inner);
    if (value->kind == NODE_MADE)
        rename_record(renaming, layer_named(renaming, value->name), value->kids[0], &inner);
    for (int i = 0; value->kind == NODE_LIST && i < value->count; i++)
        rename_value(renaming, option, value->kids[i], setters);
}

static void rename_entry(const OptionRenaming *renaming, const Node *layer, Node *entry,
                         const Setters *setters) {
    Setters at = *setters;
    const Node *option = NULL;
    const char *now = new_path(renaming, layer, entry->name, &at, &option);
    set_name(renaming, entry, "option", now);
    if (option && entry->count) rename_value(renaming, option, entry->kids[0], &at);
}

static void rename_record(const OptionRenaming *renaming, const Node *layer, Node *record,
                          const Setters *setters) {
    Setters own = {.records = {record}, .count = 1};
    for (int i = 0; i < setters->count && own.count < 8; i++)
        if (setters->records[i] != record) own.records[own.count++] = setters->records[i];
    for (int i = 0; layer && record && i < record->count; i++)
        rename_entry(renaming, layer, record->kids[i], &own);
}

/* ---- settings of parameters: options of optimizers ---- */

static void rename_settings(const OptionRenaming *renaming, Node *record) {
    const List *optimizers = &standard_unit(renaming->unit)->optimizers;
    for (int i = 0; record && i < record->count; i++) {
        const Node *found = NULL;
        for (int k = 0; k < optimizers->count; k++) {
            const Node *body = layer_body(optimizers->items[k]);
            for (int j = 0; j < body->count; j++)
                if (body->kids[j]->kind == NODE_OPTION &&
                    option_was(body->kids[j], record->kids[i]->name))
                    found = body->kids[j];
        }
        if (found) set_name(renaming, record->kids[i], "option", found->name);
    }
}

static void rename_parameters(const OptionRenaming *renaming, Node *model) {
    Node *record = model->kids[1];
    for (int i = 0; record && i < record->count; i++) {
        Node *value = record->kids[i]->kids[0];
        if (strcmp(record->kids[i]->name, "parameters")) continue;
        for (int k = 0; value->kind == NODE_LIST && k < value->count; k++)
            rename_settings(renaming, value->kids[k]);
    }
}

/* ---- models and experiments ---- */

static const Node *root_layer_of(const OptionRenaming *renaming, const Node *model,
                                 Setters *setters) {
    setters->count = 0;
    for (int depth = 0; model && depth < 100; depth++) {
        if (model->count > 1 && model->kids[1] && setters->count < 8)
            setters->records[setters->count++] = model->kids[1];
        const char *base = model->kids[0]->name;
        const Node *next = find_model(renaming->unit, base);
        if (!next || next == model) return layer_named(renaming, base);
        model = next;
    }
    return NULL;
}

static void rename_model(const OptionRenaming *renaming, Node *model) {
    Setters setters, none = {.count = 0};
    const Node *layer = root_layer_of(renaming, model, &setters);
    rename_record(renaming, layer, model->kids[1], &setters);
    rename_parameters(renaming, model);
    if (model->count > 2 && model->kids[2]->kids[0])
        rename_record(renaming, layer_named(renaming, model->kids[2]->name),
                      model->kids[2]->kids[0], &none);
}

static void rename_variants(const OptionRenaming *renaming, const Node *layer, Node *all,
                            const Setters *setters) {
    for (int i = 0; i < all->count; i++)
        if (all->kids[i]->kids[0]->kind == NODE_RECORD)
            rename_record(renaming, layer, all->kids[i]->kids[0], setters);
}

static void rename_in_experiment(const OptionRenaming *renaming, Node *experiment) {
    Node *plan = inherited_plan(renaming->unit, experiment);
    const Node *layer = NULL;
    Setters setters = {.count = 0};
    for (int i = 0; i < plan->count; i++)
        if (!strcmp(plan->kids[i]->name, "baseline"))
            layer = root_layer_of(
                renaming, find_model(renaming->unit, plan->kids[i]->kids[0]->name), &setters);
    const List *sets =
        &renaming->unit->overrides; /* compared with the settings of the experiment */
    for (int i = 0; layer && i < sets->count; i++)
        rename_entry(renaming, layer, sets->items[i], &setters);
    for (int i = 0; layer && i < plan->count; i++) {
        Node *entry = plan->kids[i], *value = entry->kids[0];
        if (entry->kind == NODE_VARY && !*entry->name)
            rename_record(renaming, layer, value, &setters);
        else if (entry->kind == NODE_VARY || entry->kind == NODE_TUNE)
            rename_entry(renaming, layer, entry, &setters);
        else if (entry->kind == NODE_EQUALISE && value->kind == NODE_NAME)
            rename_entry(renaming, layer, value, &setters);
        else if (!strcmp(entry->name, "variants") && value->kind == NODE_RECORD)
            rename_variants(renaming, layer, value, &setters);
        else if (!strcmp(entry->name, "train"))
            rename_entry(renaming, layer, entry, &setters);
        for (int k = 0;
             entry->kind == NODE_EQUALISE && value->kind == NODE_LIST && k < value->count; k++)
            rename_entry(renaming, layer, value->kids[k], &setters);
    }
}

/* ---- layers ---- */

static const Node *option_in_body(const OptionRenaming *renaming, const char *name) {
    for (int i = 0; renaming->body && i < renaming->body->count; i++) {
        const Node *option = renaming->body->kids[i];
        if (option->kind == NODE_OPTION && !strcmp(option->name, name)) return option;
    }
    return NULL;
}

/* The layer that a name in a body refers to. */
static const Node *layer_meant(const OptionRenaming *renaming, const Node *name) {
    const Node *option = option_in_body(renaming, name->name);
    return option ? default_of(renaming, option) : layer_named(renaming, name->name);
}

static void rename_in_body(const OptionRenaming *renaming, Node *node) {
    const Setters none = {.count = 0};
    if (!node) return;
    for (int i = 0; i < node->count; i++) rename_in_body(renaming, node->kids[i]);
    if (node->kind == NODE_PARAM) rename_settings(renaming, node->kids[2]);
    if (node->kind == NODE_OPTION) {
        rename_value(renaming, node, node->kids[2], &none);
    } else if (node->kind == NODE_CALL && node->kids[2]) {
        const Node *callee = node->kids[0];
        if (callee->kind == NODE_INDEXED) callee = callee->kids[0];
        if (callee->kind == NODE_NAME || callee->kind == NODE_LABELLED)
            rename_record(renaming, layer_meant(renaming, callee), node->kids[2], &none);
    } else if (node->kind == NODE_FIELD && node->kids[0]->kind == NODE_NAME) {
        const Node *option = option_in_body(renaming, node->kids[0]->name), *last;
        Setters at = none;
        if (option && default_of(renaming, option))
            set_name(renaming, node, "option",
                     new_path(renaming, default_of(renaming, option), node->name, &at, &last));
    }
}

/* ---- layouts ---- */

static const char *path_text(Arena *arena, const Node *node) {
    if (node->kind == NODE_NAME) return node->name;
    const char *head = node->kind == NODE_FIELD ? path_text(arena, node->kids[0]) : NULL;
    return head ? arena_format(arena, "%s.%s", head, node->name) : NULL;
}

/* A path of options in a row becomes a name with dots: it is written in the same way. */
static void rename_in_row(const OptionRenaming *renaming, const Node *layer, Node *node,
                          const Setters *setters) {
    const char *path = node ? path_text(renaming->unit->arena, node) : NULL;
    Setters at = *setters;
    const Node *option;
    if (path) {
        const char *now = new_path(renaming, layer, path, &at, &option);
        if (!strcmp(now, path)) return;
        node->name_span = node->span;
        node->kind = NODE_NAME;
        node->count = 0;
        node->name = path;
        set_name(renaming, node, "option", now);
        return;
    }
    for (int i = 0; node && node->kind != NODE_MADE && i < node->count; i++)
        rename_in_row(renaming, layer, node->kids[i], setters);
}

static void rename_rule(const OptionRenaming *renaming, const Node *layer, Node *rule,
                        const Setters *setters) {
    Setters at = *setters;
    const Node *option = NULL, *value = rule->kids[0];
    const char *path = path_text(renaming->unit->arena, value);
    if (path) new_path(renaming, layer, path, &at, &option);
    Node *words = rule->kids[1] ? rule->kids[1]->kids[0] : NULL;
    for (int i = 0; option && words && words->kind == NODE_RECORD && i < words->count; i++)
        rename_value(renaming, option, words->kids[i]->kids[0], &at);
    rename_in_row(renaming, layer, rule->kids[0], setters);
    if (rule->kids[3]) rename_in_row(renaming, layer, rule->kids[3]->kids[0], setters);
}

static void rename_layout(const OptionRenaming *renaming, Node *layout) {
    Setters own = {.records = {layout->kids[1]}, .count = 1};
    const Node *base = layout;
    while (base && base->number == 1 && own.count < 8) {
        base = node_called(&renaming->unit->layouts, base->kids[0]->name);
        if (base) own.records[own.count++] = base->kids[1];
    }
    const Node *layer = base ? layer_named(renaming, base->kids[0]->name) : NULL;
    Node *rows = layout->kids[1];
    for (int i = 0; layer && i < rows->count; i++) {
        Node *row = rows->kids[i];
        if (row->kind == NODE_ENTRY) rename_entry(renaming, layer, row, &own);
        if (row->kind == NODE_RULE) rename_rule(renaming, layer, row, &own);
        if (row->kind == NODE_AXIS) rename_in_row(renaming, layer, row->kids[0], &own);
        if (row->kind == NODE_TENSOR && row->kids[0])
            rename_in_row(renaming, layer, row->kids[0], &own);
    }
}

void rename_experiments(Unit *unit) {
    const OptionRenaming renaming = {.unit = unit};
    for (int i = 0; i < unit->experiments.count; i++)
        rename_in_experiment(&renaming, unit->experiments.items[i]);
}

void rename_options(Unit *unit, Node *file) {
    OptionRenaming renaming = {.unit = unit};
    for (int i = 0; i < file->count; i++) {
        Node *item = file->kids[i];
        renaming.body = NULL;
        switch (item->kind) {
        case NODE_MODEL:
            rename_model(&renaming, item);
            break;
        case NODE_EXPERIMENT:
            rename_in_experiment(&renaming, item);
            break;
        case NODE_LAYER:
        case NODE_OPTIMIZER:
        case NODE_SCHEDULE:
            renaming.body = layer_body(item);
            rename_in_body(&renaming, item);
            break;
        case NODE_LAYOUT:
            rename_layout(&renaming, item);
            break;
        default:
            break;
        }
    }
}
