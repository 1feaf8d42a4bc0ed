/* measure: the negative log-likelihood of the next tokens, for evaluation.
 *
 * Needs:   an elaborated GRAPH_MEASURE program, still a forward one.
 * Leaves:  one number per token instead of the large outputs; the logits are never stored in full.
 *          A model whose logits are not one row per token, or that refines its tokens, keeps its
 *          outputs. Every model keeps its probes.
 *
 *     output logits[b,s,v]    -->    most[b,s] = max[v] logits[b,s,v]
 *                                    total[b,s] = sum[v] exp(logits[b,s,v] - most[b,s])
 *                                    output nats[b,s] = most + log(total) - logits[b,s,next[b,s]]
 */
#include "transform/decode/decode.h"
#include "passes.h"

#include <string.h>

static Tensor *find_output(const Program *program, const char *name) {
    return list_named(&program->outputs, offsetof(Tensor, path), name);
}

/* The input of that kind whose elements each have a row of logits, or NULL. */
static Tensor *find_input(const Program *program, MoecInput kind, const Tensor *logits) {
    LIST_EACH(Tensor, tensor, &program->tensors) {
        bool fits = tensor->role == ROLE_INPUT && tensor->input == kind && tensor->rank > 0 &&
                    tensor->rank == logits->rank - 1;
        for (int j = 0; fits && j < tensor->rank; j++) fits = tensor->axes[j] == logits->axes[j];
        if (fits) return tensor;
    }
    return NULL;
}

static Tensor *next_tokens(Program *program, const Tensor *logits) {
    Tensor *next = find_input(program, MOEC_INPUT_NEXT, logits);
    if (next) return next;
    next = tensor_new(program, "next", ROLE_INPUT, TYPE_INT, logits->rank - 1, logits->axes,
                      logits->span);
    next->path = next->name;
    next->input = MOEC_INPUT_NEXT;
    next->vocabulary = logits->axes[logits->rank - 1]->size;
    return next;
}

/* to[row] = reduction of `value`, an expression of logits, over the last axis of logits. */
static Expr *add_loss_rows(Program *program, const char *name, Reduction reduction,
                           const Tensor *logits, Index *const *loops, Expr *value) {
    int rank = logits->rank - 1;
    Tensor *to = tensor_new(program, name, ROLE_TEMP, TYPE_REAL, rank, logits->axes, logits->span);
    Expr *target = expr_read_indices(program, to, loops);
    statement_loop(program, &program->body, target, false, reduction, loops + rank,
                   reduction == REDUCE_NONE ? 0 : 1, value, logits->span);
    return target;
}

static Tensor *add_nats(Program *program, Tensor *logits) {
    Index *loops[MAX_RANK];
    Expr *subs[MAX_RANK];
    int last = logits->rank - 1;
    Tensor *next = next_tokens(program, logits);
    for (int i = 0; i < logits->rank; i++) loops[i] = index_over(program, logits->axes[i]);
    Expr *all = expr_read_indices(program, logits, loops);
    Expr *most = add_loss_rows(program, "most", REDUCE_MAX, logits, loops, all);
    most = expr_apply(program, OP_STOP, most, NULL, NULL);
    Expr *less = expr_apply(program, OP_SUB, all, most, NULL);
    Expr *total = add_loss_rows(program, "total", REDUCE_SUM, logits, loops,
                                expr_apply(program, OP_EXP, less, NULL, NULL));
    for (int i = 0; i < last; i++) subs[i] = expr_index(program, loops[i]);
    subs[last] = expr_read_indices(program, next, loops);
    Expr *normal =
        expr_apply(program, OP_ADD, most, expr_apply(program, OP_LOG, total, NULL, NULL), NULL);
    Expr *value = expr_apply(program, OP_SUB, normal, expr_read(program, logits, subs), NULL);
    return add_loss_rows(program, "nats", REDUCE_NONE, logits, loops, value)->tensor;
}

/* measure: see the head of this file. */
void measure(Program *program) {
    Tensor *logits = find_output(program, "logits");
    if (program->refines || !logits || logits->rank < 2 ||
        !find_input(program, MOEC_INPUT_TOKEN, logits))
        return;
    Tensor *nats = add_nats(program, logits);
    const List outputs = program->outputs;
    program->outputs = (List){0};
    nats->role = ROLE_OUTPUT;
    nats->path = "nats";
    list_push(program->arena, &program->outputs, nats);
    LIST_EACH(Tensor, output, &outputs) {
        if (output->rank == 0 || output->probe != MOEC_PROBE_NONE) {
            list_push(program->arena, &program->outputs, output);
        } else {
            output->role = ROLE_TEMP;
            output->path = NULL;
        }
    }
    drop_unused(program);
}
