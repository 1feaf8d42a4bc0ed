/* interpreter_round: the same program with products that round their operands, as on a GPU if the
 * program asks for it.
 *
 * The distance to the exact evaluation is the error of rounding, independent of the implementation;
 * it bounds the error of a GPU. The direction of each rounding is random, and a single evaluation
 * with few numbers is not representative. An operand can be rounded at a scale, r(s x) / s, which
 * is equally accurate and an independent sample for each s in 1 .. 2. */
#include "analysis/contraction.h"
#include "base/must.h"
#include "interpret/interpreter.h"

#include <math.h>
#include <stdint.h>
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

/* The scale of one operand; the first way is that of a GPU. */
double interpreter_round_scale(const Interpreter *interpreter, int index) {
    uint32_t bits = (uint32_t)(interpreter->way * 7919 + index) * 2654435761u;
    return interpreter->way == 1 ? 1 : 1 + (double)(bits >> 8) / 16777216.0;
}

static void round_steps(Interpreter *interpreter, PreparedStatement *step) {
    for (; step; step = step->next) {
        const Statement *statement = step->statement;
        round_steps(interpreter, step->body);
        if (statement->kind != STATEMENT_LOOP || statement->exact ||
            !product_shape(interpreter->program, statement))
            continue;
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
