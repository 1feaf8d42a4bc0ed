/* process: a run of a sweep as a process of moec train. */
#ifndef PROCESS_H
#define PROCESS_H

#include "tools/experiment/sweep_plan.h"

#include <sys/types.h>

typedef struct RunOrder {
    const MoecVariant *variant;
    long seed;
    const char *device;
    long steps; /* in total; passed to the command if it differs from the variant */
    long until; /* pauses after this step; 0: no pause */
    bool trial; /* short run that measures the time per step, in VARIANT/pace */
} RunOrder;

/* A new string: DIR/VARIANT/seed_N. */
char *order_folder(const Plan *plan, const RunOrder *order);
/* The command of a run, as its user would type it: new strings, NULL at the end. */
char **order_command(const Plan *plan, const RunOrder *order);
void command_free(char **command);
/* Starts the run; its output is written to output.txt in its folder. -1 after a message. */
pid_t process_begin(const Plan *plan, const RunOrder *order);

#endif
