/* measure: the loss of a model on windows of data. */
#ifndef MEASURE_H
#define MEASURE_H

#include "model/call.h"
#include "data/data.h"
#include "training/probes.h"

typedef struct Evaluation {
    double loss; /* of the model as written, mean over the calls */
    double nats; /* per token: of the next ones; the loss itself when the model has no logits */
    uint64_t tokens;
} Evaluation;

/* `count` windows of context + 1 tokens, the i-th at start + i * stride. call: of the graph
 * that measures. probes: of that call, or NULL; they are taken of full batches. False after a
 * message. */
bool measure_loss(Call *call, const Data *data, uint64_t start, uint64_t stride, uint64_t count,
                  Probes *probes, Evaluation *result);
/* The sequence length of the token input. */
long call_context(const Call *call);

#endif
