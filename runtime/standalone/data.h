/* data: what the model learns from, in windows. A model of tokens learns from a text, whose bytes
 * are the tokens; one that reads other things learns from examples, a file with one tensor for each
 * of its inputs (tensors.h). */
#ifndef DATA_H
#define DATA_H

#include "abi.h"
#include "order.h"

typedef struct Data {
    unsigned char *text;
    int32_t *words; /* of examples, instead of a text: their inputs in the order of the slots, float
                       or int32_t */
    Order order;
} Data;

/* Opens the data for a graph, without what `moec train` keeps apart for validation. NULL, or what
 * is wrong. */
const char *data_open(Data *data, const char *path, const MoecGraphEntry *graph, uint64_t seed);
void data_close(Data *data);
/* The windows of a micro-batch, from number `position` on, into the inputs. NULL, or what is
 * wrong. */
const char *data_put(const Data *data, const MoecGraphEntry *graph, void **inputs,
                     uint64_t position);

#endif
