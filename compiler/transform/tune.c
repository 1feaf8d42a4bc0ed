/* tune: applies the settings of a transfer to the parameters.
 *
 * Needs:   an elaborated program, with parameter_facts.
 * Leaves:  initializations, optimizer settings, and a factor on the result of a product.
 *
 *     y[s,d] = sum[f] h[s,f] * down[f,d]   -->   whole[s,d] = sum[f] h[s,f] * down[f,d]
 *                                                y[s,d] = 0.125 * whole[s,d]
 *     z[s,d] = y[s,d] + bias[d]            -->   z[s,d] = y[s,d] + 0.125 * bias[d]
 */
#include "analysis/parameter_facts.h"
#include "analysis/parameter_flow.h"
#include "elaborate/transfer/transfer.h"
#include "base/must.h"

#include <string.h>

static const Tuned *tuned_row(const Tuning *tuning, const char *path) {
    LIST_EACH(const Tuned, row, &tuning->rows)
        if (!strcmp(row->flow->tensor->path, path)) return row;
    return NULL;
}

static void tune_numbers(Program *program, Tensor *tensor, const Tuned *row) {
    LIST_EACH(const TunedNumber, number, &row->numbers) {
        bool elsewhere = !strcmp(number->name, "init") || !strcmp(number->name, "multiplier");
        bool factor = !strcmp(number->name, "lr");
        if (elsewhere || number->after == number->before) continue;
        if (factor && number->plain == 0) continue;
        set_own(program->arena, tensor, number->name,
                factor ? number->after / number->plain : number->after);
    }
}

static double forward_of(const Tuned *row) {
    const TunedNumber *number =
        list_named(&row->numbers, offsetof(TunedNumber, name), "multiplier");
    return number ? number->after : 1;
}

static Statement *scale_result(Program *program, Statement *statement, double factor) {
    MUST(statement->kind == STATEMENT_LOOP);
    Expr *target = statement->target;
    Tensor *tensor = target->tensor;
    Tensor *whole =
        tensor_new(program, arena_format(program->arena, "%s_whole", tensor->name), ROLE_TEMP,
                   tensor->type, tensor->rank, tensor->axes, statement->span);
    Block alone = {{0}};
    statement->target = expr_read(program, whole, target->args);
    Expr *value =
        expr_apply(program, OP_MUL, expr_number(program, factor), statement->target, NULL);
    return statement_assign(program, &alone, target, value, statement->span);
}

/* Multiplies the term of a scale or a bias. */
static Expr *scale_term(Program *program, Expr *expr, const Tensor *tensor, double factor) {
    bool sum = expr->kind == EXPR_APPLY && (expr->op == OP_ADD || expr->op == OP_SUB);
    if (!expr_reads(expr, tensor)) return expr;
    if (!sum) return expr_apply(program, OP_MUL, expr_number(program, factor), expr, NULL);
    return expr_apply(program, expr->op, scale_term(program, expr->args[0], tensor, factor),
                      scale_term(program, expr->args[1], tensor, factor), NULL);
}

static void scale_uses(Program *program, Block *block, const Tensor *tensor, double factor) {
    List all = {0};
    LIST_EACH(Statement, statement, &block->statements) {
        list_push(program->arena, &all, statement);
        if (statement->kind == STATEMENT_REPEAT)
            scale_uses(program, &statement->body, tensor, factor);
        else if (!tensor->facts->product && statement->kind == STATEMENT_LOOP)
            statement->value = scale_term(program, statement->value, tensor, factor);
        else if (is_product_with(program->arena, statement, tensor))
            list_push(program->arena, &all, scale_result(program, statement, factor));
    }
    block->statements = all;
}

void tune(const Tuning *tuning, Program *program) {
    int count = program->tensors.count;
    for (int i = 0; i < count; i++) {
        Tensor *tensor = program->tensors.items[i];
        const Tuned *row =
            tensor->role == ROLE_PARAMETER && tensor->path ? tuned_row(tuning, tensor->path) : NULL;
        if (!row) continue;
        tensor->init = row->init;
        tune_numbers(program, tensor, row);
        if (forward_of(row) != 1) scale_uses(program, &program->body, tensor, forward_of(row));
    }
}
