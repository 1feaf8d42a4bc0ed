/* optimum: the best value of a tuned option between the tested ones, and its drift.
 *
 * For each seed, a parabola through the best value and its neighbors, over the logarithm of the
 * value, has its minimum at the optimum. The drift of a variant is the difference of its optimum
 * from that of the base, in factors of two, paired over the seeds.
 */
#include "tools/experiment/internal.h"

#include "abi/json_make.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_VALUES = 64 };

/* The tuned runs of a structure, by increasing value. */
typedef struct TunedCurve {
    const char *structure;
    const json_t *rows[MAX_VALUES];
    double values[MAX_VALUES];
    int count;
} TunedCurve;

/* Reads "train.lr = 0.004". False for several options or a value that is not a positive number. */
static bool read_tuned(const char *text, size_t *name, double *value) {
    const char *sign = strstr(text, " = ");
    char *end;
    if (!sign || strchr(text, ',')) return false;
    *name = (size_t)(sign - text);
    *value = strtod(sign + 3, &end);
    return !*end && *value > 0;
}

static const char *tuned_text_of(const json_t *row, const char *name) {
    return json_field_text(row, name);
}

static void add_tested_value(TunedCurve *curve, const json_t *row, double value) {
    int at = curve->count++;
    for (; at > 0 && curve->values[at - 1] > value; at--) {
        curve->values[at] = curve->values[at - 1];
        curve->rows[at] = curve->rows[at - 1];
    }
    curve->values[at] = value;
    curve->rows[at] = row;
}

/* The curves in the order of their first rows, the base first. Returns their number; 0 unless
 * row is tuned by the same option alone. */
static int read_tuned_curves(const json_t *rows, TunedCurve *curves, const char **option,
                             size_t *length) {
    int count = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *structure = tuned_text_of(row, "structure"),
                   *tuned = tuned_text_of(row, "tuned");
        size_t name;
        double value;
        int at = 0;
        if (!structure || !tuned || !read_tuned(tuned, &name, &value)) return 0;
        if (!i) *option = tuned, *length = name;
        if (name != *length || strncmp(tuned, *option, name) != 0) return 0;
        while (at < count && strcmp(curves[at].structure, structure) != 0) at++;
        if (at == count) curves[count++] = (TunedCurve){.structure = structure};
        if (curves[at].count == MAX_VALUES) return 0;
        add_tested_value(&curves[at], row, value);
    }
    return count;
}

/* Loss of one seed, or the mean over the seeds (seed < 0); infinity if there is none. */
static double tuned_loss(const TunedCurve *curve, int at, long seed, bool higher) {
    double loss = NAN;
    const json_t *run, *runs = json_object_get(curve->rows[at], "runs");
    size_t number;
    if (seed < 0) loss = json_field_number(curve->rows[at], "loss");
    json_array_foreach(runs, number, run) {
        if (seed >= 0 && json_field_number(run, "seed") == (double)seed)
            loss = json_field_number(run, "loss");
    }
    if (!isfinite(loss)) return INFINITY;
    return higher ? -loss : loss;
}

static int best_tested(const TunedCurve *curve, long seed, bool higher) {
    int best = 0;
    for (int i = 1; i < curve->count; i++)
        if (tuned_loss(curve, i, seed, higher) < tuned_loss(curve, best, seed, higher)) best = i;
    return best;
}

/* The binary logarithm of the optimum. A tested value itself, if it is at the edge or has a
 * neighbor without a loss. NaN without a loss. */
static double seed_optimum(const TunedCurve *curve, long seed, bool higher) {
    int best = best_tested(curve, seed, higher);
    double middle = log2(curve->values[best]), loss = tuned_loss(curve, best, seed, higher);
    if (!isfinite(loss)) return NAN;
    if (best == 0 || best == curve->count - 1) return middle;
    double left = log2(curve->values[best - 1]) - middle,
           right = log2(curve->values[best + 1]) - middle,
           before = tuned_loss(curve, best - 1, seed, higher) - loss,
           after = tuned_loss(curve, best + 1, seed, higher) - loss;
    if (!isfinite(before) || !isfinite(after)) return middle;
    double slope = before * right * right - after * left * left,
           bend = 2 * (before * right - after * left);
    return bend == 0 ? middle : middle + slope / bend;
}

/* Optima of the seeds that both curves have. Returns their number. */
static int paired_optima(const TunedCurve *curve, const TunedCurve *base, bool higher,
                         double *optima, double *bases) {
    const json_t *run, *runs = json_object_get(curve->rows[0], "runs");
    size_t number;
    int count = 0;
    json_array_foreach(runs, number, run) {
        long seed = (long)json_field_number(run, "seed");
        if (seed < 0) continue;
        optima[count] = seed_optimum(curve, seed, higher);
        bases[count] = seed_optimum(base, seed, higher);
        if (isfinite(optima[count]) && isfinite(bases[count])) count++;
    }
    return count;
}

static json_t *drift_json(double mean, double margin) {
    return json_make("{s:f, s:f, s:f}", "mean", mean, "low", mean - margin, "high", mean + margin);
}

static json_t *optimum_row(const TunedCurve *curve, const TunedCurve *base, bool higher) {
    size_t seeds = json_array_size(json_object_get(curve->rows[0], "runs"));
    AUTO_FREE double *optima = memory_new((seeds + 1) * sizeof *optima),
                     *bases = memory_new((seeds + 1) * sizeof *bases);
    int count = paired_optima(curve, base, higher, optima, bases),
        best = best_tested(curve, -1, higher);
    SampleMoments sample = sample_of(optima, count);
    double margin = sample_margin(&sample);
    json_t *losses = json_array(), *values = json_array();
    for (int i = 0; i < curve->count; i++) {
        json_array_append_new(values, json_number(curve->values[i]));
        json_array_append_new(losses, json_number(json_field_number(curve->rows[i], "loss")));
    }
    json_t *row = json_make("{s:s, s:o, s:o, s:f, s:f, s:f, s:f, s:s?}", "structure",
                            curve->structure, "values", values, "losses", losses, "best",
                            curve->values[best], "optimum", exp2(sample.mean), "low",
                            exp2(sample.mean - margin), "high", exp2(sample.mean + margin), "edge",
                            best == 0                  ? "low"
                            : best == curve->count - 1 ? "high"
                                                       : NULL);
    if (curve != base) {
        Difference drift = difference_paired(optima, bases, count);
        json_object_set_new(row, "drift", drift_json(drift.mean, drift.margin));
    }
    return row;
}

json_t *optima_json(const json_t *comparison) {
    const json_t *rows = json_object_get(comparison, "variants");
    AUTO_FREE TunedCurve *curves = memory_new((json_array_size(rows) + 1) * sizeof *curves);
    const char *option = "";
    size_t length = 0;
    int count = read_tuned_curves(rows, curves, &option, &length);
    bool higher = json_is_true(json_object_get(comparison, "higher"));
    json_t *list = json_array(), *optima = NULL;
    for (int i = 0; i < count && curves[0].count > 2; i++)
        if (curves[i].count > 2)
            json_array_append_new(list, optimum_row(&curves[i], &curves[0], higher));
    if (json_array_size(list)) {
        AUTO_FREE char *name = memory_format("%.*s", (int)length, option);
        optima = json_make("{s:s, s:O}", "option", name, "curves", list);
    }
    json_decref(list);
    return optima;
}
