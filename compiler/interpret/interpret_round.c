/* interpreter_round: the same program with products that round their operands, as on a GPU if the
 * program asks for it.
 *
 * The distance to the exact evaluation is the error of rounding, independent of the implementation;
 * it bounds the error of a GPU. The direction of each rounding is random, and a single evaluation
 * with few numbers is not representative. An operand can be rounded at a scale, r(s x) / s, which
 * is equally accurate and an independent sample for each s in 1 .. 2. */
#include "analysis/contraction.h"
#include "interpret/interpreter.h"
#include "ir/weight_type.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

double interpreter_round(double value) {
    return interpreter_round_at(value, 1);
}

double interpreter_round_at(double value, double scale) {
    interpreter_round_all_at(&value, &value, 1, scale);
    return value;
}

void interpreter_round_all(double *to, const double *from, size_t count) {
    interpreter_round_all_at(to, from, count, 1);
}

enum { SIDE_BY_SIDE = 64 };

/* The upper halves of floats, rounded; values that are not finite stay. The loops are
 * vectorized. */
static void round_some(double *to, const double *from, int count, double scale) {
    float reals[SIDE_BY_SIDE];
    uint32_t bits[SIDE_BY_SIDE];
    const double back = 1 / scale;
#pragma omp simd
    for (int i = 0; i < count; i++) reals[i] = (float)(from[i] * scale);
    memcpy(bits, reals, (size_t)count * sizeof *bits);
#pragma omp simd
    for (int i = 0; i < count; i++) {
        const uint32_t rounded = (bits[i] + 0x7fff + (bits[i] >> 16 & 1)) & 0xffff0000u;
        bits[i] = (bits[i] & 0x7f800000u) == 0x7f800000u ? bits[i] : rounded;
    }
    memcpy(reals, bits, (size_t)count * sizeof *reals);
#pragma omp simd
    for (int i = 0; i < count; i++) to[i] = (double)reals[i] * back;
}

void interpreter_round_all_at(double *to, const double *from, size_t count, double scale) {
    for (size_t i = 0; i < count; i += SIDE_BY_SIDE) {
        const size_t left = count - i;
        round_some(to + i, from + i, left < SIDE_BY_SIDE ? (int)left : SIDE_BY_SIDE, scale);
    }
}

/* The nearest of -127 .. 127 times the largest absolute value of the group divided by 127, computed
 * as floats to match the runtime. */
void interpreter_round_groups(double *to, const double *from, size_t count) {
    for (size_t i = 0; i < count; i += INT8_GROUP) {
        size_t end = i + INT8_GROUP < count ? i + INT8_GROUP : count;
        float most = 0;
        for (size_t j = i; j < end; j++) most = fmaxf(most, fabsf((float)from[j]));
        float scale = most / 127.0f, inverse = most > 0 ? 127.0f / most : 0.0f;
        for (size_t j = i; j < end; j++) {
            float step = (float)from[j] * inverse;
            to[j] = (double)scale * (double)(int)(step < 0 ? step - 0.5f : step + 0.5f);
        }
    }
}

/* The nearest binary16 number, of two the even one. */
static float nearest_half(float value) {
    int exponent;
    frexp((double)value, &exponent);
    const double unit = ldexp(1, (exponent < -13 ? -13 : exponent) - 11),
                 nearest = nearbyint((double)value / unit) * unit;
    return fabs(nearest) > 65504 ? copysignf(INFINITY, value) : (float)nearest;
}

/* True if all are multiples -8 .. 7 of the scale. */
static bool are_multiples(const float *values, float scale) {
    for (int i = 0; i < INT4_GROUP; i++) {
        const double step = nearbyint((double)values[i] / (double)scale);
        if (step < -8 || step > 7 || step * (double)scale != (double)values[i]) return false;
    }
    return true;
}

/* A group becomes multiples -8 .. 7 of a binary16 number d. The value of largest magnitude, the
 * first of several, is -8 d before d is rounded. If all values are exact with another multiple, d
 * is that of the first such: 7, -7, 6, -6 .. -1. Ties round up. Computed as floats to match the
 * runtime. */
static void round_group(float *values) {
    float most = 0;
    for (int i = 0; i < INT4_GROUP; i++)
        if (fabsf(values[i]) > fabsf(most)) most = values[i];
    float scale = most / -8.0f;
    for (int size = 8; size > 0; size--)
        for (int sign = -1; sign <= 1; sign += 2) {
            const float other = most / (float)(size == 8 ? -8 : -sign * size);
            if (nearest_half(other) != other || !are_multiples(values, other)) continue;
            scale = other;
            size = sign = 1;
        }
    const float inverse = 1.0f / scale, stored = nearest_half(scale);
    for (int i = 0; i < INT4_GROUP; i++) {
        const double exact = (double)values[i] * (double)inverse;
        const int step = most != 0 && isfinite(inverse) ? (int)(exact + 8.5) - 8 : 0;
        values[i] = stored * (float)(step > 7 ? 7 : step);
    }
}

/* A group becomes -1, 0 and 1 times a number: 0 are the values of at most 0.7 times the mean
 * absolute value (Li et al. 2016), the number is the mean absolute value of the others. Groups of
 * -s, 0 and s stay as they are. Computed as floats to match the runtime. */
static void round_ternary(float *values) {
    double sum = 0, rest = 0;
    int count = 0;
    for (int i = 0; i < TERNARY_GROUP; i++) sum += fabs((double)values[i]);
    const float least = (float)(sum * (0.7 / TERNARY_GROUP));
    for (int i = 0; i < TERNARY_GROUP; i++)
        if (fabsf(values[i]) > least) rest += fabs((double)values[i]), count++;
    const float scale = count ? (float)(rest / count) : 0;
    for (int i = 0; i < TERNARY_GROUP; i++)
        values[i] = fabsf(values[i]) > least ? copysignf(scale, values[i]) : 0;
}

/* ---- formats: as rounded operands of products (operand_formats.c), computed as floats ---- */

static float largest_float(const float *values, long count) {
    float most = 0x1p-96f;
    for (long i = 0; i < count; i++) most = fmaxf(most, fabsf(values[i]));
    return most;
}

static float power_below(float most) {
    return (float)op_value(OP_E8M0, (double)most, 0, 0);
}

static void round_format(float *values, long count, OpCode format, float scale) {
    const float inverse = 1.0f / scale;
    for (long i = 0; i < count; i++) {
        const float units = values[i] * inverse;
        values[i] = (float)op_value(format, (double)units, 0, 0) * scale;
    }
}

/* The largest value can become a power of two, which keeps the scale. */
static void round_fp8(float *values, long count) {
    const float most = largest_float(values, count), power = power_below(most);
    round_format(values, count, OP_E4M3, power / (power < most ? 128.0f : 256.0f));
}

static void round_mxfp8(float *values) {
    round_format(values, INT4_GROUP, OP_E4M3,
                 power_below(largest_float(values, INT4_GROUP)) / 256.0f);
}

static void round_mxfp4(float *values) {
    round_format(values, INT4_GROUP, OP_E2M1,
                 power_below(largest_float(values, INT4_GROUP)) / 4.0f);
}

/* The scale of a group of 16 is a number of E4M3 times a power of two of the whole column. */
static void round_nvfp4(float *values, long count) {
    const float common = power_below(largest_float(values, count)) / 1024.0f;
    for (long i = 0; i < count; i += 16) {
        float most = 0;
        for (long j = i; j < i + 16; j++) most = fmaxf(most, fabsf(values[j]));
        const float size = most / (6.0f * common),
                    factor = fmaxf((float)op_value(OP_E4M3, (double)size, 0, 0), 0x1p-9f);
        round_format(values + i, 16, OP_E2M1, factor * common);
    }
}

/* The terms of one sum. */
static void round_terms(Type type, float *values, long count) {
    if (type == TYPE_FP8)
        round_fp8(values, count);
    else if (type == TYPE_NVFP4)
        round_nvfp4(values, count);
    else
        for (long i = 0; i < count; i += weight_type(type)->terms)
            (type == TYPE_INT4      ? round_group
             : type == TYPE_TERNARY ? round_ternary
             : type == TYPE_MXFP4   ? round_mxfp4
                                    : round_mxfp8)(values + i);
}

/* The parameter's element of element `at`. */
static long parameter_element(const Tensor *tensor, long at) {
    long subscript[MAX_RANK], element = 0;
    for (int i = tensor->rank - 1; i >= 0; i--) {
        subscript[tensor->matrices->order[i]] = at % tensor->axes[i]->size;
        at /= tensor->axes[i]->size;
    }
    for (int i = 0; i < tensor->rank; i++)
        element = element * tensor->of->axes[i]->size + subscript[i];
    return element;
}

void interpreter_round_matrices(double *to, const double *from, const Tensor *tensor) {
    const long count = tensor_elements(tensor), terms = tensor->matrices->k;
    float *values = malloc((size_t)terms * sizeof *values);
    if (!values) abort();
    for (long at = 0; at < count; at += terms) {
        for (long i = 0; i < terms; i++) values[i] = (float)from[parameter_element(tensor, at + i)];
        round_terms(tensor->type, values, terms);
        for (long i = 0; i < terms; i++) to[at + i] = (double)values[i];
    }
    free(values);
}

/* The scale of one operand; the first way is that of a GPU. */
double interpreter_round_scale(const Interpreter *interpreter, int index) {
    uint32_t bits = (uint32_t)(interpreter->way * 7919 + index) * 2654435761u;
    return interpreter->way == 1 ? 1 : 1 + (double)(bits >> 8) / 16777216.0;
}

static void round_steps(Interpreter *interpreter, PreparedStatement *step) {
    for (; step; step = step->next) {
        const Statement *statement = step->statement;
        round_steps(interpreter, step->body);
        if (statement->kind != STATEMENT_LOOP || statement->exact) continue;
        const Contraction *product = product_shape(interpreter->program, statement);
        if (!product || product->a_scale) continue; /* units are exact */
        for (int i = 0; i < step->value->count; i++) {
            const Tensor *tensor = statement->value->args[i]->tensor;
            step->value->args[i]->scale = interpreter_round_scale(interpreter, tensor->id);
        }
    }
}

/* interpreter_rounded: makes products round, except those that a selection depends on. */
void interpreter_rounded(Interpreter *interpreter, int way) {
    precision(interpreter->program);
    interpreter->way = way;
    round_steps(interpreter, interpreter->steps);
}
