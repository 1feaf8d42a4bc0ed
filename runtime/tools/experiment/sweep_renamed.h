/* sweep_renamed: continuation of a sweep that began with option names that are deprecated now. */
#ifndef SWEEP_RENAMED_H
#define SWEEP_RENAMED_H

#include "tools/experiment/sweep_plan.h"

/* Whether the stored plan `before` is the plan `now` under other names: equal except for the names
 * of variants and metric, and each run in the folder trains the same model as its variant. Then the
 * folders of the variants get the current names. */
bool sweep_adopt(const Plan *plan, json_t *before, json_t *now);

#endif
