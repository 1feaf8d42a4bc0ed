/* common: two statements of one block with the same value are computed once; the second becomes a
 * copy of the first.
 *
 *     a[b,s] = exp(x[b,s])              a[b,s] = exp(x[b,s])
 *     c[u,t] = exp(x[u,t])      -->     c[u,t] = a[u,t]
 */
#include "transform/simplify/simplify.h"

static bool same_shape(const Statement *a, const Statement *b) {
    if (a->reduction != b->reduction || a->loop_count != b->loop_count ||
        a->target->count != b->target->count)
        return false;
    if (a->target->tensor->type != b->target->tensor->type || a->value->kind != b->value->kind)
        return false;
    if (a->value->kind == EXPR_NUMBER || a->value->count != b->value->count) return false;
    if (a->value->kind == EXPR_APPLY && a->value->op != b->value->op) return false;
    if (a->value->kind == EXPR_READ && a->value->tensor != b->value->tensor) return false;
    for (int i = 0; i < a->loop_count; i++)
        if (a->loops[i]->axis->size != b->loops[i]->axis->size) return false;
    return true;
}

/* Does the second statement say the same as the first? */
static bool same_value(Program *program, const Statement *a, const Statement *b) {
    Expr *to[MAX_LOOPS];
    if (!same_shape(a, b)) return false;
    for (int i = 0; i < a->loop_count; i++) to[i] = expr_index(program, a->loops[i]);
    for (int i = 0; i < a->target->count; i++) {
        const Expr *sub = expr_substitute(program, b->target->args[i], b->loops, to, b->loop_count);
        if (!expr_equal(a->target->args[i], sub)) return false;
    }
    return expr_equal(a->value, expr_substitute(program, b->value, b->loops, to, b->loop_count));
}

typedef struct Between {
    const Survey *survey;
    int first, last;
    bool changed;
} Between;

static void find_change(Expr *expr, void *data) {
    Between *between = data;
    if (expr->kind != EXPR_READ) return;
    const List *writes = &between->survey->facts[expr->tensor->id].writes;
    for (int i = 0; i < writes->count; i++) {
        const Write *write = writes->items[i];
        if (write->position >= between->first && write->position < between->last)
            between->changed = true;
    }
}

static bool is_candidate(const Survey *survey, int position) {
    const Statement *statement = survey->places[position].statement;
    return statement->kind == STATEMENT_LOOP && survey_is_plain(survey, statement->target->tensor);
}

bool join_common(Program *program) {
    Survey *survey = survey_new(program);
    bool changed = false;
    for (int i = 0; i < survey->count; i++) {
        if (!is_candidate(survey, i)) continue;
        const Statement *first = survey->places[i].statement;
        for (int j = i + 1; j < survey->count; j++) {
            Statement *second = survey->places[j].statement;
            if (survey->places[j].block != survey->places[i].block || !is_candidate(survey, j))
                continue;
            if (second->reduction == REDUCE_NONE && second->value->kind == EXPR_READ)
                continue; /* a copy already */
            if (!same_value(program, first, second)) continue;
            Between between = {survey, i, j, false};
            expr_walk(first->value, find_change, &between);
            if (between.changed) continue;
            second->value = expr_read(program, first->target->tensor, second->target->args);
            second->reduction = REDUCE_NONE;
            second->loop_count = 0;
            for (int k = 0; k < second->target->count; k++)
                if (!second->target->args[k]->index->turn)
                    second->loops[second->loop_count++] = second->target->args[k]->index;
            changed = true;
        }
    }
    return changed;
}
