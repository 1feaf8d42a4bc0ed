/* refine_call: iterates the refinement of a model (MOEC_REFINE). */
#ifndef REFINE_CALL_H
#define REFINE_CALL_H

#include "model/call.h"

typedef struct Refinement {
    long steps;
    uint64_t seed;
    double temperature;
} Refinement;

/* Refines the inputs of the call from their starting values; those whose "NAME.given" is 1 keep
 * their values. False after a message. */
bool refine_call(Call *call, const Refinement *refinement);

/* The program of one refinement; NULL after a message. */
Model *refining_model(Device *device, MoecCompiler *compiler, const Safetensors *weights,
                      long batch, long context);

#endif
