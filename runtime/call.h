/* call: one graph ready to be run: its inputs and outputs by name, its caches. */
#ifndef CALL_H
#define CALL_H

#include "model.h"

typedef struct Call {
    Model *model;
    const MoecGraphEntry *graph;
    void **inputs;   /* by slot */
    float **outputs; /* by slot */
    float *cache;
    bool owns_cache;
    size_t bytes; /* of inputs, outputs and cache */
} Call;

/* cache: the caches of another call of the same layout, or NULL for its own. NULL after a message.
 */
Call *call_open(Model *model, const MoecGraphEntry *graph, float *cache);
void call_close(Call *call);

/* Puts windows of batch * (sequence + 1) tokens into the inputs of kind token and next. */
void call_set_windows(Call *call, const int32_t *windows);
/* New tokens of a decode step, graph->tokens of them. */
void call_set_tokens(Call *call, const int32_t *tokens);
/* A number by name; nothing happens when the graph does not read it. */
void call_set_scalar(Call *call, const char *name, double value);
bool call_has_input(const Call *call, const char *name);
/* The first input that is neither token, next nor scalar, or NULL: what a text cannot give. */
const MoecTensor *call_foreign_input(const Call *call);
/* How many values the token input takes (0: any); 0 when there is none. */
long call_vocabulary(const Call *call);

void call_run(Call *call, uint64_t seed, bool last_micro_batch);

/* The slot of an output by name, or -1. */
int call_output(const Call *call, const char *name);

#endif
