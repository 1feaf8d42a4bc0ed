/* left_out: a condition outside of which a value is a large negative number: its power is 0.
 *
 *     where(on[s,n], z[s,n], -1e30)                on[s,n]
 *     z[s,n] + (1 - on[s,n]) * -1e9 - most[s]      on[s,n]
 */
#include "transform/route/route.h"

#include "analysis/past.h"

Expr *as_truth(const Routing *routing, Expr *condition) {
    if (condition->kind == EXPR_APPLY && (condition->op == OP_GT || condition->op == OP_NE) &&
        expr_is_number(condition->args[1], 0) && is_zero_or_one(routing, condition->args[0]))
        return condition->args[0];
    if (is_zero_or_one(routing, condition)) return condition;
    return expr_apply(routing->program, OP_NE, condition, expr_number(routing->program, 0), NULL);
}

Expr *opposite(const Routing *routing, Expr *condition) {
    Program *program = routing->program;
    condition = as_truth(routing, condition);
    if (condition->kind == EXPR_APPLY && condition->op == OP_SUB &&
        expr_is_number(condition->args[0], 1))
        return condition->args[1];
    return expr_apply(program, OP_SUB, expr_number(program, 1), condition, NULL);
}

/* The condition of (1 - c) * -1e9 or (c - 1) * 1e9, or NULL. */
static Expr *penalty_condition(const Routing *routing, Expr *factor, const Expr *number) {
    if (number->kind != EXPR_NUMBER || factor->kind != EXPR_APPLY) return NULL;
    Expr *const *args = factor->args;
    if (number->number <= LEFT_OUT)
        return is_zero_or_one(routing, factor) ? opposite(routing, factor) : NULL;
    const bool reversed = factor->op == OP_SUB && expr_is_number(args[1], 1);
    return reversed && -number->number <= LEFT_OUT && is_zero_or_one(routing, args[0]) ? args[0]
                                                                                       : NULL;
}

static bool is_far_below(const Expr *expr) {
    return expr->kind == EXPR_NUMBER && expr->number <= LEFT_OUT;
}

/* left_out: see the head of this file; NULL if there is none. depth: equations on the way. */
Expr *left_out(const Routing *routing, Expr *expr, int depth) {
    Expr *const *args = expr->args, *found;
    if (expr->kind == EXPR_READ) {
        Expr *value = depth < MAX_MASK_DEPTH ? value_of_read(routing, expr) : NULL;
        return value ? left_out(routing, value, depth + 1) : NULL;
    }
    if (expr->kind != EXPR_APPLY) return NULL;
    switch (expr->op) {
    case OP_WHERE:
        if (is_far_below(args[2])) return as_truth(routing, args[0]);
        return is_far_below(args[1]) ? opposite(routing, args[0]) : NULL;
    case OP_ADD:
        found = left_out(routing, args[0], depth);
        return found ? found : left_out(routing, args[1], depth);
    case OP_MUL:
        found = penalty_condition(routing, args[0], args[1]);
        if (found) return found;
        found = penalty_condition(routing, args[1], args[0]);
        return found ? found : left_out(routing, args[0], depth);
    case OP_SUB:
    case OP_DIV:
        return left_out(routing, args[0], depth);
    default:
        return NULL;
    }
}
