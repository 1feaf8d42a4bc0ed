/* RMSNorm in C with its gradient, for `moec verify rms_norm --against ./fused_norm.so:fused_norm`.
 *
 *     cc -O2 -shared -fPIC -Iruntime/library examples/fused_norm.c -o fused_norm.so -lm
 */
#include "moec_against.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double eps = 1e-6;

static double load(MoecAgainstType type, const void *from, int64_t i) {
    if (type == MOEC_AGAINST_F64) return ((const double *)from)[i];
    if (type == MOEC_AGAINST_F32) return ((const float *)from)[i];
    uint32_t bits = (uint32_t)((const uint16_t *)from)[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void store(MoecAgainstType type, void *to, int64_t i, double value) {
    float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    if (type == MOEC_AGAINST_F64) ((double *)to)[i] = value;
    if (type == MOEC_AGAINST_F32) ((float *)to)[i] = single;
    if (type == MOEC_AGAINST_BF16) /* to nearest, ties to even */
        ((uint16_t *)to)[i] = (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static MoecAgainstTensor *find(MoecAgainstTensor *tensors, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (!strcmp(tensors[i].name, name)) return &tensors[i];
    return NULL;
}

int fused_norm(const MoecAgainstCall *call, char *message) {
    MoecAgainstTensor *x = find(call->given, call->given_count, "x"),
                      *weight = find(call->given, call->given_count, "weight"),
                      *y = find(call->results, call->result_count, "y");
    if (!x || !weight || !y || weight->count < 1) {
        snprintf(message, MOEC_AGAINST_MESSAGE, "expected x, weight and y");
        return -1;
    }
    const MoecAgainstType type = x->type;
    const int64_t width = weight->count, rows = x->count / width;
    /* The gradient of the weight is a sum over all rows: in bf16 it would lose most of them. */
    double *sums = calloc((size_t)width, sizeof *sums);
    if (!sums) return -1;
    for (int64_t row = 0; row < rows; row++) {
        const int64_t first = row * width;
        double squares = 0, along = 0;
        for (int64_t i = 0; i < width; i++) {
            double value = load(type, x->values, first + i);
            squares += value * value;
            along += value * load(type, weight->values, i) * load(type, y->gradient, first + i);
        }
        const double scale = 1 / sqrt(squares / (double)width + eps);
        for (int64_t i = 0; i < width; i++) {
            double value = load(type, x->values, first + i), w = load(type, weight->values, i),
                   dy = load(type, y->gradient, first + i);
            sums[i] += dy * value * scale;
            store(type, y->values, first + i, value * scale * w);
            store(type, x->gradient, first + i,
                  scale * (dy * w - value * scale * scale * along / (double)width));
        }
    }
    for (int64_t i = 0; i < width; i++) store(type, weight->gradient, i, sums[i]);
    free(sums);
    return MOEC_AGAINST_GOOD;
}
