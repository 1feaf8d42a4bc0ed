/* outcome: results of the runs of a sweep, as files in their folders: result.json of an ended run,
 * at_STEP.json of a run that paused at a step. */
#ifndef OUTCOME_H
#define OUTCOME_H

#include "tools/experiment/sweep_plan.h"
#include "tools/experiment/result.h"

/* Result of a run; false if it has not ended. */
bool run_result(const Plan *plan, const MoecVariant *variant, long seed, RunResult *result);
/* Current result according to its log. */
RunResult run_reading(const Plan *plan, const MoecVariant *variant, long seed);
bool run_keep(const Plan *plan, const MoecVariant *variant, long seed, const RunResult *result);
/* The same at a step. */
bool run_result_at(const Plan *plan, const MoecVariant *variant, long seed, long step,
                   RunResult *result);
bool run_keep_at(const Plan *plan, const MoecVariant *variant, long seed, long step,
                 const RunResult *result);

#endif
