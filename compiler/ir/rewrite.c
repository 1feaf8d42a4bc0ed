/* rewrite: replaces reads of tensors in expressions and in whole statements. */
#include "ir/ir.h"
#include "base/must.h"

Expr *rewrite_expr(Program *program, Expr *expr, Replace *replace, void *data) {
    if (!expr->count && expr->kind != EXPR_READ) return expr;
    MUST(expr->count <= MAX_RANK);
    Expr *args[MAX_RANK] = {NULL};
    bool changed = false;
    for (int i = 0; i < expr->count; i++) {
        args[i] = rewrite_expr(program, expr->args[i], replace, data);
        changed |= args[i] != expr->args[i];
    }
    Expr *result = expr;
    if (changed && expr->kind == EXPR_APPLY)
        result = expr_apply(program, expr->op, args[0], args[1], args[2]);
    if (expr->kind == EXPR_READ) {
        /* Not expr_read: while a tensor is given another rank, reads of it still have the old one.
         */
        if (changed) {
            result = arena_alloc(program->arena, sizeof *result);
            *result = *expr;
            result->args = arena_alloc(program->arena, (size_t)expr->count * sizeof *result->args);
            for (int i = 0; i < expr->count; i++) result->args[i] = args[i];
        }
        Expr *other = replace(program, result, data);
        if (other) result = other;
    }
    if (!result->span.source) result->span = expr->span;
    return result;
}

/* A target: its subscripts always, the tensor itself only when asked for. */
static Expr *rewrite_target(Program *program, Expr *target, bool targets, Replace *replace,
                            void *data) {
    MUST(target->kind == EXPR_READ);
    if (targets) return rewrite_expr(program, target, replace, data);
    Expr *subs[MAX_RANK] = {NULL};
    for (int i = 0; i < target->count; i++)
        subs[i] = rewrite_expr(program, target->args[i], replace, data);
    Expr *result = expr_read(program, target->tensor, subs);
    result->span = target->span;
    return result;
}

void rewrite_statement(Program *program, Statement *statement, bool targets, Replace *replace,
                       void *data) {
    if (statement->kind == STATEMENT_LOOP) {
        statement->target = rewrite_target(program, statement->target, targets, replace, data);
        statement->value = rewrite_expr(program, statement->value, replace, data);
    }
    for (int i = 0; i < statement->inputs.count; i++)
        statement->inputs.items[i] =
            rewrite_expr(program, statement->inputs.items[i], replace, data);
    for (int i = 0; targets && i < statement->outputs.count; i++)
        statement->outputs.items[i] =
            rewrite_expr(program, statement->outputs.items[i], replace, data);
    for (int i = 0; i < statement->body.statements.count; i++)
        rewrite_statement(program, statement->body.statements.items[i], targets, replace, data);
}

typedef struct Renaming {
    const Tensor *from;
    Tensor *to;
} Renaming;

static Expr *rename_read(Program *program, Expr *read, void *data) {
    MUST(read->kind == EXPR_READ);
    const Renaming *renaming = data;
    return read->tensor == renaming->from ? expr_read(program, renaming->to, read->args) : NULL;
}

void rewrite_tensor(Program *program, Statement *statement, const Tensor *from, Tensor *to) {
    MUST(from->rank == to->rank);
    Renaming renaming = {from, to};
    rewrite_statement(program, statement, true, rename_read, &renaming);
}
