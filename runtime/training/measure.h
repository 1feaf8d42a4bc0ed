/* measure: the loss of a model on samples of data. */
#ifndef MEASURE_H
#define MEASURE_H

#include "model/call.h"
#include "data/data.h"
#include "training/probes.h"

typedef struct Evaluation {
    double loss; /* loss of the spec, averaged over the calls */
    double nats; /* cross-entropy in nats/token; the loss itself if the model has no logits */
    uint64_t tokens;
} Evaluation;

/* Measures `count` samples of context + 1 tokens; sample i starts at token start + i * stride.
 * call: of an evaluation graph. probes: of that call, or NULL; accumulated over full batches. False
 * after a message. */
bool measure_loss(Call *call, const Data *data, uint64_t start, uint64_t stride, uint64_t count,
                  Probes *probes, Evaluation *result);
/* The sequence length of the token input. */
long call_context(const Call *call);

#endif
