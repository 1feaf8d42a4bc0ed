/* slurm: the runs of a sweep as the job array of a scheduler. */
#ifndef SLURM_H
#define SLURM_H

#include "tools/experiment/process.h"

/* The array as text: one file that can be read, changed and submitted by hand. A new string. */
char *slurm_text(const Plan *plan, const RunOrder *orders, int count);
/* Writes DIR/sweep.sbatch, submits it and waits until none of its jobs is left; one that was
 * submitted before and is not over is waited for instead. False after a message or a signal. */
bool slurm_make(const Plan *plan, const RunOrder *orders, int count);

#endif
