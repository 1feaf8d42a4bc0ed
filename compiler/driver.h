/* driver: state shared by the implementation of the public header. */
#ifndef DRIVER_H
#define DRIVER_H

#include "moec.h"

#include "passes.h"

struct MoecCompiler {
    Arena *arena, *scratch; /* scratch: of one step */
    Reports reports;
    Unit *unit;
    const char *model;
    bool observes;       /* programs of the forward pass return their activations */
    List observed;       /* const char *: names of tensors that they return */
    bool differentiates; /* training programs return the gradients of real inputs */
    Tuning *tuning;      /* NULL: the model has no transfer */
    List settings;       /* Setting * */
    bool checked;
    bool gathers;
    bool trains;                  /* its programs share weights with training */
    bool marks;                   /* the emitted C marks the end of each unit of work */
    List layouts;                 /* Layout * */
    const Experiment *experiment; /* the experiment that it was opened for, or NULL */
    MeshSizes mesh;               /* see moec_set_mesh */
    bool divides;                 /* programs of one process of it are compiled */
    MoecPassTime *times;          /* of the passes so far, by row of their table; or NULL */
};

/* Runs a step that may exceed the memory limit; returns false after reporting that it did. */
bool bounded(MoecCompiler *compiler, void (*run)(void *data), void *data);
/* A program of the model with the settings that apply to all graphs; NULL after an error. */
Program *elaborated(MoecCompiler *compiler, Graph graph, long batch, long context);
/* Warns about predictions that depend on the tokens that they predict. `forward`: the model. */
void warn_of_leaks(MoecCompiler *compiler, const Program *forward);
/* Reports the first part of a module that freestanding C does not support. */
void refuse_freestanding(const struct Module *module, Reports *reports);
/* The module of these programs after that pass; NULL after an error. */
struct Module *lowered_module(MoecCompiler *compiler, MoecProgram *const *programs, int count,
                              bool device, const char *pass);

#endif
