/* sets: options of the command line (--set) together with those of an experiment. */
#include "experiment/experiment.h"

#include <string.h>

/* The part of the path after `name` and a dot; "" if both are equal; NULL otherwise. */
static const char *rest_of(const char *path, const char *name) {
    size_t length = strlen(name);
    if (strncmp(path, name, length)) return NULL;
    return !path[length] ? "" : path[length] == '.' ? path + length + 1 : NULL;
}

/* Whether the entry sets the option, a part of it, or a record that has it:
 * train.lr is set by `train.lr = 1`, `train.lr.x = 1` and `train = { lr = 1 }`. */
static bool entry_sets(const Node *entry, const char *path) {
    const Node *value = entry->count ? entry->kids[0] : NULL;
    if (rest_of(entry->name, path)) return true;
    const char *rest = rest_of(path, entry->name);
    if (value && value->kind == NODE_MADE) value = value->count ? value->kids[0] : NULL;
    if (!rest || !value || value->kind != NODE_RECORD) return false;
    for (int i = 0; i < value->count; i++)
        if (value->kids[i]->kind == NODE_ENTRY && entry_sets(value->kids[i], rest)) return true;
    return false;
}

bool moec_sets(const char *set, const char *path) {
    Arena *arena = arena_new();
    Reports reports = {.arena = arena};
    const Source source = {.path = "--set", .text = set, .length = strlen(set)};
    const Node *entry = parse_entry(arena, &reports, &source);
    bool sets = entry && entry_sets(entry, path);
    arena_free(arena);
    return sets;
}

static const Node *set_of(const Unit *unit, const char *path) {
    for (int i = 0; i < unit->overrides.count; i++)
        if (entry_sets(unit->overrides.items[i], path)) return unit->overrides.items[i];
    return NULL;
}

/* A match solves for the size of variants; the size of the base may come from --set. */
static bool is_refused(const Experiment *asked, const Node *claim) {
    return list_find(&asked->overrides, claim) < 0 && claim != asked->solved[0] &&
           claim != asked->solved[1];
}

static bool report_conflict(const Expansion *expansion, const Node *set, Span span,
                            const char *path) {
    report_error(expansion->reports, set->span, "--set and the experiment both set '%s'", path);
    report_note(expansion->reports, span, "the experiment sets it here");
    return report_help(expansion->reports, "remove --set %s, or change the experiment", set->name);
}

bool sets_allowed(const Expansion *expansion) {
    const Experiment *asked = expansion->asked;
    const Unit *unit = moec_unit(expansion->compiler);
    const Node *seed = set_of(unit, "train.seed");
    if (seed) return report_conflict(expansion, seed, asked->node->name_span, "train.seed");
    LIST_EACH(const Node, claim, &asked->paths) {
        const Node *set = is_refused(asked, claim) ? set_of(unit, claim->name) : NULL;
        if (set) return report_conflict(expansion, set, claim->name_span, claim->name);
    }
    return true;
}

List sets_after(const Expansion *expansion) {
    const Unit *unit = moec_unit(expansion->compiler);
    const List *own = &expansion->asked->overrides, *sets = &unit->overrides;
    List all = {0};
    list_append(expansion->arena, &all, own);
    LIST_EACH(const Node, set, sets) {
        bool meets = false;
        LIST_EACH(const Node, entry, own)
            meets = meets || rest_of(set->name, entry->name) || rest_of(entry->name, set->name);
        if (meets) list_push(expansion->arena, &all, (void *)set);
    }
    return all;
}
