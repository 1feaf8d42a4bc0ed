/* driver: the passes of the compiler, and programs of an open spec. */
#ifndef DRIVER_H
#define DRIVER_H

#include "spec/compiler.h"

typedef enum Machine { ANY, DEVICE } Machine;
struct Work;
struct KernelForm;

/* A row of the table of passes. Exactly one of its functions is set. */
typedef struct PassRow {
    const char *name;
    int graphs; /* graphs that the pass applies to */
    Machine machine;
    void (*run)(struct Work *work);
    void (*program)(Program *program);
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
/* The training or forward program of one process of the mesh; NULL after an error. */
Program *moec_compile_local(MoecCompiler *compiler, MoecGraph graph, long batch, long context);
/* The module of these programs after that pass; NULL after an error. */
struct Module *lowered_module(MoecCompiler *compiler, MoecProgram *const *programs, int count,
                              const Target *target, const char *pass);

#endif
