/* reach: which tensors a gradient passes through. */
#ifndef REACH_H
#define REACH_H

#include "ir/ir.h"

/* By tensor id: what depends on a parameter, and what the loss depends on, by ways that are not cut
 * by `stop`, a comparison or a choice. A tensor has an adjoint when both hold. */
typedef struct Reach {
    bool *from_parameter, *to_loss;
} Reach;

/* Needs: a program with a loss. */
Reach gradient_reach(Program *program);

#endif
