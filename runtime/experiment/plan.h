/* plan: what a sweep is to do: every variant with every seed, but those that are the same model as
 * an earlier one. */
#ifndef PLAN_H
#define PLAN_H

#include "moec.h"

#include <stdbool.h>

typedef struct Plan {
    const MoecExperiment *experiment;
    const char *file, *data, *validation, *tokenizer, *out, *device; /* some may be NULL */
    const char *const *sets;                                         /* those of the command */
    int set_count;
    long jobs;
} Plan;

/* Runs that are to be made in all. */
long plan_runs(const Plan *plan);
/* As a table: variants, parameters, FLOPs. */
void plan_print(const Plan *plan);
/* Makes the folder and says in DIR/sweep.json what it holds. When there is one it must say the
 * same: false after a message that names what has changed. */
bool plan_keep(const Plan *plan);
/* A new string: DIR/VARIANT/seed_N. */
char *plan_folder(const Plan *plan, const MoecVariant *variant, long seed);

#endif
