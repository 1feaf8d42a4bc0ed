/* pace: number of steps that a variant completes in the time budget of a run. */
#ifndef PACE_H
#define PACE_H

#include "tools/experiment/sweep_plan.h"

/* Measured once, alone, over a few steps, and kept in DIR/VARIANT/pace.json. 0 after a message. */
long pace_steps(const Plan *plan, const MoecVariant *variant);

#endif
