#include "base/median.h"

#include <stdlib.h>

static int by_size(const void *a, const void *b) {
    double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

double median(double *numbers, size_t count) {
    qsort(numbers, count, sizeof *numbers, by_size);
    return numbers[count / 2];
}
