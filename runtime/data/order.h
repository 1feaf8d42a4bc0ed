/* order: which window of the data is read when. A function of the seed and the number of the sample
 * alone, so that a run can go on anywhere: each epoch cuts the data into windows at an offset of
 * its own and visits them in a shuffled order. Data of examples falls into windows by itself. */
#ifndef ORDER_H
#define ORDER_H

#include <stdint.h>

typedef struct Order {
    uint64_t seed;
    uint64_t count; /* tokens, at least context + 1; of examples: the words of all */
    long context;
    uint64_t record; /* words of an example, which is a window; 0: windows of context + 1 tokens */
} Order;

/* Where a sample's window begins. */
uint64_t order_start(const Order *order, uint64_t sample);
/* Samples of an epoch. */
uint64_t order_epoch(const Order *order);
/* The windows at the end of `count` words that are kept apart for validation: a twentieth, at most
 * ORDER_HELD_OUT. */
enum { ORDER_HELD_OUT = 64 };
uint64_t order_held_out(uint64_t count, uint64_t window);

#endif
