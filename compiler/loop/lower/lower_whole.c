/* lower_whole: whole numbers as terms, and what is known of their values.
 *
 * Plain C arithmetic stands where every value is known to fit; what may leave 64 bits goes through
 * functions of the prelude that wrap, as the definition does (whole.c). Only what has been derived
 * here counts as known: nothing else may leave out a check of bounds.
 */
#include "loop/lower/lower.h"

#include <math.h>
#include <string.h>

/* ---- ranges ---- */

__extension__ typedef __int128 Wide; /* no operation on two 64-bit numbers leaves it */

static const Range unknown = {INT64_MIN, INT64_MAX};

/* Values that do not fit wrap, and can be anything. */
static Range range_between(Wide low, Wide high) {
    if (low < INT64_MIN || high > INT64_MAX) return unknown;
    return (Range){(int64_t)low, (int64_t)high};
}

/* What the values of an integer tensor can be. */
static Range range_of_tensor(const Program *program, const Tensor *tensor) {
    if (tensor->vocabulary > 0) return (Range){0, tensor->vocabulary - 1};
    if (tensor->role == ROLE_INPUT && tensor->rank == 0 && program->sequence &&
        program->context > 0)
        return (Range){0, program->context - program->sequence->size};
    for (int i = 0; i < program->relations.count; i++) {
        const Relation *relation = program->relations.items[i];
        int first =
            relation->mask->rank > 0 && relation->mask->axes[0]->kind == AXIS_REPEAT ? 1 : 0;
        for (int j = 0; j + first < relation->mask->rank; j++)
            if (relation->coordinate[j] == tensor)
                return (Range){0, relation->mask->axes[j + first]->size - 1};
        if (relation->row_of == tensor) return (Range){-1, relation->rows->size - 1};
        if (relation->list == tensor) return (Range){0, relation->rows->size - 1};
    }
    return (Range){INT32_MIN, INT32_MAX};
}

static Range range_of_product(Range a, Range b) {
    Wide corners[4] = {(Wide)a.low * b.low, (Wide)a.low * b.high, (Wide)a.high * b.low,
                       (Wide)a.high * b.high};
    Wide low = corners[0], high = corners[0];
    for (int i = 1; i < 4; i++) {
        if (corners[i] < low) low = corners[i];
        if (corners[i] > high) high = corners[i];
    }
    return range_between(low, high);
}

/* Of divisors from 1 on. */
static Range range_of_quotient(Range a, Range b) {
    if (b.low < 1) return unknown;
    int64_t low = whole_quotient(a.low, a.low < 0 ? b.low : b.high);
    int64_t high = whole_quotient(a.high, a.high < 0 ? b.high : b.low);
    return (Range){low, high};
}

static Range range_of_pair(OpCode op, Range a, Range b) {
    switch (op) {
    case OP_ADD:
        return range_between((Wide)a.low + b.low, (Wide)a.high + b.high);
    case OP_SUB:
        return range_between((Wide)a.low - b.high, (Wide)a.high - b.low);
    case OP_MUL:
        return range_of_product(a, b);
    case OP_MIN:
        return (Range){a.low < b.low ? a.low : b.low, a.high < b.high ? a.high : b.high};
    case OP_MAX:
        return (Range){a.low > b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
    case OP_MOD:
        return b.low > 0 ? (Range){0, b.high - 1} : unknown;
    default:
        return (Range){0, 1}; /* comparisons, and, or */
    }
}

static Range range_of_apply(const Program *program, const Expr *expr) {
    if (expr_is_quotient(expr))
        return range_of_quotient(range_of(program, expr->args[0]->args[0]),
                                 range_of(program, expr->args[0]->args[1]));
    if (!expr_is_whole(expr)) return unknown;
    Range a = range_of(program, expr->args[0]);
    switch (expr->op) {
    case OP_NEG:
        return range_between(-(Wide)a.high, -(Wide)a.low);
    case OP_ABS:
        return a.low >= 0 ? a : range_between(0, a.high > -(Wide)a.low ? a.high : -(Wide)a.low);
    case OP_SIGN:
        return (Range){-1, 1};
    case OP_NOT:
        return (Range){0, 1};
    case OP_FLOOR:
    case OP_STOP:
        return a;
    case OP_WHERE: {
        Range b = range_of(program, expr->args[1]), c = range_of(program, expr->args[2]);
        return (Range){b.low < c.low ? b.low : c.low, b.high > c.high ? b.high : c.high};
    }
    default:
        return range_of_pair(expr->op, a, range_of(program, expr->args[1]));
    }
}

/* Of reals nothing is known. */
Range range_of(const Program *program, const Expr *expr) {
    switch (expr->kind) {
    case EXPR_NUMBER:
        if (!expr_counts(expr)) return unknown;
        return (Range){(int64_t)expr->number, (int64_t)expr->number};
    case EXPR_INDEX:
        return (Range){0, loop_size(expr->index) - 1};
    case EXPR_READ:
        return expr->tensor->type == TYPE_INT ? range_of_tensor(program, expr->tensor) : unknown;
    case EXPR_APPLY:
        return range_of_apply(program, expr);
    }
    return unknown;
}

/* Operations that are computed in integers among reals, too: choices and signs are not. */
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
    if (expr->kind != EXPR_APPLY || expr_is_remainder(expr)) return true;
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

static const Term *infix(Lowering *lower, const char *sign, const Term *a, const Term *b) {
    return term(lower->arena, arena_format(lower->arena, "$0 %s $1", sign), a, b);
}

/* A sum, a difference or a product. Some variables have 32 bits only. */
static const Term *arithmetic(Lowering *lower, const Expr *expr, const char *name) {
    Range a = range_of(lower->program, expr->args[0]), b = range_of(lower->program, expr->args[1]);
    Range range = range_of(lower->program, expr);
    const Term *first = integer_term(lower, expr->args[0]),
               *second = integer_term(lower, expr->args[1]);
    if (expr->op == OP_ADD && term_is_zero(second)) return first;
    if (range.low == unknown.low && range.high == unknown.high)
        return called(lower, name, first, second);
    if (is_short(a) && is_short(b) && !is_short(range))
        first = term(lower->arena, "(long)$0", first);
    return infix(lower, op_table[expr->op].text, first, second);
}

/* An operation on whole numbers whose result has no sign that could be lost. */
static const Term *choice(Lowering *lower, const Expr *expr) {
    const Term *a = integer_term(lower, expr->args[0]);
    if (expr->op == OP_NOT) return term(lower->arena, "$0 == 0", a);
    if (expr->op == OP_SIGN) return term(lower->arena, "($0 > 0) - ($0 < 0)", a);
    const Term *b = integer_term(lower, expr->args[1]);
    switch (expr->op) {
    case OP_MIN:
        return term(lower->arena, "$0 < $1 ? $0 : $1", a, b);
    case OP_MAX:
        return term(lower->arena, "$0 > $1 ? $0 : $1", a, b);
    case OP_AND:
        return term(lower->arena, "$0 != 0 && $1 != 0", a, b);
    case OP_OR:
        return term(lower->arena, "$0 != 0 || $1 != 0", a, b);
    case OP_WHERE:
        return term(lower->arena, "$0 ? $1 : $2", a, b, integer_term(lower, expr->args[2]));
    default:
        return infix(lower, op_table[expr->op].text, a, b);
    }
}

/* Whole numbers made of reals. */
static const Term *whole_of_real(Lowering *lower, const Expr *expr) {
    if (expr->op == OP_WHERE)
        return term(lower->arena, "$0 != 0.0f ? $1 : $2", real_term(lower, expr->args[0]),
                    integer_term(lower, expr->args[1]), integer_term(lower, expr->args[2]));
    const Term *real = real_term(lower, expr->op == OP_SIGN ? expr->args[0] : expr);
    if (expr->op == OP_SIGN) /* of what is no number: 0 */
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
