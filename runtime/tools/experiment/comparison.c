#include "tools/experiment/internal.h"

#include "abi/json_make.h"
#include "abi/text_find.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

static bool is_counted(const Run *run, const char *metric) {
    return run->ended && !run->result.stopped && isfinite(run->result.loss) &&
           strcmp(run->result.metric, metric) == 0;
}

/* Metric of the losses: that of the experiment, else of the first ended run. */
static const char *metric_of(const Gathering *gathering, int base) {
    if (gathering->metric) return gathering->metric;
    for (int i = 0; i < gathering->count; i++) {
        const Group *group = &gathering->groups[(base + i) % gathering->count];
        for (int k = 0; k < group->count; k++)
            if (group->runs[k].ended && isfinite(group->runs[k].result.loss))
                return group->runs[k].result.metric;
    }
    return "loss";
}

/* ---- differences ---- */

static SampleMoments losses_of(const Group *group, const char *metric) {
    AUTO_FREE double *losses = memory_new((size_t)(group->count + 1) * sizeof *losses);
    int count = 0;
    for (int i = 0; i < group->count; i++)
        if (is_counted(&group->runs[i], metric)) losses[count++] = group->runs[i].result.loss;
    return sample_of(losses, count);
}

/* Equal seeds read the same data in the same order if data and tokens per step are equal. Runs
 * without run.json are assumed to come from one sweep. */
static bool is_pair(const Run *run, const Run *other) {
    static const char *const same[] = {"data_tokens", "tokens_per_step"};
    if (run->seed < 0 || run->seed != other->seed) return false;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        json_t *one = json_object_get(run->account, same[i]),
               *two = json_object_get(other->account, same[i]);
        if (one && two && !json_equal(one, two)) return false;
    }
    return true;
}

static Difference group_difference(const Group *group, const Group *base, const char *metric) {
    AUTO_FREE double *values = memory_new((size_t)(group->count + 1) * sizeof *values),
                     *others = memory_new((size_t)(group->count + 1) * sizeof *others);
    int pairs = 0;
    for (int i = 0; i < group->count; i++) {
        for (int k = 0; is_counted(&group->runs[i], metric) && k < base->count; k++) {
            if (!is_counted(&base->runs[k], metric) || !is_pair(&group->runs[i], &base->runs[k]))
                continue;
            values[pairs] = group->runs[i].result.loss;
            others[pairs++] = base->runs[k].result.loss;
            break;
        }
    }
    SampleMoments sample = losses_of(group, metric), other = losses_of(base, metric);
    bool apart = pairs < 2 && (pairs == 0 || (sample.count > 1 && other.count > 1));
    return apart ? difference_apart(&sample, &other) : difference_paired(values, others, pairs);
}

/* Mean number of steps until the runs of the group reach the mean loss of the base; NaN if one does
 * not. */
static double steps_to_base(const Group *group, const Group *base, const char *metric,
                            bool higher) {
    const SampleMoments goal = losses_of(base, metric);
    double sum = 0;
    int count = 0;
    for (int i = 0; i < group->count; i++) {
        if (!is_counted(&group->runs[i], metric)) continue;
        sum += history_reached(&group->runs[i].history, metric, goal.mean, higher);
        count++;
    }
    return count && goal.count ? sum / count : NAN;
}

static json_t *difference_json(const TestRules *rules, const Judgement *judgement, bool higher,
                               int comparisons) {
    const Difference *difference = &judgement->difference;
    json_t *object =
        json_make("{s:b, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:s}", "paired", difference->paired,
                  "pairs", difference->count, "mean", difference->mean, "margin_95",
                  difference->margin, "low", difference->mean - difference->margin, "high",
                  difference->mean + difference->margin, "chance", difference->chance, "adjusted",
                  judgement->adjusted, "verdict", judgement_verdict(judgement, higher));
    if (rules->equivalence > 0) {
        json_object_set_new(object, "equivalence", json_number(judgement->equivalent));
        json_object_set_new(object, "not_worse", json_number(judgement->not_worse));
    }
    if (rules->detect > 0) {
        bool several = rules->correction != CORRECTION_NONE && comparisons > 1;
        int seeds = seeds_needed(difference, rules->detect, 0.05 / (several ? comparisons : 1),
                                 rules->power);
        json_object_set_new(object, "seeds_needed", seeds ? json_integer(seeds) : json_null());
    }
    return object;
}

/* ---- the best tuned value ---- */

/* Among the models of one structure, which differ only in tuned settings: true if this one is the
 * best, and if the best is at an edge of the tested values. */
typedef struct TunedRank {
    bool best, at_edge;
    int choices;
} TunedRank;

static bool is_better_sample(const Gathering *gathering, const SampleMoments *one,
                             const SampleMoments *other) {
    if (!one->count || !other->count) return one->count > other->count;
    return gathering->higher ? one->mean > other->mean : one->mean < other->mean;
}

static TunedRank choice_of(const Gathering *gathering, int number, const char *metric) {
    const char *structure = gathering->groups[number].structure;
    SampleMoments best = {0};
    int first = -1, last = -1, chosen = -1;
    TunedRank choice = {0};
    for (int i = 0; structure && i < gathering->count; i++) {
        const Group *group = &gathering->groups[i];
        if (!group->structure || strcmp(group->structure, structure) != 0) continue;
        SampleMoments loss = losses_of(group, metric);
        if (chosen < 0 || is_better_sample(gathering, &loss, &best)) {
            chosen = i;
            best = loss;
        }
        if (first < 0) first = i;
        last = i;
        choice.choices++;
    }
    choice.best = chosen == number && best.count > 0;
    choice.at_edge = choice.best && choice.choices > 2 && (chosen == first || chosen == last) &&
                     !strchr(gathering->groups[number].tuned, ',');
    return choice;
}

/* The first model, or the best of the models that differ from it only in tuned settings. */
static int base_of(const Gathering *gathering) {
    const char *metric = metric_of(gathering, 0), *structure = gathering->groups[0].structure;
    for (int i = 0; structure && i < gathering->count; i++) {
        const char *other = gathering->groups[i].structure;
        if (other && strcmp(other, structure) == 0 && choice_of(gathering, i, metric).best)
            return i;
    }
    return 0;
}

static void add_choice(json_t *row, const Gathering *gathering, int number, const char *metric) {
    const Group *group = &gathering->groups[number];
    if (!group->tuned) return;
    TunedRank choice = choice_of(gathering, number, metric);
    json_object_update_new(row,
                           json_make("{s:s, s:s, s:b, s:b, s:i}", "structure", group->structure,
                                     "tuned", group->tuned, "best", choice.best, "at_edge",
                                     choice.at_edge, "choices", choice.choices));
}

/* ---- means over the runs of a group ---- */

typedef double Measure(const History *history, const char *name);

static double measure_mean(const Group *group, Measure *measure, const char *name) {
    double sum = 0;
    int count = 0;
    for (int i = 0; i < group->count; i++) {
        if (!group->runs[i].ended || group->runs[i].result.diverged) continue;
        double value = measure(&group->runs[i].history, name);
        if (isnan(value)) continue;
        sum += value;
        count++;
    }
    return count ? sum / count : NAN;
}

/* True for auxiliary losses and probes. Standard fields of a log and values of single layers are
 * excluded. */
static bool is_probe(const char *name) {
    static const char *const others[] = {
        "step",    "loss",  "grad_norm",       "lr",
        "seconds", "total", "stage_sequences", "stage_context_length"};
    return text_find(others, sizeof others / sizeof *others, name) < 0 &&
           strncmp(name, "val_", 4) != 0 && !strstr(name, ".layer.");
}

static json_t *mean_probes_json(const Group *group) {
    json_t *probes = json_object();
    for (int i = 0; i < group->count; i++) {
        const History *history = &group->runs[i].history;
        for (int k = 0; k < history->columns; k++)
            if (is_probe(history->names[k]) && !json_object_get(probes, history->names[k]))
                json_object_set_new(
                    probes, history->names[k],
                    json_number(measure_mean(group, history_tail, history->names[k])));
    }
    return probes;
}

/* ---- one variant ---- */

static double nested_number(const json_t *object, const char *name, const char *part) {
    const json_t *value = json_object_get(object, name);
    if (part) value = json_object_get(value, part);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static double tokens_per_step(const Group *group) {
    const json_t *account = group->runs[0].account;
    return account ? nested_number(account, "tokens_per_step", NULL) : NAN;
}

static void add_group_cost(json_t *row, const Group *group) {
    double steps = nested_number(group->runs[0].account, "steps", NULL),
           tokens = steps * tokens_per_step(group),
           flops = nested_number(group->cost, "flops_per_token", "train");
    json_object_update_new(
        row, json_make("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "parameters",
                       nested_number(group->cost, "params", "total"), "active",
                       nested_number(group->cost, "params", "active"), "flops", flops, "cache",
                       nested_number(group->cost, "cache_bytes_per_token", NULL), "steps", steps,
                       "tokens", tokens, "flops_total", tokens * flops));
}

static json_t *compared_run_json(const Run *run, const char *metric, bool lasting) {
    json_t *object =
        json_make("{s:I, s:I, s:b, s:b, s:f}", "seed", (json_int_t)run->seed, "step",
                  (json_int_t)run->result.step, "ended", run->ended, "diverged",
                  run->result.diverged, "loss", is_counted(run, metric) ? run->result.loss : NAN);
    if (run->history.diverged)
        json_object_set_new(object, "nonsense", json_text(run->history.diverged));
    if (lasting) return object;
    json_object_set_new(object, "folder", json_escaped(run->folder));
    json_object_set_new(object, "seconds", json_number(history_total(&run->history, "seconds")));
    return object;
}

static void add_runs(json_t *row, const Group *group, const char *metric, bool lasting) {
    int finished = 0, diverged = 0;
    long stopped = 0;
    json_t *runs = json_array();
    for (int i = 0; i < group->count; i++) {
        finished += is_counted(&group->runs[i], metric);
        diverged += group->runs[i].result.diverged;
        if (group->runs[i].result.stopped) stopped = group->runs[i].result.step;
        json_array_append_new(runs, compared_run_json(&group->runs[i], metric, lasting));
    }
    json_object_set_new(row, "finished", json_integer(finished));
    json_object_set_new(row, "diverged", json_integer(diverged));
    json_object_set_new(row, "unfinished", json_integer(group->count - finished - diverged));
    if (stopped) json_object_set_new(row, "stopped", json_integer(stopped));
    json_object_set_new(row, "runs", runs);
}

static json_t *compared_variant_json(const Gathering *gathering, int number, const char *metric,
                                     bool lasting) {
    const Group *group = &gathering->groups[number];
    SampleMoments loss = losses_of(group, metric);
    json_t *row = json_make("{s:s, s:O?}", "variant", group->name, "sets", group->sets);
    add_choice(row, gathering, number, metric);
    add_group_cost(row, group);
    add_runs(row, group, metric, lasting);
    json_object_update_new(row, json_make("{s:f, s:f, s:f, s:f}", "loss", loss.mean, "spread",
                                          loss.spread, "nats",
                                          measure_mean(group, history_last, "val_loss"),
                                          "train_loss", measure_mean(group, history_tail, "loss")));
    if (!lasting) {
        double step = measure_mean(group, history_median, "seconds");
        json_object_set_new(row, "speed", json_number(tokens_per_step(group) / step));
        json_object_set_new(row, "seconds",
                            json_number(measure_mean(group, history_total, "seconds")));
    }
    json_object_set_new(row, "probes", mean_probes_json(group));
    return row;
}

/* Of tuned models only the best of each structure is compared. */
static bool is_compared(const Gathering *gathering, int number, const char *metric) {
    return !gathering->groups[number].tuned || choice_of(gathering, number, metric).best;
}

/* The model with which a model is compared: in a ladder the one of the first curve with the same
 * size. -1: none. */
static int compared_with(const Gathering *gathering, int number, int base, const char *metric) {
    AUTO_FREE char *structure = ladder_base(gathering->design, &gathering->groups[number]);
    int found = structure ? -1 : base;
    for (int i = 0; structure && i < gathering->count; i++) {
        const Group *group = &gathering->groups[i];
        if (!strcmp(group->structure ? group->structure : group->name, structure) &&
            is_compared(gathering, i, metric))
            found = i;
    }
    return found == number ? -1 : found;
}

/* Adds the differences. `order`: the group of each row; the base is the first. */
static int add_differences(json_t *rows, const Gathering *gathering, const int *order,
                           const char *metric) {
    int count = gathering->count, compared = 0;
    AUTO_FREE Judgement *judgements = memory_new((size_t)(count + 1) * sizeof *judgements);
    AUTO_FREE json_t **judged = memory_new((size_t)(count + 1) * sizeof *judged);
    for (int i = 0; i < count; i++) {
        int other = compared_with(gathering, order[i], order[0], metric);
        if (other < 0) continue;
        const Group *group = &gathering->groups[order[i]], *base = &gathering->groups[other];
        judged[compared] = json_array_get(rows, (size_t)i);
        json_object_set_new(judged[compared], "steps_to_base",
                            json_number(steps_to_base(group, base, metric, gathering->higher)));
        judgements[compared++] = (Judgement){.difference = group_difference(group, base, metric),
                                             .counts = is_compared(gathering, order[i], metric)};
    }
    int comparisons = judge_differences(&gathering->rules, gathering->higher, judgements, compared);
    for (int i = 0; i < compared; i++)
        json_object_set_new(
            judged[i], "difference",
            difference_json(&gathering->rules, &judgements[i], gathering->higher, comparisons));
    return comparisons;
}

/* Rules that determine the verdicts. */
static void add_test_rules(json_t *comparison, const TestRules *rules, int comparisons) {
    json_object_set_new(comparison, "comparisons", json_integer(comparisons));
    json_object_set_new(comparison, "correction", json_text(correction_name(rules->correction)));
    if (rules->equivalence > 0)
        json_object_set_new(comparison, "equivalence", json_number(rules->equivalence));
    if (rules->detect > 0) {
        json_object_set_new(comparison, "detect", json_number(rules->detect));
        json_object_set_new(comparison, "power", json_number(rules->power));
    }
}

json_t *compared_json(const Gathering *gathering, int chosen, bool lasting) {
    int base = chosen < 0 ? base_of(gathering) : chosen, seeds = 0;
    const char *metric = metric_of(gathering, base);
    AUTO_FREE int *order = memory_new((size_t)(gathering->count + 1) * sizeof *order);
    json_t *rows = json_array();
    for (int i = 0, at = 1; i < gathering->count; i++) {
        order[i == base ? 0 : at++] = i;
        if (gathering->groups[i].count > seeds) seeds = gathering->groups[i].count;
    }
    for (int i = 0; i < gathering->count; i++)
        json_array_append_new(rows, compared_variant_json(gathering, order[i], metric, lasting));
    int comparisons = add_differences(rows, gathering, order, metric);
    json_t *comparison =
        json_make("{s:s?, s:s, s:s, s:b, s:i, s:o}", "experiment", gathering->experiment, "base",
                  gathering->groups[base].name, "metric", metric, "higher", gathering->higher,
                  "seeds", seeds, "variants", rows);
    add_test_rules(comparison, &gathering->rules, comparisons);
    return comparison;
}

json_t *comparison_json(const Gathering *gathering, int chosen, bool lasting) {
    json_t *comparison = compared_json(gathering, chosen, lasting),
           *effects = effects_json(gathering->design, gathering->rules.correction, comparison);
    if (effects) json_object_set_new(comparison, "effects", effects);
    json_t *optima = optima_json(comparison);
    if (optima) json_object_set_new(comparison, "optima", optima);
    json_t *scaling = scaling_json(gathering, comparison);
    if (scaling) json_object_set_new(comparison, "scaling", scaling);
    json_t *plan = gathering->folder ? registry_json(gathering->folder, lasting) : NULL;
    if (plan) json_object_set_new(comparison, "plan", plan);
    return comparison;
}
