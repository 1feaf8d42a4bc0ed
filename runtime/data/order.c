#include "order.h"

#include "random.h"

uint64_t order_epoch(const Order *order) {
    if (order->record) return order->count / order->record;
    uint64_t context = (uint64_t)order->context, windows = (order->count - context) / context;
    return windows ? windows : 1;
}

static uint64_t start_of_tokens(const Order *order, uint64_t epoch, uint64_t window) {
    uint64_t context = (uint64_t)order->context, windows = order_epoch(order);
    uint64_t slack = order->count - 1 - windows * context;
    if (slack >= context) slack = context - 1;
    uint64_t offset = random_bits(order->seed, epoch) % (slack + 1);
    uint64_t seed = random_bits(order->seed ^ 0x6F72646572u, epoch);
    return offset + context * random_permuted(seed, window, windows);
}

static uint64_t start_of_example(const Order *order, uint64_t epoch, uint64_t example) {
    uint64_t seed = random_bits(order->seed ^ 0x6578616D70u, epoch);
    return order->record * random_permuted(seed, example, order_epoch(order));
}

uint64_t order_start(const Order *order, uint64_t sample) {
    uint64_t epoch = sample / order_epoch(order), place = sample % order_epoch(order);
    return order->record ? start_of_example(order, epoch, place)
                         : start_of_tokens(order, epoch, place);
}

uint64_t order_held_out(uint64_t count, uint64_t window) {
    uint64_t windows = count / 20 / window;
    if (!windows && count >= 4 * window) windows = 1;
    return windows < ORDER_HELD_OUT ? windows : ORDER_HELD_OUT;
}
