/* observe: adds activations to the outputs, named after the weights that produce them.
 *
 * Needs:   an elaborated forward program, with parameter_facts.
 * Leaves:  the destination of every parameter's product (parameter_flow) and the values that a
 *          repeat carries, as outputs. Those inside a repeat have the iteration as first axis.
 *          Those that are added to their own input (a residual branch) have the suffix +. Results
 *          of single instances of a layer are left out. They precede the outputs declared by the
 *          model, in the order of computation.
 */
#include "analysis/parameter_flow.h"
#include "base/must.h"
#include "passes.h"

#include <string.h>

typedef struct Observation {
    const Tensor *tensor;
    const char *name;
} Observation;

static bool is_whole_activation(const Program *program, const ParameterFlow *flow) {
    const Tensor *end = flow->end, *parameter = flow->tensor;
    if (!end || end->role != ROLE_TEMP || !tensor_has_axis(end, program->batch)) return false;
    for (int i = 0; i < parameter->lead; i++)
        if (parameter->axes[i]->kind != AXIS_REPEAT && tensor_has_axis(end, parameter->axes[i]))
            return false;
    return end->axes[0]->kind != AXIS_REPEAT && end->rank < MAX_RANK;
}

static void add_output(Arena *arena, List *list, const Tensor *tensor, const char *name) {
    for (int i = 0; i < list->count; i++)
        if (((Observation *)list->items[i])->tensor == tensor) return;
    Observation *one = arena_alloc(arena, sizeof *one);
    *one = (Observation){tensor, name};
    list_push(arena, list, one);
}

/* out[i, ...] = read, after the statement that computes it. */
static Statement *copy_out(Program *program, const Expr *read, const char *name, Index *step,
                           Span span) {
    Axis *axes[MAX_RANK];
    Expr *subs[MAX_RANK];
    int rank = 0;
    if (step) {
        axes[rank] = step->axis;
        subs[rank++] = expr_index(program, step);
    }
    for (int i = 0; i < read->count && rank < MAX_RANK; i++) {
        if (read->tensor->axes[i]->kind == AXIS_REPEAT) continue;
        axes[rank] = read->tensor->axes[i];
        subs[rank++] = read->args[i];
    }
    MUST(rank <= MAX_RANK);
    Tensor *out = tensor_new(program, "observed", ROLE_OUTPUT, TYPE_REAL, rank, axes, span);
    out->path = name;
    list_push(program->arena, &program->outputs, out);
    Block alone = {{0}};
    return statement_loop(program, &alone, expr_read(program, out, subs), false, REDUCE_NONE, NULL,
                          0, (Expr *)read, span);
}

/* The first read of a value from an earlier iteration: x[i, b, s, d]. */
static Expr *carried_read(const Program *program, Expr *expr, const Index *step) {
    if (expr->kind == EXPR_READ && expr->tensor->role == ROLE_TEMP && expr->count > 2 &&
        tensor_has_axis(expr->tensor, program->batch) && expr->args[0]->kind == EXPR_INDEX &&
        expr->args[0]->index == step)
        return expr;
    for (int i = 0; i < expr->count; i++) {
        Expr *found = carried_read(program, expr->args[i], step);
        if (found) return found;
    }
    return NULL;
}

static bool is_plain_activation(const Expr *read) {
    MUST(read->kind == EXPR_READ);
    for (int i = 1; i < read->count; i++)
        if (read->args[i]->kind != EXPR_INDEX) return false;
    return true;
}

static void observe_block(Program *program, Block *block, const List *wanted, Index *step) {
    List all = {0};
    bool stream = step == NULL;
    for (int i = 0; i < block->statements.count; i++) {
        Statement *statement = block->statements.items[i];
        Expr *carried = !stream && statement->kind == STATEMENT_LOOP
                            ? carried_read(program, statement->value, step)
                            : NULL;
        list_push(program->arena, &all, statement);
        if (statement->kind == STATEMENT_REPEAT)
            observe_block(program, &statement->body, wanted, statement->index);
        if (carried && is_plain_activation(carried)) {
            list_push(program->arena, &all,
                      copy_out(program, carried,
                               arena_format(program->arena, "%s.{i}", step->axis->name), step,
                               statement->span));
            stream = true;
        }
        for (int j = 0; statement->kind == STATEMENT_LOOP && j < wanted->count; j++) {
            const Observation *one = wanted->items[j];
            if (statement->target->tensor == one->tensor)
                list_push(program->arena, &all,
                          copy_out(program, statement->target, one->name, step, statement->span));
        }
    }
    block->statements = all;
}

void observe(Program *program) {
    List flows = parameter_flow(program), wanted = {0}, declared = program->outputs;
    for (int i = 0; i < flows.count; i++) {
        const ParameterFlow *flow = flows.items[i];
        if (flow->sum && is_whole_activation(program, flow))
            add_output(
                program->arena, &wanted, flow->end,
                arena_format(program->arena, "%s%s", flow->tensor->path, flow->joins ? "+" : ""));
    }
    program->outputs = (List){0};
    observe_block(program, &program->body, &wanted, NULL);
    for (int i = 0; i < declared.count; i++)
        list_push(program->arena, &program->outputs, declared.items[i]);
}
