/* coordcheck: declarations of the files of the command. */
#ifndef COORDCHECK_H
#define COORDCHECK_H

#include <stdio.h>

enum { CHECK_SIZES = 16 };

/* One activation in one layer, at every size of the model: RMS after the last step and RMS of its
 * change, averaged over the random initializations. */
typedef struct Coordinate {
    char *name; /* "block.3.ffn.down" */
    double size[CHECK_SIZES], change[CHECK_SIZES];
} Coordinate;

typedef struct CoordinateCheck {
    const char *model, *over; /* "dim=64,128" */
    const char *labels[CHECK_SIZES];
    int sizes, count;
    long steps, draws, drawn;
    double within; /* the largest ratio that passes */
    Coordinate *all;
} CoordinateCheck;

/* Ratio of the largest to the smallest number. */
double spread_of(const double *numbers, int count);
/* Draws both as SVG, one line per activation. */
void coordcheck_picture(const CoordinateCheck *check, FILE *file);

#endif
