/* Student's t against published tables and closed forms; means, intervals and tests against SciPy for artificial and real runs
 * (tests/oracle/statistics.py). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tools/experiment/experiment.h"

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

static void one_line(FILE *file, const char *kind) {
    double values[MOST], base[MOST], mean, margin, last, freedom, t;
    if (!strcmp(kind, "student")) {
        assert_int_equal(fscanf(file, "%lf %lf %lf", &freedom, &t, &last), 3);
        close_to(student_chance(t, freedom), last, 1e-8, 0);
        return;
    }
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
    char kind[16];
    int count = 0;
    assert_non_null(file);
    for (; fscanf(file, "%15s", kind) == 1; count++) one_line(file, kind);
    fclose(file);
    assert_true(count > 300);
}

/* Results that few numbers do not determine, and their texts. */
static void verdicts(void **state) {
    (void)state;
    static const double base[] = {2, 3, 4}, near[] = {2.1, 2.8, 4.1}, less[] = {1, 2.01, 3};
    Difference none = difference_paired(base, base, 0), one = difference_paired(near, base, 1),
               noise = difference_paired(near, base, 3), better = difference_paired(less, base, 3),
               worse = difference_paired(base, less, 3), same = difference_paired(base, base, 3);
    SampleMoments three = sample_of(base, 3), single = sample_of(less, 1);
    Difference apart = difference_apart(&single, &three);
    assert_string_equal(difference_verdict(&none, false), "");
    assert_string_equal(difference_verdict(&one, false), "one seed");
    assert_string_equal(difference_verdict(&apart, false), "one seed");
    assert_string_equal(difference_verdict(&noise, false), "not significant");
    assert_string_equal(difference_verdict(&better, false), "better");
    assert_string_equal(difference_verdict(&worse, false), "worse");
    assert_string_equal(difference_verdict(&same, false), "not significant");
    assert_string_equal(difference_verdict(&better, true), "worse");
    assert_true(same.chance == 1 && same.margin == 0 && isnan(one.margin) && one.mean > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(quantiles), cmocka_unit_test(chances),
                                       cmocka_unit_test(samples), cmocka_unit_test(scipy),
                                       cmocka_unit_test(verdicts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
