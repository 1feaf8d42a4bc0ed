/* range: known bounds of integer values. Only bounds derived here may remove a bounds check. */
#include "analysis/range.h"
#include "base/must.h"

__extension__ typedef __int128 Wide; /* no operation on two 64-bit numbers leaves it */

static const Range unknown = {INT64_MIN, INT64_MAX};

bool range_is_known(Range range) {
    return range.low != unknown.low || range.high != unknown.high;
}

long loop_size(const Index *index) {
    return index->axis->kind == AXIS_ELEMENTS ? 1L << 20 : index->axis->size;
}

/* Values that overflow wrap and can be anything. */
static Range range_between(Wide low, Wide high) {
    if (low < INT64_MIN || high > INT64_MAX) return unknown;
    return (Range){(int64_t)low, (int64_t)high};
}

Range range_of_tensor(const Program *program, const Tensor *tensor) {
    if (tensor->vocabulary > 0) return (Range){0, tensor->vocabulary - 1};
    if (tensor->role == ROLE_INPUT && tensor->rank == 0 && program->sequence &&
        program->context > 0)
        return (Range){0, program->context - program->sequence->size};
    LIST_EACH(const Relation, relation, &program->relations) {
        int first =
            relation->mask->rank > 0 && relation->mask->axes[0]->kind == AXIS_REPEAT ? 1 : 0;
        for (int j = 0; j + first < relation->mask->rank; j++)
            if (relation->coordinate[j] == tensor)
                return (Range){0, relation->mask->axes[j + first]->size - 1};
        if (relation->row_of == tensor) return (Range){-1, relation->rows->size - 1};
        if (relation->list == tensor) return (Range){0, relation->rows->size - 1};
        if (relation->start == tensor) return (Range){0, relation->rows->size};
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

/* For divisors from 1 on. */
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
    MUST(expr->kind == EXPR_APPLY);
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

/* The range of a real is unknown. */
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
