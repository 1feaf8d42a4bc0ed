/* asked: read an experiment from its tree. Only checks that need no elaboration happen here; the
 * options are checked when the variants are elaborated.
 */
#include "experiment/experiment.h"

#include <math.h>
#include <string.h>

enum { MAX_SEEDS = 1000 };

static const char *const entries[] = {
    "baseline", "vary",   "variants",       "tune",     "match",   "seeds",      "budget",
    "train",    "metric", "early_stopping", "transfer", "machine", "hypothesis", "statistics"};

void help_with_names(Reports *reports, const List *nodes, const char *name, const char *kind) {
    List names = {0};
    LIST_EACH(const Node, node, nodes) list_push(reports->arena, &names, (void *)node->name);
    report_choices(reports, name, (const char *const *)names.items, names.count, kind);
}

static bool read_base(Unit *unit, Experiment *experiment, const Node *value) {
    bool name = value->kind == NODE_NAME;
    if (name && node_called(&unit->models, value->name)) {
        experiment->base = value->name;
        return true;
    }
    if (name)
        report_error(unit->reports, value->span, "unknown model '%s'", value->name);
    else
        report_error(unit->reports, value->span, "'baseline' expects the name of a model");
    help_with_names(unit->reports, &unit->models, name ? value->name : "", "models");
    return false;
}

static bool read_seeds(Unit *unit, Experiment *experiment, const Node *value) {
    bool whole = value->kind == NODE_NUMBER && value->number == floor(value->number);
    if (whole && value->number >= 1 && value->number <= MAX_SEEDS) {
        experiment->seeds = (long)value->number;
        return true;
    }
    return report_invalid(unit->reports, value->span, "write seeds = 3",
                          "'seeds' expects an integer from 1 to %d", MAX_SEEDS);
}

static bool read_match(Asking *asking, const Node *match) {
    static const char *const known[] = {"params", "active", "flops", "cache", "time"};
    Reports *reports = asking->e->reports;
    Experiment *experiment = asking->experiment;
    const Node *options = match->kids[0];
    const bool list = options->kind == NODE_LIST;
    if (text_find(known, 5, match->name) < 0) {
        report_error(reports, match->name_span, "unknown quantity '%s' in 'match'", match->name);
        return report_choices(reports, match->name, known, 5, "quantities");
    }
    if (experiment->match) {
        report_error(reports, match->span, "duplicate 'match': an experiment matches one quantity");
        report_note(reports, experiment->match->span, "the first match is here");
        return report_help(reports, "keep one of them");
    }
    if (list && options->count > 2) {
        report_error(reports, options->kids[2]->span, "'match' expects one or two options, got %d",
                     options->count);
        return report_help(reports, "write match %s by [COARSE, FINE]", match->name);
    }
    experiment->match = match;
    experiment->solved[0] = list ? options->kids[0] : options;
    experiment->solved[1] = list && options->count > 1 ? options->kids[1] : NULL;
    return path_claim(asking, experiment->solved[0]) &&
           (!experiment->solved[1] || path_claim(asking, experiment->solved[1]));
}

/* train = { steps = 20 } is the override train.steps = 20 of every variant. */
static bool read_train(Asking *asking, const Node *value) {
    Unit *unit = asking->e->unit;
    if (value->kind != NODE_RECORD)
        return report_invalid(unit->reports, value->span, "write train = { steps = 1000 }",
                              "'train' expects a record");
    for (int i = 0; i < value->count; i++) {
        const Node *own = value->kids[i];
        Node *entry = arena_alloc(unit->arena, sizeof *entry);
        *entry = *own;
        entry->name = arena_format(unit->arena, "train.%s", own->name);
        if (!path_claim(asking, entry)) return false;
        list_push(unit->arena, &asking->experiment->overrides, entry);
    }
    return true;
}

/* ---- records with a few known entries ---- */

bool read_named_numbers(Asking *asking, const Node *entry, const char *const *names, int count,
                        double *numbers) {
    const int which = text_find(names, count, entry->name);
    if (which < 0) {
        report_error(asking->e->reports, entry->name_span, "unknown entry '%s'", entry->name);
        return report_choices(asking->e->reports, entry->name, names, count, "entries");
    }
    return evaluate_number(asking->e, entry->kids[0], names[which], &numbers[which]) &&
           (numbers[which] > 0 || report_invalid(asking->e->reports, entry->kids[0]->span,
                                                 "write a number above 0, such as 1",
                                                 "'%s' expects a number above 0", names[which]));
}

static bool read_budget(Asking *asking, const Node *entry) {
    static const char *const names[] = {"tokens", "tokens_per_parameter", "steps", "flops",
                                        "seconds"};
    enum { NAMES = sizeof names / sizeof *names };
    const Node *value = entry->kids[0];
    Experiment *experiment = asking->experiment;
    if (value->kind != NODE_RECORD || value->count != 1)
        return report_invalid(
            asking->e->reports, value->span,
            "write budget = { tokens = 4e6 }, or use tokens_per_parameter, steps, flops or "
            "seconds",
            "'budget' expects a record with one entry");
    double numbers[NAMES] = {0};
    if (!read_named_numbers(asking, value->kids[0], names, NAMES, numbers)) return false;
    for (int i = 0; i < NAMES; i++) {
        if (numbers[i] == 0) continue;
        experiment->budget = (Budget)(i + 1);
        experiment->amount = numbers[i];
    }
    return path_claim(asking, node_named(asking->e->arena, NODE_ENTRY, entry->span, "train.steps",
                                         entry->name_span));
}

/* The name of a log field; NULL after a report. */
static const char *log_name(Asking *asking, const Node *value) {
    if (value->kind == NODE_NAME || value->kind == NODE_STRING) return value->name;
    report_invalid(asking->e->reports, value->span,
                   "write metric = val_loss, metric = \"NAME\", or "
                   "metric = { name = NAME, goal = maximize }",
                   "'metric' expects the name of a log field");
    return NULL;
}

static bool read_metric(Asking *asking, const Node *value) {
    Experiment *experiment = asking->experiment;
    if (value->kind != NODE_RECORD) return (experiment->metric = log_name(asking, value)) != NULL;
    for (int i = 0; i < value->count; i++) {
        const Node *entry = value->kids[i], *own = entry->kids[0];
        bool name = !strcmp(entry->name, "name"), better = !strcmp(entry->name, "goal");
        bool word = own->kind == NODE_NAME;
        experiment->higher =
            experiment->higher || (better && word && !strcmp(own->name, "maximize"));
        if (name && (experiment->metric = log_name(asking, own))) continue;
        if (name) return false;
        if (better && word && (experiment->higher || !strcmp(own->name, "minimize"))) continue;
        if (better)
            report_error(asking->e->reports, own->span, "'goal' expects maximize or minimize");
        else
            report_error(asking->e->reports, entry->name_span, "unknown entry '%s' in 'metric'",
                         entry->name);
        return report_help(asking->e->reports, "write metric = { name = NAME, goal = maximize }");
    }
    if (!experiment->metric) log_name(asking, value);
    return experiment->metric != NULL;
}

static bool read_halvings(Asking *asking, const Node *value) {
    Experiment *experiment = asking->experiment;
    bool good = value->kind == NODE_LIST && value->count;
    double before = 0;
    for (int i = 0; good && i < value->count; i++) {
        double *share = arena_alloc(asking->e->arena, sizeof *share);
        if (!evaluate_number(asking->e, value->kids[i], "halve_at", share)) return false;
        good = *share > before && *share < 1;
        before = *share;
        list_push(asking->e->arena, &experiment->halvings, share);
    }
    if (good) return true;
    return report_invalid(asking->e->reports, value->span,
                          "write halve_at = [0.25, 0.5] to stop the worse half of the "
                          "variants at 25 % and at 50 % of the steps",
                          "'halve_at' expects increasing fractions between 0 and 1");
}

static bool read_keep(Asking *asking, const Node *value) {
    static const char *const names[] = {"diverged_above", "halve_at"};
    if (value->kind != NODE_RECORD || !value->count)
        return report_invalid(asking->e->reports, value->span,
                              "write early_stopping = { diverged_above = 10 } or "
                              "early_stopping = { halve_at = [0.25, 0.5] }",
                              "'early_stopping' expects a record with diverged_above or halve_at");
    for (int i = 0; i < value->count; i++) {
        const Node *entry = value->kids[i];
        double numbers[2] = {0};
        bool halve = !strcmp(entry->name, names[1]);
        if (halve ? !read_halvings(asking, entry->kids[0])
                  : !read_named_numbers(asking, entry, names, 2, numbers))
            return false;
        if (!halve) asking->experiment->limit = numbers[0];
    }
    return true;
}

/* The name of a machine, or a record of its peaks. */
static bool read_machine(Asking *asking, const Node *value) {
    static const char *const names[] = {"gflops", "gbytes"};
    double numbers[2] = {asking->experiment->gflops, asking->experiment->gbytes};
    if (value->kind == NODE_NAME) {
        const MachineRecord *machine =
            machine_find(asking->e->unit, value->name, value->span, asking->e->reports);
        if (!machine) return false;
        numbers[0] = machine->value[MACHINE_GFLOPS];
        numbers[1] = machine->value[MACHINE_GBYTES];
    } else if (value->kind != NODE_RECORD || !value->count)
        return report_invalid(
            asking->e->reports, value->span,
            "write machine = h100, or machine = { gflops = 400, "
            "gbytes = 40 } for the peak in GFLOP/s and GB/s",
            "'machine' expects the name of a machine or a record with gflops or gbytes");
    for (int i = 0; i < value->count; i++)
        if (!read_named_numbers(asking, value->kids[i], names, 2, numbers)) return false;
    asking->experiment->gflops = numbers[0];
    asking->experiment->gbytes = numbers[1];
    return true;
}

static bool read_hypothesis(Asking *asking, const Node *value) {
    if (value->kind == NODE_STRING && *value->name) {
        asking->experiment->hypothesis = value->name;
        return true;
    }
    return report_invalid(asking->e->reports, value->span,
                          "write hypothesis = \"wider layers lower the loss\"",
                          "'hypothesis' expects a text");
}

static bool read_correction(Asking *asking, const Node *value) {
    static const char *const known[] = {"holm", "benjamini_hochberg", "none"};
    const char *name = value->kind == NODE_NAME ? value->name : "";
    const int which = text_find(known, 3, name);
    if (which >= 0) {
        asking->experiment->statistics.correction = known[which];
        return true;
    }
    report_error(asking->e->reports, value->span, "'correction' expects the name of a method");
    return report_choices(asking->e->reports, name, known, 3, "methods");
}

static bool read_statistics(Asking *asking, const Node *value) {
    static const char *const names[] = {"equivalence", "detect", "power", "correction"};
    MoecStatistics *statistics = &asking->experiment->statistics;
    double numbers[4] = {0};
    if (value->kind != NODE_RECORD || !value->count)
        return report_invalid(asking->e->reports, value->span,
                              "write statistics = { correction = holm, equivalence = "
                              "0.01, detect = 0.01, power = 0.8 }",
                              "'statistics' expects a record");
    for (int i = 0; i < value->count; i++) {
        const Node *entry = value->kids[i];
        bool method = !strcmp(entry->name, names[3]);
        if (method ? !read_correction(asking, entry->kids[0])
                   : !read_named_numbers(asking, entry, names, 4, numbers))
            return false;
    }
    if (numbers[2] >= 1)
        return report_invalid(asking->e->reports, value->span,
                              "write power = 0.8 for a probability of 80 %",
                              "'power' expects a number below 1, got %g", numbers[2]);
    if (numbers[2] > 0 && numbers[1] == 0)
        return report_invalid(asking->e->reports, value->span,
                              "add detect = 0.01, the difference to find",
                              "'power' has no effect without 'detect'");
    statistics->equivalence = numbers[0];
    statistics->detect = numbers[1];
    statistics->power = numbers[2];
    return true;
}

static bool read_transfer(Asking *asking, const Node *value) {
    Experiment *experiment = asking->experiment;
    if (value->kind == NODE_NAME || value->kind == NODE_MADE) {
        experiment->transfer = value;
        return true;
    }
    return report_invalid(
        asking->e->reports, value->span,
        "write transfer = complete_mue to derive the settings of each variant from the base",
        "'transfer' expects a parametrization");
}

static bool read_scalar_entry(Asking *asking, const Node *entry) {
    Unit *unit = asking->e->unit;
    const Node *value = entry->kids[0];
    if (!strcmp(entry->name, "baseline")) return read_base(unit, asking->experiment, value);
    if (!strcmp(entry->name, "seeds")) return read_seeds(unit, asking->experiment, value);
    if (!strcmp(entry->name, "train")) return read_train(asking, value);
    if (!strcmp(entry->name, "variants")) return variants_read(asking, entry);
    if (!strcmp(entry->name, "budget")) return read_budget(asking, entry);
    if (!strcmp(entry->name, "metric")) return read_metric(asking, value);
    if (!strcmp(entry->name, "early_stopping")) return read_keep(asking, value);
    if (!strcmp(entry->name, "machine")) return read_machine(asking, value);
    if (!strcmp(entry->name, "transfer")) return read_transfer(asking, value);
    if (!strcmp(entry->name, "hypothesis")) return read_hypothesis(asking, value);
    if (!strcmp(entry->name, "statistics")) return read_statistics(asking, value);
    if (!strcmp(entry->name, "ladder")) return (asking->experiment->ladder = entry) != NULL;
    int count = sizeof entries / sizeof *entries;
    const char *near = did_you_mean(entry->name, entries, count);
    report_error(unit->reports, entry->name_span, "unknown entry '%s' in an experiment",
                 entry->name);
    if (near && strcmp(near, entry->name))
        report_help(unit->reports, "did you mean '%s'?", near);
    else
        report_help(unit->reports,
                    "use baseline, vary PATH = [...], variants, tune PATH = [...], match params by "
                    "PATH, seeds, budget, train, metric, early_stopping, machine, transfer, "
                    "hypothesis, statistics or ladder");
    return false;
}

/* An earlier entry with the name of this one, or NULL. Changed options are checked by path_claim
 * instead. */
static const Node *earlier_entry(const Node *body, int at) {
    const Node *entry = body->kids[at];
    for (int i = 0; i < at && entry->kind == NODE_ENTRY; i++)
        if (body->kids[i]->kind == entry->kind && !strcmp(body->kids[i]->name, entry->name))
            return body->kids[i];
    return NULL;
}

static bool report_repeated(Unit *unit, const Node *body, int at) {
    const Node *entry = body->kids[at], *earlier = earlier_entry(body, at);
    if (!earlier) return false;
    report_error(unit->reports, entry->name_span, "duplicate entry '%s'", entry->name);
    report_note(unit->reports, earlier->name_span, "first set here");
    report_help(unit->reports, "remove one of the entries");
    return true;
}

static bool read_experiment_entry(Asking *asking, Node *entry) {
    switch (entry->kind) {
    case NODE_VARY:
        return choices_read(asking, entry, &asking->experiment->vary);
    case NODE_TUNE:
        return choices_read(asking, entry, &asking->experiment->tune);
    case NODE_EQUALISE:
        return read_match(asking, entry);
    default:
        return read_scalar_entry(asking, entry);
    }
}

/* An experiment with a transfer also declares a model: its base, derived from itself. */
static void add_model(Unit *unit, Experiment *experiment) {
    const Node *rule = experiment->transfer, *node = experiment->node;
    experiment->model = experiment->base;
    if (!rule) return;
    const Node *taken = node_called(&unit->models, node->name);
    if (taken && taken->span.start == node->span.start) {
        experiment->model = taken->name;
        return;
    }
    if (taken) {
        report_error(
            unit->reports, node->name_span,
            "an experiment with a transfer declares a model, but model '%s' already exists",
            node->name);
        report_note(unit->reports, taken->name_span, "the model is declared here");
        report_help(unit->reports, "rename the experiment");
        return;
    }
    Node *model = node_named(unit->arena, NODE_MODEL, node->span, node->name, node->name_span);
    Node *base =
        node_named(unit->arena, NODE_NAME, node->name_span, experiment->base, node->name_span);
    Node *made = node_named(unit->arena, NODE_MADE, rule->span, rule->name, rule->name_span);
    node_add(unit->arena, made, rule->kind == NODE_MADE ? rule->kids[0] : NULL);
    node_add(unit->arena, model, base);
    node_add(unit->arena, model, NULL);
    node_add(unit->arena, model, made);
    node_add(unit->arena, model, base);
    list_push(unit->arena, &unit->models,
              model); /* before all others: the last model is the default */
    void **models = unit->models.items;
    memmove(models + 1, models, (size_t)(unit->models.count - 1) * sizeof *models);
    models[0] = model;
    experiment->model = node->name;
}

/* The ladder names an option with sizes of its own, in increasing order. */
static bool check_ladder(Unit *unit, const Experiment *experiment) {
    const Node *ladder = experiment->ladder;
    int at = ladder ? experiment_ladder(unit->arena, experiment) : -1;
    if (!ladder) return true;
    if (at < 0)
        return report_invalid(unit->reports, ladder->kids[0]->span,
                              "write ladder = dim together with vary dim = [64, 96, 128, 192]",
                              "'ladder' expects an option that a 'vary' of the experiment changes");
    if (!experiment->halvings.count) return true;
    return report_invalid(unit->reports, ladder->name_span, "remove one of them",
                          "'ladder' and 'halve_at' exclude each other: halving would stop sizes");
}

Elaborator *constant_elaborator(Unit *unit, const char *name) {
    Elaborator *e = elaborator_new(unit);
    e->scope = arena_alloc(unit->arena, sizeof *e->scope);
    e->program = program_new(unit->arena, unit->reports, name, GRAPH_FORWARD, unit->calls);
    return e;
}

const Experiment *experiment_read(Unit *unit, const Node *node) {
    Experiment *experiment = arena_alloc(unit->arena, sizeof *experiment);
    *experiment = (Experiment){.node = node, .seeds = 1, .gflops = 400, .gbytes = 40};
    const Node *own = node->kids[0], *body = inherited_plan(unit, node);
    Asking asking = {constant_elaborator(unit, node->name), experiment, {0}};
    bool good = check_experiment_base(unit, node);
    if (!good) return NULL;
    for (int i = 0; i < own->count; i++) good = !report_repeated(unit, own, i) && good;
    for (int i = 0; i < body->count; i++)
        if (!earlier_entry(body, i)) good = read_experiment_entry(&asking, body->kids[i]) && good;
    bool timed = experiment->match && !strcmp(experiment->match->name, "time");
    const Node *machine = node_called(&(List){(void **)body->kids, body->count, 0}, "machine");
    if (good && machine && !timed) {
        report_invalid(unit->reports, machine->name_span,
                       "add 'match time by PATH', or remove 'machine'",
                       "'machine' has no effect without 'match time'");
        good = false;
    }
    if (good && !experiment->base) {
        report_invalid(unit->reports, node->name_span, "add base = MODEL",
                       "experiment '%s' has no base", node->name);
        good = false;
    }
    good = good && check_ladder(unit, experiment);
    experiment->paths = asking.paths;
    if (good) add_model(unit, experiment);
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
        report_error(unit->reports, (Span){0}, "unknown experiment '%s'", name);
    else
        report_error(unit->reports, (Span){0}, "%s contains no experiment", file->path);
    if (name && unit->experiments.count)
        help_with_names(unit->reports, &unit->experiments, name, "experiments");
    else
        report_help(unit->reports, "add experiment NAME { base = MODEL  vary PATH = [A, B] }");
    return NULL;
}
