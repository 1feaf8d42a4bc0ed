/* reach: which tensors a gradient passes through, and which are gradients. */
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
/* By tensor id: a value of the backward pass. Only these depend on the adjoint of the loss, an
 * input. Needs: a program after the pass gradient; in any other there are none. */
bool *gradient_values(Program *program);

#endif
