/* Student's t against published tables and closed forms; means, intervals and tests against SciPy for artificial and real runs
 * (tests/oracle/statistics.py). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "abi/json_make.h"
#include "tools/experiment/internal.h"

static void quantiles(void **state) {
    (void)state;
    static const struct {
        double chance, freedom, t;
    } known[] = {{0.975, 1, 12.706204736}, {0.975, 2, 4.302652730},   {0.975, 3, 3.182446305},
                 {0.975, 4, 2.776445105},  {0.975, 5, 2.570581836},   {0.975, 10, 2.228138852},
                 {0.975, 30, 2.042272456}, {0.975, 120, 1.979930405}, {0.95, 5, 2.015048373},
                 {0.995, 7, 3.499483297},  {0.9, 1, 3.077683537},     {0.9995, 2, 31.599054576}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        double t = student_quantile(known[i].chance, known[i].freedom);
        assert_true(fabs(t - known[i].t) < 2e-9 * known[i].t);
        double mirrored = student_quantile(1 - known[i].chance, known[i].freedom);
        assert_true(fabs(mirrored + known[i].t) < 1e-8 * known[i].t);
    }
    assert_true(fabs(student_quantile(0.975, 1e7) - 1.959964) < 1e-5);
}

/* With one degree of freedom it is the Cauchy distribution, with two there is a formula. */
static void chances(void **state) {
    (void)state;
    for (double t = -20; t <= 20; t += 0.37) {
        assert_true(fabs(student_chance(t, 1) - (0.5 + atan(t) / acos(-1))) < 1e-13);
        assert_true(fabs(student_chance(t, 2) - (0.5 + t / (2 * sqrt(2 + t * t)))) < 1e-13);
    }
    assert_true(student_chance(0, 3) == 0.5);
}

static void samples(void **state) {
    (void)state;
    static const double values[] = {2, 4, 4, 4, 5, 5, 7, 9};
    SampleMoments sample = sample_of(values, 8);
    assert_true(sample.mean == 5 && fabs(sample.spread - sqrt(32.0 / 7)) < 1e-15);
    assert_true(fabs(sample_margin(&sample) - 2.364624252 * sample.spread / sqrt(8)) < 1e-8);
    SampleMoments one = sample_of(values, 1);
    assert_true(one.mean == 2 && isnan(one.spread) && isnan(sample_margin(&one)));
    assert_true(isnan(sample_of(values, 0).mean));
}

enum { MOST = 64 };

static int read_numbers(FILE *file, double *values) {
    int count = 0;
    assert_true(fscanf(file, "%d", &count) == 1 && count >= 0 && count <= MOST);
    for (int i = 0; i < count; i++) assert_int_equal(fscanf(file, "%lf", &values[i]), 1);
    return count;
}

/* Relative to the number, or to the losses of a difference, which cancel. */
static void close_to(double found, double expected, double limit, double scale) {
    if (!(fabs(found - expected) <= limit * fabs(expected) + 1e-14 * scale))
        fail_msg("%.17g, SciPy says %.17g", found, expected);
}

static double number(FILE *file) {
    double value = NAN;
    assert_int_equal(fscanf(file, "%lf", &value), 1);
    return value;
}

static void equivalence_line(FILE *file) {
    double values[MOST], base[MOST];
    char kind[32];
    assert_int_equal(fscanf(file, "%31s", kind), 1);
    int count = read_numbers(file, values), other = read_numbers(file, base);
    double bound = number(file);
    SampleMoments sample = sample_of(values, count), of_base = sample_of(base, other);
    Difference difference = !strcmp(kind, "paired") ? difference_paired(values, base, count)
                                                    : difference_apart(&sample, &of_base);
    close_to(difference_equivalence(&difference, bound), number(file), 1e-6, 1e4);
    close_to(difference_not_worse(&difference, bound, false), number(file), 1e-6, 1e4);
    Difference mirrored = difference;
    mirrored.mean = -difference.mean;
    close_to(difference_not_worse(&mirrored, bound, true),
             difference_not_worse(&difference, bound, false), 0, 1);
}

static void correction_line(FILE *file, PValueCorrection correction) {
    double values[MOST], expected[MOST];
    int count = read_numbers(file, values);
    assert_int_equal(read_numbers(file, expected), count);
    correct_chances(correction, values, count);
    for (int i = 0; i < count; i++) close_to(values[i], expected[i], 1e-13, 1);
}

enum { MOST_CELLS = 32 };

/* The comparison of a sweep of a grid: one row per cell. */
static json_t *grid_effects(int factors, const int *sizes, int cells, int seeds,
                            const double *losses) {
    json_t *design = json_pack("{s:[], s:{}}", "factors", "levels"), *rows = json_array();
    for (int i = 0; i < factors; i++) {
        json_t *values = json_array();
        for (int k = 0; k < sizes[i]; k++) json_array_append_new(values, json_string("v"));
        json_array_append_new(json_object_get(design, "factors"),
                              json_pack("{s:s, s:o}", "name", "f", "values", values));
    }
    for (int i = 0; i < cells; i++) {
        char name[16];
        json_t *levels = json_array(), *runs = json_array();
        for (int k = factors - 1, rest = i; k >= 0; rest /= sizes[k], k--)
            json_array_insert_new(levels, 0, json_integer(rest % sizes[k]));
        snprintf(name, sizeof name, "cell_%d", i);
        json_object_set_new(json_object_get(design, "levels"), name, levels);
        for (int k = 0; k < seeds; k++) {
            double loss = losses[i * seeds + k];
            json_array_append_new(runs, json_pack("{s:i, s:o}", "seed", k, "loss",
                                                  isnan(loss) ? json_null() : json_real(loss)));
        }
        json_array_append_new(rows, json_pack("{s:s, s:o}", "variant", name, "runs", runs));
    }
    json_t *comparison = json_pack("{s:o}", "variants", rows),
           *effects = effects_json(design, CORRECTION_HOLM, comparison);
    json_decref(comparison);
    json_decref(design);
    return effects;
}

static void grid_line(FILE *file) {
    int factors = (int)number(file), sizes[8], cells = 1;
    double losses[MOST], lost[MOST];
    for (int i = 0; i < factors; i++) cells *= sizes[i] = (int)number(file);
    int seeds = (int)number(file), count = read_numbers(file, losses);
    assert_int_equal(count, cells * seeds);
    json_t *effects = grid_effects(factors, sizes, cells, seeds, losses), *row;
    size_t at;
    json_array_foreach(json_object_get(effects, "variance"), at, row) {
        close_to(json_number_value(json_object_get(row, "f")), number(file), 1e-8, 1e4);
        close_to(json_number_value(json_object_get(row, "chance")), number(file), 1e-8, 1e4);
    }
    assert_int_equal(at, (1 << factors) - 1);
    json_decref(effects);
    memcpy(lost, losses, sizeof lost);
    lost[count - 1] = NAN; /* a run that diverged */
    assert_null(grid_effects(factors, sizes, cells, seeds, lost));
}

/* The loss at the largest point and beyond is compared more strictly than the numbers, of which
 * several sets fit almost equally well. */
static void scaling_line(FILE *file) {
    ScalingPoint points[MOST_CELLS] = {0};
    int count = (int)number(file);
    assert_true(count <= MOST_CELLS);
    for (int i = 0; i < count; i++) {
        points[i].parameters = number(file);
        points[i].tokens = number(file);
        points[i].loss = number(file);
    }
    ScalingFit expected = {.limit = number(file), .size = number(file), .alpha = number(file),
                           .tokens = number(file), .beta = number(file)};
    if (expected.beta == 0) expected.beta = NAN;
    ScalingFit fit = scaling_fit(points, count);
    close_to(fit.limit, expected.limit, 1e-2, 0);
    close_to(fit.alpha, expected.alpha, 1e-2, 0);
    assert_true(isnan(expected.beta) == isnan(fit.beta));
    if (!isnan(fit.beta)) close_to(fit.beta, expected.beta, 1e-2, 0);
    for (double factor = 1; factor < 20; factor *= 10) {
        double size = 1e8 * factor, tokens = 20 * size;
        close_to(scaling_loss(&fit, size, tokens), scaling_loss(&expected, size, tokens), 1e-4, 0);
    }
}

/* The lines of several comparisons, power and equivalence; false for another line. */
static bool more_lines(FILE *file, const char *kind) {
    for (int i = 0; i < CORRECTION_NONE; i++)
        if (!strcmp(kind, correction_name((PValueCorrection)i))) {
            correction_line(file, (PValueCorrection)i);
            return true;
        }
    if (!strcmp(kind, "equivalence")) {
        equivalence_line(file);
    } else if (!strcmp(kind, "noncentral")) {
        double freedom = number(file), t = number(file), shift = number(file);
        close_to(noncentral_chance(t, freedom, shift), number(file), 1e-8, 1e4);
    } else if (!strcmp(kind, "fisher")) {
        double ratio = number(file), above = number(file), below = number(file);
        close_to(fisher_tail(ratio, above, below), number(file), 1e-9, 0);
    } else if (!strcmp(kind, "power")) {
        Difference pilot = {.paired = number(file) == 1};
        pilot.spread = number(file);
        double size = number(file), level = number(file), power = number(file);
        assert_int_equal(seeds_needed(&pilot, size, level, power), (int)number(file));
    } else if (!strcmp(kind, "scaling")) {
        scaling_line(file);
    } else if (!strcmp(kind, "grid")) {
        grid_line(file);
    } else {
        return false;
    }
    return true;
}

static void one_line(FILE *file, const char *kind) {
    double values[MOST], base[MOST], mean, margin, last, freedom, t;
    if (!strcmp(kind, "student")) {
        assert_int_equal(fscanf(file, "%lf %lf %lf", &freedom, &t, &last), 3);
        close_to(student_chance(t, freedom), last, 1e-8, 0);
        return;
    }
    if (more_lines(file, kind)) return;
    int count = read_numbers(file, values), other = read_numbers(file, base);
    assert_int_equal(fscanf(file, "%lf %lf %lf", &mean, &margin, &last), 3);
    SampleMoments sample = sample_of(values, count), of_base = sample_of(base, other);
    if (!strcmp(kind, "mean")) {
        close_to(sample.mean, mean, 1e-14, 0);
        close_to(sample_margin(&sample), margin, 1e-9, 0);
        close_to(sample.spread, last, 1e-12, 0);
        return;
    }
    bool paired = !strcmp(kind, "paired");
    Difference difference =
        paired ? difference_paired(values, base, count) : difference_apart(&sample, &of_base);
    close_to(difference.mean, mean, 1e-14, 10);
    close_to(difference.margin, margin, 1e-8, 10);
    close_to(difference.chance, last, 1e-7, 0);
    assert_true(difference.paired == paired);
}

static void scipy(void **state) {
    (void)state;
    FILE *file = fopen("tests/oracle/expected/statistics.txt", "r");
    char kind[32];
    int count = 0;
    assert_non_null(file);
    for (; fscanf(file, "%31s", kind) == 1; count++) one_line(file, kind);
    fclose(file);
    assert_true(count > 300);
}

/* Results that few numbers do not determine, and their texts. */
static const char *verdict(Difference difference, bool higher, double bound) {
    Judgement judgement = {.difference = difference, .counts = true};
    const TestRules rules = {.equivalence = bound};
    judge_differences(&rules, higher, &judgement, 1);
    return judgement_verdict(&judgement, higher);
}

static void verdicts(void **state) {
    (void)state;
    static const double base[] = {2, 3, 4}, near[] = {2.1, 2.8, 4.1}, less[] = {1, 2.01, 3};
    Difference none = difference_paired(base, base, 0), one = difference_paired(near, base, 1),
               noise = difference_paired(near, base, 3), better = difference_paired(less, base, 3),
               worse = difference_paired(base, less, 3), same = difference_paired(base, base, 3);
    SampleMoments three = sample_of(base, 3), single = sample_of(less, 1);
    Difference apart = difference_apart(&single, &three);
    assert_string_equal(verdict(none, false, 0), "");
    assert_string_equal(verdict(one, false, 0), "one seed");
    assert_string_equal(verdict(apart, false, 0), "one seed");
    assert_string_equal(verdict(noise, false, 0), "not significant");
    assert_string_equal(verdict(better, false, 0), "better");
    assert_string_equal(verdict(worse, false, 0), "worse");
    assert_string_equal(verdict(same, false, 0), "not significant");
    assert_string_equal(verdict(better, true, 0), "worse");
    assert_string_equal(verdict(noise, false, 1), "equivalent");
    assert_string_equal(verdict(noise, false, 0.001), "not significant");
    assert_string_equal(verdict(better, false, 2), "better, equivalent");
    assert_string_equal(verdict(worse, false, 2), "worse, equivalent");
    assert_true(same.chance == 1 && same.margin == 0 && isnan(one.margin) && one.mean > 0);
    assert_int_equal(seeds_needed(&one, 0.1, 0.05, 0.8), 0);
}

/* Below the bound on one side only. */
static void not_worse(void **state) {
    (void)state;
    static const double base[] = {2, 3, 4, 5}, less[] = {1.2, 3.1, 2.5, 5.2};
    Difference difference = difference_paired(less, base, 4);
    assert_string_equal(verdict(difference, false, 0.7), "not worse");
    assert_string_equal(verdict(difference, true, 0.7), "not significant");
}

/* ---- artificial experiments ---- */

static double random_normal(uint64_t *seed) {
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        *seed = *seed * 6364136223846793005U + 1442695040888963407U;
        sum += (double)(*seed >> 11) * 0x1p-53;
    }
    return sum;
}

/* Losses of a baseline and of variants with equal seeds: a part of each loss is that of its seed.
 * Returns how many variants are named better or worse. */
static int artificial(uint64_t *seed, PValueCorrection correction, int variants, double shift,
                      int *covered) {
    enum { SEEDS = 5 };
    double base[SEEDS], values[SEEDS], common[SEEDS];
    Judgement judgements[32] = {0};
    const TestRules rules = {.correction = correction};
    int named = 0;
    for (int k = 0; k < SEEDS; k++) {
        common[k] = 3 + 0.05 * random_normal(seed);
        base[k] = common[k] + 0.02 * random_normal(seed);
    }
    for (int i = 0; i < variants; i++) {
        for (int k = 0; k < SEEDS; k++)
            values[k] = common[k] + shift + 0.02 * random_normal(seed);
        judgements[i].difference = difference_paired(values, base, SEEDS);
        judgements[i].counts = true;
        *covered += fabs(judgements[i].difference.mean - shift) < judgements[i].difference.margin;
    }
    judge_differences(&rules, false, judgements, variants);
    for (int i = 0; i < variants; i++) {
        const char *text = judgement_verdict(&judgements[i], false);
        named += !strcmp(text, "better") || !strcmp(text, "worse");
    }
    return named;
}

/* Intervals of a difference contain it in 95 % of experiments; with 20 variants that all equal the
 * baseline, at most 5 % of experiments name one of them, without a correction many more. */
static void false_findings(void **state) {
    (void)state;
    enum { EXPERIMENTS = 4000 };
    uint64_t seed = 5;
    int covered = 0, ignored = 0, named[3] = {0}, found = 0;
    for (int i = 0; i < EXPERIMENTS; i++) {
        found += artificial(&seed, CORRECTION_NONE, 1, 0.05, &covered);
        for (int k = 0; k < 3; k++)
            named[k] += artificial(&seed, (PValueCorrection)k, 20, 0, &ignored) > 0;
    }
    assert_true(covered > 0.93 * EXPERIMENTS && covered < 0.97 * EXPERIMENTS);
    assert_true(named[CORRECTION_HOLM] <= 0.05 * EXPERIMENTS);
    assert_true(named[CORRECTION_BENJAMINI_HOCHBERG] <= 0.05 * EXPERIMENTS);
    assert_true(named[CORRECTION_NONE] > 0.3 * EXPERIMENTS);
    /* power of a paired t-test: 5 pairs, a difference of 0.05, standard deviation 0.02 * sqrt(2) */
    assert_true(found > 0.8 * EXPERIMENTS && found < 0.9 * EXPERIMENTS);
}

/* Ladders of five sizes and three seeds: the interval of the forecast of a size that is three times
 * larger has the measured mean in about 95 % of them, and curves that cross do so at the right
 * size. */
static void forecasts(void **state) {
    (void)state;
    enum { LADDERS = 100, SEEDS = 3, SIZES = 5 };
    uint64_t seed = 9;
    int within = 0;
    ScalingFit *fits = calloc(SCALING_SAMPLES, sizeof *fits);
    for (int i = 0; i < LADDERS; i++) {
        ScalingPoint points[SIZES + 1] = {0};
        double size = 1e5, noise;
        for (int k = 0; k <= SIZES; k++, size *= 3) {
            double losses[SEEDS], law = 1.5 + 60 * pow(size, -0.3);
            for (int j = 0; j < SEEDS; j++) losses[j] = law * (1 + 0.002 * random_normal(&seed));
            SampleMoments sample = sample_of(losses, SEEDS);
            points[k] = (ScalingPoint){size, 20 * size, sample.mean, sample.spread, SEEDS};
        }
        ScalingFit fit = scaling_fit(points, SIZES);
        int count = scaling_resample(points, SIZES, &fit, fits, &noise);
        LossInterval interval = scaling_forecast(fits, count, noise, &points[SIZES]);
        within += points[SIZES].loss >= interval.low && points[SIZES].loss <= interval.high;
    }
    free(fits);
    assert_true(within > 0.9 * LADDERS && within < LADDERS);
    const ScalingFit one = {.limit = 2, .size = 1000, .alpha = 0.5, .beta = NAN},
                     other = {.limit = 1.9, .size = 1200, .alpha = 0.5, .beta = NAN};
    close_to(scaling_crossing(&one, &other, 20, 1e5, 1e8), 4e6, 0.02, 0);
    assert_true(isnan(scaling_crossing(&one, &other, 20, 1e5, 1e6)));
}

/* A comparison of two structures with three seeds. Losses are a parabola over the logarithm of the
 * tuned value, with a minimum at 2^least; the seeds shift it by the same amount in both. */
static json_t *tuned_comparison(const double *least, int values) {
    json_t *rows = json_array();
    for (int k = 0; k < 2 * values; k++) {
        int power = k % values;
        char tuned[32];
        json_t *runs = json_array();
        double sum = 0;
        snprintf(tuned, sizeof tuned, "train.lr = %d", 1 << power);
        for (int seed = 1; seed <= 3; seed++) {
            double distance = power - least[k / values] - 0.1 * (seed - 2),
                   loss = 2 + 0.3 * distance * distance;
            sum += loss;
            json_array_append_new(runs, json_pack("{s:i, s:f}", "seed", seed, "loss", loss));
        }
        json_array_append_new(rows, json_pack("{s:s, s:s, s:f, s:o}", "structure",
                                              k < values ? "base" : "wide", "tuned", tuned, "loss",
                                              sum / 3, "runs", runs));
    }
    return json_pack("{s:b, s:o}", "higher", 0, "variants", rows);
}

/* The parabola recovers the minimum; the drift has no spread, because the seeds shift both alike.
 * Fewer than three values are no curve, and a minimum outside of the values is at an edge. */
static void optima(void **state) {
    (void)state;
    json_t *comparison = tuned_comparison((double[]){1.3, 2.55}, 5),
           *found = optima_json(comparison);
    const json_t *curves = json_object_get(found, "curves"), *wide = json_array_get(curves, 1),
                 *drift = json_object_get(wide, "drift");
    assert_string_equal(json_string_value(json_object_get(found, "option")), "train.lr");
    close_to(json_field_number(json_array_get(curves, 0), "optimum"), exp2(1.3), 1e-9, 0);
    close_to(json_field_number(wide, "optimum"), exp2(2.55), 1e-9, 0);
    close_to(json_field_number(drift, "mean"), 1.25, 1e-9, 0);
    close_to(json_field_number(drift, "low"), 1.25, 1e-9, 0);
    close_to(json_field_number(wide, "high"), exp2(2.55 + 4.302652730 * 0.1 / sqrt(3)), 1e-8, 0);
    assert_true(json_is_null(json_object_get(wide, "edge")));
    json_decref(found);
    json_decref(comparison);

    comparison = tuned_comparison((double[]){1.3, 6}, 5);
    found = optima_json(comparison);
    wide = json_array_get(json_object_get(found, "curves"), 1);
    assert_string_equal(json_string_value(json_object_get(wide, "edge")), "high");
    close_to(json_field_number(wide, "best"), 16, 0, 0);
    json_decref(found);
    json_decref(comparison);

    comparison = tuned_comparison((double[]){0.5, 0.5}, 2);
    assert_null(optima_json(comparison));
    json_decref(comparison);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(quantiles), cmocka_unit_test(chances),
                                       cmocka_unit_test(samples),   cmocka_unit_test(scipy),
                                       cmocka_unit_test(verdicts),  cmocka_unit_test(not_worse),
                                       cmocka_unit_test(false_findings),
                                       cmocka_unit_test(forecasts),
        cmocka_unit_test(optima)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
