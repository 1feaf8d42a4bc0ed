/* statistics: what can be said of a few numbers. */
#ifndef STATISTICS_H
#define STATISTICS_H

/* Mean and spread (of a sample, with count - 1; NaN for one number). */
typedef struct Sample {
    int count;
    double mean, spread;
} Sample;

Sample sample_of(const double *values, int count);
/* Student's t: the chance of at most `t`, and the t that has this chance. */
double student_chance(double t, double freedom);
double student_quantile(double chance, double freedom);
/* Half of the interval that holds the mean with 95 %; NaN for fewer than two numbers. */
double sample_margin(const Sample *sample);

#endif
