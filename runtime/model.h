/* model: a loaded program with its memory: weights, states, gradients, the optimizer's states, and
 * the temporaries that all graphs share because only one runs at a time. */
#ifndef MODEL_H
#define MODEL_H

#include "abi.h"
#include "module.h"
#include "moec.h"
#include "products.h"
#include "public.h"
#include "safetensors.h"

typedef struct Wish {
    MoecGraph graph;
    long batch, context, tokens; /* 0: what the spec says */
} Wish;

typedef struct Model {
    Module *module;
    const MoecTable *table;
    Products *products;
    MoecHost host;
    PublicTensor *parameters, *states;
    int parameter_count, state_count;
    float *weights, *layer_states, *gradients;
    float **moments; /* the optimizer's states, each laid out like the weights */
    unsigned char *arena;
    size_t arena_bytes;
    bool trains;
} Model;

/* Compiles and loads the wished graphs. The compiler may be closed afterwards. NULL after a
 * message. */
Model *model_open(MoecCompiler *compiler, const Wish *wishes, int count, bool keep);
void model_close(Model *model);
/* The first graph of that kind, or NULL. */
const MoecGraphEntry *model_graph(const Model *model, MoecGraphKind kind);
/* Bytes of all blocks above. */
size_t model_bytes(const Model *model);

/* Values for all parameters and states as their `~` says, each from (seed, public name, element)
 * alone. */
void model_initialise(Model *model, uint64_t seed);
/* Fills parameters, states and, when optimizer is true, the optimizer's states from a file; false
 * after a message. States that the file lacks keep what they have. */
bool model_read(Model *model, const Safetensors *file, bool optimizer);
/* The entries to write a file with; *count receives how many. Notes get the axes of each. To be
 * released with entries_free. */
Entry *model_entries(const Model *model, bool optimizer, json_t *notes, int *count);
void entries_free(Entry *entries, int count);

#endif
