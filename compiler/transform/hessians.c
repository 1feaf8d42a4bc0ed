/* hessians: the sums of products of the inputs of a matrix become an output, named after it.
 *
 * Needs:   route: computation for selected entries is on dispatched rows.
 * Leaves:  outputs [instances, k, k] for parameters [instances, k, n]: the Hessians of the squared
 *          error of their products (GPTQ, Frantar et al. 2022).
 *
 *     h[r,f] = sum[d] x[b[r],s[r],d] * up[n[r],d,f]
 *
 *     up_hessian[n[r],d,d'] += x[b[r],s[r],d] * x[b[r],s[r],d']
 */
#include "analysis/contraction.h"
#include "analysis/parameter_flow.h"
#include "passes.h"

typedef struct Hessians {
    Program *program;
    List made; /* Tensor *, outputs */
} Hessians;

/* The sum to add: its target's subscripts and the copies of the indices of the terms. */
typedef struct SquaredInputs {
    const Expr *input;
    Expr *subs[MAX_RANK];
    Axis *axes[MAX_RANK];
    Index *terms[MAX_RANK];
    Expr *copies[MAX_RANK];
    int rank, term_count;
} SquaredInputs;

static void add_hessian_axis(SquaredInputs *sum, Axis *axis, Expr *sub) {
    if (sum->rank < MAX_RANK) {
        sum->axes[sum->rank] = axis;
        sum->subs[sum->rank] = sub;
    }
    sum->rank++;
}

/* Terms of the product are summed and read by both factors; an index of the parameter alone counts
 * its columns; other subscripts select the instance. */
static bool find_hessian_axes(Program *program, const Statement *statement, const Expr *parameter,
                              SquaredInputs *sum) {
    for (int i = 0; i < parameter->count; i++) {
        Expr *sub = parameter->args[i];
        const bool loop = sub->kind == EXPR_INDEX && statement_loops_over(statement, sub->index);
        if (loop && !expr_uses_index(statement->target, sub->index)) {
            sum->copies[sum->term_count] = expr_index(
                program, index_new(program, sub->index->name, parameter->tensor->axes[i]));
            sum->terms[sum->term_count++] = sub->index;
        } else if (!loop || expr_uses_index(sum->input, sub->index)) {
            add_hessian_axis(sum, parameter->tensor->axes[i], sub);
        }
    }
    for (int i = 0; i < sum->term_count; i++)
        add_hessian_axis(sum, sum->terms[i]->axis, expr_index(program, sum->terms[i]));
    for (int i = 0; i < sum->term_count; i++)
        add_hessian_axis(sum, sum->terms[i]->axis, sum->copies[i]);
    return sum->term_count > 0 && sum->rank <= MAX_RANK;
}

/* The output of a parameter; NULL if another product of it has other terms. */
static Tensor *hessian_of(Hessians *hessians, const Tensor *parameter, const SquaredInputs *sum) {
    Program *program = hessians->program;
    LIST_EACH(Tensor, made, &hessians->made) {
        if (made->path != parameter->path) continue;
        bool equal = made->rank == sum->rank;
        for (int j = 0; equal && j < made->rank; j++) equal = made->axes[j] == sum->axes[j];
        return equal ? made : NULL;
    }
    Tensor *made = tensor_new(program, arena_format(program->arena, "%s_hessian", parameter->name),
                              ROLE_OUTPUT, TYPE_REAL, sum->rank, sum->axes, parameter->span);
    made->path = parameter->path;
    list_push(program->arena, &program->outputs, made);
    list_push(program->arena, &hessians->made, made);
    return made;
}

/* Loops over the rows of the input: neither instances nor terms. */
static int summed_rows(const Statement *statement, const SquaredInputs *sum, Index **rows) {
    int count = 0;
    for (int i = 0; i < statement->loop_count; i++) {
        Index *loop = statement->loops[i];
        bool row = expr_uses_index(sum->input, loop);
        for (int j = 0; j < sum->rank; j++)
            row &= sum->subs[j]->kind != EXPR_INDEX || sum->subs[j]->index != loop;
        if (row) rows[count++] = loop;
    }
    return count;
}

/* The sum over the rows; NULL if the result has no Hessian. */
static Statement *hessian_statement(Hessians *hessians, const Statement *statement,
                                    const Expr *parameter, Expr *input) {
    Program *program = hessians->program;
    SquaredInputs sum = {.input = input};
    if (!find_hessian_axes(program, statement, parameter, &sum)) return NULL;
    Tensor *hessian = hessian_of(hessians, parameter->tensor, &sum);
    if (!hessian) return NULL;
    Index *rows[MAX_LOOPS];
    const int count = summed_rows(statement, &sum, rows);
    bool by_row = false; /* the rows select the instance */
    for (int i = 0; i < sum.rank; i++)
        for (int j = 0; j < count; j++) by_row |= expr_uses_index(sum.subs[i], rows[j]);
    Expr *copy = expr_substitute(program, input, sum.terms, sum.copies, sum.term_count);
    Block alone = {{0}};
    Statement *made =
        statement_loop(program, &alone, expr_read(program, hessian, sum.subs), true,
                       by_row ? REDUCE_NONE : REDUCE_SUM, rows, count,
                       expr_apply(program, OP_MUL, input, copy, NULL), statement->span);
    made->bound = statement->bound;
    return made;
}

static Statement *hessian_after(Hessians *hessians, const Statement *statement) {
    Program *program = hessians->program;
    Expr *factors[2];
    if (statement->kind != STATEMENT_LOOP || !product_of_reads(statement, &factors[0], &factors[1]))
        return NULL;
    for (int i = 0; i < 2; i++)
        if (factors[i]->tensor->role == ROLE_PARAMETER &&
            factors[1 - i]->tensor->role == ROLE_TEMP &&
            is_product_with(program->arena, statement, factors[i]->tensor))
            return hessian_statement(hessians, statement, factors[i], factors[1 - i]);
    return NULL;
}

static void add_hessians(Hessians *hessians, Block *block) {
    List all = {0};
    LIST_EACH(Statement, statement, &block->statements) {
        list_push(hessians->program->arena, &all, statement);
        if (statement->kind == STATEMENT_REPEAT) add_hessians(hessians, &statement->body);
        Statement *made = hessian_after(hessians, statement);
        if (made) list_push(hessians->program->arena, &all, made);
    }
    block->statements = all;
}

void hessians(Program *program) {
    Hessians hessians = {.program = program};
    add_hessians(&hessians, &program->body);
    Block zeros = {{0}};
    LIST_EACH(Tensor, made, &hessians.made) {
        Index *indices[MAX_RANK];
        for (int j = 0; j < made->rank; j++) indices[j] = index_over(program, made->axes[j]);
        statement_assign(program, &zeros, expr_read_indices(program, made, indices),
                         expr_number(program, 0), made->span);
    }
    list_insert(program->arena, &program->body.statements, 0, &zeros.statements);
}
