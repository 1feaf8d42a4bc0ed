/* contract: writes sums over products as contractions, see factors.c.
 *
 *     h[s,f] = sum[d,r] tanh(x[s,d]) * A[d,r] * B[r,f]
 * -->
 *     h_part[s,d] = tanh(x[s,d])
 *     h_sum[s,r] = sum[d] h_part[s,d] * A[d,r]
 *     h[s,f] = sum[r] h_sum[s,r] * B[r,f]
 *
 * Equal terms are counted instead of summed, because a sum in single precision would accumulate
 * rounding errors:
 *
 *     y[s] = sum[d,r] x[s,d]  -->  y[s] = sum[d] 4 * x[s,d]
 */
#include "transform/autodiff/gradient.h"
#include "transform/simplify/simplify.h"
#include "base/must.h"

/* Targets with a computed subscript, or with the same index twice, are not changed. */
static bool is_contracted_target(const Statement *statement) {
    MUST(statement->kind == STATEMENT_LOOP);
    const Expr *target = statement->target;
    for (int i = 0; i < target->count; i++) {
        const Expr *sub = target->args[i];
        if (sub->kind == EXPR_READ ||
            (sub->kind == EXPR_APPLY && target->tensor->axes[i]->kind != AXIS_REPEAT))
            return false;
        for (int j = 0; j < i; j++)
            if (expr_equal(sub, target->args[j])) return false;
    }
    return !statement_is_scatter(statement);
}

static void find_random(Expr *expr, void *data) {
    bool *found = data;
    if (expr->kind == EXPR_APPLY && op_is_random(expr->op)) *found = true;
}

/* Removes reduced loops that the value does not depend on. */
static bool count_equal_terms(Program *program, Statement *statement) {
    double times = 1;
    int kept = 0, count = statement->loop_count;
    bool random = false;
    if (statement->kind != STATEMENT_LOOP || statement->reduction == REDUCE_NONE) return false;
    expr_walk(statement->value, find_random, &random);
    for (int i = 0; i < count; i++) {
        const Index *index = statement->loops[i];
        bool needed = random || index->axis->kind == AXIS_ELEMENTS ||
                      expr_uses_index(statement->target, index) ||
                      expr_uses_index(statement->value, index);
        if (needed)
            statement->loops[kept++] = statement->loops[i];
        else
            times *= (double)index->axis->size;
    }
    if (kept == count) return false;
    statement->loop_count = kept;
    if (statement->reduction == REDUCE_SUM)
        statement->value =
            expr_apply(program, OP_MUL, expr_number(program, times), statement->value, NULL);
    bool reduces = false;
    for (int i = 0; i < kept; i++)
        reduces |= !expr_uses_index(statement->target, statement->loops[i]);
    if (!reduces) statement->reduction = REDUCE_NONE;
    return true;
}

static bool contract_block(Program *program, Block *block) {
    Block result = {0};
    bool changed = false;
    LIST_EACH(Statement, statement, &block->statements) {
        if (statement->kind == STATEMENT_REPEAT)
            changed |= contract_block(program, &statement->body);
        changed |= count_equal_terms(program, statement);
        bool sum = statement->kind == STATEMENT_LOOP && statement->reduction == REDUCE_SUM &&
                   !statement->once && statement->target->tensor->type == TYPE_REAL &&
                   is_contracted_target(statement);
        int before = result.statements.count, tensors = program->tensors.count;
        if (sum) {
            List factors = {0};
            list_push(program->arena, &factors, statement->value);
            int kept = 0;
            for (int j = 0; j < statement->target->count; j++) {
                const Expr *sub = statement->target->args[j];
                kept += sub->kind == EXPR_INDEX && !sub->index->of_repeat;
            }
            statement_product(program, &result, statement->target, statement->accumulate,
                              statement->loops + kept, statement->loop_count - kept, &factors,
                              statement->span);
        }
        if (program->tensors.count > tensors) {
            changed = true;
            continue;
        }
        result.statements.count = before;
        list_push(program->arena, &result.statements, statement);
    }
    block->statements = result.statements;
    return changed;
}

bool contract_sums(Program *program) {
    return contract_block(program, &program->body);
}
