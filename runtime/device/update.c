/* update: scalars of an optimizer step, for all devices. */
#include "device/device.h"

#include "base/memory.h"

float *update_numbers(const MoecUpdate *update, const float *scalars) {
    int width = update->scalar_count, count = update->group_count * width;
    float *numbers = memory_new(sizeof *numbers * (size_t)(count + 1));
    for (int i = 0; i < count; i++) numbers[i] = update->own[i] * scalars[i % width];
    return numbers;
}
