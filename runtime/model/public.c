#include "model/model.h"

#include "abi/step_path.h"
#include "base/memory.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* parts: NULL for a tensor that is not stacked. */
static PublicTensor one_tensor(const MoecTensor *tensor, const StepPath *parts, long step) {
    PublicTensor one = {.tensor = tensor};
    for (int i = parts ? 1 : 0; i < tensor->rank; i++) one.shape[one.rank++] = tensor->shape[i];
    one.count = tensor_count(tensor) / (size_t)(parts ? tensor->shape[0] : 1);
    one.offset = tensor->offset + (size_t)step * one.count * sizeof(float);
    const char *comma = parts ? strchr(tensor->axes, ',') : NULL;
    one.axes = memory_format("%s", !parts ? tensor->axes : comma ? comma + 1 : "");
    one.name = parts ? memory_format("%.*s%ld%s", parts->before, tensor->name,
                                     step_path_number(parts, step), parts->after)
                     : memory_format("%s", tensor->name);
    return one;
}

PublicTensor *public_tensors(const MoecTensor *tensors, int count, int *public_count) {
    PublicTensor *list = NULL;
    *public_count = 0;
    for (int i = 0; i < count; i++) {
        StepPath parts;
        bool stacked = step_path_read(tensors[i].name, &parts);
        long steps = stacked ? tensors[i].shape[0] : 1;
        list = memory_grow(list, sizeof *list * (size_t)(*public_count + steps));
        for (long step = 0; step < steps; step++)
            list[(*public_count)++] = one_tensor(&tensors[i], stacked ? &parts : NULL, step);
    }
    return list;
}

void public_free(PublicTensor *tensors, int count) {
    for (int i = 0; i < count; i++) {
        free(tensors[i].name);
        free(tensors[i].axes);
    }
    free(tensors);
}

bool has_public_name(const char *stacked, const char *name) {
    StepPath parts;
    if (!step_path_read(stacked, &parts)) return !strcmp(stacked, name);
    if (strncmp(stacked, name, (size_t)parts.before) || !isdigit((unsigned char)name[parts.before]))
        return false;
    char *end;
    strtol(name + parts.before, &end, 10);
    return !strcmp(end, parts.after);
}
