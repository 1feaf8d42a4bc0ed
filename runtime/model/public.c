#include "model/public.h"

#include "base/memory.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The value of what stands between the braces: products and sums of numbers and the name of the
 * step, from left to right.
 *
 *     value:   product (('+' | '-') product)*
 *     product: factor ('*' factor)*
 *     factor:  number | name
 */
static long step_value(const char *text, const char *end, long step) {
    long sum = 0, product = 1;
    int sign = 1;
    while (text < end) {
        if (isdigit((unsigned char)*text)) {
            product *= strtol(text, (char **)(uintptr_t)&text, 10);
            continue;
        }
        if (isalpha((unsigned char)*text)) {
            product *= step;
            while (text < end && (isalnum((unsigned char)*text) || *text == '_')) text++;
            continue;
        }
        if (*text == '+' || *text == '-') {
            sum += sign * product;
            product = 1;
            sign = *text == '-' ? -1 : 1;
        }
        text++;
    }
    return sum + sign * product;
}

static PublicTensor one_tensor(const MoecTensor *tensor, long step, const char *open,
                               const char *close) {
    PublicTensor one = {.tensor = tensor};
    int first = open ? 1 : 0;
    for (int i = first; i < tensor->rank; i++) one.shape[one.rank++] = tensor->shape[i];
    one.count = tensor_count(tensor) / (size_t)(open ? tensor->shape[0] : 1);
    one.offset = tensor->offset + (size_t)step * one.count * sizeof(float);
    const char *comma = open ? strchr(tensor->axes, ',') : NULL;
    one.axes = memory_format("%s", !open ? tensor->axes : comma ? comma + 1 : "");
    one.name = open ? memory_format("%.*s%ld%s", (int)(open - tensor->name), tensor->name,
                                    step_value(open + 1, close, step), close + 1)
                    : memory_format("%s", tensor->name);
    return one;
}

PublicTensor *public_tensors(const MoecTensor *tensors, int count, int *public_count) {
    PublicTensor *list = NULL;
    *public_count = 0;
    for (int i = 0; i < count; i++) {
        const char *open = strchr(tensors[i].name, '{'), *close = open ? strchr(open, '}') : NULL;
        if (!close) open = NULL;
        long steps = open ? tensors[i].shape[0] : 1;
        list = memory_grow(list, sizeof *list * (size_t)(*public_count + steps));
        for (long step = 0; step < steps; step++)
            list[(*public_count)++] = one_tensor(&tensors[i], step, open, close);
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
