/* experiment: what an experiment asks, read from its tree. What the options mean is found out when
 * its variants are elaborated; here only what can be said without that.
 */
#include "passes.h"

#include <math.h>
#include <string.h>

enum { MAX_SEEDS = 1000, MAX_VALUES = 256 };

static const char *const entries[] = {"base", "vary", "match", "seeds", "train"};

static const Node *find_named(const List *list, const char *name) {
    for (int i = 0; i < list->count; i++) {
        const Node *node = list->items[i];
        if (!strcmp(node->name, name)) return node;
    }
    return NULL;
}

static void help_with_names(Reports *reports, const List *nodes, const char *name,
                            const char *kind) {
    List names = {0};
    Text text = {.arena = reports->arena};
    for (int i = 0; i < nodes->count; i++) {
        const Node *node = nodes->items[i];
        list_push(reports->arena, &names, (void *)node->name);
        if (i < 16) text_add(&text, "%s%s", i ? ", " : "", node->name);
    }
    const char *near = did_you_mean(name, (const char *const *)names.items, names.count);
    if (near)
        report_help(reports, "did you mean '%s'?", near);
    else if (names.count)
        report_help(reports, "the %s are %s%s", kind, text.text, names.count > 16 ? ", ..." : "");
}

static bool read_base(Unit *unit, Experiment *experiment, const Node *value) {
    bool name = value->kind == NODE_NAME;
    if (name && find_named(&unit->models, value->name)) {
        experiment->base = value->name;
        return true;
    }
    if (name)
        report_error(unit->reports, value->span, "there is no model '%s'", value->name);
    else
        report_error(unit->reports, value->span,
                     "the base of an experiment is the name of a model");
    help_with_names(unit->reports, &unit->models, name ? value->name : "", "models");
    return false;
}

static bool read_seeds(Unit *unit, Experiment *experiment, const Node *value) {
    bool whole = value->kind == NODE_NUMBER && value->number == floor(value->number);
    if (whole && value->number >= 1 && value->number <= MAX_SEEDS) {
        experiment->seeds = (long)value->number;
        return true;
    }
    report_error(unit->reports, value->span, "seeds takes a whole number from 1 to %d", MAX_SEEDS);
    return false;
}

static bool read_vary(Unit *unit, Experiment *experiment, Node *vary) {
    const Node *value = vary->kids[0];
    bool list = value->kind == NODE_LIST;
    if (list && value->count >= 1 && value->count <= MAX_VALUES) {
        list_push(unit->arena, &experiment->vary, vary);
        return true;
    }
    if (list && value->count)
        report_error(unit->reports, value->span, "%d values, more than %d", value->count,
                     MAX_VALUES);
    else
        report_error(unit->reports, value->span,
                     list ? "a list without values: there is nothing to compare"
                          : "vary takes a list of the values to try");
    report_help(unit->reports, "write vary %s = [A, B]", vary->name);
    return false;
}

static bool read_match(Unit *unit, Experiment *experiment, const Node *match) {
    bool known = !strcmp(match->name, "params") || !strcmp(match->name, "active");
    if (!known) {
        report_error(unit->reports, match->name_span, "'%s' is nothing that can be matched",
                     match->name);
        report_help(unit->reports, "match takes params or active");
    } else if (experiment->match) {
        report_error(unit->reports, match->span, "an experiment matches one thing");
        report_note(unit->reports, experiment->match->span, "matched here already");
        known = false;
    }
    if (known) experiment->match = match;
    return known;
}

/* train = { steps = 20 } is the override train.steps = 20 of every variant. */
static bool read_train(Unit *unit, Experiment *experiment, const Node *value) {
    if (value->kind != NODE_RECORD) {
        report_error(unit->reports, value->span, "train takes a record");
        report_help(unit->reports, "write train = { steps = 1000 }");
        return false;
    }
    for (int i = 0; i < value->count; i++) {
        const Node *own = value->kids[i];
        Node *entry = arena_alloc(unit->arena, sizeof *entry);
        *entry = *own;
        entry->name = arena_format(unit->arena, "train.%s", own->name);
        list_push(unit->arena, &experiment->overrides, entry);
    }
    return true;
}

static bool read_entry(Unit *unit, Experiment *experiment, const Node *entry) {
    const Node *value = entry->kids[0];
    if (!strcmp(entry->name, "base")) return read_base(unit, experiment, value);
    if (!strcmp(entry->name, "seeds")) return read_seeds(unit, experiment, value);
    if (!strcmp(entry->name, "train")) return read_train(unit, experiment, value);
    int count = sizeof entries / sizeof *entries;
    const char *near = did_you_mean(entry->name, entries, count);
    report_error(unit->reports, entry->name_span, "an experiment has no '%s'", entry->name);
    if (near && strcmp(near, entry->name))
        report_help(unit->reports, "did you mean '%s'?", near);
    else
        report_help(unit->reports,
                    "it has base, vary PATH = [...], match params by PATH, seeds and train");
    return false;
}

/* `twice`: what an experiment says once. */
static bool is_repeated(Unit *unit, const Node *body, int at) {
    const Node *entry = body->kids[at];
    for (int i = 0; i < at && entry->kind != NODE_EQUALISE; i++) {
        const Node *earlier = body->kids[i];
        if (earlier->kind != entry->kind || strcmp(earlier->name, entry->name)) continue;
        report_error(unit->reports, entry->name_span, "'%s' is given twice", entry->name);
        report_note(unit->reports, earlier->name_span, "first here");
        return true;
    }
    return false;
}

const Experiment *experiment_read(Unit *unit, const Node *node) {
    Experiment *experiment = arena_alloc(unit->arena, sizeof *experiment);
    *experiment = (Experiment){.node = node, .seeds = 1};
    const Node *body = node->kids[0];
    bool good = true;
    for (int i = 0; i < body->count; i++) {
        Node *entry = body->kids[i];
        bool read = !is_repeated(unit, body, i) &&
                    (entry->kind == NODE_VARY       ? read_vary(unit, experiment, entry)
                     : entry->kind == NODE_EQUALISE ? read_match(unit, experiment, entry)
                                                    : read_entry(unit, experiment, entry));
        good = good && read;
    }
    if (good && !experiment->base) {
        report_error(unit->reports, node->name_span, "experiment '%s' has no base", node->name);
        report_help(unit->reports, "add one: base = MODEL");
        good = false;
    }
    return good ? experiment : NULL;
}

const Experiment *experiment_find(Unit *unit, const char *name) {
    const Node *node = NULL;
    for (int i = unit->experiments.count - 1; i >= 0 && !node; i--) {
        const Node *one = unit->experiments.items[i];
        bool own = one->span.source == unit->sources.items[0];
        if (name ? !strcmp(one->name, name) : own) node = one;
    }
    if (node) return experiment_read(unit, node);
    const Source *file = unit->sources.items[0];
    if (name)
        report_error(unit->reports, (Span){0}, "there is no experiment '%s'", name);
    else
        report_error(unit->reports, (Span){0}, "%s declares no experiment", file->path);
    if (name && unit->experiments.count)
        help_with_names(unit->reports, &unit->experiments, name, "experiments");
    else
        report_help(unit->reports, "add one: experiment NAME { base = MODEL  vary PATH = [A, B] }");
    return NULL;
}
