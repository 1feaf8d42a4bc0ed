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

double fisher_tail(double ratio, double above, double below) {
    double all = below + above * ratio;
    return beta_share(below / 2, above / 2, below / all, above * ratio / all);
}

/* Density of the standard deviation of a normal sample, relative to its expectation. */
static double spread_density(double spread, double freedom) {
    if (spread <= 0) return freedom == 1 ? sqrt(2 / acos(-1)) : 0;
    double half = freedom / 2;
    return exp(log(2) + half * log(half) - lgamma(half) + (freedom - 1) * log(spread) -
               half * spread * spread);
}

/* The mean of the normal distribution at t * spread - shift over all spreads, by Simpson's rule. */
double noncentral_chance(double t, double freedom, double shift) {
    enum { STEPS = 4000 };
    double reach = 10 / sqrt(2 * freedom), low = fmax(0, 1 - reach), width = 1 + reach - low,
           sum = 0;
    for (int i = 0; i <= STEPS; i++) {
        double spread = low + width * i / STEPS, weight = i == 0 || i == STEPS ? 1 : i % 2 ? 4 : 2;
        sum += weight * spread_density(spread, freedom) * erfc((shift - t * spread) / sqrt(2)) / 2;
    }
    return sum * width / STEPS / 3;
}

double sample_margin(const SampleMoments *sample) {
    if (sample->count < 2) return NAN;
    return student_quantile(0.975, sample->count - 1) * sample->spread / sqrt(sample->count);
}

/* From the mean, its standard error and its degrees of freedom. Without any spread a mean is sure.
 */
static Difference t_test(double mean, double error, double freedom) {
    Difference difference = {.mean = mean, .error = NAN, .margin = NAN, .chance = NAN};
    if (!(freedom > 0) || !isfinite(error)) return difference;
    difference.error = error;
    difference.freedom = freedom;
    difference.margin = student_quantile(0.975, freedom) * error;
    difference.chance = mean == 0    ? 1
                        : error == 0 ? 0
                                     : 2 * student_chance(-fabs(mean) / error, freedom);
    return difference;
}

Difference difference_paired(const double *values, const double *base, int count) {
    AUTO_FREE double *differences = memory_new((size_t)(count + 1) * sizeof *differences);
    for (int i = 0; i < count; i++) differences[i] = values[i] - base[i];
    SampleMoments sample = sample_of(differences, count);
    Difference difference = t_test(sample.mean, sample.spread / sqrt(count), sample.count - 1);
    difference.paired = true;
    difference.count = count;
    difference.spread = sample.spread;
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
    difference.spread = sqrt((sample->spread * sample->spread + base->spread * base->spread) / 2);
    return difference;
}

/* The p-value of a mean above 0, given its distance from 0. */
static double one_sided(const Difference *difference, double distance) {
    if (!isfinite(difference->error)) return NAN;
    if (difference->error == 0) return distance > 0 ? 0 : 1;
    return student_chance(-distance / difference->error, difference->freedom);
}

double difference_equivalence(const Difference *difference, double bound) {
    return one_sided(difference, bound - fabs(difference->mean));
}

double difference_not_worse(const Difference *difference, double bound, bool higher) {
    return one_sided(difference, bound + (higher ? difference->mean : -difference->mean));
}

/* Probability that a two-sided test with `count` runs per variant finds a difference of this size,
 * in units of its standard deviation. */
static double test_power(double size, int count, double alpha, bool paired) {
    double freedom = paired ? count - 1 : 2.0 * (count - 1),
           shift = size * sqrt(paired ? count : count / 2.0),
           limit = student_quantile(1 - alpha / 2, freedom);
    return 1 - noncentral_chance(limit, freedom, shift) + noncentral_chance(-limit, freedom, shift);
}

int seeds_needed(const Difference *pilot, double size, double alpha, double power) {
    enum { MOST_SEEDS = 100000 };
    if (!isfinite(pilot->spread)) return 0;
    double relative = size / fmax(pilot->spread, DBL_MIN);
    int low = 2, high = 2;
    while (test_power(relative, high, alpha, pilot->paired) < power)
        if ((high *= 2) > MOST_SEEDS) return 0;
    while (low < high) {
        int middle = (low + high) / 2;
        if (test_power(relative, middle, alpha, pilot->paired) < power)
            low = middle + 1;
        else
            high = middle;
    }
    return high;
}

const char *correction_name(PValueCorrection correction) {
    static const char *const names[] = {"holm", "benjamini_hochberg", "none"};
    return names[correction];
}

static int ascending(const void *one, const void *other) {
    double a = **(double *const *)one, b = **(double *const *)other;
    return (a > b) - (a < b);
}

int correct_chances(PValueCorrection correction, double *chances, int count) {
    bool holm = correction == CORRECTION_HOLM;
    double **sorted = memory_new((size_t)(count + 1) * sizeof *sorted), limit = holm ? 0 : 1;
    int family = 0;
    for (int i = 0; i < count; i++)
        if (!isnan(chances[i])) sorted[family++] = &chances[i];
    qsort(sorted, (size_t)family, sizeof *sorted, ascending);
    for (int i = 0; i < family && correction != CORRECTION_NONE; i++) {
        int at = holm ? i : family - 1 - i;
        double own = *sorted[at] * (holm ? family - at : (double)family / (at + 1));
        limit = holm ? fmax(limit, fmin(own, 1)) : fmin(limit, own);
        *sorted[at] = limit;
    }
    free(sorted);
    return family;
}
