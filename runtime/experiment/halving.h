/* halving: at some shares of a run the better half of the variants goes on. */
#ifndef HALVING_H
#define HALVING_H

#include "experiment/sweep_plan.h"

/* The step at which a run of so many stands still. */
long halving_step(long steps, double share);
/* When all runs of those that go on have come to that share: notes which variants stop there, in
 * `stopped` and as the outcome of their runs. `steps`: of each variant. Says what it did. */
void halving_stop(const Plan *plan, double share, const long *steps, bool *stopped);

#endif
