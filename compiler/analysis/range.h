/* range: the smallest and the largest value of an integer. */
#ifndef RANGE_H
#define RANGE_H

#include "ir/ir.h"

typedef struct Range {
    int64_t low, high;
} Range;

/* The range of an expression; all of 64 bits for a real or if nothing is known. */
Range range_of(const Program *program, const Expr *expr);
/* The values of the elements of an integer tensor. */
Range range_of_tensor(const Program *program, const Tensor *tensor);
bool range_is_known(Range range);
/* The number of iterations of a loop; an axis with a size known only at run time counts as long. */
long loop_size(const Index *index);

#endif
