#include "tools/experiment/internal.h"

#include "abi/json_make.h"
#include "abi/quantity.h"
#include "base/message.h"
#include "base/files.h"
#include "base/memory.h"
#include "device/device.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int models_of(const MoecExperiment *experiment) {
    int count = 0;
    for (int i = 0; i < experiment->count; i++) count += !experiment->variants[i].same;
    return count;
}

long plan_runs(const Plan *plan) {
    return models_of(plan->experiment) * plan->experiment->seeds;
}

/* Units of the columns. */
typedef struct Scales {
    QuantityScale flops, disk;
} Scales;

static double run_flops(const MoecVariant *variant) {
    return variant->flops_train * variant->tokens;
}

static void print_variant(const Plan *plan, const MoecVariant *variant, const Scales *scales) {
    double seeds = (double)plan->experiment->seeds;
    if (variant->same) {
        printf("  %-32s same model as %s\n", variant->name, variant->same);
        return;
    }
    printf("  %-32s %10s %10s", variant->name, quantity_count(variant->parameters).text,
           quantity_count(variant->active).text);
    if (plan->experiment->seconds > 0)
        printf(" %15s", quantity_in(variant->flops_train, scales->flops).text);
    else
        printf(" %10s %10s", quantity_count(variant->tokens * seeds).text,
               quantity_in(run_flops(variant) * seeds, scales->flops).text);
    printf(" %8s\n", quantity_in(variant->disk * seeds, scales->disk).text);
    for (int i = 0; i < variant->set_count; i++) printf("      %s\n", variant->sets[i]);
    if (variant->solved) printf("      %s\n", variant->solved);
}

/* FLOPs of the runs in bf16, or of the others. */
static double sweep_flops(const Plan *plan, bool rounded) {
    const MoecExperiment *experiment = plan->experiment;
    double flops = 0;
    for (int i = 0; i < experiment->count; i++) {
        const MoecVariant *variant = &experiment->variants[i];
        if (!variant->same && variant->rounded == rounded)
            flops += run_flops(variant) * (double)experiment->seeds;
    }
    return flops;
}

/* FLOPs of all runs. */
static double plan_flops(const Plan *plan) {
    return sweep_flops(plan, false) + sweep_flops(plan, true);
}

/* GFLOP/s of all devices together, NaN where that cannot be measured; false after a message. */
static bool measure_ceiling(const Plan *plan, bool rounded, double *sum) {
    *sum = 0;
    for (int i = 0; i < plan->device_count; i++) {
        AUTO(Device) *device = device_open(plan->devices[i]);
        if (!device) return false;
        *sum += device->apart ? device_ceiling_products(device, rounded)
                              : ceiling_products_quick(rounded);
    }
    return true;
}

/* Seconds of all runs at the measured peaks, and those as text: "120 GFLOP/s in bf16". */
static bool time_at_peak(const Plan *plan, double *seconds, char *text, size_t room) {
    static const char *const names[] = {"", " in bf16"};
    size_t at = 0;
    *seconds = 0;
    for (int rounded = 0; rounded < 2; rounded++) {
        double flops = sweep_flops(plan, rounded), peak;
        if (flops == 0) continue;
        if (!measure_ceiling(plan, rounded, &peak)) return false;
        *seconds += flops / (peak * 1e9);
        at += (size_t)snprintf(text + at, room - at, "%s%s%s", at ? " and " : "",
                               quantity(peak * 1e9, "FLOP/s").text, names[rounded]);
    }
    return true;
}

bool plan_show_time(const Plan *plan) {
    double seconds, each = plan->experiment->seconds;
    char peak[96] = "";
    if (each > 0)
        seconds = each * (double)plan_runs(plan) / (double)plan->jobs;
    else if (!time_at_peak(plan, &seconds, peak, sizeof peak))
        return false;
    if (plan->result)
        json_object_set_new(plan->result, each > 0 ? "duration_seconds" : "lower_bound_seconds",
                            json_number(seconds));
    else if (each > 0)
        printf("duration: %s, %ld runs at a time; the number of steps in %s is measured for each "
               "variant first\n",
               quantity_seconds(seconds).text, plan->jobs, quantity_seconds(each).text);
    else if (isfinite(seconds))
        printf("lower bound: %s at %s (measured peak)\n", quantity_seconds(seconds).text, peak);
    fflush(stdout);
    return true;
}

static void print_head(const Plan *plan, const Scales *scales) {
    bool timed = plan->experiment->seconds > 0;
    char flops[24];
    snprintf(flops, sizeof flops, "%s%s", scales->flops.prefix, timed ? "FLOP/token" : "FLOP");
    printf("  %-32s %10s %10s", "variant", "parameters", "activated");
    if (!timed) printf(" %10s", "tokens");
    printf(" %*s %6s%sB\n", timed ? 15 : 10, flops, "disk ", scales->disk.prefix);
}

/* Sums and maxima over the variants, all seeds together. */
typedef struct Totals {
    double tokens, disk, most_flops, most_disk;
} Totals;

static Totals totals_of(const MoecExperiment *experiment) {
    const double seeds = (double)experiment->seeds;
    Totals totals = {0};
    for (int i = 0; i < experiment->count; i++) {
        const MoecVariant *variant = &experiment->variants[i];
        if (variant->same) continue;
        totals.tokens += variant->tokens * seeds;
        totals.disk += variant->disk * seeds;
        totals.most_disk = fmax(totals.most_disk, variant->disk * seeds);
        totals.most_flops =
            fmax(totals.most_flops,
                 experiment->seconds > 0 ? variant->flops_train : run_flops(variant) * seeds);
    }
    return totals;
}

/* An integer, or null if the duration of a run is given instead of it. */
static json_t *count_json(const Plan *plan, double count) {
    return plan->experiment->seconds > 0 ? json_null() : json_integer((json_int_t)count);
}

static json_t *plan_variant_json(const Plan *plan, const MoecVariant *variant) {
    const double seeds = (double)plan->experiment->seeds;
    return json_make("{s:s, s:s, s:o, s:s, s:I, s:I, s:f, s:o, s:o, s:I}", "variant", variant->name,
                     "same_as", variant->same, "sets",
                     json_texts(variant->sets, variant->set_count), "matched", variant->solved,
                     "parameters", (json_int_t)variant->parameters, "activated_parameters",
                     (json_int_t)variant->active, "train_flops_per_token", variant->flops_train,
                     "tokens", count_json(plan, variant->tokens * seeds), "flops",
                     count_json(plan, run_flops(variant) * seeds), "disk_bytes",
                     (json_int_t)(variant->disk * seeds));
}

static void add_plan(const Plan *plan, const Totals *totals) {
    const MoecExperiment *experiment = plan->experiment;
    json_t *variants = json_array();
    for (int i = 0; i < experiment->count; i++)
        json_array_append_new(variants, plan_variant_json(plan, &experiment->variants[i]));
    json_auto_t *all =
        json_make("{s:s, s:s, s:i, s:I, s:I, s:o, s:o, s:I, s:o}", "experiment", experiment->name,
                  "baseline", experiment->base, "models", models_of(experiment), "seeds",
                  (json_int_t)experiment->seeds, "runs", (json_int_t)plan_runs(plan), "tokens",
                  count_json(plan, totals->tokens), "flops", count_json(plan, plan_flops(plan)),
                  "disk_bytes", (json_int_t)totals->disk, "variants", variants);
    json_object_update(plan->result, all);
}

static void print_sweep_plan(const Plan *plan, const Totals *totals) {
    const MoecExperiment *experiment = plan->experiment;
    const double disk = totals->disk;
    bool timed = experiment->seconds > 0;
    const Scales scales = {quantity_column(totals->most_flops), quantity_column(totals->most_disk)};
    printf("experiment %s, baseline %s: %d models, %ld seed%s each, %ld runs\n", experiment->name,
           experiment->base, models_of(experiment), experiment->seeds,
           experiment->seeds == 1 ? "" : "s", plan_runs(plan));
    if (timed)
        printf("total: %s per run, %s of checkpoints\n\n",
               quantity_seconds(experiment->seconds).text, quantity(disk, "B").text);
    else
        printf("total: %s tokens, %s, %s of checkpoints\n\n", quantity_count(totals->tokens).text,
               quantity(plan_flops(plan), "FLOP").text, quantity(disk, "B").text);
    print_head(plan, &scales);
    for (int i = 0; i < experiment->count; i++)
        print_variant(plan, &experiment->variants[i], &scales);
    printf("\n");
    fflush(stdout);
}

void plan_show(const Plan *plan) {
    const Totals totals = totals_of(plan->experiment);
    (plan->result ? add_plan : print_sweep_plan)(plan, &totals);
}

char *plan_folder(const Plan *plan, const MoecVariant *variant, long seed) {
    return memory_format("%s/%s/seed_%ld", plan->out, variant->name, seed);
}

static void add_statistics(const MoecStatistics *statistics, json_t *root) {
    json_auto_t *rules = json_object();
    if (statistics->correction)
        json_object_set_new(rules, "correction", json_text(statistics->correction));
    if (statistics->equivalence > 0)
        json_object_set_new(rules, "equivalence", json_real(statistics->equivalence));
    if (statistics->detect > 0) json_object_set_new(rules, "detect", json_real(statistics->detect));
    if (statistics->power > 0) json_object_set_new(rules, "power", json_real(statistics->power));
    if (json_object_size(rules)) json_object_set(root, "statistics", rules);
}

/* The variant that has the runs of this one. */
static const MoecVariant *variant_with_runs(const MoecExperiment *experiment,
                                            const MoecVariant *variant) {
    for (int i = 0; variant->same && i < experiment->count; i++)
        if (!strcmp(experiment->variants[i].name, variant->same)) return &experiment->variants[i];
    return variant;
}

json_t *variant_levels(const MoecExperiment *experiment, const MoecVariant *variant) {
    json_t *levels = json_array();
    for (int k = 0; k < experiment->factor_count; k++)
        json_array_append_new(levels, json_integer(variant->levels[k]));
    return levels;
}

/* The factors and their values, and the numbers of the values of each structure. */
static json_t *factors_json(const MoecExperiment *experiment) {
    json_t *factors = json_array(), *levels = json_object();
    for (int i = 0; i < experiment->factor_count; i++) {
        const MoecFactor *factor = &experiment->factors[i];
        json_array_append_new(factors, json_make("{s:s, s:o}", "name", factor->name, "values",
                                                 json_texts(factor->values, factor->count)));
    }
    for (int i = 0; i < experiment->count; i++) {
        const MoecVariant *variant = &experiment->variants[i],
                          *owner = variant_with_runs(experiment, variant);
        if (variant->levels)
            json_object_set_new(levels, owner->structure, variant_levels(experiment, variant));
    }
    json_t *design = json_make("{s:o, s:o}", "factors", factors, "levels", levels);
    if (experiment->ladder >= 0)
        json_object_set_new(design, "ladder", json_integer(experiment->ladder));
    return design;
}

/* Optional settings of an experiment are stored only if they are set. */
static void add_rules(const MoecExperiment *experiment, json_t *root) {
    json_auto_t *shares = json_array();
    for (int i = 0; i < experiment->halving_count; i++)
        json_array_append_new(shares, json_real(experiment->halvings[i]));
    if (experiment->halving_count) json_object_set(root, "halve_at", shares);
    if (experiment->metric) json_object_set_new(root, "metric", json_text(experiment->metric));
    if (experiment->higher) json_object_set_new(root, "better", json_text("high"));
    if (experiment->seconds > 0)
        json_object_set_new(root, "seconds", json_real(experiment->seconds));
    if (experiment->limit > 0)
        json_object_set_new(root, "diverged_above", json_real(experiment->limit));
    if (experiment->hypothesis)
        json_object_set_new(root, "hypothesis", json_text(experiment->hypothesis));
    add_statistics(&experiment->statistics, root);
}

static json_t *plan_json(const Plan *plan) {
    const MoecExperiment *experiment = plan->experiment;
    json_t *variants = json_object();
    for (int i = 0; i < experiment->count; i++) {
        const MoecVariant *variant = &experiment->variants[i];
        AUTO_FREE char *print = memory_format("%016" PRIx64, variant->fingerprint);
        json_t *row = json_make("{s:s, s:o}", "model", print, "sets",
                                json_texts(variant->sets, variant->set_count));
        if (variant->tuned) {
            json_object_set_new(row, "structure", json_text(variant->structure));
            json_object_set_new(row, "tuned", json_text(variant->tuned));
        }
        json_object_set_new(variants, variant->name, row);
    }
    json_t *root =
        json_make("{s:s, s:s, s:I, s:o, s:o, s:o, s:o}", "experiment", experiment->name, "base",
                  experiment->base, "seeds", (json_int_t)experiment->seeds, "data",
                  json_escaped(plan->data), "val", json_escaped(plan->validation), "tokenizer",
                  json_escaped(plan->tokenizer), "variants", variants);
    add_rules(experiment, root);
    if (experiment->factor_count) json_object_set_new(root, "design", factors_json(experiment));
    return root;
}

/* A key of one that the other has otherwise, or has not; NULL when there is none. "design" follows
 * from the variants; plans of earlier versions lack it. */
static const char *other_key(json_t *one, json_t *other) {
    void *at = json_object_iter(one);
    for (; at; at = json_object_iter_next(one, at)) {
        const char *key = json_object_iter_key(at);
        if (strcmp(key, "design") != 0 &&
            !json_equal(json_object_iter_value(at), json_object_get(other, key)))
            return key;
    }
    return NULL;
}

/* The first difference as a new string: "seeds" or "variant gate_at_v"; NULL if there is none. */
static char *plan_difference(json_t *before, json_t *now) {
    json_t *variants = json_object_get(before, "variants"), *own = json_object_get(now, "variants");
    const char *key = other_key(own, variants);
    if (!key) key = other_key(variants, own);
    if (key) return memory_format("variant %s", key);
    key = other_key(now, before);
    if (!key) key = other_key(before, now);
    return key ? memory_format("%s", key) : NULL;
}

static bool write_plan(const char *path, const json_t *plan) {
    AUTO_FREE char *text = json_write(plan, JSON_INDENT(2));
    return file_write(path, text, strlen(text));
}

/* Records the change with its reason. */
static bool amend_plan(const Plan *plan, const char *path, const json_t *before, json_t *now) {
    return registry_add(plan->out, now, before, plan->amend) &&
           registry_set_aside(plan->out, before, now) && write_plan(path, now);
}

static bool continue_plan(const Plan *plan, const char *path, json_t *before, json_t *now) {
    AUTO_FREE char *what = plan_difference(before, now);
    bool good = true;
    if (what && plan_adopt(plan, before, now))
        good =
            registry_add(plan->out, now, before, "new names of options") && write_plan(path, now);
    else if (what && plan->amend)
        good = amend_plan(plan, path, before, now);
    else if (what)
        good = error_message("choose another --out, restore the original spec and options, or "
                             "record the change with --amend 'REASON'",
                             "%s contains a different sweep: %s is not the same", plan->out, what);
    else
        good = registry_add(plan->out, before, NULL, NULL);
    return good;
}

bool plan_keep(const Plan *plan) {
    AUTO_FREE char *path = path_join(plan->out, "sweep.json");
    json_auto_t *now = plan_json(plan), *before = file_exists(path) ? file_json(path) : NULL;
    bool good;
    if (before)
        good = continue_plan(plan, path, before, now);
    else if (file_exists(path))
        good = error_message("choose another --out", "%s does not describe a sweep", path);
    else
        good = registry_add(plan->out, now, NULL, NULL) && write_plan(path, now);
    return good;
}
