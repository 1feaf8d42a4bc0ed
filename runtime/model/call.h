/* call: one graph ready to be run: its inputs and outputs by name, its caches. */
#ifndef CALL_H
#define CALL_H

#include "model/model.h"

typedef struct Call {
    Model *model;
    const MoecGraphEntry *graph;
    void **inputs;   /* by slot */
    float **outputs; /* by slot */
    /* The blocks that those lie in, and the same where the device has them: the same blocks on the
     * CPU. */
    unsigned char *input_block, *output_block, *input_block_there, *output_block_there;
    void **inputs_there;
    float **outputs_there;
    size_t input_bytes, output_bytes;
    size_t number_bytes; /* of the outputs of one value, at the beginning of their block */
    float *cache;        /* the device's */
    bool owns_cache;
    /* What call_run does of a training graph in two parts, and where, on the CPU, what lies between
     * them is kept; NULL: in the arena of all graphs. */
    MoecPart part;
    unsigned char *arena;
    bool begins;  /* call_run of a training graph makes gradients; otherwise it adds to them */
    size_t bytes; /* of inputs, outputs and cache */
} Call;

/* cache: the caches of another call of the same layout, or NULL for its own. NULL after a message.
 */
Call *call_open(Model *model, const MoecGraphEntry *graph, float *cache);
void call_close(Call *call);

/* Puts windows of batch * (sequence + 1) tokens into the inputs of kind token and next. */
void call_set_windows(Call *call, const int32_t *windows);
/* Gives a call what another one of its model reads, input by input of the same name. */
void call_share_inputs(Call *to, const Call *from);
/* New tokens of a decode step, graph->tokens of them. */
void call_set_tokens(Call *call, const int32_t *tokens);
/* A number; nothing happens when the graph does not read it. */
void call_set_scalar(Call *call, MoecScalar kind, double value);
bool call_has_scalar(const Call *call, MoecScalar kind);
/* The first input that is neither token, next nor scalar, or NULL: what a text cannot give. */
const MoecTensor *call_foreign_input(const Call *call);
/* How many values the token input takes (0: any); 0 when there is none. */
long call_vocabulary(const Call *call);

/* False after a message of the device; outputs of a device apart are then to be fetched. */
bool call_run(Call *call, uint64_t seed, bool last_micro_batch);
/* An output, fetched where the device is apart; NULL after a message. */
const float *call_get(Call *call, int slot);
/* Fetches all outputs of one value. */
bool call_get_numbers(Call *call);

/* The slot of an output by name, or -1. */
int call_output(const Call *call, const char *name);

#endif
