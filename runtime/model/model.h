/* model: a loaded program with its memory: weights, states, gradients, the optimizer's states, and
 * the temporaries that all graphs share because only one runs at a time. */
#ifndef MODEL_H
#define MODEL_H

#include "abi/abi.h"
#include "device/device.h"
#include "model/module.h"
#include "moec.h"
#include "device/products.h"
#include "model/public.h"
#include "data/safetensors.h"

typedef struct GraphShape {
    MoecGraph graph;
    long batch, context, tokens; /* 0: what the spec says */
} GraphShape;

/* Where the device has the same; on the CPU these are the blocks of the model itself. */
typedef struct ModelMemory {
    float *weights, *layer_states, *gradients;
    float **moments;
    void *rounded; /* the weights as bf16, where a program reads them so */
    unsigned char *arena;
    unsigned char *block; /* all of the above in one piece, when the device's memory is apart */
    size_t bytes;
} ModelMemory;

typedef struct Model {
    Device *device;
    Module *module;
    const MoecTable *table;
    Engine *engine;
    PublicTensor *parameters, *states;
    int parameter_count, state_count;
    float *weights, *layer_states, *gradients;
    float **moments; /* the optimizer's states, each laid out like the weights */
    float *own;      /* the weights that are trained, while their averages are in their place */
    size_t arena_bytes;
    bool trains;
    ModelMemory there;
} Model;

/* Compiles and loads the graphs, MOEC_GATHER beside MOEC_TRAIN where the model has it. keep: the
 * cache is used. The compiler may be closed afterwards. NULL after a message. */
Model *model_open(Device *device, MoecCompiler *compiler, const GraphShape *shapes, int count,
                  bool keep);
/* One graph that can be given weights but not run: nothing is compiled. Closed before the
 * compiler. */
Model *model_describe(MoecCompiler *compiler, const GraphShape *shape);
void model_close(Model *model);
/* Copies weights and all states to the device, after the host has changed them; or back, before it
 * reads them. Nothing happens where they are the same. */
bool model_put(const Model *model);
bool model_put_weights(const Model *model); /* these alone, and as they are rounded */
/* Makes the bf16 copies of weights anew, where there are any, after the device has changed them. */
bool model_round(const Model *model);
bool model_get(const Model *model, bool optimizer);
/* An optimizer may keep a mean of the weights, the state `average`: while what others read is
 * measured, it is in their place. False after a message. */
bool model_take_averages(Model *model);
bool model_give_averages(Model *model);
bool model_get_gradients(const Model *model);
/* Whether weights and the optimizer's states are finite numbers, where the device has them; false
 * when that does not tell. */
bool model_finite(const Model *model, bool *finite);
/* Says that "the loss is", or "a logit is", not a finite number, and which weight was not; returns
 * false.
 */
bool model_tell_nonsense(const Model *model, const char *what);
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
/* The same to begin a run with: weights and states that both have are the file's. What the file
 * lacks is as it was when `lacking` allows it, what the model lacks is left; both are listed. False
 * after messages about all that does not fit. */
bool model_begin(Model *model, const Safetensors *file, bool lacking);
/* The entries to write a file with; *count receives how many. NULL after a message when the device
 * does not give them. Notes get the axes of each. To be released with entries_free. */
Entry *model_entries(const Model *model, bool optimizer, json_t *notes, int *count);
void entries_free(Entry *entries, int count);

#endif
