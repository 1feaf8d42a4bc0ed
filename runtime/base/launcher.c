#include "base/launcher.h"

#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

/* Value of an environment variable; -1 if it is not set or is not a number from 0. */
static int variable(const char *name) {
    const char *text = name ? getenv(name) : NULL;
    char *end = NULL;
    long value = text ? strtol(text, &end, 10) : -1;
    return end && end != text && !*end && value >= 0 && value < INT_MAX ? (int)value : -1;
}

/* First variable of two that is set. */
static int first_variable(const char *first, const char *second) {
    int value = variable(first);
    return value >= 0 ? value : variable(second);
}

/* The variables of each launcher. Inside a Slurm job, mpirun sets its own variables in addition to
 * those of Slurm, so it comes first. SLURM_STEP_NUM_TASKS is set by srun only, not in the script of
 * sbatch. */
static const struct {
    Launcher launcher;
    const char *command, *rank, *size, *local_rank, *local_size, *other_rank, *other_size;
} known[] = {
    {LAUNCHER_OPEN_MPI, "mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, NULL},
    {LAUNCHER_PMI, "mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
     "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"},
    {LAUNCHER_PMI, "srun", "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL, NULL, NULL},
    {LAUNCHER_SLURM, "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL, NULL,
     NULL},
    {LAUNCHER_TORCHRUN, "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", NULL,
     NULL},
};

ProcessGroup launch_read(void) {
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        ProcessGroup launch = {.launcher = known[i].launcher,
                               .command = known[i].command,
                               .rank = variable(known[i].rank),
                               .size = variable(known[i].size)};
        if (launch.rank < 0 || launch.size < 1 || launch.rank >= launch.size) continue;
        launch.local_rank = first_variable(known[i].local_rank, known[i].other_rank);
        launch.local_size = first_variable(known[i].local_size, known[i].other_size);
        if (launch.local_rank < 0) launch.local_rank = 0;
        if (launch.local_size < 1) launch.local_size = 1;
        return launch;
    }
    return (ProcessGroup){.command = "", .size = 1, .local_size = 1};
}

long launch_threads(const ProcessGroup *launch) {
    cpu_set_t set;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (launch->local_size < 2 || sched_getaffinity(0, sizeof set, &set) != 0) return 0;
    if (CPU_COUNT(&set) < processors) return 0;
    return processors > launch->local_size ? processors / launch->local_size : 1;
}
