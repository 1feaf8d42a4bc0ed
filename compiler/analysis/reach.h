/* reach: which tensors a gradient passes through. */
#ifndef REACH_H
#define REACH_H

#include "ir/ir.h"

/* By tensor id: depends on a parameter or an observed tensor, and contributes to the loss, by paths
 * that no `stop`, comparison or selection cuts. A tensor has an adjoint if both are true. */
typedef struct Reach {
    bool *from_parameter, *to_loss;
} Reach;

/* Needs: a program with a loss. */
Reach gradient_reach(Program *program);

#endif
