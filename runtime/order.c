#include "order.h"

#include "random.h"

uint64_t order_epoch(const Order *order) {
    uint64_t context = (uint64_t)order->context, windows = (order->count - context) / context;
    return windows ? windows : 1;
}

uint64_t order_start(const Order *order, uint64_t sample) {
    uint64_t context = (uint64_t)order->context, windows = order_epoch(order),
             epoch = sample / windows;
    uint64_t slack = order->count - 1 - windows * context;
    if (slack >= context) slack = context - 1;
    uint64_t offset = random_bits(order->seed, epoch) % (slack + 1);
    uint64_t seed = random_bits(order->seed ^ 0x6F72646572u, epoch);
    return offset + context * random_permuted(seed, sample % windows, windows);
}
