/* low_rank: multiplies by the factors of a low-rank term of a matrix instead of by the matrix.
 *
 * Needs:   an elaborated program with parameter_facts, before gradient.
 * Leaves:  the same values, except for rounding.
 *
 *     t[d,f] = sum[r] a[d,r] * b[r,f]
 *     u[d,f] = w[d,f] + 2 * t[d,f]
 *     y[b,s,f] = sum[d] x[b,s,d] * u[d,f]
 *   -->
 *     p[b,s,r] = sum[d] x[b,s,d] * a[d,r]
 *     q[b,s,f] = sum[r] p[b,s,r] * b[r,f]
 *     v[b,s,f] = sum[d] x[b,s,d] * w[d,f]
 *     y[b,s,f] = v[b,s,f] + 2 * q[b,s,f]
 *
 * This form is chosen where it needs fewer operations. With a gradient, each product counts three
 * times: its result and the gradients of both operands. The matrix u needs a gradient for a and b;
 * w needs none if it is frozen. The matrix may be defined in several equations.
 */
#include "analysis/parameter_facts.h"
#include "passes.h"

enum { MAX_TERMS = 16 };

typedef struct LowRank {
    Program *program;
    int tensors;
    Statement **makers; /* by tensor id: the equation that alone defines it from parameters, or
                           NULL */
    double *runs;       /* by tensor id: of that equation */
    double *readers;    /* by tensor id: runs of the statements that read it */
    bool gradient;
} LowRank;

/* A term of a matrix: number * expr. */
typedef struct MatrixTerm {
    double number;
    Expr *expr;
} MatrixTerm;

/* A product, its matrix as a sum, and the low-rank term. */
typedef struct LowRankProduct {
    Statement *statement;
    Expr *matrix, *others; /* the factors of the product; others: all but the matrix */
    MatrixTerm terms[MAX_TERMS];
    int count, chosen;
    Expr *inner, *outer; /* the factors of the chosen term: a, b */
    List summed;         /* Index *: of its sum */
} LowRankProduct;

/* ---- definitions ---- */

/* Each loop up to those of the sum is a subscript of the target, in order. */
static bool has_plain_target(const Statement *statement) {
    const Expr *target = statement->target;
    for (int i = 0; i < target->count; i++)
        if (i >= statement->loop_count || target->args[i]->kind != EXPR_INDEX ||
            target->args[i]->index != statement->loops[i])
            return false;
    return true;
}

/* True if the expression reads only parameters and tensors that depend on them alone. */
static bool is_of_weights(const LowRank *all, const Expr *expr) {
    if (expr->kind == EXPR_READ && expr->tensor->role != ROLE_PARAMETER &&
        !all->makers[expr->tensor->id])
        return false;
    if (expr->kind == EXPR_APPLY && op_is_random(expr->op)) return false;
    for (int i = 0; i < expr->count; i++)
        if (!is_of_weights(all, expr->args[i])) return false;
    return true;
}

typedef struct Noting {
    LowRank *all;
    double runs;
} Noting;

static void note_reader(Expr *expr, void *data) {
    const Noting *noting = data;
    if (expr->kind == EXPR_READ) noting->all->readers[expr->tensor->id] += noting->runs;
}

static void note_definitions(LowRank *all, const Block *block, double runs, bool *written) {
    Noting noting = {all, runs};
    LIST_EACH(Statement, statement, &block->statements) {
        for (int j = 0; j < statement->inputs.count; j++)
            expr_walk(statement->inputs.items[j], note_reader, &noting);
        for (int j = 0; j < statement->outputs.count; j++)
            written[((const Expr *)statement->outputs.items[j])->tensor->id] = true;
        if (statement->kind == STATEMENT_REPEAT)
            note_definitions(all, &statement->body, runs * (double)statement->index->axis->size,
                             written);
        if (statement->kind != STATEMENT_LOOP) continue;
        const Tensor *made = statement->target->tensor;
        const bool alone = !written[made->id] && made->role == ROLE_TEMP && !made->observed &&
                           !made->carried && !statement->accumulate &&
                           has_plain_target(statement) && is_of_weights(all, statement->value);
        written[made->id] = true;
        all->makers[made->id] = alone ? statement : NULL;
        all->runs[made->id] = runs;
        expr_walk(statement->value, note_reader, &noting);
        for (int j = 0; j < statement->target->count; j++)
            expr_walk(statement->target->args[j], note_reader, &noting);
    }
}

/* The value of a read by its equation, with fresh indices of its sum in `summed`. */
static Expr *defining_value(const LowRank *all, const Expr *read, const Statement *maker,
                            List *summed) {
    Index *from[MAX_LOOPS];
    Expr *to[MAX_LOOPS];
    for (int i = 0; i < maker->loop_count; i++) {
        from[i] = maker->loops[i];
        if (i < read->count) {
            from[i] = maker->target->args[i]->index;
            to[i] = read->args[i];
            continue;
        }
        Index *own = index_new(all->program, from[i]->name, from[i]->axis);
        to[i] = expr_index(all->program, own);
        list_push(all->program->arena, summed, own);
    }
    return expr_substitute(all->program, maker->value, from, to, maker->loop_count);
}

static const Statement *defining_statement(const LowRank *all, const Expr *read,
                                           Reduction reduction) {
    if (read->kind != EXPR_READ || read->tensor->id >= all->tensors) return NULL;
    const Statement *maker = all->makers[read->tensor->id];
    return maker && maker->reduction == reduction ? maker : NULL;
}

static bool is_linear(const Expr *value) {
    if (value->kind != EXPR_APPLY) return value->kind == EXPR_READ;
    return value->op == OP_ADD || value->op == OP_SUB || value->op == OP_NEG ||
           (value->op == OP_MUL &&
            (value->args[0]->kind == EXPR_NUMBER || value->args[1]->kind == EXPR_NUMBER));
}

/* Lists the terms of a matrix, which equations without sums may define; false if there are too
 * many. */
static bool list_terms(const LowRank *all, LowRankProduct *product, Expr *expr, double number) {
    const Statement *maker = defining_statement(all, expr, REDUCE_NONE);
    List none = {0};
    if (maker && is_linear(maker->value))
        return list_terms(all, product, defining_value(all, expr, maker, &none), number);
    if (expr->kind == EXPR_APPLY && is_linear(expr)) {
        const bool times = expr->op == OP_MUL, first = expr->args[0]->kind == EXPR_NUMBER;
        if (times)
            return list_terms(all, product, expr->args[first], number * expr->args[!first]->number);
        const double sign = expr->op == OP_ADD ? 1 : -1;
        if (expr->op == OP_NEG) return list_terms(all, product, expr->args[0], -number);
        return list_terms(all, product, expr->args[0], number) &&
               list_terms(all, product, expr->args[1], sign * number);
    }
    if (product->count == MAX_TERMS) return false;
    product->terms[product->count++] = (MatrixTerm){number, expr};
    return true;
}

/* ---- factors and operations ---- */

static Expr *times(Program *program, Expr *a, Expr *b) {
    return a ? expr_apply(program, OP_MUL, a, b, NULL) : b;
}

static bool is_loop_of_sum(const Statement *statement, const Index *index) {
    return statement_loops_over(statement, index) && !expr_uses_index(statement->target, index);
}

/* The loops before those of its sum; -1: they do not precede them. */
static int kept_loops(const Statement *statement) {
    int kept = 0;
    while (kept < statement->loop_count && !is_loop_of_sum(statement, statement->loops[kept]))
        kept++;
    for (int i = kept; i < statement->loop_count; i++)
        if (!is_loop_of_sum(statement, statement->loops[i])) return -1;
    return kept;
}

static bool uses_reduced(const Statement *statement, const Expr *expr) {
    for (int i = 0; i < statement->loop_count; i++)
        if (is_loop_of_sum(statement, statement->loops[i]) &&
            expr_uses_index(expr, statement->loops[i]))
            return true;
    return false;
}

/* Divides the factors of the term: those with indices that the product sums over, and others. */
static void divide_factors(Program *program, LowRankProduct *product, Expr *value) {
    if (value->kind == EXPR_APPLY && value->op == OP_MUL) {
        divide_factors(program, product, value->args[0]);
        divide_factors(program, product, value->args[1]);
        return;
    }
    Expr **side = uses_reduced(product->statement, value) ? &product->inner : &product->outer;
    *side = times(program, *side, value);
}

/* The indices of the first product, x * a, in order; reduced: those that only it sums over. */
static int loops_of_inner(const LowRankProduct *product, Index **loops, bool reduced) {
    const Statement *statement = product->statement;
    int count = 0;
    for (int i = 0; i < statement->loop_count + product->summed.count; i++) {
        Index *index = i < statement->loop_count ? statement->loops[i]
                                                 : product->summed.items[i - statement->loop_count];
        const bool summed = i >= statement->loop_count || is_loop_of_sum(statement, index);
        const bool used = expr_uses_index(product->inner, index) ||
                          (product->others && expr_uses_index(product->others, index));
        if (used && (summed && !expr_uses_index(product->outer, index)) == reduced)
            loops[count++] = index;
    }
    return count;
}

/* The indices that the second product sums over. */
static int summed_by_outer(const LowRankProduct *product, Index **loops) {
    const Statement *statement = product->statement;
    int count = 0;
    for (int i = 0; i < statement->loop_count; i++)
        if (is_loop_of_sum(statement, statement->loops[i]) &&
            expr_uses_index(product->outer, statement->loops[i]))
            loops[count++] = statement->loops[i];
    for (int i = 0; i < product->summed.count; i++) loops[count++] = product->summed.items[i];
    return count;
}

static double sizes(Index *const *loops, int count) {
    double product = 1;
    for (int i = 0; i < count; i++) product *= (double)loops[i]->axis->size;
    return product;
}

/* False if all parameters of the other terms are frozen. */
static bool others_are_trained(const LowRankProduct *product) {
    for (int i = 0; i < product->count; i++) {
        const Expr *expr = product->terms[i].expr;
        if (i == product->chosen) continue;
        if (expr->kind != EXPR_READ || expr->tensor->role != ROLE_PARAMETER ||
            is_trained(expr->tensor))
            return true;
    }
    return false;
}

static bool costs_less(const LowRank *all, const LowRankProduct *product, const Statement *maker) {
    const Statement *statement = product->statement;
    Index *loops[2 * MAX_LOOPS];
    const int id = maker->target->tensor->id;
    const double each = all->gradient ? 3 : 1;
    int count = loops_of_inner(product, loops, false);
    if (count > MAX_RANK) return false;
    count += loops_of_inner(product, loops + count, true);
    double separate = sizes(loops, count);
    const int kept = kept_loops(statement);
    count = summed_by_outer(product, loops);
    if (kept < 0 || kept > MAX_RANK || kept + count > MAX_LOOPS) return false;
    separate += sizes(statement->loops, kept) * sizes(loops, count);
    const double share = all->runs[id] / all->readers[product->matrix->tensor->id];
    double whole = each * share * sizes(maker->loops, maker->loop_count);
    if (all->gradient && !others_are_trained(product))
        whole += sizes(statement->loops, statement->loop_count);
    return each * separate < whole;
}

/* Finds a low-rank term of the matrix. */
static bool find_low_rank_term(const LowRank *all, LowRankProduct *product) {
    product->count = 0;
    if (!defining_statement(all, product->matrix, REDUCE_NONE) ||
        !list_terms(all, product, product->matrix, 1) || product->count < 2)
        return false;
    for (product->chosen = 0; product->chosen < product->count; product->chosen++) {
        const Expr *term = product->terms[product->chosen].expr;
        const Statement *maker = defining_statement(all, term, REDUCE_SUM);
        if (!maker) continue;
        product->inner = product->outer = NULL;
        product->summed = (List){0};
        divide_factors(all->program, product, defining_value(all, term, maker, &product->summed));
        if (product->inner && product->outer && costs_less(all, product, maker)) return true;
    }
    return false;
}

/* Tries each factor as the matrix. */
static bool find_matrix(const LowRank *all, LowRankProduct *product, Expr *value, Expr *others) {
    if (value->kind == EXPR_APPLY && value->op == OP_MUL) {
        Program *program = all->program;
        return find_matrix(all, product, value->args[0], times(program, others, value->args[1])) ||
               find_matrix(all, product, value->args[1], times(program, others, value->args[0]));
    }
    product->matrix = value;
    product->others = others;
    return others && find_low_rank_term(all, product);
}

/* ---- rewriting ---- */

static Expr *sum_over(Program *program, Block *block, const Statement *like, const char *name,
                      Index *const *loops, int count, Index *const *reduced, int reduced_count,
                      Expr *value) {
    Tensor *made = tensor_over(program, name, ROLE_TEMP, TYPE_REAL, loops, count, like->span);
    Expr *target = expr_read_indices(program, made, loops);
    Statement *statement = statement_loop(program, block, target, false, REDUCE_SUM, reduced,
                                          reduced_count, value, like->span);
    statement->application = like->application;
    statement->asked = like->asked;
    return target;
}

/* The matrix without the chosen term. */
static Expr *rest_of_matrix(Program *program, const LowRankProduct *product) {
    Expr *rest = NULL;
    for (int i = 0; i < product->count; i++) {
        if (i == product->chosen) continue;
        const MatrixTerm *term = &product->terms[i];
        Expr *own =
            expr_apply(program, OP_MUL, expr_number(program, term->number), term->expr, NULL);
        rest = rest ? expr_apply(program, OP_ADD, rest, own, NULL) : own;
    }
    return rest;
}

/* Appends the four statements. */
static void multiply_by_factors(Program *program, Block *block, const LowRankProduct *product) {
    Statement *statement = product->statement;
    Index *loops[2 * MAX_LOOPS], *reduced[2 * MAX_LOOPS];
    const char *name = statement->target->tensor->stem;
    const int kept = kept_loops(statement);
    int count = loops_of_inner(product, loops, false),
        reduced_count = loops_of_inner(product, reduced, true);
    Expr *inner =
        sum_over(program, block, statement, arena_format(program->arena, "%s_low", name), loops,
                 count, reduced, reduced_count, times(program, product->others, product->inner));
    reduced_count = summed_by_outer(product, reduced);
    Expr *outer = sum_over(program, block, statement,
                           arena_format(program->arena, "%s_low_product", name), statement->loops,
                           kept, reduced, reduced_count, times(program, inner, product->outer));
    Expr *rest =
        sum_over(program, block, statement, arena_format(program->arena, "%s_rest", name),
                 statement->loops, kept, statement->loops + kept, statement->loop_count - kept,
                 times(program, product->others, rest_of_matrix(program, product)));
    Expr *number = expr_number(program, product->terms[product->chosen].number);
    statement->value =
        expr_apply(program, OP_ADD, rest, expr_apply(program, OP_MUL, number, outer, NULL), NULL);
    statement->reduction = REDUCE_NONE;
    statement->loop_count = kept;
    list_push(program->arena, &block->statements, statement);
}

static void low_rank_block(const LowRank *all, Block *block) {
    Block made = {{0}};
    LIST_EACH(Statement, statement, &block->statements) {
        LowRankProduct product = {.statement = statement};
        if (statement->kind == STATEMENT_REPEAT) low_rank_block(all, &statement->body);
        const bool sum = statement->kind == STATEMENT_LOOP && statement->reduction == REDUCE_SUM &&
                         !statement->accumulate && !statement->once &&
                         !statement_is_scatter(statement);
        if (sum && find_matrix(all, &product, statement->value, NULL))
            multiply_by_factors(all->program, &made, &product);
        else
            list_push(all->program->arena, &made.statements, statement);
    }
    *block = made;
}

void low_rank(Program *program) {
    const size_t count = (size_t)program->tensors.count + 1;
    LowRank all = {.program = program,
                   .tensors = program->tensors.count,
                   .gradient = program->graph == GRAPH_TRAIN && program->loss};
    bool *written = arena_alloc(program->arena, count * sizeof *written);
    all.makers = arena_alloc(program->arena, count * sizeof(Statement *));
    all.runs = arena_alloc(program->arena, count * sizeof *all.runs);
    all.readers = arena_alloc(program->arena, count * sizeof *all.readers);
    note_definitions(&all, &program->body, 1, written);
    low_rank_block(&all, &program->body);
}
