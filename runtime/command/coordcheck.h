/* coordcheck: what the files of the command share. */
#ifndef COORDCHECK_H
#define COORDCHECK_H

#include <stdio.h>

enum { CHECK_SIZES = 16 };

/* One activation in one layer, at every size of the model: root mean squares after the last step,
 * and of what the steps changed; the mean over the draws. */
typedef struct Coordinate {
    char *name; /* "block.3.ffn.down" */
    double size[CHECK_SIZES], change[CHECK_SIZES];
} Coordinate;

typedef struct CoordinateCheck {
    const char *model, *over; /* "dim=64,128" */
    const char *labels[CHECK_SIZES];
    int sizes, count;
    long steps, draws, drawn;
    double within; /* the largest ratio that is no fault */
    Coordinate *all;
} CoordinateCheck;

/* The largest over the smallest of so many numbers. */
double spread_of(const double *numbers, int count);
/* A picture of both, one line an activation. */
void coordcheck_picture(const CoordinateCheck *check, FILE *file);

#endif
