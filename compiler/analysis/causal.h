/* causal: checks if a program can run one position of the sequence at a time. */
#ifndef CAUSAL_H
#define CAUSAL_H

#include "analysis/past.h"

bool check_causal(Program *program, const Past *past);
/* True if one of its loops runs over the axis. */
bool runs_over(const Statement *statement, const Axis *axis);
/* The dimension of a tensor that runs over an axis, or -1. */
int dimension_of(const Tensor *tensor, const Axis *axis);

#endif
