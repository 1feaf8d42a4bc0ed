/* driver: what the files behind the public header share. */
#ifndef DRIVER_H
#define DRIVER_H

#include "moec.h"

#include "passes.h"

struct MoecCompiler {
    Arena *arena;
    Reports reports;
    Unit *unit;
    const char *model;
    bool observes;       /* programs of the forward pass give their activations */
    bool differentiates; /* programs that train give the gradients of real inputs */
    Tuning *tuning;      /* NULL: the model names no transfer */
    List settings;       /* Setting * */
    bool checked;
    bool gathers;
    bool trains;                  /* its programs share weights with training */
    bool marks;                   /* they say when a unit of work ends */
    List layouts;                 /* Layout * */
    const Experiment *experiment; /* that it was opened for, or NULL */
};

/* Runs what may turn out to be too large; false when it did, and that was reported. */
bool bounded(MoecCompiler *compiler, void (*run)(void *data), void *data);
/* A program of the model with what the spec says of all of them; NULL after an error. */
Program *elaborated(MoecCompiler *compiler, Graph graph, long batch, long context);
/* Warns of predictions that depend on the tokens that they predict. `forward`: the model. */
void warn_of_leaks(MoecCompiler *compiler, const Program *forward);

#endif
