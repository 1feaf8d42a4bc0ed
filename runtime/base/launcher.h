/* launcher: the processes that a launcher started together: mpirun, srun or torchrun, recognized by
 * the environment variables that they set. */
#ifndef LAUNCHER_H
#define LAUNCHER_H

typedef enum Launcher {
    LAUNCHER_NONE,
    LAUNCHER_OPEN_MPI, /* mpirun of Open MPI */
    LAUNCHER_PMI,      /* mpirun of MPICH and its derivatives; srun with PMI-2 or PMIx */
    LAUNCHER_SLURM,    /* srun without an interface for MPI */
    LAUNCHER_TORCHRUN
} Launcher;

typedef struct ProcessGroup {
    Launcher launcher;
    const char *command;        /* "mpirun", "srun", "torchrun"; "" without a launcher */
    int rank, size;             /* of all processes; 0 and 1 without a launcher */
    int local_rank, local_size; /* of those on this host; 0 and 1 if the launcher sets neither */
} ProcessGroup;

ProcessGroup launch_read(void);
/* Threads for each process if the processes of this host share its processors: 0 without a
 * launcher, or if the launcher has assigned processors to each process. */
long launch_threads(const ProcessGroup *launch);

#endif
