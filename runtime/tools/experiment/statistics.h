/* statistics: mean, standard deviation, t-tests. */
#ifndef STATISTICS_H
#define STATISTICS_H

#include <stdbool.h>

/* Mean and standard deviation (of a sample, with count - 1; NaN for one number). */
typedef struct SampleMoments {
    int count;
    double mean, spread;
} SampleMoments;

/* Of `count` numbers, at least one. */
SampleMoments sample_of(const double *values, int count);
/* Student's t: the probability of at most `t`, and the t of this probability. */
double student_chance(double t, double freedom);
double student_quantile(double chance, double freedom);
/* Half width of the 95 % confidence interval of the mean; NaN for fewer than two numbers. */
double sample_margin(const SampleMoments *sample);

/* A difference of means, the half width of its 95 % confidence interval, and the two-sided p-value.
 * NaN if there are too few numbers. */
typedef struct Difference {
    bool paired;
    int count; /* of pairs; else of the smaller sample */
    double mean, margin, chance;
} Difference;

/* Student's paired t-test, for pairs with the same seed and order of data. */
Difference difference_paired(const double *values, const double *base, int count);
/* Welch's t-test, for samples with different standard deviations. */
Difference difference_apart(const SampleMoments *sample, const SampleMoments *base);
/* "better" (less than the base, or more if higher is better), "worse", "not significant" (the 95 %
 * interval contains 0), "one seed"; "" without values. */
const char *difference_verdict(const Difference *difference, bool higher);

#endif
