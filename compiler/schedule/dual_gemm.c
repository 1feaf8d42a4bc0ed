/* dual_gemm: joins two products over dispatched rows whose results are added.
 *
 *     y[r,d] = sum[f] a[r,f] * up[n[r],d,f]           one product whose sum continues with a
 *     ...                                      -->    second pair of operands: y is written once
 *     y[r,d] += sum[f] b[r,f] * down[n[r],d,f]        and never read
 *
 * Requires tiles of bf16 operands for both, and statements in between that are independent of both.
 */
#include "schedule/nest.h"

bool lies_in_vectors(const Expr *read) {
    const Tensor *tensor = read->tensor;
    if (tensor->type != TYPE_BF16 || !tensor->rank) return false;
    const Expr *last = read->args[tensor->rank - 1];
    return tensor->axes[tensor->rank - 1]->size % MOEC_VECTOR == 0 && last->kind == EXPR_INDEX &&
           !last->index->of_repeat;
}

bool lines_begin_in_vectors(const Expr *read, long across) {
    const Tensor *tensor = read->tensor;
    const long vector = 16 / type_bytes(tensor->type);
    if (!tensor->rank || tensor->type == TYPE_INT) return false;
    const Expr *last = read->args[tensor->rank - 1];
    return tensor->axes[tensor->rank - 1]->size % vector == 0 && across % vector == 0 &&
           last->kind == EXPR_INDEX && !last->index->of_repeat;
}

bool same_place(const Expr *one, const Expr *other) {
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
           a->batch[0] == b->batch[0] && same_place(first->c, second->c) &&
           lies_in_vectors(first->a) && lies_in_vectors(first->b) && lies_in_vectors(second->a) &&
           lies_in_vectors(second->b);
}

int find_pair(Program *program, const List *statements, Contraction *const *products,
              Kernel *const *epilogues, const int *when, int place) {
    const Statement *last = statements->items[place];
    if (!products[place] || !products[place]->product.accumulate || epilogues[place]) return -1;
    for (int i = place - 1; i >= 0; i--) {
        Statement *first = statements->items[i];
        if (first->kind == STATEMENT_REPEAT) return -1;
        if (!products[i] || when[i] != i || epilogues[i] || products[i]->second ||
            first->once != last->once || !goes_on(products[i], products[place]))
            continue;
        for (int j = 0; j < statements->count; j++) {
            const Statement *between = statements->items[j];
            if (when[j] <= i || when[j] > place || j == place) continue;
            if (between->kind == STATEMENT_REPEAT ||
                statements_meet(program->arena, between, first))
                return -1;
        }
        return i;
    }
    return -1;
}
