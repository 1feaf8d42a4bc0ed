/* split_choice: a top inside the rows of another one that is also read outside of these rows.
 *
 * A loss may read the inner selection for every token, although the selected values are needed only
 * under the outer mask. Then top runs twice on the same values, with equal results: once for
 * readers outside, and once for readers under the mask, which can move to rows.
 *
 *     picked[b,s,n,m] = top(p)                      picked[b,s,n,m] = top(p)
 *     load[n,m] = sum[b,s] picked[b,s,n,m]   -->    picked_2[b,s,n,m] = top(p)
 *     e[b,s,n] = sum[m] picked[b,s,n,m] * y         load[n,m] = sum[b,s] picked[b,s,n,m]
 *                                                   e[b,s,n] = sum[m] picked_2[b,s,n,m] * y
 */
#include "ir/ir.h"
#include "transform/route/route.h"

#include <string.h>

typedef struct Split {
    const Routing *routing;
    const Tensor *tensor; /* the marks of the top */
    int dims[MAX_RANK];
    const ProgramPoint *point; /* the current statement */
    Tuple tuple;               /* its tuple under the mask */
    Tensor *variant;           /* NULL during the search for readers */
    bool found;
} Split;

static bool reads_under(const Split *split, const Expr *expr) {
    return expr->kind == EXPR_READ && expr->tensor == split->tensor &&
           step_fits(split->routing, expr, split->point->repeat) &&
           read_at(expr, split->dims, split->routing->rank, &split->tuple);
}

static Expr *copied_read(Program *program, Expr *read, void *data) {
    Split *split = data;
    if (!reads_under(split, read)) return NULL;
    split->found = true;
    return split->variant ? expr_read(program, split->variant, read->args) : NULL;
}

/* Visits the readers under the mask; with a variant, makes them read it. */
static void visit_readers(Split *split) {
    const Routing *routing = split->routing;
    for (int i = 0; i < routing->def_use->count; i++) {
        split->point = &routing->def_use->points[i];
        if (split->point->statement->kind != STATEMENT_LOOP ||
            !choose_tuple(routing, split->point, &split->tuple))
            continue;
        rewrite_statement(routing->program, split->point->statement, false, copied_read, split);
    }
}

/* A copy of the top, directly after it. */
static Tensor *add_copy(const Routing *routing, const ProgramPoint *point) {
    Program *program = routing->program;
    Statement *top = point->statement;
    const Expr *output = top->outputs.items[0];
    const Tensor *tensor = output->tensor;
    Block *block = point->repeat ? &point->repeat->body : &program->body, made = {{0}};
    Tensor *variant = tensor_new(program, tensor->name, tensor->role, tensor->type, tensor->rank,
                                 tensor->axes, tensor->span);
    Statement *again = statement_call(program, &made, CALL_TOP, top->span);
    again->top = top->top;
    list_push(program->arena, &again->inputs, top->inputs.items[0]);
    list_push(program->arena, &again->outputs, expr_read(program, variant, output->args));
    List *statements = &block->statements;
    list_push(program->arena, statements, NULL);
    int at = statements->count - 1;
    for (; statements->items[at - 1] != top; at--)
        statements->items[at] = statements->items[at - 1];
    statements->items[at] = again;
    return variant;
}

/* The masked reductions read the copy. Their masks have the subscripts of the source: a repeat may
 * have added a dimension to the tensor. */
static void move_masked(Program *program, const Tensor *tensor, Tensor *variant) {
    LIST_EACH(MaskedReduction, masked, &program->masked) {
        if (masked->mask->kind != EXPR_READ || masked->mask->tensor != tensor) continue;
        Expr *mask = arena_alloc(program->arena, sizeof *mask);
        *mask = *masked->mask;
        mask->tensor = variant;
        masked->mask = mask;
    }
}

/* True for a top that could move to rows without its readers outside. */
static bool may_split(const Routing *routing, const ProgramPoint *point, int tensors) {
    const Statement *top = point->statement;
    if (!statement_selects(top) || top == routing->choice) return false;
    const Tensor *tensor = ((const Expr *)top->outputs.items[0])->tensor;
    return tensor->id < tensors && routing->packing[tensor->id].candidate &&
           !routing->packing[tensor->id].packed;
}

static bool split_off(const Routing *routing, const ProgramPoint *point) {
    const Expr *output = point->statement->outputs.items[0];
    Split split = {.routing = routing, .tensor = output->tensor};
    memcpy(split.dims, routing->packing[output->tensor->id].dims, sizeof split.dims);
    visit_readers(&split);
    if (!split.found) return false;
    split.variant = add_copy(routing, point);
    move_masked(routing->program, output->tensor, split.variant);
    visit_readers(&split);
    return true;
}

/* split_choice: see the head of this file; considers the first `tensors` only, not earlier copies.
 * False if there is none, or no further one. */
bool split_choice(const Routing *routing, int tensors) {
    for (int i = 0; i < routing->def_use->count; i++) {
        const ProgramPoint *point = &routing->def_use->points[i];
        if (!may_split(routing, point, tensors) || !split_off(routing, point)) continue;
        routing->program->has[HAS_SPLIT_CHOICE] = true;
        return true;
    }
    return false;
}
