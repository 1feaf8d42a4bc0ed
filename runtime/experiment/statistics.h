/* statistics: what can be said of a few numbers. */
#ifndef STATISTICS_H
#define STATISTICS_H

#include <stdbool.h>

/* Mean and spread (of a sample, with count - 1; NaN for one number). */
typedef struct Sample {
    int count;
    double mean, spread;
} Sample;

/* Of `count` numbers, at least one. */
Sample sample_of(const double *values, int count);
/* Student's t: the chance of at most `t`, and the t that has this chance. */
double student_chance(double t, double freedom);
double student_quantile(double chance, double freedom);
/* Half of the interval that holds the mean with 95 %; NaN for fewer than two numbers. */
double sample_margin(const Sample *sample);

/* How far one thing is from another: the mean difference, half of its 95 % interval, and the chance
 * of one as large where there is none (two-sided). NaN for what too few numbers do not tell. */
typedef struct Difference {
    bool paired;
    int count; /* of pairs; else of the smaller sample */
    double mean, margin, chance;
} Difference;

/* Of what belongs together one by one (the same seed, the same order of data): Student's paired
 * test. */
Difference difference_paired(const double *values, const double *base, int count);
/* Of what does not: Welch's test, which lets the spreads differ. */
Difference difference_apart(const Sample *sample, const Sample *base);
/* "better" (less than the base, more where higher is better), "worse", "within the noise", "one
 * seed"; "" of nothing. */
const char *difference_verdict(const Difference *difference, bool higher);

#endif
