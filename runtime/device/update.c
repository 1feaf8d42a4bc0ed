/* update: scalars of an optimizer step, for all devices. */
#include "device/device.h"

#include "base/memory.h"

float *update_numbers(const MoecTable *table, const BlockUpdate *given) {
    const MoecUpdate *update = table->update;
    int width = update->scalar_count, count = update->group_count * width;
    float *numbers = memory_new(sizeof *numbers * (size_t)(count + 1));
    for (int i = 0; i < count; i++) numbers[i] = update->own[i] * given->scalars[i % width];
    for (int i = 0; i < table->parameter_count; i++) {
        const MoecTensor *one = &table->parameters[i];
        for (int j = 0; j < width && one->clip_group; j++)
            if (update->scalars[j].kind == MOEC_SCALAR_CLIP)
                numbers[one->group * width + j] = (float)given->clips[one->clip_group];
    }
    return numbers;
}
