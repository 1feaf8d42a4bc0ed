/* precision: selects the products that may round their operands.
 *
 * Needs:   a program with `rounded` set: operands of its products are rounded to bf16, sums are
 *          f32.
 * Leaves:  `exact` on the statements that a selection depends on, back to the product of the
 *          scores. Selections therefore do not depend on rounding.
 *
 *     scores[b,s,n] = sum[d] x[b,s,d] * router[d,n]        exact
 *     p[b,s,n] = exp(scores[b,s,n] - ...)                  exact
 *     chosen = top(2, n) of p
 */
#include "analysis/access.h"
#include "analysis/contraction.h"
#include "passes.h"

typedef struct SelectionSearch {
    Program *program;
    bool *wanted; /* by tensor->id: a selection depends on it */
    bool small;   /* products of any size end the search */
    bool changed;
} SelectionSearch;

static void want(SelectionSearch *search, const Tensor *tensor) {
    search->changed |= !search->wanted[tensor->id];
    search->wanted[tensor->id] = true;
}

static void mark_operands(Statement *statement, void *data) {
    SelectionSearch *search = data;
    if (statement_selects(statement)) want(search, ((Expr *)statement->inputs.items[0])->tensor);
    if (statement->kind != STATEMENT_LOOP || statement->exact ||
        !search->wanted[statement->target->tensor->id])
        return;
    statement->exact = search->changed = true;
    if (search->small ? statement->product != NULL
                      : unit_product(search->program, statement) != NULL)
        return;
    List reads = {0};
    reads_of(search->program->arena, statement, &reads);
    for (int i = 0; i < reads.count; i++) want(search, ((Expr *)reads.items[i])->tensor);
}

void mark_exact(Program *program, bool small) {
    SelectionSearch search = {.program = program, .small = small};
    search.wanted =
        arena_alloc(program->arena, ((size_t)program->tensors.count + 1) * sizeof *search.wanted);
    do {
        search.changed = false;
        block_walk(&program->body, mark_operands, &search);
    } while (search.changed);
}

void precision(Program *program) {
    if (program->rounded) mark_exact(program, false);
}
