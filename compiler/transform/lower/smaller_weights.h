/* smaller_weights: copies of parameters with fewer bytes, read by products. */
#ifndef SMALLER_WEIGHTS_H
#define SMALLER_WEIGHTS_H

#include "ir/ir.h"

/* The copy of that type; created if it does not exist. */
Tensor *smaller_parameter(Program *program, Tensor *parameter, Type type);
/* Replaces operand 0 or 1 of a product by that read. */
void read_instead(Program *program, Statement *statement, int operand, Expr *read);

#endif
