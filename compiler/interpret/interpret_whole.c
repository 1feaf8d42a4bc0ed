/* interpreter_whole: the values of integer expressions, in 64-bit integers, a strip of elements at
 * a time. */
#include "interpret/interpreter.h"

/* An operation on integers; a selection between two may depend on a real. */
static bool is_of_whole_numbers(const Expr *expr) {
    if (expr->kind != EXPR_APPLY) return false;
    for (int i = expr->op == OP_WHERE; i < expr->count; i++)
        if (!expr_is_whole(expr->args[i])) return false;
    return true;
}

/* The real 0.5 is true and not an integer. */
static EvalNode *prepare_condition(Interpreter *interpreter, const Expr *expr) {
    if (expr_is_whole(expr)) return interpreter_prepare_whole(interpreter, expr);
    Expr *zero = expr_number(interpreter->program, 0);
    return interpreter_prepare_whole(
        interpreter, expr_apply(interpreter->program, OP_NE, (Expr *)expr, zero, NULL));
}

EvalNode *interpreter_prepare_whole(Interpreter *interpreter, const Expr *expr) {
    EvalNode *node = arena_alloc(interpreter->arena, sizeof *node);
    bool quotient = expr_is_quotient(expr);
    node->whole = true;
    node->kind = expr->kind;
    if (expr->kind == EXPR_NUMBER) {
        for (int i = 0; i < STRIP; i++) node->whole_out[i] = whole_of(expr->number);
    } else if (!quotient && !is_of_whole_numbers(expr)) {
        node->real = interpreter_prepare(interpreter, expr);
    } else {
        const Expr *inner = quotient ? expr->args[0] : expr;
        node->op = inner->op;
        node->count = inner->count;
        for (int i = 0; i < inner->count; i++)
            node->args[i] = i == 0 && inner->op == OP_WHERE
                                ? prepare_condition(interpreter, inner->args[i])
                                : interpreter_prepare_whole(interpreter, inner->args[i]);
    }
    return node;
}

/* floor(a / b) is the only operation with a quotient. */
static void apply_whole(EvalNode *node, const int64_t *const args[3], int count) {
    const int64_t *a = args[0], *b = args[1], *c = args[2];
    for (int j = 0; j < count; j++)
        node->whole_out[j] = node->op == OP_DIV
                                 ? whole_quotient(a[j], b[j])
                                 : whole_value(node->op, a[j], b ? b[j] : 0, c ? c[j] : 0);
}

const int64_t *interpreter_whole_strip(Interpreter *interpreter, EvalNode *node, int count) {
    if (node->real) {
        const double *real = interpreter_strip(interpreter, node->real, count);
        for (int j = 0; j < count; j++) node->whole_out[j] = whole_of(real[j]);
    } else if (node->kind != EXPR_NUMBER) {
        const int64_t *args[3] = {NULL, NULL, NULL};
        for (int i = 0; i < node->count; i++)
            args[i] = interpreter_whole_strip(interpreter, node->args[i], count);
        apply_whole(node, args, count);
    }
    return node->whole_out;
}
