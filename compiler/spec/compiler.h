/* compiler: an open spec: its declarations, model, options and requests. */
#ifndef COMPILER_H
#define COMPILER_H

#include "moec.h"

#include "passes.h"

struct MoecCompiler {
    Arena *arena, *scratch; /* scratch: of one step */
    size_t bytes_before;    /* of the arena, before the current bounded run */
    Reports reports;
    Unit *unit;
    const char *model;
    bool observes;           /* programs of the forward pass return their activations */
    bool observes_hessians;  /* the Hessians of their products */
    bool observes_applied;   /* the results of layers that are applied to parameters */
    List observed;           /* const char *: names of tensors that they return */
    bool differentiates;     /* training programs return the gradients of real inputs */
    Tuning *tuning;          /* NULL: the model has no transfer */
    const Program *training; /* the pass of training, if the spec tests for it */
    List settings;           /* Setting * */
    bool checked;
    bool gathers, reads_length, refines;
    bool trains;                  /* its programs share weights with training */
    bool marks;                   /* the emitted C marks the end of each unit of work */
    List layouts;                 /* Layout * */
    const Experiment *experiment; /* the experiment that it was opened for, or NULL */
    MeshSizes mesh;               /* see moec_set_mesh */
    const char *extern_target;    /* see moec_use_externs */
    bool divides;                 /* programs of one process of it are compiled */
    MoecPassTime *times;          /* of the passes so far, by row of their table; or NULL */
};

MoecCompiler *compiler_new(void);
/* Runs a step that may exceed the memory limit; returns false after reporting that it did. */
bool bounded(MoecCompiler *compiler, void (*run)(void *data), void *data);
/* A program of the model with the settings that apply to all graphs; NULL after an error. */
Program *elaborated(MoecCompiler *compiler, Graph graph, long batch, long context);
/* Elaborates the model once, so that its errors and settings are known before other queries. */
void elaborate_model(MoecCompiler *compiler);

#endif
