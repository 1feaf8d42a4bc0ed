/* op: the table of pointwise operations in C and their values in double precision. */
#include "ir/ir.h"

#include <math.h>
#include <string.h>

/* The nearest number with so many digits after the leading one, of two the even one. Numbers below
 * 2^lowest have its distance between neighbors; larger ones become `most`. */
static double moec_to_format(double value, int digits, int lowest, double most) {
    if (value != value) return value;
    const double size = fmin(fabs(value), most);
    const int exponent = size > 0 ? ilogb(size) : lowest;
    const double unit = ldexp(1, (exponent < lowest ? lowest : exponent) - digits);
    return copysign(nearbyint(size / unit) * unit, value);
}

/* The largest power of two that is not above the absolute value; at least 2^-126, at most 2^127. */
static double moec_power_of_two(double value) {
    const double size = fmin(fmax(fabs(value), 0x1p-126), 0x1p127);
    return value != value ? value : ldexp(1, ilogb(size));
}

const OpRow op_table[OP_COUNT] = {
#define OP(name, text, arity, kind, level, zero, whole, rounds, cost, weight, c, value, d0, d1,    \
           d2)                                                                                     \
    {#name, text,   arity, OP_KIND_##kind, LEVEL_##level, ZERO_##zero, WHOLE_##whole, OP_##rounds, \
     cost,  weight, c,     #value,         {d0, d1, d2}},
#include "ir/op.def"
};

int op_find(const char *text, int arity) {
    for (int op = 0; op < OP_COUNT; op++)
        if (op_table[op].arity == arity && strcmp(op_table[op].text, text) == 0) return op;
    return -1;
}

bool op_is_random(OpCode op) {
    return op_table[op].kind == OP_KIND_RANDOM;
}

bool expr_is_truth(const Expr *expr) {
    return expr->kind == EXPR_APPLY && op_table[expr->op].kind == OP_KIND_TRUTH;
}

/* One loop per operation, which the C compiler vectorizes. */
void op_values(OpCode op, const double *const args[3], double *values, int count) {
    const double *first = args[0], *second = args[1] ? args[1] : first,
                 *third = args[2] ? args[2] : first;
    switch (op) {
#define OP(name, text, arity, kind, level, zero, whole, rounds, cost, weight, c_text, value, ...)  \
    case OP_##name:                                                                                \
        for (int i = 0; i < count; i++) {                                                          \
            const double a = first[i], b = second[i], c = third[i];                                \
            (void)a, (void)b, (void)c;                                                             \
            values[i] = value;                                                                     \
        }                                                                                          \
        break;
#include "ir/op.def"
    case OP_COUNT:
        break;
    }
}

double op_value(OpCode op, double a, double b, double c) {
    double value = 0;
    op_values(op, (const double *const[]){&a, &b, &c}, &value, 1);
    return value;
}
