#include "experiment/table.h"

#include "base/message.h"
#include "base/files.h"
#include "base/json_number.h"
#include "base/memory.h"
#include "experiment/runs.h"
#include "experiment/statistics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A variant: the runs that ended with a loss, and against the base those whose seed both have. */
typedef struct Row {
    const MoecVariant *variant;
    int diverged;
    Sample loss, difference;
    double margin; /* of the difference, 95 %; NaN: too few seeds */
    char metric[24];
} Row;

/* Losses by seed; NaN where a run diverged. */
static void read_losses(const Plan *plan, const MoecVariant *variant, double *losses, Row *row) {
    for (long seed = 1; seed <= plan->experiment->seeds; seed++) {
        RunResult result;
        losses[seed - 1] = NAN;
        if (!run_result(plan, variant, seed, &result)) continue;
        if (result.diverged || !isfinite(result.loss)) {
            row->diverged++;
            continue;
        }
        losses[seed - 1] = result.loss;
        memcpy(row->metric, result.metric, sizeof row->metric);
    }
}

static Row row_of(const Plan *plan, const MoecVariant *variant, const double *base,
                  double *losses) {
    long seeds = plan->experiment->seeds;
    double *values = memory_new((size_t)seeds * sizeof *values);
    Row row = {.variant = variant};
    int count = 0, pairs = 0;
    read_losses(plan, variant, losses, &row);
    for (long i = 0; i < seeds; i++)
        if (isfinite(losses[i])) values[count++] = losses[i];
    row.loss = sample_of(values, count);
    for (long i = 0; i < seeds; i++)
        if (isfinite(losses[i]) && isfinite(base[i])) values[pairs++] = losses[i] - base[i];
    row.difference = sample_of(values, pairs);
    row.margin = sample_margin(&row.difference);
    free(values);
    return row;
}

static bool is_noise(const Row *row) {
    return !(fabs(row->difference.mean) > row->margin);
}

static const char *verdict(const Row *row, bool base) {
    if (base || !row->difference.count) return "";
    if (row->difference.count < 2) return "one seed";
    if (is_noise(row)) return "within the noise";
    return row->difference.mean < 0 ? "better" : "worse";
}

static void print_row(const Row *row, bool base) {
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
    const char *text = verdict(row, base);
    if (*text) printf("  %s", text);
    if (row->diverged)
        printf("  diverged: %d of %d", row->diverged, row->diverged + row->loss.count);
    printf("\n");
}

static json_t *row_json(const Row *row, bool base) {
    json_t *object =
        json_pack("{s:s, s:f, s:f, s:i, s:i, s:o, s:o}", "variant", row->variant->name,
                  "parameters", row->variant->parameters, "active", row->variant->active,
                  "finished", row->loss.count, "diverged", row->diverged, "loss",
                  json_number(row->loss.mean), "spread", json_number(row->loss.spread));
    if (base) return object;
    json_t *difference = json_pack("{s:i, s:o, s:o, s:s}", "pairs", row->difference.count, "mean",
                                   json_number(row->difference.mean), "margin_95",
                                   json_number(row->margin), "verdict", verdict(row, base));
    json_object_set_new(object, "difference", difference);
    return object;
}

static void add_number(FILE *file, double number) {
    if (isfinite(number))
        fprintf(file, ",%.9g", number);
    else
        fprintf(file, ",");
}

static void add_csv(FILE *file, const Row *row, bool base) {
    fprintf(file, "%s,%.0f,%.0f,%d,%d", row->variant->name, row->variant->parameters,
            row->variant->active, row->loss.count, row->diverged);
    add_number(file, row->loss.mean);
    add_number(file, row->loss.spread);
    add_number(file, base ? NAN : row->difference.mean);
    add_number(file, base ? NAN : row->margin);
    fprintf(file, ",%s\n", verdict(row, base));
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
        json_array_append_new(list, row_json(&rows[i], i == 0));
        add_csv(file, &rows[i], i == 0);
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

bool table_write(const Plan *plan) {
    const MoecExperiment *experiment = plan->experiment;
    size_t seeds = (size_t)experiment->seeds;
    double *base = memory_new(seeds * sizeof *base), *own = memory_new(seeds * sizeof *own);
    Row *rows = memory_new((size_t)experiment->count * sizeof *rows), first = {0};
    int count = 0;
    read_losses(plan, &experiment->variants[0], base, &first);
    for (int i = 0; i < experiment->count; i++)
        if (!experiment->variants[i].same)
            rows[count++] = row_of(plan, &experiment->variants[i], base, own);
    printf("\n  %-32s %12s %12s %9s %8s  %s\n", "variant", "parameters", "active", "loss", "spread",
           "difference from the base, 95 %");
    for (int i = 0; i < count; i++) print_row(&rows[i], i == 0);
    printf("\nloss: %s, mean and spread over %ld seed%s; differences are of equal seeds\n",
           *rows[0].metric ? rows[0].metric : "none", experiment->seeds,
           experiment->seeds == 1 ? "" : "s");
    bool good = write_files(plan, rows, count);
    free(base);
    free(own);
    free(rows);
    return good;
}
