/* outcome: what the runs of a sweep came to, as files in their folders: result.json when a run has
 * ended, at_STEP.json when it has come to a step at which it stands still. */
#ifndef OUTCOME_H
#define OUTCOME_H

#include "experiment/sweep_plan.h"
#include "experiment/result.h"

/* What a run came to; false when it has not ended. */
bool run_result(const Plan *plan, const MoecVariant *variant, long seed, RunResult *result);
/* What its log says now. */
RunResult run_reading(const Plan *plan, const MoecVariant *variant, long seed);
bool run_keep(const Plan *plan, const MoecVariant *variant, long seed, const RunResult *result);
/* The same at a step. */
bool run_result_at(const Plan *plan, const MoecVariant *variant, long seed, long step,
                   RunResult *result);
bool run_keep_at(const Plan *plan, const MoecVariant *variant, long seed, long step,
                 const RunResult *result);

#endif
