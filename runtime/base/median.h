/* median: what a measurement came to that was made several times. */
#ifndef MEDIAN_H
#define MEDIAN_H

#include <stddef.h>

/* Sorts the numbers, of which there is one at least; the upper of two in the middle. */
double median(double *numbers, size_t count);

#endif
