#include "experiment/table.h"

#include "base/message.h"
#include "base/files.h"
#include "base/json_number.h"
#include "base/memory.h"
#include "experiment/outcome.h"
#include "experiment/statistics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A variant: the runs that ended with a loss, and against the base those whose seed both have. */
typedef struct Row {
    const MoecVariant *variant;
    int diverged;
    long stopped; /* the step at which it stopped because others were better; 0: it did not */
    Sample loss, difference;
    double margin; /* of the difference, 95 %; NaN: too few seeds */
    char metric[24];
    bool base;    /* the one that all others are held against */
    bool best;    /* of the choices of what is tuned */
    int choices;  /* of what is tuned, for this structure; 0: nothing is */
    bool at_edge; /* the best choice is the first or the last */
} Row;

/* Losses by seed; NaN where a run diverged. */
static void read_losses(const Plan *plan, const MoecVariant *variant, double *losses, Row *row) {
    for (long seed = 1; seed <= plan->experiment->seeds; seed++) {
        RunResult result;
        losses[seed - 1] = NAN;
        if (!run_result(plan, variant, seed, &result)) continue;
        if (result.stopped) {
            row->stopped = result.step;
            continue;
        }
        if (result.diverged || !isfinite(result.loss)) {
            row->diverged++;
            continue;
        }
        losses[seed - 1] = result.loss;
        memcpy(row->metric, result.metric, sizeof row->metric);
    }
}

static Row row_of(const Plan *plan, const MoecVariant *variant, double *losses) {
    long seeds = plan->experiment->seeds;
    Row row = {.variant = variant};
    int count = 0;
    read_losses(plan, variant, losses, &row);
    for (long i = 0; i < seeds; i++)
        if (isfinite(losses[i])) losses[count++] = losses[i];
    row.loss = sample_of(losses, count);
    return row;
}

/* Its difference from the base, over the seeds that both have. */
static void compare_row(const Plan *plan, Row *row, const double *base, double *losses) {
    Row ignored = {0};
    int pairs = 0;
    read_losses(plan, row->variant, losses, &ignored);
    for (long i = 0; i < plan->experiment->seeds; i++)
        if (isfinite(losses[i]) && isfinite(base[i])) losses[pairs++] = losses[i] - base[i];
    row->difference = sample_of(losses, pairs);
    row->margin = sample_margin(&row->difference);
}

static bool is_noise(const Row *row) {
    return !(fabs(row->difference.mean) > row->margin);
}

static const char *verdict(const Plan *plan, const Row *row) {
    if (row->base || !row->difference.count) return "";
    if (row->difference.count < 2) return "one seed";
    if (is_noise(row)) return "within the noise";
    return (row->difference.mean < 0) != plan->experiment->higher ? "better" : "worse";
}

static void print_tuned(const Row *row) {
    if (!row->variant->tuned) return;
    printf("      %s", row->variant->tuned);
    if (row->best) printf(", the best of %d", row->choices);
    if (row->best && row->at_edge && row->choices > 2) printf(", at the edge of what was tried");
    printf("\n");
}

static void print_row(const Plan *plan, const Row *row) {
    bool base = row->base;
    printf("  %-32s %12.0f %12.0f", row->variant->name, row->variant->parameters,
           row->variant->active);
    if (row->loss.count)
        printf(" %9.5f", row->loss.mean);
    else
        printf(" %9s", "-");
    if (row->loss.count > 1)
        printf(" %8.5f", row->loss.spread);
    else
        printf(" %8s", "-");
    if (!base && row->difference.count) printf("  %+.5f", row->difference.mean);
    if (!base && row->difference.count > 1) printf(" +- %.5f", row->margin);
    const char *text = verdict(plan, row);
    if (*text) printf("  %s", text);
    if (row->diverged)
        printf("  diverged: %d of %d", row->diverged, row->diverged + row->loss.count);
    if (row->stopped) printf("  stopped at step %ld, others were better", row->stopped);
    printf("\n");
    print_tuned(row);
}

static json_t *row_json(const Plan *plan, const Row *row) {
    json_t *object =
        json_pack("{s:s, s:f, s:f, s:i, s:i, s:o, s:o}", "variant", row->variant->name,
                  "parameters", row->variant->parameters, "active", row->variant->active,
                  "finished", row->loss.count, "diverged", row->diverged, "loss",
                  json_number(row->loss.mean), "spread", json_number(row->loss.spread));
    if (row->stopped) json_object_set_new(object, "stopped", json_integer(row->stopped));
    if (row->variant->tuned) {
        json_object_set_new(object, "structure", json_string(row->variant->structure));
        json_object_set_new(object, "tuned", json_string(row->variant->tuned));
        json_object_set_new(object, "best", json_boolean(row->best));
    }
    if (row->base) return object;
    json_t *difference = json_pack("{s:i, s:o, s:o, s:s}", "pairs", row->difference.count, "mean",
                                   json_number(row->difference.mean), "margin_95",
                                   json_number(row->margin), "verdict", verdict(plan, row));
    json_object_set_new(object, "difference", difference);
    return object;
}

static void add_number(FILE *file, double number) {
    if (isfinite(number))
        fprintf(file, ",%.9g", number);
    else
        fprintf(file, ",");
}

static void add_csv(FILE *file, const Plan *plan, const Row *row) {
    bool base = row->base;
    fprintf(file, "%s,%.0f,%.0f,%d,%d", row->variant->name, row->variant->parameters,
            row->variant->active, row->loss.count, row->diverged);
    add_number(file, row->loss.mean);
    add_number(file, row->loss.spread);
    add_number(file, base ? NAN : row->difference.mean);
    add_number(file, base ? NAN : row->margin);
    fprintf(file, ",%s\n", verdict(plan, row));
}

static bool write_text(const char *folder, const char *name, const char *text) {
    char *path = path_join(folder, name);
    bool good = file_write(path, text, strlen(text));
    if (good) printf("%s is written\n", path);
    free(path);
    return good;
}

static bool write_files(const Plan *plan, const Row *rows, int count) {
    char *csv = NULL;
    size_t length;
    FILE *file = open_memstream(&csv, &length);
    if (!file) return error_message(NULL, "no memory is left");
    json_t *list = json_array();
    fprintf(file, "variant,parameters,active,finished,diverged,loss,spread,difference,margin_95,"
                  "verdict\n");
    for (int i = 0; i < count; i++) {
        json_array_append_new(list, row_json(plan, &rows[i]));
        add_csv(file, plan, &rows[i]);
    }
    fclose(file);
    json_t *root = json_pack("{s:s, s:s, s:s, s:I, s:o}", "experiment", plan->experiment->name,
                             "base", plan->experiment->base, "metric", rows[0].metric, "seeds",
                             (json_int_t)plan->experiment->seeds, "variants", list);
    char *json = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    bool good = write_text(plan->out, "table.json", json);
    good = write_text(plan->out, "table.csv", csv) && good;
    json_decref(root);
    free(json);
    free(csv);
    return good;
}

/* ---- the best of what is tuned ---- */

static bool is_better(const Plan *plan, const Row *one, const Row *other) {
    if (!one->loss.count || !other->loss.count) return one->loss.count > other->loss.count;
    return plan->experiment->higher ? one->loss.mean > other->loss.mean
                                    : one->loss.mean < other->loss.mean;
}

/* The rows of one structure stand together, from `first` on; returns the one after the last. */
static int mark_best(const Plan *plan, Row *rows, int first, int count) {
    int best = first, last = first;
    for (; last < count; last++) {
        if (strcmp(rows[last].variant->structure, rows[first].variant->structure)) break;
        if (is_better(plan, &rows[last], &rows[best])) best = last;
    }
    rows[best].best = rows[best].loss.count > 0;
    rows[best].at_edge = (best == first || best == last - 1) &&
                         !strchr(rows[best].variant->tuned ? rows[best].variant->tuned : "", ',');
    for (int i = first; i < last; i++) rows[i].choices = last - first;
    return last;
}

/* The losses of the base, by seed, are those of the best of its rows. */
static void compare_rows(const Plan *plan, Row *rows, int count) {
    size_t seeds = (size_t)plan->experiment->seeds;
    double *base = memory_new(seeds * sizeof *base), *own = memory_new(seeds * sizeof *own);
    int chosen = 0;
    Row ignored = {0};
    for (int i = 0; i < count;) {
        int first = i;
        i = mark_best(plan, rows, i, count);
        for (int k = first; k < i && first == 0; k++)
            if (rows[k].best) chosen = k;
    }
    rows[chosen].base = true;
    read_losses(plan, rows[chosen].variant, base, &ignored);
    for (int i = 0; i < count; i++) compare_row(plan, &rows[i], base, own);
    free(base);
    free(own);
}

static void print_table(const Plan *plan, const Row *rows, int count) {
    const MoecExperiment *experiment = plan->experiment;
    printf("\n  %-32s %12s %12s %9s %8s  %s\n", "variant", "parameters", "active", "loss", "spread",
           "difference from the base, 95 %");
    for (int i = 0; i < count; i++) print_row(plan, &rows[i]);
    if (rows[0].variant->tuned) printf("\nthe best of each:\n");
    for (int i = 0; i < count; i++)
        if (rows[i].variant->tuned && rows[i].best) print_row(plan, &rows[i]);
    const char *metric = "none";
    for (int i = count - 1; i >= 0; i--)
        if (*rows[i].metric) metric = rows[i].metric;
    printf("\nloss: %s, mean and spread over %ld seed%s; differences are of equal seeds\n", metric,
           experiment->seeds, experiment->seeds == 1 ? "" : "s");
}

bool table_write(const Plan *plan) {
    const MoecExperiment *experiment = plan->experiment;
    Row *rows = memory_new((size_t)experiment->count * sizeof *rows);
    double *losses = memory_new((size_t)experiment->seeds * sizeof *losses);
    int count = 0;
    for (int i = 0; i < experiment->count; i++)
        if (!experiment->variants[i].same)
            rows[count++] = row_of(plan, &experiment->variants[i], losses);
    compare_rows(plan, rows, count);
    print_table(plan, rows, count);
    bool good = write_files(plan, rows, count);
    free(losses);
    free(rows);
    return good;
}
