/* sweep_plan: what a sweep is to do: every variant with every seed, but those that are the same
 * model as an earlier one. */
#ifndef SWEEP_PLAN_H
#define SWEEP_PLAN_H

#include "moec.h"

#include <stdbool.h>

typedef struct Plan {
    const MoecExperiment *experiment;
    const char *file, *data, *validation, *tokenizer, *out; /* some may be NULL */
    const char *const *sets;                                /* those of the command */
    int set_count;
    const char *const *devices; /* shared out among the runs that go on at a time */
    int device_count;
    long jobs;
    const char
        *slurm; /* options of sbatch: the runs are jobs of a scheduler; NULL: of this machine */
    bool tensorboard;   /* of every run, as moec train has it */
    bool plain_program; /* the file for the scheduler says `moec`, wherever that is */
} Plan;

/* Runs that are to be made in all. */
long plan_runs(const Plan *plan);
/* As a table: variants, parameters, FLOPs. */
void plan_print(const Plan *plan);
/* How long it takes at least: what the runs compute, at the ceiling of the devices. False after a
 * message when a device is not there. */
bool plan_print_time(const Plan *plan);
/* Makes the folder and says in DIR/sweep.json what it holds. When there is one it must say the
 * same: false after a message that names what has changed. */
bool plan_keep(const Plan *plan);
/* A new string: DIR/VARIANT/seed_N. */
char *plan_folder(const Plan *plan, const MoecVariant *variant, long seed);

#endif
