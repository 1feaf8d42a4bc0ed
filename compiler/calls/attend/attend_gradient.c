/* attend_gradient: the backward pass of an attention. */
#include "calls/attend/attend_row.h"
#include "base/must.h"
#include "transform/autodiff/gradient.h"

/* `like` with one more element along its last dimension: `first`, then the elements of `rest`, or
 * zeros. */
static Expr *with_first(Backward *backward, const Expr *like, Expr *first, const Expr *rest,
                        Axis *wide) {
    Program *program = backward->program;
    Index *loops[MAX_RANK];
    Axis *axes[MAX_RANK];
    Expr *subs[MAX_RANK];
    int rank = 0, last = like->count - 1;
    for (int i = 0; i < last; i++) {
        const Expr *sub = like->args[i];
        if (sub->kind == EXPR_INDEX && !sub->index->of_repeat) loops[rank++] = sub->index;
    }
    loops[rank++] = index_new(program, wide->name, wide);
    MUST(rank <= MAX_RANK);
    for (int i = 0; i < rank; i++) axes[i] = loops[i]->axis;
    Expr *place = expr_index(program, loops[rank - 1]), *value = expr_number(program, 0);
    if (rest) {
        for (int i = 0; i < last; i++) subs[i] = rest->args[i];
        subs[last] = expr_apply(program, OP_SUB, place, expr_number(program, 1), NULL);
        value = expr_read(program, rest->tensor, subs);
    }
    const char *name = arena_format(program->arena, "%s_wide", like->tensor->name);
    Tensor *tensor = tensor_new(program, name, ROLE_TEMP, TYPE_REAL, rank, axes, like->span);
    Expr *result = expr_read_indices(program, tensor, loops);
    Expr *later = expr_apply(program, OP_GT, place, expr_number(program, 0), NULL);
    statement_loop(program, backward->block, result, false, REDUCE_NONE, NULL, 0,
                   expr_apply(program, OP_WHERE, later, value, first), like->span);
    return result;
}

/* Adds the adjoint of the log-sum-exp by widening the values by one element: 0 in the values and -1
 * in the adjoint of the output. Every score, including that of a sink, then receives it times its
 * weight.
 *
 *     d_score[s,t] = weight[s,t] * (sum[c] do[s,c] * v[t,c] - sum[c] do[s,c] * o[s,c] + dlse[s])
 *
 * The gradient of attention needs no further change. */
static void widen_attend(Backward *backward, List *inputs, int own, Expr *normaliser) {
    Program *program = backward->program;
    const Expr *value = inputs->items[2], *output = inputs->items[own],
               *adjoint = inputs->items[own + 2];
    const Axis *width = value->tensor->axes[value->count - 1];
    const char *name = arena_format(program->arena, "%s_wide", width->name);
    Axis *wide = axis_new(program, name, width->size + 1, AXIS_PLAIN, value->span);
    Expr *zero = expr_number(program, 0), *minus = expr_number(program, -1);
    inputs->items[2] = with_first(backward, value, zero, value, wide);
    inputs->items[own] = with_first(backward, output, minus, output, wide);
    inputs->items[own + 2] = with_first(backward, output, normaliser, adjoint, wide);
}

/* The gradient of an operand at its loops; of widened values all but the first element. */
static Expr *attend_part(Backward *backward, Statement *call, int place, const Expr *operand,
                         Index **loops, int *loop_count) {
    Program *program = backward->program;
    Expr *input = call->inputs.items[place], *subs[MAX_RANK];
    Expr *part = reverse_like(backward, input, "d", loops, loop_count);
    list_push(program->arena, &call->outputs, part);
    if (input->tensor == operand->tensor) return part;
    int last = *loop_count - 1;
    loops[last] = operand->args[operand->count - 1]->index;
    for (int i = 0; i <= last; i++) subs[i] = expr_index(program, loops[i]);
    subs[last] = expr_apply(program, OP_ADD, subs[last], expr_number(program, 1), NULL);
    return expr_read(program, part->tensor, subs);
}

/* The adjoint of a bias, of each leading element. */
static void add_bias_gradient(Backward *backward, Statement *call, Expr *bias) {
    Program *program = backward->program;
    const Expr *like = call_input(call, 0);
    Index *loops[MAX_RANK];
    Axis *axes[MAX_RANK];
    int rank = 0;
    for (int i = 0; i < like->count - 3; i++)
        if (like->args[i]->kind == EXPR_INDEX && !like->args[i]->index->of_repeat)
            loops[rank++] = like->args[i]->index;
    for (int i = bias->count - 2; i < bias->count; i++) loops[rank++] = bias->args[i]->index;
    for (int i = 0; i < rank; i++) axes[i] = loops[i]->axis;
    const char *name = arena_format(program->arena, "d_%s", bias->tensor->name);
    Tensor *tensor = tensor_new(program, name, ROLE_TEMP, TYPE_REAL, rank, axes, bias->span);
    Expr *adjoint = expr_read_indices(program, tensor, loops);
    List factors = {0};
    list_push(program->arena, &call->outputs, adjoint);
    list_push(program->arena, &factors, adjoint);
    adjoint_add(backward, bias, loops, rank, &factors, call->span);
}

void attend_gradient(Backward *backward, const Statement *statement) {
    Program *program = backward->program;
    Arena *arena = program->arena;
    Expr *output = reverse_in_step(backward, statement->outputs.items[0]);
    Expr *normaliser = reverse_in_step(backward, statement->outputs.items[1]);
    Expr *adjoint = adjoint_needed(backward, output) ? adjoint_read(backward, output) : NULL;
    Expr *through =
        adjoint_needed(backward, normaliser) ? adjoint_read(backward, normaliser) : NULL;
    if (!adjoint && !through) return;
    int own = attend_operands(&statement->attention);
    List operands = {0}, inputs = {0};
    for (int i = 0; i < own; i++) {
        list_push(arena, &operands, reverse_in_step(backward, statement->inputs.items[i]));
        list_push(arena, &inputs, operands.items[i]);
    }
    list_push(arena, &inputs, output);
    list_push(arena, &inputs, normaliser);
    list_push(arena, &inputs, adjoint);
    if (through) widen_attend(backward, &inputs, own, through);
    Statement *call = statement_call(program, backward->block, CALL_ATTEND_GRAD, statement->span);
    call->attention = statement->attention;
    call->inputs = inputs;
    for (int i = 0; i < attend_document(&statement->attention); i++) {
        Expr *operand = operands.items[i];
        Index *loops[MAX_RANK];
        int loop_count;
        List factors = {0};
        list_push(arena, &factors, attend_part(backward, call, i, operand, loops, &loop_count));
        if (adjoint_needed(backward, operand))
            adjoint_add(backward, operand, loops, loop_count, &factors, statement->span);
    }
    if (!statement->attention.bias) return;
    Expr *bias = operands.items[attend_bias(&statement->attention)];
    if (adjoint_needed(backward, bias)) add_bias_gradient(backward, call, bias);
}
