/* sweep_plan: the runs of a sweep: every variant with every seed, except variants that are the same
 * model as an earlier one. */
#ifndef SWEEP_PLAN_H
#define SWEEP_PLAN_H

#include "moec.h"

#include <jansson.h>
#include <stdbool.h>

typedef struct Plan {
    const MoecExperiment *experiment;
    const char *file, *data, *validation, *tokenizer, *out; /* some may be NULL */
    const char *const *sets;                                /* those of the command */
    int set_count;
    const char *const *devices; /* shared by the runs that are active at the same time */
    int device_count;
    long jobs;
    const char
        *slurm;     /* options of sbatch: the runs are jobs of a scheduler; NULL: of this machine */
    json_t *result; /* of --json; NULL: the plan and the table are printed as text */
    bool tensorboard;   /* of every run, as moec train has it */
    bool plain_program; /* the job script calls `moec` from PATH */
} Plan;

/* Runs that are to be made in all. */
long plan_runs(const Plan *plan);
/* Prints a table or adds to the result: variants, parameters, FLOPs. */
void plan_show(const Plan *plan);
/* Prints a lower bound of the duration or adds it to the result: the FLOPs of the runs at the
 * measured peak of the devices. False after a message if a device does not exist. */
bool plan_show_time(const Plan *plan);
/* Creates the folder and writes the plan to DIR/sweep.json. An existing file must have the same
 * content: false after a message that names the difference. */
bool plan_keep(const Plan *plan);
/* A new string: DIR/VARIANT/seed_N. */
char *plan_folder(const Plan *plan, const MoecVariant *variant, long seed);

#endif
