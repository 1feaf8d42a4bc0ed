/* mesh_plan: predicted time and memory of a training step on the meshes of a cluster. */
#ifndef MESH_PLAN_H
#define MESH_PLAN_H

#include "passes.h"
#include "schedule/kernel.h"

/* One way to distribute the sequences of a step. Times are seconds of a step. */
typedef struct PlannedMesh {
    long size[MESH_AXES];
    long batch, micro_batches; /* of a process */
    double compute, exchanges, gradients, update;
    double hidden;       /* the part of `gradients` that could overlap with the passes */
    double memory;       /* bytes of a process */
    const char *refused; /* why it cannot be used, or NULL; without times if it cannot be divided */
} PlannedMesh;

/* An exchange in the passes of a process. Times in seconds. */
typedef struct TimedExchange {
    const Statement *statement;
    double runs;       /* per micro-batch */
    double seconds;    /* of one run */
    double exposed;    /* of all runs: the process waits */
    double hidden;     /* of all runs during `hider` */
    const char *hider; /* the unit that computes longest meanwhile, or NULL */
    int hiders;        /* units that compute meanwhile */
} TimedExchange;

typedef struct MeshPlan {
    Arena *arena;
    const char *model;
    const MachineRecord *machine;
    long processes, sequences, context; /* sequences of a step */
    bool zero;                          /* the optimizer state is distributed: train.zero */
    long lanes;                         /* train.reduction_lanes; 0: as many as processes */
    double copies;                      /* of the weights in the optimizer state */
    /* the update of whole matrices: bytes of another copy of its state, temporaries */
    double step_states, step_temporaries;
    double flops; /* products of a step, of all processes */
    List meshes;  /* PlannedMesh *, the fastest first; then the refused ones */
} MeshPlan;

/* Sets the times and the memory; the schedule is that of the program of a process. */
void mesh_predict(const MeshPlan *plan, PlannedMesh *mesh, const Schedule *schedule);
/* TimedExchange *: of the program of a process, in order. */
List mesh_exchanges(Arena *arena, const MachineRecord *machine, const Schedule *schedule);
/* The time of the gradients of a step over so many consecutive processes: each process receives the
 * slots of its keys, or the sums. */
double mesh_gradient_seconds(const MachineRecord *machine, long processes, bool slots,
                             double bytes);
/* The collectives of a local program as a table; data: processes, which share the micro-batches of
 * a step or the sequences of one. machine: adds times; NULL: no schedule is needed. */
const char *mesh_text(const Program *local, long data, const MachineRecord *machine,
                      const Schedule *schedule);
double planned_seconds(const PlannedMesh *mesh); /* of a step */
void mesh_plan_sort(MeshPlan *plan);
const char *mesh_plan_text(const MeshPlan *plan);
const char *mesh_plan_json(const MeshPlan *plan);

#endif
