/* causal: whether a program can be run one place of the sequence after the other. */
#ifndef CAUSAL_H
#define CAUSAL_H

#include "ir/ir.h"

void drop_unused(Program *program);
bool check_causal(Program *program);
/* The index of a statement that runs over `sequence` and is summed, or NULL. */
Index *summed_places(const Statement *statement, const Axis *sequence);
/* What leaves the places after its own out of a sum, t <= s or t < s, be it a factor or the
 * condition of a where; NULL when there is none. */
Expr *earlier_only(Expr *value, const Index *summed);
/* The dimension of a tensor that runs over an axis, or -1. */
int dimension_of(const Tensor *tensor, const Axis *axis);

#endif
