/* smaller_weights: copies of parameters that take less room, read by products. */
#ifndef SMALLER_WEIGHTS_H
#define SMALLER_WEIGHTS_H

#include "ir/ir.h"

/* The copy of that type, made when there is none yet. */
Tensor *smaller_parameter(Program *program, Tensor *parameter, Type type);
/* Operand 0 or 1 of a product becomes that read. */
void read_instead(Program *program, Statement *statement, int operand, Expr *read);

#endif
