/* round_weights: the copies of parameters that products read: bf16, groups of int8, and the types
 * of panels (abi.h). Whenever weights change, a program rounds them again. Interpreter:
 * compiler/interpret/interpret_round.c. */
#ifndef MOEC_ROUND_WEIGHTS_H
#define MOEC_ROUND_WEIGHTS_H

#include "operands.h"

MOEC_ENTRY void moec_round(const float *weights, MoecBf16 *rounded, size_t count) {
#pragma omp parallel for simd schedule(static)
    for (size_t i = 0; i < count; i++) rounded[i] = moec_bf16(weights[i]);
}

MOEC_ENTRY void moec_round_groups(const float *weights, MoecGroup *rounded, size_t count) {
#pragma omp parallel for schedule(static)
    for (size_t g = 0; g < count / MOEC_GROUP; g++) {
        const float *from = weights + g * MOEC_GROUP;
        float most = 0.0f;
        for (int i = 0; i < MOEC_GROUP; i++) {
            const float size = from[i] < 0.0f ? -from[i] : from[i];
            most = size <= most ? most : size;
            if (from[i] != from[i]) most = from[i];
        }
        const float inverse = most > 0.0f && most <= 3.4e38f ? 127.0f / most : 0.0f;
        rounded[g].scale = most / 127.0f;
        for (int i = 0; i < MOEC_GROUP; i++) {
            const float step = from[i] * inverse;
            rounded[g].steps[i] = inverse > 0.0f
                                      ? (signed char)(step < 0.0f ? step - 0.5f : step + 0.5f)
                                      : (signed char)(most != 0.0f);
        }
    }
}

/* The nearest integer; exact, so that it does not depend on fused operations. */
MOEC_INLINE int moec_int4_step(float x, float inverse) {
    return (int)((double)x * (double)inverse + 8.5) - 8;
}

/* The scale of a group, before it is rounded to a half. The weight of largest magnitude is -8 times
 * the scale. If another multiple makes all weights exact, as in a file of such weights, it is that
 * multiple. */
MOEC_FUNCTION float moec_int4_scale(const float *x) {
    static const float steps[] = {-8, 7, -7, 6, -6, 5, -5, 4, -4, 3, -3, 2, -2, 1, -1};
    float most = 0.0f;
    for (int i = 0; i < MOEC_PANEL_DEPTH; i++) {
        if (x[i] != x[i]) return x[i];
        most = (x[i] < 0.0f ? -x[i] : x[i]) > (most < 0.0f ? -most : most) ? x[i] : most;
    }
    for (size_t t = 0; t < sizeof steps / sizeof *steps && most != 0.0f; t++) {
        const float scale = most / steps[t], inverse = 1.0f / scale,
                    stored = moec_from_half(moec_half(scale));
        int exact = stored == scale;
        for (int i = 0; exact && i < MOEC_PANEL_DEPTH; i++) {
            const int step = moec_int4_step(x[i], inverse);
            exact = step <= 7 && (float)step * scale == x[i];
        }
        if (exact) return scale;
    }
    return most / -8.0f;
}

/* Column j of a part. */
MOEC_FUNCTION void moec_round_int4(const float *x, MoecInt4 *to, long j) {
    const float scale = moec_int4_scale(x), inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    const int finite = inverse - inverse == 0.0f && scale - scale == 0.0f;
    for (int i = 0; i < MOEC_PANEL_DEPTH; i++) {
        int step = finite ? moec_int4_step(x[i], inverse) : scale != 0.0f;
        step = step > 7 ? 7 : step;
        to->steps[i / 8][j] = (i % 8 ? to->steps[i / 8][j] : 0) | (uint32_t)(step + 8) << i % 8 * 4;
    }
    to->scale[j] = moec_half(scale);
}

/* The same with -1, 0, 1: 0 are the weights of at most 0.7 times the mean absolute value (Li et al.
 * 2016), the scale is the mean absolute value of the others. All are 1 if one is not finite. Sums
 * are double, so that those of equal weights are exact. */
MOEC_FUNCTION void moec_round_ternary(const float *x, MoecTernary *to, long j) {
    double sum = 0, rest = 0;
    int count = 0;
    for (int i = 0; i < MOEC_TERNARY_DEPTH; i++) sum += (double)(x[i] < 0.0f ? -x[i] : x[i]);
    const int finite = sum - sum == 0.0;
    const float least = (float)(sum * (0.7 / MOEC_TERNARY_DEPTH));
    for (int i = 0; i < MOEC_TERNARY_DEPTH; i++) {
        const float size = x[i] < 0.0f ? -x[i] : x[i];
        const int some = !finite || size > least;
        const uint32_t step = !some ? 1 : finite && x[i] < 0.0f ? 0 : 2;
        rest += some ? (double)size : 0.0;
        count += some;
        to->steps[i / 16][j] = (i % 16 ? to->steps[i / 16][j] : 0) | step << MOEC_TERNARY_BIT(i);
    }
    to->scale[j] = count > 0 ? (float)(rest / count) : 0.0f;
}

/* The largest magnitude of these weights; infinite if one is not finite. */
MOEC_FUNCTION float moec_largest(const float *x, long count, long stride) {
    float most = 0.0f;
    for (long i = 0; i < count; i++) {
        const float size = moec_abs(x[i * stride]);
        if (!(size <= 0x1.fffffep127f)) return moec_from_bits(0x7F800000u);
        most = size > most ? size : most;
    }
    return most;
}

/* The power of two that belongs to a magnitude, times `factor`. It has a least value so that no
 * product with it is subnormal (compiler/transform/lower/operand_formats.c). */
MOEC_INLINE float moec_scale_of(float most, float factor) {
    const float least = 0x1p-96f, infinite = moec_from_bits(0x7F800000u);
    return most < infinite ? moec_power_of_two(most > least ? most : least) * factor : infinite;
}
MOEC_INLINE uint8_t moec_exponent(float power) { return (uint8_t)(moec_bits(power) >> 23); }

/* The bits of the nearest number of a format, see moec_to_format; `sign`: its highest bit. */
MOEC_INLINE uint32_t moec_code(float x, int digits, int lowest, float most, uint32_t sign) {
    const uint32_t bits = moec_bits(moec_to_format(x, digits, lowest, most)),
                   size = bits & 0x7FFFFFFFu, least = (uint32_t)(127 + lowest) << 23,
                   whole = (uint32_t)(moec_from_bits(size) *
                                      moec_from_bits((uint32_t)(127 + digits - lowest) << 23));
    return (size < least ? whole : (size - least + 0x800000u) >> (23 - digits)) |
           (bits >> 31) * sign;
}
MOEC_INLINE uint32_t moec_e4m3_code(float x) { return moec_code(x, 3, -6, 448.0f, 0x80); }
MOEC_INLINE uint32_t moec_e2m1_code(float x) { return moec_code(x, 1, 0, 6.0f, 0x8); }

/* The same for the power of two that is not below it. The largest weight becomes such a power if
 * rounding raises it: the weights keep their scale when they are rounded again. */
MOEC_INLINE float moec_scale_above(float most, float factor) {
    const float below = moec_scale_of(most, factor);
    return most * factor > below ? 2.0f * below : below;
}

/* A column of `scale`. All numbers are the smallest one if the scale is infinite. */
MOEC_FUNCTION void moec_round_e4m3(const float *x, float scale, MoecFp8 *to, long j) {
    const float inverse = 1.0f / scale;
    to->scale[j] = moec_exponent(scale);
    for (int i = 0; i < MOEC_PANEL_DEPTH; i++)
        to->codes[i][j] = (uint8_t)(inverse > 0.0f ? moec_e4m3_code(x[i] * inverse) : 1u);
}

/* `count` numbers of E2M1 from `first` on. */
MOEC_FUNCTION void moec_round_e2m1(const float *x, float scale, int first, int count,
                                   uint32_t (*codes)[MOEC_PANEL], long j) {
    const float inverse = 1.0f / scale;
    for (int i = first; i < first + count; i++)
        codes[i / 8][j] = (i % 8 ? codes[i / 8][j] : 0) |
                          (inverse > 0.0f ? moec_e2m1_code(x[i] * inverse) : 1u) << i % 8 * 4;
}

MOEC_FUNCTION void moec_round_mxfp4(const float *x, MoecMxfp4 *to, long j) {
    const float scale = moec_scale_of(moec_largest(x, MOEC_PANEL_DEPTH, 1), 1.0f / 4.0f);
    to->scale[j] = moec_exponent(scale);
    moec_round_e2m1(x, scale, 0, MOEC_PANEL_DEPTH, to->codes, j);
}

/* `most`: of the whole column. */
MOEC_FUNCTION void moec_round_nvfp4(const float *x, float most, MoecNvfp4 *to, long j) {
    const float common = moec_scale_of(most, 0x1p-10f);
    to->scale[j] = moec_exponent(common);
    for (int half = 0; half < 2; half++) {
        const float size = moec_largest(x + half * 16, 16, 1) / (6.0f * common),
                    nearest = moec_to_format(size == size ? size : 0.0f, 3, -6, 448.0f),
                    factor = nearest > 0x1p-9f ? nearest : 0x1p-9f;
        to->factor[half][j] = (uint8_t)moec_e4m3_code(factor);
        moec_round_e2m1(x, factor * common, half * 16, 16, to->codes, j);
    }
}

/* Terms of part `part` of column j of a panel. most: the largest weight of the column. */
MOEC_FUNCTION void moec_round_part(MoecType type, const float *x, float most, void *to, long part,
                                   long j) {
    switch (type) {
    case MOEC_TERNARY:
        moec_round_ternary(x, (MoecTernary *)to + part, j);
        break;
    case MOEC_FP8:
        moec_round_e4m3(x, moec_scale_above(most, 0x1p-8f), (MoecFp8 *)to + part, j);
        break;
    case MOEC_MXFP8:
        moec_round_e4m3(x, moec_scale_of(moec_largest(x, MOEC_PANEL_DEPTH, 1), 0x1p-8f),
                        (MoecFp8 *)to + part, j);
        break;
    case MOEC_MXFP4:
        moec_round_mxfp4(x, (MoecMxfp4 *)to + part, j);
        break;
    case MOEC_NVFP4:
        moec_round_nvfp4(x, most, (MoecNvfp4 *)to + part, j);
        break;
    default:
        moec_round_int4(x, (MoecInt4 *)to + part, j);
        break;
    }
}

MOEC_ENTRY void moec_round_panels(const MoecWeightCopy *one, const float *weights, void *rounded) {
    const long deep = one->type == MOEC_TERNARY ? (long)MOEC_TERNARY_DEPTH : (long)MOEC_PANEL_DEPTH,
               panels = moec_ceil_div(one->n, MOEC_PANEL), parts = one->k / deep;
    const int of_column = one->type == MOEC_FP8 || one->type == MOEC_NVFP4;
    const float *all = weights + one->weights / sizeof *weights;
    void *to = (char *)rounded + one->packed;
#pragma omp parallel for schedule(static)
    for (long at = 0; at < one->batch * panels; at++) {
        const long first = at % panels * MOEC_PANEL,
                   columns = moec_least(one->n - first, MOEC_PANEL);
        const float *from = all + at / panels * one->batch_stride + first * one->n_stride;
        float most[MOEC_PANEL] = {0};
        for (long j = 0; j < columns && of_column; j++)
            most[j] = moec_largest(from + j * one->n_stride, one->k, one->k_stride);
        for (long part = 0; part < parts; part++)
            for (long j = 0; j < MOEC_PANEL; j++) {
                float x[MOEC_TERNARY_DEPTH] = {0};
                for (long i = 0; i < deep && j < columns; i++)
                    x[i] = from[j * one->n_stride + (part * deep + i) * one->k_stride];
                moec_round_part(one->type, x, most[j], to, at * parts + part, j);
            }
    }
}

MOEC_ENTRY void moec_round_copy(const MoecWeightCopy *one, const float *weights, void *rounded) {
    const float *from = weights + one->weights / sizeof *weights;
    void *to = (char *)rounded + one->packed;
    if (one->type == MOEC_BF16)
        moec_round(from, to, (size_t)one->n);
    else if (one->type == MOEC_INT8)
        moec_round_groups(from, to, (size_t)one->n);
    else
        moec_round_panels(one, weights, rounded);
}

#endif
