/* data: training data in samples. A model of tokens reads a text whose bytes are the tokens; other
 * models read examples, a file with one tensor per input (tensors.h). */
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

/* Opens the data for a graph, without the validation data of `moec train`. Returns NULL or an error
 * message. */
const char *data_open(Data *data, const char *path, const MoecGraphEntry *graph, uint64_t seed);
void data_close(Data *data);
/* Copies the samples of a micro-batch, from number `position` on, to the inputs. Returns NULL or an
 * error message. */
const char *data_put(const Data *data, const MoecGraphEntry *graph, void **inputs,
                     uint64_t position);

#endif
