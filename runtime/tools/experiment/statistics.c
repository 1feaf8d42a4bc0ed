#include "tools/experiment/experiment.h"

#include "base/memory.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

SampleMoments sample_of(const double *values, int count) {
    SampleMoments sample = {.count = count, .mean = NAN, .spread = NAN};
    if (count < 1) return sample;
    double sum = 0, squares = 0;
    for (int i = 0; i < count; i++) sum += values[i];
    sample.mean = sum / count;
    for (int i = 0; i < count; i++)
        squares += (values[i] - sample.mean) * (values[i] - sample.mean);
    if (count > 1) sample.spread = sqrt(squares / (count - 1));
    return sample;
}

/* The continued fraction of the incomplete beta function, by Lentz's method; it converges quickly
 * for x below (a + 1) / (a + b + 2). */
static double beta_fraction(double a, double b, double x) {
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < DBL_MIN ? DBL_MIN : d);
    double fraction = d;
    for (int m = 1; m < 10000; m++) {
        double terms[] = {m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                          -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))};
        double before = fraction;
        for (int i = 0; i < 2; i++) {
            d = 1 + terms[i] * d;
            c = 1 + terms[i] / c;
            d = 1 / (fabs(d) < DBL_MIN ? DBL_MIN : d);
            if (fabs(c) < DBL_MIN) c = DBL_MIN;
            fraction *= c * d;
        }
        if (fabs(fraction - before) <= DBL_EPSILON * fabs(fraction)) break;
    }
    return fraction;
}

/* The regularised incomplete beta function. `rest` is 1 - x, kept apart where x is close to 1. */
static double beta_share(double a, double b, double x, double rest) {
    if (x <= 0 || rest <= 0) return x <= 0 ? 0 : 1;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(rest));
    if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, rest) / b;
}

double student_chance(double t, double freedom) {
    double all = freedom + t * t;
    double tail = beta_share(freedom / 2, 0.5, freedom / all, t * t / all) / 2;
    return t > 0 ? 1 - tail : tail;
}

double student_quantile(double chance, double freedom) {
    if (chance < 0.5) return -student_quantile(1 - chance, freedom);
    double low = 0, high = 1;
    while (student_chance(high, freedom) < chance && high < 1e12) high *= 2;
    for (int i = 0; i < 200 && high - low > DBL_EPSILON * high; i++) {
        double middle = low + (high - low) / 2;
        *(student_chance(middle, freedom) < chance ? &low : &high) = middle;
    }
    return low + (high - low) / 2;
}

double sample_margin(const SampleMoments *sample) {
    if (sample->count < 2) return NAN;
    return student_quantile(0.975, sample->count - 1) * sample->spread / sqrt(sample->count);
}

/* From the mean, its standard error and its degrees of freedom. Without any spread a mean is sure.
 */
static Difference t_test(double mean, double error, double freedom) {
    Difference difference = {.mean = mean, .margin = NAN, .chance = NAN};
    if (!(freedom > 0) || !isfinite(error)) return difference;
    difference.margin = student_quantile(0.975, freedom) * error;
    difference.chance = mean == 0    ? 1
                        : error == 0 ? 0
                                     : 2 * student_chance(-fabs(mean) / error, freedom);
    return difference;
}

Difference difference_paired(const double *values, const double *base, int count) {
    double *differences = memory_new((size_t)(count + 1) * sizeof *differences);
    for (int i = 0; i < count; i++) differences[i] = values[i] - base[i];
    SampleMoments sample = sample_of(differences, count);
    free(differences);
    Difference difference = t_test(sample.mean, sample.spread / sqrt(count), sample.count - 1);
    difference.paired = true;
    difference.count = count;
    return difference;
}

/* The degrees of freedom are Satterthwaite's. */
Difference difference_apart(const SampleMoments *sample, const SampleMoments *base) {
    double one = sample->spread * sample->spread / sample->count,
           other = base->spread * base->spread / base->count, both = one + other,
           freedom =
               both == 0
                   ? fmin(sample->count, base->count) - 1
                   : both * both /
                         (one * one / (sample->count - 1) + other * other / (base->count - 1));
    Difference difference = t_test(sample->mean - base->mean, sqrt(both), freedom);
    difference.count = sample->count < base->count ? sample->count : base->count;
    return difference;
}

const char *difference_verdict(const Difference *difference, bool higher) {
    if (!difference->count) return "";
    if (!isfinite(difference->margin)) return "one seed";
    if (!(fabs(difference->mean) > difference->margin)) return "not significant";
    return (difference->mean < 0) != higher ? "better" : "worse";
}
