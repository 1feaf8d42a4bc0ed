/* order: which window of the data is read when. A function of the seed and the number of the sample
 * alone, so that a run can go on anywhere: each epoch cuts the data into windows at an offset of
 * its own and visits them in a shuffled order. */
#ifndef ORDER_H
#define ORDER_H

#include <stdint.h>

typedef struct Order {
    uint64_t seed;
    uint64_t count; /* tokens, at least context + 1 */
    long context;
} Order;

/* The first token of a sample's window of context + 1 tokens. */
uint64_t order_start(const Order *order, uint64_t sample);
/* Samples of an epoch. */
uint64_t order_epoch(const Order *order);

#endif
