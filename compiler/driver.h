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
    bool observes;          /* programs of the forward pass return their activations */
    bool observes_operands; /* the same of the inputs of products */
    List observed;          /* const char *: names of tensors that they return */
    bool differentiates;    /* training programs return the gradients of real inputs */
    Tuning *tuning;         /* NULL: the model has no transfer */
    List settings;          /* Setting * */
    bool checked;
    bool gathers;
    bool trains;                  /* its programs share weights with training */
    bool marks;                   /* the emitted C marks the end of each unit of work */
    List layouts;                 /* Layout * */
    const Experiment *experiment; /* the experiment that it was opened for, or NULL */
    MeshSizes mesh;               /* see moec_set_mesh */
    const char *extern_target;    /* see moec_use_externs */
    bool divides;                 /* programs of one process of it are compiled */
    MoecPassTime *times;          /* of the passes so far, by row of their table; or NULL */
};

typedef enum Machine { ANY, DEVICE } Machine;
struct Work;
struct KernelForm;

/* A row of the table of passes. Exactly one of run and loops is set. */
typedef struct PassRow {
    const char *name;
    int graphs; /* graphs that the pass applies to */
    Machine machine;
    void (*run)(struct Work *work);
    void (*loops)(Arena *arena, struct KernelForm *form,
                  const Target *target); /* for each kernel */
    unsigned needs, leaves,
        breaks; /* PassProperty: before the pass, after it, no longer after it */
} PassRow;

const PassRow *pass_rows(int *count);
/* The properties that a pass of a table needs and that are not among `properties`; of those that no
 * pass of this graph and machine leaves, none. */
unsigned pass_missing(const PassRow *rows, int count, const PassRow *pass, Graph graph,
                      Machine machine, unsigned properties);
/* Runs a step that may exceed the memory limit; returns false after reporting that it did. */
bool bounded(MoecCompiler *compiler, void (*run)(void *data), void *data);
/* A program of the model with the settings that apply to all graphs; NULL after an error. */
Program *elaborated(MoecCompiler *compiler, Graph graph, long batch, long context);
/* The training or forward program of one process of the mesh; NULL after an error. */
Program *moec_compile_local(MoecCompiler *compiler, MoecGraph graph, long batch, long context);
/* Warns about predictions that depend on the tokens that they predict. `forward`: the model. */
void warn_of_leaks(MoecCompiler *compiler, const Program *forward);
/* Adds the programs that belong to these: for whole-matrix updates to the elementwise one; in a
 * hosted text, for prepared tensors to that of decoding. Others have prepared tensors in files. */
MoecProgram *const *with_others(MoecCompiler *compiler, MoecProgram *const *programs, int *count,
                                bool hosted);
/* The module of these programs after that pass; NULL after an error. */
struct Module *lowered_module(MoecCompiler *compiler, MoecProgram *const *programs, int count,
                              bool device, const char *pass);

#endif
