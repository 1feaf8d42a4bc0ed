/* median: the median of repeated measurements. */
#ifndef MEDIAN_H
#define MEDIAN_H

#include <stddef.h>

/* Sorts the numbers and returns the median; the upper one if count is even. Requires count > 0. */
double median(double *numbers, size_t count);

#endif
