/* range: the smallest and the largest value that a whole number can have. */
#ifndef RANGE_H
#define RANGE_H

#include "ir/ir.h"

typedef struct Range {
    int64_t low, high;
} Range;

/* Of an expression; of a real, or where nothing is known, all of 64 bits. */
Range range_of(const Program *program, const Expr *expr);
bool range_is_known(Range range);
/* How often a loop runs; an axis whose size only the run knows counts as long. */
long loop_size(const Index *index);

#endif
