/* whole: integer arithmetic of subscripts.
 *
 * Integers have 64 bits and wrap in two's complement. A remainder has the sign of its divisor; a
 * quotient is rounded down; a % 0 is a. Values that are not integers, floor(a / 0) or a real beyond
 * 64 bits, become the least integer, which is outside of every axis.
 */
#include "ir/ir.h"

#include <limits.h>
#include <math.h>

#define MAX_CONSTANT 1e30

/* names: temporaries with integer equations count, independent of the type of their memory. */
static bool is_whole(const Expr *expr, bool names);

static bool are_whole(const Expr *expr, int first, bool names) {
    for (int i = first; i < expr->count; i++)
        if (!is_whole(expr->args[i], names)) return false;
    return true;
}

static bool is_whole(const Expr *expr, bool names) {
    switch (expr->kind) {
    case EXPR_NUMBER: /* in names: -1e38 is a bound of reals */
        return isfinite(expr->number) && expr->number == floor(expr->number) &&
               (!names || fabs(expr->number) < MAX_CONSTANT);
    case EXPR_INDEX:
        return true;
    case EXPR_READ:
        return expr->tensor->type == TYPE_INT || (names && expr->tensor->integer);
    case EXPR_APPLY:
        break;
    }
    switch (op_table[expr->op].whole) {
    case WHOLE_ALWAYS:
        return true;
    case WHOLE_KEPT:
        return are_whole(expr, 0, names);
    case WHOLE_CHOSEN:
        return are_whole(expr, 1, names);
    case WHOLE_NEVER:
        break;
    }
    return false;
}

bool expr_is_whole(const Expr *expr) {
    return is_whole(expr, false);
}

bool expr_names_whole(const Expr *expr) {
    return is_whole(expr, true);
}

bool expr_is_quotient(const Expr *expr) {
    return expr->kind == EXPR_APPLY && expr->op == OP_FLOOR && expr->args[0]->kind == EXPR_APPLY &&
           expr->args[0]->op == OP_DIV && are_whole(expr->args[0], 0, false);
}

bool expr_is_block(const Expr *expr, const Index *index, long *size) {
    if (expr->kind != EXPR_APPLY || expr->op != OP_FLOOR) return false;
    const Expr *ratio = expr->args[0];
    if (ratio->kind != EXPR_APPLY || ratio->op != OP_DIV || ratio->args[0]->kind != EXPR_INDEX ||
        ratio->args[0]->index != index || ratio->args[1]->kind != EXPR_NUMBER)
        return false;
    const double number = ratio->args[1]->number;
    *size = number >= 1 && number <= INT_MAX && number == floor(number) ? (long)number : 0;
    return *size > 0;
}

bool expr_counts(const Expr *expr) {
    if (expr_is_quotient(expr))
        return expr_counts(expr->args[0]->args[0]) && expr_counts(expr->args[0]->args[1]);
    if (!expr_is_whole(expr)) return false;
    if (expr->kind == EXPR_NUMBER) return fabs(expr->number) <= WHOLE_MAX;
    if (expr->kind != EXPR_APPLY) return true;
    for (int i = 0; i < expr->count; i++)
        if (!expr_counts(expr->args[i])) return false;
    return true;
}

bool expr_is_exact(const Expr *expr) {
    if (expr->kind != EXPR_APPLY) return false;
    if (expr->op == OP_MOD) return are_whole(expr, 0, false);
    bool compares = expr->op >= OP_EQ && expr->op <= OP_GE;
    return expr_is_quotient(expr) || (compares && expr_counts(expr));
}

int64_t whole_of(double number) {
    return number >= -0x1p63 && number < 0x1p63 ? (int64_t)number : INT64_MIN;
}

static int64_t remainder_of(int64_t a, int64_t b) {
    if (b == 0 || b == -1) return b ? 0 : a;
    int64_t rest = a % b;
    return rest && (rest < 0) != (b < 0) ? rest + b : rest;
}

int64_t whole_quotient(int64_t a, int64_t b) {
    if (b == 0 || (b == -1 && a == INT64_MIN)) return INT64_MIN;
    return a / b - (a % b && (a < 0) != (b < 0));
}

int64_t whole_value(OpCode op, int64_t a, int64_t b, int64_t c) {
    switch (op) {
    case OP_ADD:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    case OP_SUB:
        return (int64_t)((uint64_t)a - (uint64_t)b);
    case OP_MUL:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case OP_NEG:
        return (int64_t)(0 - (uint64_t)a);
    case OP_ABS:
        return a < 0 ? (int64_t)(0 - (uint64_t)a) : a;
    case OP_MIN:
        return a <= b ? a : b;
    case OP_MAX:
        return a >= b ? a : b;
    case OP_MOD:
        return remainder_of(a, b);
    case OP_SIGN:
        return (a > 0) - (a < 0);
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
    default:
        return a; /* floor and stop */
    }
}

/* ---- splitting ---- */

static bool is_op(const Expr *expr, OpCode op) {
    return expr->kind == EXPR_APPLY && expr->op == op;
}

/* Matches size * n + i with i below size: sets both. */
static bool is_joined(const Expr *expr, double size, Expr **number, Expr **rest) {
    if (!is_op(expr, OP_ADD) || !is_op(expr->args[0], OP_MUL)) return false;
    const Expr *product = expr->args[0];
    *number = product->args[0];
    *rest = expr->args[1];
    return expr_is_number(product->args[1], size) && expr_is_whole(*number) &&
           (*rest)->kind == EXPR_INDEX && (double)(*rest)->index->axis->size <= size;
}

Expr *whole_fold(OpCode op, Expr *a, const Expr *b) {
    Expr *number, *rest;
    if (op == OP_FLOOR && expr_is_whole(a)) return a;
    if (op == OP_FLOOR && is_op(a, OP_DIV) && a->args[1]->kind == EXPR_NUMBER)
        return is_joined(a->args[0], a->args[1]->number, &number, &rest) ? number : NULL;
    if (op == OP_MOD && b->kind == EXPR_NUMBER)
        return is_joined(a, b->number, &number, &rest) ? rest : NULL;
    if (op == OP_SUB && is_op(b, OP_SUB) && a->kind == EXPR_NUMBER &&
        expr_is_number(b->args[0], a->number) && expr_is_whole(b->args[1]))
        return b->args[1];
    if (op != OP_ADD || !is_op(b, OP_MOD) || !is_op(a, OP_MUL) || !is_op(a->args[0], OP_FLOOR) ||
        !is_op(a->args[0]->args[0], OP_DIV))
        return NULL;
    const Expr *quotient = a->args[0]->args[0];
    bool same = expr_equal(quotient->args[1], a->args[1]) && expr_equal(b->args[1], a->args[1]) &&
                expr_equal(quotient->args[0], b->args[0]);
    return same && a->args[1]->kind == EXPR_NUMBER && expr_is_whole(a->args[1]) &&
                   expr_is_whole(b->args[0])
               ? b->args[0]
               : NULL;
}
