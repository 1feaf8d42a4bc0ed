/* decoded: the loss of a model as it generates: token after token with its caches, reading no more
 * of them than a step of decoding does (attention.top_values). */
#ifndef DECODED_H
#define DECODED_H

#include "data/data.h"
#include "model/decoder.h"
#include "training/measure.h"

/* `count` windows of decoder->length + 1 tokens, the i-th at i * decoder->length, each from an
 * empty cache. False after a message. */
bool measure_decoded(Decoder *decoder, const Data *data, uint64_t count, Evaluation *result);

#endif
