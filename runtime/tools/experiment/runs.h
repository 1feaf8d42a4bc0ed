/* runs: the runs of a sweep, each a separate process with its own folder. A finished run has a
 * result.json and is not repeated; any other resumes from its checkpoint. */
#ifndef RUNS_H
#define RUNS_H

#include "tools/experiment/sweep_plan.h"

/* Makes the folder and keeps other sweeps out of it until runs_unlock or the end of the process and
 * of its runs. -1 after a message. */
int runs_lock(const char *out);
void runs_unlock(int lock);
/* Makes all runs that are not finished; the exit code. */
int runs_make(const Plan *plan);

/* Text of the job script for a scheduler: a new string. */
char *runs_as_jobs(const Plan *plan);

#endif
