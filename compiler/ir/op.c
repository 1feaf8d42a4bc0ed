/* op: the table of pointwise operations in C, and what each of them means in double precision. */
#include "ir/ir.h"

#include <math.h>
#include <string.h>

const OpRow op_table[OP_COUNT] = {
#define OP(name, text, arity, c, d0, d1, d2, cost) {#name, text, arity, c, {d0, d1, d2}, cost},
#include "ir/op.def"
#undef OP
};

int op_find(const char *text, int arity) {
    for (int op = 0; op < OP_COUNT; op++)
        if (op_table[op].arity == arity && strcmp(op_table[op].text, text) == 0) return op;
    return -1;
}

bool op_is_random(OpCode op) {
    return op == OP_UNIFORM || op == OP_NORMAL;
}

static double softplus(double x) {
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

double op_value(OpCode op, double a, double b, double c) {
    switch (op) {
    case OP_ADD:
        return a + b;
    case OP_SUB:
        return a - b;
    case OP_MUL:
        return a * b;
    case OP_DIV:
        return a / b;
    case OP_NEG:
        return -a;
    case OP_MIN:
        return a <= b ? a : b;
    case OP_MAX:
        return a >= b ? a : b;
    case OP_POW:
        return pow(a, b);
    case OP_MOD:
        return a - floor(a / b) * b;
    case OP_FLOOR:
        return floor(a);
    case OP_ABS:
        return fabs(a);
    case OP_SIGN:
        return (a > 0) - (a < 0);
    case OP_EXP:
        return exp(a);
    case OP_LOG:
        return log(a);
    case OP_SQRT:
        return sqrt(a);
    case OP_RSQRT:
        return 1 / sqrt(a);
    case OP_SIN:
        return sin(a);
    case OP_COS:
        return cos(a);
    case OP_TANH:
        return tanh(a);
    case OP_SIGMOID:
        return 1 / (1 + exp(-a));
    case OP_ERF:
        return erf(a);
    case OP_SOFTPLUS:
        return softplus(a);
    case OP_EQ:
        return a == b;
    case OP_NE:
        return a != b;
    case OP_LT:
        return a < b;
    case OP_LE:
        return a <= b;
    case OP_GT:
        return a > b;
    case OP_GE:
        return a >= b;
    case OP_AND:
        return a != 0 && b != 0;
    case OP_OR:
        return a != 0 || b != 0;
    case OP_NOT:
        return a == 0;
    case OP_WHERE:
        return a != 0 ? b : c;
    case OP_STOP:
        return a;
    case OP_UNIFORM:
    case OP_NORMAL:
    case OP_COUNT:
        break;
    }
    return 0;
}
