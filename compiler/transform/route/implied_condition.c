/* implied_condition: a condition outside of which an expression and all its derivatives are 0.
 *
 *     w[s,n] = max(z[s,n], 0)                          z[s,n] >= 0
 *     w[s,n] = where(out[s,n], 0, g[s,n]) * u[s,n]     1 - out[s,n]
 *     w[s,n] = exp(where(on[s,n], z[s,n], -1e9) - m)   where(on[s,n], z[s,n], -1e9) - m > -800
 *     w[s,n] = first[s,n] - second[s,n]                first[s,n] != second[s,n]
 *
 * At z = 0 the derivative of the first is 1. The power of the third is 0 in every precision where
 * its condition is false; if no entry is selected, it is true for all of them.
 */
#include "transform/route/route.h"

typedef struct Implied {
    const Routing *routing;
    const Statement *region; /* the repeat around the expression */
    bool *of_data;           /* set for a condition that depends on more than positions */
    int depth;
} Implied;

static Expr *condition_of(const Implied *implied, Expr *expr);

static Expr *noted(const Implied *implied, Expr *condition) {
    *implied->of_data |= expr_has_reads(condition);
    return condition;
}

/* Both conditions hold, or the one that is known. */
static Expr *conjunction(const Implied *implied, Expr *a, Expr *b) {
    if (!a || !b) return a ? a : b;
    return expr_equal(a, b) ? a : expr_apply(implied->routing->program, OP_MUL, a, b, NULL);
}

typedef struct Changes {
    const DefUse *def_use;
    int position;
    bool found;
} Changes;

static void find_changed_operand(Expr *expr, void *data) {
    Changes *changes = data;
    if (expr->kind == EXPR_READ)
        changes->found |= def_use_changes(changes->def_use, expr, changes->position);
}

/* The value by its equation, if it is still the same; or NULL. */
static Expr *followed(const Implied *implied, const Expr *read) {
    const DefUse *def_use = implied->routing->def_use;
    if (read->kind != EXPR_READ || implied->depth >= MAX_MASK_DEPTH) return NULL;
    Expr *value = value_of_read(implied->routing, read);
    if (!value) return NULL;
    const TensorAccess *write = def_use->writes[read->tensor->id].items[0];
    const ProgramPoint *point = &def_use->points[write->position];
    Changes changes = {def_use, write->position, point->repeat && point->repeat != implied->region};
    expr_walk(point->statement->value, find_changed_operand, &changes);
    return changes.found ? NULL : value;
}

static Implied deeper(const Implied *implied) {
    Implied next = *implied;
    next.depth++;
    return next;
}

/* ---- powers ---- */

/* True if the mask alone decides that the expression is 0. */
static bool vanishes_with(const Implied *implied, Expr *expr, const Expr *mask) {
    Routing other = {.program = implied->routing->program, .def_use = implied->routing->def_use};
    Tuple tuple = {{NULL}};
    Statement *maker = mask->kind == EXPR_READ ? mask_maker(&other, mask->tensor) : NULL;
    if (!maker) return false;
    start_mask(&other, maker, NULL);
    return tuple_of(mask, other.mask_dims, other.rank, &tuple) &&
           vanishes(&other, expr, &tuple, implied->region);
}

static Expr *condition_of_power(const Implied *implied, Expr *expr) {
    Program *program = implied->routing->program;
    Expr *mask = left_out(implied->routing, expr->args[0], 0);
    if (!mask || vanishes_with(implied, expr, noted(implied, mask))) return mask;
    return expr_apply(program, OP_GT, expr->args[0], expr_number(program, LEAST_POWER), NULL);
}

/* ---- other values ---- */

/* max(e, 0) and min(e, 0). */
static Expr *condition_of_limit(const Implied *implied, const Expr *expr) {
    Program *program = implied->routing->program;
    const int number = expr_is_number(expr->args[0], 0) ? 0 : 1;
    Expr *value = expr->args[1 - number];
    if (!expr_is_number(expr->args[number], 0)) return NULL;
    Expr *side = expr_apply(program, expr->op == OP_MAX ? OP_GE : OP_LE, value,
                            expr_number(program, 0), NULL);
    return conjunction(implied, noted(implied, side), condition_of(implied, value));
}

static Expr *condition_of_where(const Implied *implied, const Expr *expr) {
    Expr *const *args = expr->args;
    if (expr_is_number(args[2], 0))
        return conjunction(implied, noted(implied, as_truth(implied->routing, args[0])),
                           condition_of(implied, args[1]));
    if (expr_is_number(args[1], 0))
        return conjunction(implied, noted(implied, opposite(implied->routing, args[0])),
                           condition_of(implied, args[2]));
    return NULL;
}

/* The value is 0 if all arguments that are no numbers are. */
static Expr *condition_of_any(const Implied *implied, const Expr *expr) {
    Program *program = implied->routing->program;
    Expr *found = NULL;
    double zeros[3] = {0, 0, 0};
    for (int i = 0; i < expr->count; i++) {
        Expr *argument = expr->args[i];
        if (argument->kind == EXPR_NUMBER) {
            zeros[i] = argument->number;
            continue;
        }
        Expr *condition = condition_of(implied, argument);
        if (!condition) return NULL;
        found = found && !expr_equal(found, condition)
                    ? expr_apply(program, OP_OR, found, condition, NULL)
                    : condition;
    }
    return op_value(expr->op, zeros[0], zeros[1], zeros[2]) == 0 ? found : NULL;
}

static Expr *condition_of_apply(const Implied *implied, Expr *expr) {
    Expr *const *args = expr->args, *found;
    if (op_is_random(expr->op)) return NULL;
    switch (expr->op) {
    case OP_MUL:
        return conjunction(implied, condition_of(implied, args[0]), condition_of(implied, args[1]));
    case OP_WHERE:
        return condition_of_where(implied, expr);
    case OP_EXP:
    case OP_SIGMOID:
    case OP_SOFTPLUS:
        return condition_of_power(implied, expr);
    case OP_MAX:
    case OP_MIN:
        found = condition_of_limit(implied, expr);
        return found ? found : condition_of_any(implied, expr);
    case OP_SUB:
        if (args[0]->kind != EXPR_NUMBER && is_zero_or_one(implied->routing, args[0]) &&
            is_zero_or_one(implied->routing, args[1]))
            return expr_apply(implied->routing->program, OP_NE, noted(implied, args[0]),
                              noted(implied, args[1]), NULL);
        return condition_of_any(implied, expr);
    default:
        return op_table[expr->op].zero == ZERO_FIRST ? condition_of(implied, args[0])
                                                     : condition_of_any(implied, expr);
    }
}

static Expr *condition_of(const Implied *implied, Expr *expr) {
    if (expr->kind != EXPR_READ && expr->kind != EXPR_APPLY) return NULL;
    if (is_zero_or_one(implied->routing, expr))
        return noted(implied, as_truth(implied->routing, expr));
    if (expr->kind == EXPR_APPLY) return condition_of_apply(implied, expr);
    Expr *value = followed(implied, expr);
    const Implied next = deeper(implied);
    return value ? condition_of(&next, value) : NULL;
}

/* implied_condition: see the head of this file; NULL if there is none. region: the repeat around
 * the expression. */
Expr *implied_condition(const Routing *routing, const Statement *region, Expr *expr) {
    bool of_data = false;
    const Implied implied = {.routing = routing, .region = region, .of_data = &of_data};
    Expr *condition = condition_of(&implied, expr);
    return condition && of_data && !has_random_value(condition) ? condition : NULL;
}
