/* lower_whole: integer expressions as terms, with their ranges.
 *
 * Values that are known to fit use plain C arithmetic. Those that may exceed 64 bits use functions
 * of the prelude that wrap, as the definition does (whole.c).
 */
#include "loop/lower/lower.h"

#include <math.h>
#include <string.h>

/* Operations that are computed in integers among reals, too; selections and signs are not. */
static bool is_arithmetic(OpCode op) {
    switch (op) {
    case OP_FLOOR:
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_MOD:
    case OP_MIN:
    case OP_MAX:
    case OP_NEG:
    case OP_EQ:
    case OP_NE:
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE:
        return true;
    default:
        return false;
    }
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

static const Term *called(Lowering *lower, const char *function, const Term *a, const Term *b) {
    Arena *arena = lower->arena;
    return term(arena, arena_format(arena, "moec_whole_%s($0, $1)", function), a, b);
}

static const Term *quotient(Lowering *lower, const Expr *a, const Expr *b) {
    const Term *first = integer_term(lower, a), *second = integer_term(lower, b);
    if (range_of(lower->program, a).low >= 0 && range_of(lower->program, b).low > 0)
        return term(lower->arena, "$0 / $1", first, second);
    return called(lower, "quotient", first, second);
}

static const Term *remainder_term(Lowering *lower, const Expr *a, const Expr *b) {
    const Term *first = integer_term(lower, a), *second = integer_term(lower, b);
    Range range = range_of(lower->program, b);
    if (range.low > 0 && range_of(lower->program, a).low >= 0)
        return term(lower->arena, "$0 % $1", first, second);
    if (range.low > 0 && range.high < INT64_MAX / 2)
        return term(lower->arena, "($0 % $1 + $1) % $1", first, second);
    return called(lower, "remainder", first, second);
}

static bool is_short(Range range) {
    return range.low >= INT32_MIN && range.high <= INT32_MAX;
}

/* A sum, a difference or a product. Some variables have 32 bits only. */
static const Term *arithmetic(Lowering *lower, const Expr *expr, const char *name) {
    Range a = range_of(lower->program, expr->args[0]), b = range_of(lower->program, expr->args[1]);
    Range range = range_of(lower->program, expr);
    const Term *first = integer_term(lower, expr->args[0]),
               *second = integer_term(lower, expr->args[1]);
    if (expr->op == OP_ADD && term_is_zero(second)) return first;
    if (!range_is_known(range)) return called(lower, name, first, second);
    if (is_short(a) && is_short(b) && !is_short(range))
        first = term(lower->arena, "(long)$0", first);
    const char *operation = expr->op == OP_ADD   ? term_sum
                            : expr->op == OP_MUL ? term_product
                                                 : "$0 - $1";
    return term(lower->arena, operation, first, second);
}

/* An integer as a condition in C. */
static const Term *condition(Lowering *lower, const Expr *expr) {
    const Term *value = integer_term(lower, expr);
    return expr_is_truth(expr) ? value : term(lower->arena, "$0 != 0", value);
}

/* An operation on integers whose result cannot lose a sign. */
static const Term *choice(Lowering *lower, const Expr *expr) {
    Arena *arena = lower->arena;
    if (expr->op == OP_AND || expr->op == OP_OR)
        return term(arena, expr->op == OP_AND ? "$0 && $1" : "$0 || $1",
                    condition(lower, expr->args[0]), condition(lower, expr->args[1]));
    const Term *a = integer_term(lower, expr->args[0]);
    if (expr->op == OP_NOT) return term(arena, "$0 == 0", a);
    if (expr->op == OP_SIGN) return term(arena, "($0 > 0) - ($0 < 0)", a);
    const Term *b = integer_term(lower, expr->args[1]);
    switch (expr->op) {
    case OP_MIN:
        return term(arena, "$0 < $1 ? $0 : $1", a, b);
    case OP_MAX:
        return term(arena, "$0 > $1 ? $0 : $1", a, b);
    case OP_WHERE:
        return term(arena, "$0 ? $1 : $2", a, b, integer_term(lower, expr->args[2]));
    default:
        return term(arena, arena_format(arena, "$0 %s $1", op_table[expr->op].text), a, b);
    }
}

/* Integers computed from reals. */
static const Term *whole_of_real(Lowering *lower, const Expr *expr) {
    if (expr->op == OP_WHERE)
        return term(lower->arena, "$0 != 0.0f ? $1 : $2", real_term(lower, expr->args[0]),
                    integer_term(lower, expr->args[1]), integer_term(lower, expr->args[2]));
    const Term *real = real_term(lower, expr->op == OP_SIGN ? expr->args[0] : expr);
    if (expr->op == OP_SIGN) /* of NaN: 0 */
        return term(lower->arena, "($0 > 0.0f) - ($0 < 0.0f)", real);
    return term(lower->arena, expr->op == OP_FLOOR ? "moec_whole($0)" : "(long)$0", real);
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
        return arithmetic(lower, expr, "sum");
    case OP_SUB:
        return arithmetic(lower, expr, "difference");
    case OP_MUL:
        return arithmetic(lower, expr, "product");
    case OP_ABS:
        return term(lower->arena, "moec_whole_size($0)", integer_term(lower, expr->args[0]));
    case OP_NEG: {
        const Term *inner = integer_term(lower, expr->args[0]);
        if (range_of(lower->program, expr->args[0]).low == INT64_MIN)
            return called(lower, "difference", term_whole(lower->arena, 0), inner);
        return term(lower->arena, "-$0", inner);
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
        made = inside ? term(lower->arena, "$0 ? (long)$1 : 0", inside, made)
                      : term(lower->arena, "(long)$0", made);
        break;
    case EXPR_APPLY:
        made = integer_apply(lower, expr);
        break;
    }
    return made;
}
