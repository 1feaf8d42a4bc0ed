/* run_numbers: the numbers of a program that depend on the batch size or on the context length,
 * found by comparing three programs of different sizes.
 *
 *     loss = total * 0.0005     16 sequences of 128 tokens
 *     loss = total * 0.00025    32 sequences of 128 tokens   -->  1 / (sequences * length)
 *     loss = total * 0.00025    16 sequences of 256 tokens
 */
#include "torch/torch.h"

#include <math.h>

typedef struct Sizes {
    double batch[2], context[2];
} Sizes;

static bool near(double a, double b) {
    return fabs(a - b) <= 1e-12 * fabs(b);
}

/* The power p in -1 .. 1 with value = base * ratio^p; 2: none. */
static int power_of(double base, double value, double ratio) {
    for (int p = -1; p <= 1; p++)
        if (near(value, base * pow(ratio, p))) return p;
    return 2;
}

static void compare_numbers(Torch *torch, const Expr *expr, double batch, double context,
                            const Sizes *sizes) {
    if (expr->number == batch && expr->number == context) return;
    RunNumber *found = arena_alloc(torch->arena, sizeof *found);
    found->expr = expr;
    found->p = power_of(expr->number, batch, sizes->batch[1] / sizes->batch[0]);
    found->q = power_of(expr->number, context, sizes->context[1] / sizes->context[0]);
    found->factor =
        expr->number / pow(sizes->batch[0], found->p) / pow(sizes->context[0], found->q);
    if (fabs(found->factor - round(found->factor)) < 1e-9) found->factor = round(found->factor);
    bool moves = near(context - expr->number, sizes->context[1] - sizes->context[0]);
    if (found->q == 2 && expr->number == batch && moves) {
        found->sum = true;
        found->factor = expr->number - sizes->context[0];
    } else if (found->p == 2 || found->q == 2)
        return;
    list_push(torch->arena, &torch->numbers, found);
}

static void compare_exprs(Torch *torch, const Expr *expr, const Expr *batch, const Expr *context,
                          const Sizes *sizes) {
    if (expr->kind != batch->kind || expr->kind != context->kind) return;
    if (expr->count != batch->count || expr->count != context->count) return;
    if (expr->kind == EXPR_NUMBER)
        compare_numbers(torch, expr, batch->number, context->number, sizes);
    for (int i = 0; i < expr->count; i++)
        compare_exprs(torch, expr->args[i], batch->args[i], context->args[i], sizes);
}

static void compare_blocks(Torch *torch, const Block *block, const Block *batch,
                           const Block *context, const Sizes *sizes) {
    int count = block->statements.count;
    if (batch->statements.count != count || context->statements.count != count) return;
    for (int i = 0; i < count; i++) {
        const Statement *a = block->statements.items[i], *b = batch->statements.items[i],
                        *c = context->statements.items[i];
        if (a->kind != b->kind || a->kind != c->kind) return;
        if (a->value && b->value && c->value)
            compare_exprs(torch, a->value, b->value, c->value, sizes);
        compare_blocks(torch, &a->body, &b->body, &c->body, sizes);
    }
}

const RunNumber *run_number(const Torch *torch, const Expr *expr) {
    for (int i = 0; i < torch->numbers.count; i++) {
        const RunNumber *number = torch->numbers.items[i];
        if (number->expr == expr) return number;
    }
    return NULL;
}

/* find_numbers: `batch` and `context` are the same model with another batch size or length. */
void find_numbers(Torch *torch, const Program *batch, const Program *context) {
    const Program *program = torch->program;
    Sizes sizes = {.batch = {(double)program->batch->size, (double)batch->batch->size},
                   .context = {(double)program->sequence->size, (double)context->sequence->size}};
    compare_blocks(torch, &program->body, &batch->body, &context->body, &sizes);
}
