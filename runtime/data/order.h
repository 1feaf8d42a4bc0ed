/* order: the training sample of each step, a function of the seed and the sample number alone, so a
 * run can resume anywhere. Each epoch cuts the data into samples at a different offset and visits
 * them in shuffled order. Data of examples consists of samples already. */
#ifndef ORDER_H
#define ORDER_H

#include <stdint.h>

typedef struct Order {
    uint64_t seed;
    uint64_t count; /* tokens, at least context + 1; examples: 32-bit words in total */
    long context;
    uint64_t record; /* 32-bit words per example; 0 = samples of context + 1 tokens */
} Order;

/* Position of the first token (or word) of a sample. */
uint64_t order_start(const Order *order, uint64_t sample);
/* Number of samples per epoch. */
uint64_t order_epoch(const Order *order);
/* Number of samples at the end of the data that are reserved for validation: 5 % of `count` tokens,
 * at most ORDER_HELD_OUT. window: tokens per sample. */
enum { ORDER_HELD_OUT = 64 };
uint64_t order_held_out(uint64_t count, uint64_t window);

#endif
