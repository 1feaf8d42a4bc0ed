/* decoded: the loss of a model in decoding mode: token by token with caches, with the cache reads
 * of a decoding step (option top_values of attention). */
#ifndef DECODED_H
#define DECODED_H

#include "data/data.h"
#include "model/decoder.h"
#include "training/measure.h"

/* Measures `count` samples of decoder->length + 1 tokens; sample i starts at token i *
 * decoder->length with an empty cache. False after a message. */
bool measure_decoded(Decoder *decoder, const Data *data, uint64_t count, Evaluation *result);

#endif
