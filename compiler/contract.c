/* contract: sums over products as clean contractions, see product.c.
 *
 *     h[s,f] = sum[d,r] tanh(x[s,d]) * A[d,r] * B[r,f]
 * -->
 *     h_part[s,d] = tanh(x[s,d])
 *     h_sum[s,r] = sum[d] h_part[s,d] * A[d,r]
 *     h[s,f] = sum[r] h_sum[s,r] * B[r,f]
 */
#include "gradient.h"
#include "simplify.h"

/* Targets with a computed place, or the same index twice, stay as they are. */
static bool is_plain_target(const Statement *statement) {
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

static bool contract_block(Program *program, Block *block) {
    Block result = {0};
    bool changed = false;
    for (int i = 0; i < block->statements.count; i++) {
        Statement *statement = block->statements.items[i];
        if (statement->kind == STATEMENT_REPEAT)
            changed |= contract_block(program, &statement->body);
        bool sum = statement->kind == STATEMENT_LOOP && statement->reduction == REDUCE_SUM &&
                   !statement->once && statement->target->tensor->type == TYPE_REAL &&
                   is_plain_target(statement);
        int before = result.statements.count, tensors = program->tensors.count;
        if (sum) {
            List factors = {0};
            list_push(program->arena, &factors, statement->value);
            int kept = 0;
            for (int j = 0; j < statement->target->count; j++) {
                const Expr *sub = statement->target->args[j];
                kept += sub->kind == EXPR_INDEX && !sub->index->turn;
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
