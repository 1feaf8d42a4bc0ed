/* dual_gemm: joins two products over dispatched rows whose results are added.
 *
 *     y[r,d] = sum[f] a[r,f] * up[n[r],d,f]           one product whose sum continues with a
 *     ...                                      -->    second pair of operands: y is written once
 *     y[r,d] += sum[f] b[r,f] * down[n[r],d,f]        and never read
 *
 * Requires tiles of bf16 operands for both, and statements in between that are independent of both.
 */
#include "schedule/nest.h"
#include "base/must.h"

bool same_address(const Expr *one, const Expr *other) {
    MUST(one->kind == EXPR_READ && other->kind == EXPR_READ);
    if (one->tensor != other->tensor) return false;
    for (int i = 0; i < one->count; i++) {
        const Expr *a = one->args[i], *b = other->args[i];
        bool loops = a->kind == EXPR_INDEX && b->kind == EXPR_INDEX && !a->index->of_repeat &&
                     !b->index->of_repeat;
        if (loops ? a->index->axis != b->index->axis : !expr_equal(a, b)) return false;
    }
    return true;
}

static bool goes_on(const Contraction *first, const Contraction *second) {
    const Product *a = &first->product, *b = &second->product;
    return first->kind == CONTRACTION_ROWS_BY_WEIGHT &&
           second->kind == CONTRACTION_ROWS_BY_WEIGHT && first->relation == second->relation &&
           a->rounded && b->rounded && a->n == b->n && (a->b_k == 1) == (b->b_k == 1) &&
           a->batch[0] == b->batch[0] && same_address(first->c, second->c) &&
           lies_in_vectors(first->a) && lies_in_vectors(first->b) && lies_in_vectors(second->a) &&
           lies_in_vectors(second->b);
}

int find_pair(Program *program, const List *statements, ScheduleUnit *const *units, const int *when,
              int position) {
    const ScheduleUnit *last = units[position];
    MUST(when[position] >= 0);
    if (!last || !last->contraction || !last->contraction->product.accumulate || last->epilogue)
        return -1;
    for (int i = position - 1; i >= 0; i--) {
        const ScheduleUnit *unit = units[i];
        const Statement *first = statements->items[i];
        if (first->kind == STATEMENT_REPEAT) return -1;
        if (!unit || !unit->contraction || when[i] != i || unit->epilogue ||
            unit->accumulated_product || unit->once != last->once ||
            !goes_on(unit->contraction, last->contraction))
            continue;
        for (int j = 0; j < statements->count; j++) {
            const Statement *between = statements->items[j];
            if (when[j] <= i || when[j] > position || j == position) continue;
            if (between->kind == STATEMENT_REPEAT ||
                statements_meet(program->arena, between, first))
                return -1;
        }
        return i;
    }
    return -1;
}
