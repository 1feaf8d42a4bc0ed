/* halving: at given fractions of a run, the better half of the variants continues. */
#ifndef HALVING_H
#define HALVING_H

#include "tools/experiment/sweep_plan.h"

/* The step at which a run of `steps` steps pauses. */
long halving_step(long steps, double share);
/* Called when all remaining runs have reached the fraction: selects the variants that stop there,
 * and stores this in `stopped` and in the results of their runs. `steps`: steps of each variant.
 * Prints the stopped variants. */
void halving_stop(const Plan *plan, double share, const long *steps, bool *stopped);

#endif
