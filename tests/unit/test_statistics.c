/* Student's t beside published tables and closed forms; the interval of a mean. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "experiment/statistics.h"

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

/* With one degree it is Cauchy's distribution, with two there is a formula. */
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
    Sample sample = sample_of(values, 8);
    assert_true(sample.mean == 5 && fabs(sample.spread - sqrt(32.0 / 7)) < 1e-15);
    assert_true(fabs(sample_margin(&sample) - 2.364624252 * sample.spread / sqrt(8)) < 1e-8);
    Sample one = sample_of(values, 1);
    assert_true(one.mean == 2 && isnan(one.spread) && isnan(sample_margin(&one)));
    assert_true(isnan(sample_of(values, 0).mean));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(quantiles), cmocka_unit_test(chances),
                                       cmocka_unit_test(samples)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
