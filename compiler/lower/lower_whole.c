/* lower_whole: integer expressions as terms, with their ranges.
 *
 * Values that are known to fit use plain C arithmetic. Those that may exceed 64 bits use functions
 * of the prelude that wrap, as the definition does (whole.c).
 */
#include "lower/lower.h"

/* Operations that are computed in integers among reals, too; selections and signs are not. */
static bool is_arithmetic(OpCode op) {
    static const bool arithmetic[OP_COUNT] = {
        [OP_FLOOR] = true, [OP_ADD] = true, [OP_SUB] = true, [OP_MUL] = true, [OP_MOD] = true,
        [OP_MIN] = true,   [OP_MAX] = true, [OP_NEG] = true, [OP_EQ] = true,  [OP_NE] = true,
        [OP_LT] = true,    [OP_LE] = true,  [OP_GT] = true,  [OP_GE] = true};
    return arithmetic[op];
}

bool counts_exactly(const Program *program, const Expr *expr) {
    if (!expr_counts(expr)) return false;
    Range range = range_of(program, expr);
    if ((double)range.low < -WHOLE_MAX || (double)range.high > WHOLE_MAX) return false;
    if (expr->kind != EXPR_APPLY || expr_is_exact(expr)) return true;
    if (!is_arithmetic(expr->op)) return false;
    const Expr *inner = expr_is_quotient(expr) ? expr->args[0] : expr;
    for (int i = 0; i < inner->count; i++)
        if (!counts_exactly(program, inner->args[i])) return false;
    return true;
}

/* ---- terms ---- */

static const Term *quotient(Lowering *lower, const Expr *a, const Expr *b) {
    const Term *first = integer_term(lower, a), *second = integer_term(lower, b);
    if (range_of(lower->program, a).low >= 0 && range_of(lower->program, b).low > 0)
        return term(lower->arena, TERM_DIV, first, second);
    return term(lower->arena, TERM_WHOLE_QUOTIENT, first, second);
}

static const Term *remainder_term(Lowering *lower, const Expr *a, const Expr *b) {
    const Term *first = integer_term(lower, a), *second = integer_term(lower, b);
    Range range = range_of(lower->program, b);
    if (range.low > 0 && range_of(lower->program, a).low >= 0)
        return term(lower->arena, TERM_MOD, first, second);
    if (range.low > 0 && range.high < INT64_MAX / 2)
        return term(lower->arena, TERM_REMAINDER, first, second);
    return term(lower->arena, TERM_WHOLE_REMAINDER, first, second);
}

static bool is_short(Range range) {
    return range.low >= INT32_MIN && range.high <= INT32_MAX;
}

/* A sum, a difference or a product. Some variables have 32 bits only. */
static const Term *arithmetic(Lowering *lower, const Expr *expr, TermOp wrapping) {
    Range a = range_of(lower->program, expr->args[0]), b = range_of(lower->program, expr->args[1]);
    Range range = range_of(lower->program, expr);
    const Term *first = integer_term(lower, expr->args[0]),
               *second = integer_term(lower, expr->args[1]);
    if (expr->op == OP_ADD && term_is_zero(second)) return first;
    if (!range_is_known(range)) return term(lower->arena, wrapping, first, second);
    if (is_short(a) && is_short(b) && !is_short(range))
        first = term_cast(lower->arena, T_I64, first);
    return term(lower->arena, term_op(expr->op, T_I64), first, second);
}

/* An integer as a condition in C. */
static const Term *condition(Lowering *lower, const Expr *expr) {
    const Term *value = integer_term(lower, expr);
    return expr_is_truth(expr) ? value : term(lower->arena, TERM_NE, value, whole(lower, 0));
}

/* An operation on integers whose result cannot lose a sign. */
static const Term *choice(Lowering *lower, const Expr *expr) {
    bool joins = expr->op == OP_AND || expr->op == OP_OR;
    const Term *args[3] = {NULL, NULL, NULL};
    for (int i = 0; i < expr->count; i++)
        args[i] = joins ? condition(lower, expr->args[i]) : integer_term(lower, expr->args[i]);
    if (expr->op == OP_NOT) return term(lower->arena, TERM_EQ, args[0], whole(lower, 0));
    return term(lower->arena, term_op(expr->op, T_I64), args[0], args[1], args[2]);
}

/* Integers computed from reals. */
static const Term *whole_of_real(Lowering *lower, const Expr *expr) {
    Arena *arena = lower->arena;
    if (expr->op == OP_WHERE) {
        const Term *zero = term_number(arena, T_F32, 0), *real = real_term(lower, expr->args[0]);
        return term(arena, TERM_SELECT, term(arena, TERM_NE, real, zero),
                    integer_term(lower, expr->args[1]), integer_term(lower, expr->args[2]));
    }
    const Term *real = real_term(lower, expr->op == OP_SIGN ? expr->args[0] : expr);
    if (expr->op == OP_SIGN) /* of NaN: 0 */
        return term(arena, TERM_SIGN_OF_REAL, real);
    return expr->op == OP_FLOOR ? term(arena, TERM_WHOLE, real) : term_cast(arena, T_I64, real);
}

static const Term *integer_apply(Lowering *lower, const Expr *expr) {
    if (expr_is_quotient(expr))
        return quotient(lower, expr->args[0]->args[0], expr->args[0]->args[1]);
    for (int i = 0; i < expr->count; i++)
        if (!expr_is_whole(expr->args[i])) return whole_of_real(lower, expr);
    switch (expr->op) {
    case OP_FLOOR:
    case OP_STOP:
        return integer_term(lower, expr->args[0]);
    case OP_MOD:
        return remainder_term(lower, expr->args[0], expr->args[1]);
    case OP_ADD:
        return arithmetic(lower, expr, TERM_WHOLE_SUM);
    case OP_SUB:
        return arithmetic(lower, expr, TERM_WHOLE_DIFFERENCE);
    case OP_MUL:
        return arithmetic(lower, expr, TERM_WHOLE_PRODUCT);
    case OP_ABS:
        return term(lower->arena, TERM_WHOLE_SIZE, integer_term(lower, expr->args[0]));
    case OP_NEG: {
        const Term *inner = integer_term(lower, expr->args[0]);
        if (range_of(lower->program, expr->args[0]).low == INT64_MIN)
            return term(lower->arena, TERM_WHOLE_DIFFERENCE, whole(lower, 0), inner);
        return term(lower->arena, TERM_NEG, inner);
    }
    default:
        return choice(lower, expr);
    }
}

const Term *index_term(Lowering *lower, Index *index) {
    const Term *name = bound_index(lower, index);
    if (!name) return term_whole(lower->arena, 0); /* a loop of one iteration is not written */
    if (index->of_repeat) {
        bool known = false;
        for (int i = 0; i < lower->repeats_used.count; i++)
            known |= lower->repeats_used.items[i] == index;
        if (!known) list_push(lower->arena, &lower->repeats_used, index);
    }
    return name;
}

const Term *integer_term(Lowering *lower, const Expr *expr) {
    const Term *made = NULL, *inside = NULL;
    switch (expr->kind) {
    case EXPR_NUMBER:
        return term_whole(lower->arena, (long)whole_of(expr->number));
    case EXPR_INDEX:
        return index_term(lower, expr->index);
    case EXPR_READ:
        made = element_term(lower, expr, &inside);
        made = inside ? term(lower->arena, TERM_GUARDED, inside, made)
                      : term_cast(lower->arena, T_I64, made);
        break;
    case EXPR_APPLY:
        made = integer_apply(lower, expr);
        break;
    }
    return made;
}
