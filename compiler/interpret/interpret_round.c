/* interpreter_round: the same program with products that round what they multiply, as a device's do
 * when the program asks for it.
 *
 * Its distance to the exact evaluation is what that rounding costs, however it is computed; a
 * device is held to it. Which numbers are rounded up and which down is chance, and with few numbers
 * one throw says little: an operand may be rounded at a scale, r(s x) / s, which is as good a
 * rounding as any and another throw for each s in 1 .. 2. */
#include "analysis/contraction.h"
#include "interpret/interpreter.h"

#include <math.h>
#include <stdint.h>

double interpreter_round(double value) {
    union {
        float real;
        uint32_t bits;
    } number = {.real = (float)value};
    if (!isfinite(number.real)) return value;
    number.bits += 0x7fff + (number.bits >> 16 & 1);
    number.bits &= 0xffff0000u;
    return (double)number.real;
}

double interpreter_round_at(double value, double scale) {
    return interpreter_round(value * scale) / scale;
}

void interpreter_round_all(double *to, const double *from, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] = interpreter_round(from[i]);
}

void interpreter_round_all_at(double *to, const double *from, size_t count, double scale) {
    for (size_t i = 0; i < count; i++) to[i] = interpreter_round_at(from[i], scale);
}

/* The nearest of -127 .. 127 times the largest of the group by 127; as floats, for that is what
 * decides between two. */
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

/* Of one operand; the first way is that of a device. */
double interpreter_round_scale(const Interpreter *interpreter, int place) {
    uint32_t bits = (uint32_t)(interpreter->way * 7919 + place) * 2654435761u;
    return interpreter->way == 1 ? 1 : 1 + (double)(bits >> 8) / 16777216.0;
}

static void round_steps(Interpreter *interpreter, Step *step) {
    for (; step; step = step->next) {
        const Statement *statement = step->statement;
        round_steps(interpreter, step->body);
        if (statement->kind != STATEMENT_LOOP || statement->exact ||
            !contraction(interpreter->program, statement))
            continue;
        for (int i = 0; i < step->value->count; i++) {
            const Tensor *tensor = statement->value->args[i]->tensor;
            step->value->args[i]->scale = interpreter_round_scale(interpreter, tensor->id);
        }
    }
}

/* interpreter_rounded: products round from now on, but for those that decide a choice. */
void interpreter_rounded(Interpreter *interpreter, int way) {
    precision(interpreter->program);
    interpreter->way = way;
    round_steps(interpreter, interpreter->steps);
}
