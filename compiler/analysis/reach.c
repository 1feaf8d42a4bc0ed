/* reach: which tensors a gradient passes through, and which are gradients, see reach.h. */
#include "analysis/reach.h"

#include "analysis/access.h"
#include "base/must.h"
#include "ir/call.h"

#include <string.h>

typedef struct ReachSearch {
    Reach reach;
    bool found;   /* a read depends on a parameter */
    bool changed; /* something was marked in this round */
} ReachSearch;

typedef void VisitRead(ReachSearch *search, const Expr *read);

/* Visits all reads that a gradient can pass through. */
static void visit_reads(ReachSearch *search, const Expr *expr, VisitRead *visit) {
    if (expr->kind == EXPR_READ && expr->tensor->type == TYPE_REAL) visit(search, expr);
    if (expr->kind != EXPR_APPLY) return;
    for (int i = 0; i < expr->count; i++)
        if (strcmp(op_table[expr->op].derivative[i], "0") != 0)
            visit_reads(search, expr->args[i], visit);
}

static void mark_tensor(ReachSearch *search, bool *flag) {
    if (!*flag) search->changed = true;
    *flag = true;
}

static void find_varied(ReachSearch *search, const Expr *read) {
    MUST(read->kind == EXPR_READ);
    if (search->reach.from_parameter[read->tensor->id]) search->found = true;
}

static void mark_useful(ReachSearch *search, const Expr *read) {
    MUST(read->kind == EXPR_READ);
    mark_tensor(search, &search->reach.to_loss[read->tensor->id]);
}

/* True if a gradient may pass from its results to its operands; for a scan, the statements of its
 * body answer. */
static bool passes_gradient(const Statement *statement) {
    if (statement->once || statement_is_scan(statement)) return false;
    return statement->kind == STATEMENT_LOOP || (statement->row && statement->row->gradient);
}

static void visit_operands(ReachSearch *search, const Statement *statement, VisitRead *visit) {
    if (statement->kind == STATEMENT_LOOP) visit_reads(search, statement->value, visit);
    for (int i = 0; i < statement->inputs.count; i++)
        visit_reads(search, statement->inputs.items[i], visit);
}

static int result_count(const Statement *statement) {
    return statement->kind == STATEMENT_LOOP ? 1 : statement->outputs.count;
}

static const Tensor *result(const Statement *statement, int number) {
    if (statement->kind == STATEMENT_LOOP) return statement->target->tensor;
    return ((const Expr *)statement->outputs.items[number])->tensor;
}

static void reach_results(Statement *statement, void *data) {
    ReachSearch *search = data;
    if (!passes_gradient(statement)) return;
    search->found = false;
    visit_operands(search, statement, find_varied);
    for (int i = 0; search->found && i < result_count(statement); i++) {
        const Tensor *tensor = result(statement, i);
        if (tensor->type == TYPE_REAL)
            mark_tensor(search, &search->reach.from_parameter[tensor->id]);
    }
}

static void reach_operands(Statement *statement, void *data) {
    ReachSearch *search = data;
    bool useful = false;
    if (!passes_gradient(statement)) return;
    for (int i = 0; i < result_count(statement); i++)
        useful |= search->reach.to_loss[result(statement, i)->id];
    if (useful) visit_operands(search, statement, mark_useful);
}

/* A fixed point, because a repeat carries values between iterations. Each walk follows the
 * direction of the values. */
Reach gradient_reach(Program *program) {
    MUST(program->loss);
    size_t count = (size_t)program->tensors.count + 1;
    ReachSearch search = {.changed = true};
    Reach *reach = &search.reach;
    reach->from_parameter = arena_alloc(program->arena, count * sizeof(bool));
    reach->to_loss = arena_alloc(program->arena, count * sizeof(bool));
    reach->to_loss[program->loss->id] = true;
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        bool input = program->input_gradients && tensor->role == ROLE_INPUT &&
                     tensor->input == MOEC_INPUT_REAL && tensor != program->cotangent;
        reach->from_parameter[i] =
            input || tensor->observed ||
            (tensor->role == ROLE_PARAMETER && tensor->type == TYPE_REAL && !tensor->frozen);
    }
    while (search.changed) {
        search.changed = false;
        block_walk(&program->body, reach_results, &search);
        block_walk_back(&program->body, reach_operands, &search);
    }
    return search.reach;
}

/* ---- gradients ---- */

typedef struct GradientSearch {
    Arena *arena;
    bool *found; /* by tensor id */
    bool changed;
} GradientSearch;

static void mark_results(Statement *statement, void *data) {
    GradientSearch *search = data;
    List reads = {0}, writes = {0};
    bool depends = false;
    reads_of(search->arena, statement, &reads);
    LIST_EACH(const Expr, read, &reads) depends |= search->found[read->tensor->id];
    if (!depends) return;
    writes_of(search->arena, statement, &writes);
    LIST_EACH(const Expr, write, &writes) {
        search->changed |= !search->found[write->tensor->id];
        search->found[write->tensor->id] = true;
    }
}

bool *gradient_values(Program *program) {
    const size_t count = (size_t)program->tensors.count + 1;
    GradientSearch search = {.arena = program->arena, .changed = true};
    search.found = arena_alloc(program->arena, count * sizeof *search.found);
    LIST_EACH(const Tensor, tensor, &program->tensors)
        search.found[tensor->id] =
            tensor == program->cotangent ||
            (tensor->role == ROLE_INPUT && tensor->scalar == MOEC_SCALAR_LOSS_SCALE);
    while (search.changed) {
        search.changed = false;
        block_walk(&program->body, mark_results, &search);
    }
    return search.found;
}
