/* rows: rewrites statements under a mask to run over dispatched rows.
 *
 *     h[b,s,n,f] = sum[d] x[b,s,d] * up[n,d,f]
 *     y[b,s,d] = sum[n] chosen[b,s,n] * e[b,s,n,d]
 *     dw[n,d] += sum[b,s] dp[b,s,n] * x[b,s,d]
 *   -->
 *     h[r,f] = sum[d] x[b[r],s[r],d] * up[n[r],d,f]
 *     y[b,s,d] = 0;  y[b[r],s[r],d] += e[r,d]
 *     dw[n[r],d] += dp[r] * x[b[r],s[r],d]
 */
#include "analysis/access.h"
#include "base/must.h"
#include "transform/route/route.h"

#include <string.h>

typedef struct Rewrite {
    Routing *routing;
    Statement *region;
    const Tuple *tuple; /* NULL: the statement stays dense and finds dispatched values by their
                           coordinates */
    Site *site;         /* NULL until its first use */
    Index *row;
} Rewrite;

static Site *site_of(Rewrite *rewrite) {
    if (!rewrite->site) rewrite->site = site_for(rewrite->routing, rewrite->region);
    return rewrite->site;
}

/* The statement visits only rows that exist. */
static Statement *on_existing_rows(Rewrite *rewrite, Statement *statement) {
    if (rewrite->routing->counted) statement->bound = site_of(rewrite)->bound;
    return statement;
}

static Expr *dispatched_expr(Rewrite *rewrite, Expr *expr);

static Expr *coordinate(Rewrite *rewrite, int dimension) {
    return expr_read_indices(rewrite->routing->program,
                             site_of(rewrite)->relation->coordinate[dimension], &rewrite->row);
}

/* Removes the dimensions of the mask from `subs` and replaces the first of them by `row`. Returns
 * the remaining rank. */
int collapse(const Routing *routing, const Packing *packing, int rank, void **subs, void *row) {
    int kept = 0, first = packing->dims[0];
    for (int i = 1; i < routing->rank; i++)
        if (packing->dims[i] < first) first = packing->dims[i];
    for (int i = 0; i < rank; i++) {
        bool gone = false;
        for (int j = 0; j < routing->rank; j++) gone |= packing->dims[j] == i;
        if (i == first)
            subs[kept++] = row;
        else if (!gone)
            subs[kept++] = subs[i];
    }
    return kept;
}

static bool is_row_of(const Program *program, const Tensor *tensor) {
    return list_find_by(&program->relations, offsetof(Relation, row_of), tensor) != NULL;
}

/* True for a row that may be -1: of an outer relation. */
static bool is_row(const Program *program, const Expr *place) {
    if (place->kind == EXPR_APPLY && place->op == OP_WHERE) place = place->args[1];
    return place->kind == EXPR_READ && is_row_of(program, place->tensor);
}

/* The condition that the subscript is within the axis, NULL: always. */
static Expr *stands(Program *program, Expr *place, const Axis *axis) {
    bool row = is_row(program, place), apply = place->kind == EXPR_APPLY;
    if (!row && !apply) return NULL;
    bool later = apply && place->op == OP_ADD && place->args[0]->kind == EXPR_INDEX &&
                 place->args[1]->kind == EXPR_NUMBER && place->args[1]->number >= 0,
         earlier = apply && place->op == OP_SUB && place->args[0]->kind == EXPR_INDEX &&
                   place->args[1]->kind == EXPR_NUMBER && place->args[1]->number >= 0;
    Expr *size = expr_number(program, (double)axis->size);
    Expr *low = expr_apply(program, OP_GE, place, expr_number(program, 0), NULL);
    Expr *high = expr_apply(program, OP_LT, place, size, NULL);
    if (row || earlier) return low;
    return later ? high : expr_apply(program, OP_AND, low, high, NULL);
}

/* The row of an entry, -1 if there is none: outside of an axis, and where an outer relation has no
 * row. */
static Expr *row_at(Rewrite *rewrite, Expr *const *places) {
    Program *program = rewrite->routing->program;
    Tensor *row_of = site_of(rewrite)->relation->row_of;
    Expr *row = expr_read(program, row_of, places), *inside = NULL;
    for (int i = 0; i < row_of->rank; i++) {
        Expr *here = stands(program, places[i], row_of->axes[i]);
        if (here) inside = inside ? expr_apply(program, OP_AND, inside, here, NULL) : here;
    }
    if (!inside) return row;
    return expr_apply(program, OP_WHERE, inside, row, expr_number(program, -1));
}

/* A read of a dispatched tensor: at the current row, or at the row of its entry. That is -1 and
 * reads 0 if there is none. */
static Expr *rewrite_packed(Rewrite *rewrite, const Expr *read, const Packing *packing) {
    Routing *routing = rewrite->routing;
    Program *program = routing->program;
    void *subs[MAX_RANK];
    Expr *args[MAX_RANK], *places[MAX_RANK], *row;
    for (int i = 0; i < read->count; i++) subs[i] = dispatched_expr(rewrite, read->args[i]);
    for (int i = 0; i < routing->rank; i++) places[i] = subs[packing->dims[i]];
    if (rewrite->tuple && read_at(read, packing->dims, routing->rank, rewrite->tuple))
        row = expr_index(program, rewrite->row);
    else
        row = row_at(rewrite, places);
    int rank = collapse(routing, packing, read->count, subs, row);
    MUST(rank == read->count - routing->rank + 1);
    for (int i = 0; i < rank; i++) args[i] = subs[i];
    Expr *result = expr_read(program, read->tensor, args);
    result->span = read->span;
    return result;
}

/* The same expression over rewritten arguments. An outer coordinate of the row's row becomes one of
 * the row. */
static Expr *rewrite_rest(Rewrite *rewrite, Expr *expr) {
    Program *program = rewrite->routing->program;
    Expr *args[MAX_RANK] = {NULL};
    bool changed = false;
    for (int i = 0; i < expr->count; i++) {
        args[i] = dispatched_expr(rewrite, expr->args[i]);
        changed |= args[i] != expr->args[i];
    }
    if (!changed) return expr;
    if (expr->kind == EXPR_READ) {
        const RowTensor *outer = row_tensor_find(rewrite->routing, expr->tensor);
        if (outer && rewrite->tuple && expr->args[0]->kind == EXPR_INDEX &&
            outer->site == site_of(rewrite)->outer) {
            Tensor *own =
                row_tensor(rewrite->routing, rewrite->site, outer->root, outer->dimension);
            return expr_read_indices(program, own, &rewrite->row);
        }
    }
    return expr_with_args(program, expr, args);
}

static Expr *dispatched_expr(Rewrite *rewrite, Expr *expr) {
    Routing *routing = rewrite->routing;
    if (expr->kind == EXPR_INDEX && rewrite->tuple)
        for (int i = 0; i < routing->rank; i++)
            if (rewrite->tuple->at[i]->index == expr->index) return coordinate(rewrite, i);
    if (!expr->count) return expr;
    if (expr->kind == EXPR_READ) {
        const Packing *packing = packing_of(routing, expr->tensor);
        if (packing) return rewrite_packed(rewrite, expr, packing);
        if (rewrite->tuple && routing->truth &&
            reads_mask_at(routing, expr, rewrite->tuple, rewrite->region))
            return expr_number(routing->program, 1);
    }
    return rewrite_rest(rewrite, expr);
}

/* ---- loops ---- */

static bool in_tuple(const Rewrite *rewrite, const Index *index) {
    for (int i = 0; i < rewrite->routing->rank; i++)
        if (rewrite->tuple->at[i]->index == index) return true;
    return false;
}

/* The loops of a statement that are neither in the tuple nor plain subscripts of its target. */
static int remaining_loops(const Rewrite *rewrite, const Statement *statement, Index **rest) {
    int count = 0;
    for (int i = 0; i < statement->loop_count; i++) {
        bool plain = in_tuple(rewrite, statement->loops[i]);
        for (int j = 0; j < statement->target->count; j++) {
            const Expr *sub = statement->target->args[j];
            plain |= sub->kind == EXPR_INDEX && sub->index == statement->loops[i];
        }
        if (!plain) rest[count++] = statement->loops[i];
    }
    return count;
}

/* Sets the target of the original statement to zero. */
static void add_zero(Rewrite *rewrite, Block *block, const Statement *original) {
    Program *program = rewrite->routing->program;
    Statement *zero =
        statement_assign(program, block, original->target, expr_number(program, 0), original->span);
    zero->once = original->once;
    zero->bound = original->bound;
}

/* The indices of a tensor with the sums of the equation per row: the row, and the remaining indices
 * of the target. */
static int row_indices(const Rewrite *rewrite, const Expr *target, Index **indices) {
    int rank = 0;
    indices[rank++] = rewrite->row;
    for (int i = 0; i < target->count; i++) {
        const Expr *sub = target->args[i];
        if (sub->kind == EXPR_INDEX && !sub->index->of_repeat && !in_tuple(rewrite, sub->index))
            indices[rank++] = sub->index;
    }
    MUST(rank <= MAX_RANK);
    return rank;
}

/* The inner sum of a scatter stays on rows: t[r,d] = sum[f] value; the scatter reads t[r,d]. */
static Expr *sum_on_rows(Rewrite *rewrite, Block *block, const Statement *original,
                         Index *const *rest, int rest_count, Expr *value) {
    Program *program = rewrite->routing->program;
    Index *indices[MAX_RANK];
    int rank = row_indices(rewrite, original->target, indices);
    const char *name = arena_format(program->arena, "%s_rows", original->target->tensor->name);
    Tensor *tensor =
        tensor_over(program, name, ROLE_TEMP, TYPE_REAL, indices, rank, original->span);
    Expr *read = expr_read_indices(program, tensor, indices);
    Statement *sum = statement_loop(program, block, read, false, original->reduction, rest,
                                    rest_count, value, original->span);
    sum->once = original->once;
    on_existing_rows(rewrite, sum);
    return read;
}

/* ---- sums with the same targets ---- */

/* A scatter of inner sums, with its original equation. */
struct Scattered {
    Block *block;
    Expr *target; /* of the equation */
    Tuple tuple;
    Statement *scatter;
};

static int tuple_place(const Routing *routing, const Tuple *tuple, const Expr *sub) {
    for (int i = 0; i < routing->rank; i++)
        if (sub->kind == EXPR_INDEX && tuple->at[i]->index == sub->index) return i;
    return -1;
}

/* True if two equations add to the same elements for each entry of the mask. */
static bool same_places(const Rewrite *rewrite, const Scattered *earlier, const Expr *target) {
    if (earlier->target->tensor != target->tensor) return false;
    for (int i = 0; i < target->count; i++) {
        const Expr *a = earlier->target->args[i], *b = target->args[i];
        int place = tuple_place(rewrite->routing, &earlier->tuple, a);
        if (place != tuple_place(rewrite->routing, rewrite->tuple, b)) return false;
        bool loops = a->kind == EXPR_INDEX && b->kind == EXPR_INDEX && !a->index->of_repeat &&
                     !b->index->of_repeat;
        if (!loops && !expr_equal(a, b)) return false;
    }
    return true;
}

/* True if a statement reads the tensor, or does more than add to it. */
static bool disturbs(Program *program, const Statement *statement, const Tensor *tensor) {
    const bool adds = statement->kind == STATEMENT_LOOP && statement->accumulate;
    List accesses = {0};
    if (statement->kind == STATEMENT_REPEAT) return true;
    reads_of(program->arena, statement, &accesses);
    if (!adds) writes_of(program->arena, statement, &accesses);
    return accesses_have(&accesses, tensor);
}

/* Adds the sum to that of an earlier equation, whose scatter moves after both: one pass over the
 * rows instead of two. */
static bool join_sum(Rewrite *rewrite, Block *block, const Statement *original, Index *const *rest,
                     int rest_count, Expr *value) {
    Routing *routing = rewrite->routing;
    List *statements = &block->statements;
    LIST_EACH(const Scattered, earlier, &routing->scattered) {
        if (earlier->block != block || original->reduction != REDUCE_SUM || original->once ||
            !original->accumulate || !same_places(rewrite, earlier, original->target))
            continue;
        int last = statements->count - 1, from = last;
        while (statements->items[from] != earlier->scatter &&
               !disturbs(routing->program, statements->items[from], original->target->tensor))
            from--;
        if (statements->items[from] != earlier->scatter) continue;
        Index *indices[MAX_RANK];
        row_indices(rewrite, original->target, indices);
        Expr *sum = expr_read_indices(routing->program, earlier->scatter->value->tensor, indices);
        memmove(statements->items + from, statements->items + from + 1,
                (size_t)(last - from) * sizeof *statements->items);
        statements->count--;
        on_existing_rows(rewrite, statement_loop(routing->program, block, sum, true, REDUCE_SUM,
                                                 rest, rest_count, value, original->span));
        list_push(routing->program->arena, statements, earlier->scatter);
        return true;
    }
    return false;
}

static void note_scattered(Rewrite *rewrite, Block *block, const Statement *original,
                           Statement *scatter) {
    Scattered *made = arena_alloc(rewrite->routing->program->arena, sizeof *made);
    *made = (Scattered){block, original->target, *rewrite->tuple, scatter};
    list_push(rewrite->routing->program->arena, &rewrite->routing->scattered, made);
}

/* ---- targets ---- */

/* A target that keeps its shape: a scatter to the coordinates of the rows, or a sum over all rows
 * if no coordinate remains. */
static void add_unpacked(Rewrite *rewrite, Block *block, const Statement *original, Expr *value) {
    Program *program = rewrite->routing->program;
    Index *rest[MAX_LOOPS];
    int rest_count = remaining_loops(rewrite, original, rest);
    bool scatter = statement_is_scatter(original), placed = false;
    for (int i = 0; i < rewrite->routing->rank; i++)
        placed |= expr_uses_index(original->target, rewrite->tuple->at[i]->index);
    Expr *target = rewrite_rest(rewrite, original->target);
    bool accumulate = original->accumulate, split = placed && !scatter && rest_count > 0;
    Reduction reduction = placed || scatter ? REDUCE_NONE : REDUCE_SUM;
    if (placed && !scatter && !accumulate) {
        add_zero(rewrite, block, original);
        accumulate = true;
    }
    if (split && join_sum(rewrite, block, original, rest, rest_count, value)) return;
    if (split) {
        value = sum_on_rows(rewrite, block, original, rest, rest_count, value);
        rest_count = 0;
    }
    MUST(rest_count < MAX_LOOPS);
    rest[rest_count++] = rewrite->row;
    Statement *made = statement_loop(program, block, target, accumulate || scatter, reduction, rest,
                                     rest_count, value, original->span);
    made->once = original->once;
    on_existing_rows(rewrite, made);
    if (split && original->reduction == REDUCE_SUM && !original->once)
        note_scattered(rewrite, block, original, made);
}

/* ---- masks of rows ---- */

/* Rows beyond the last one select nothing: a row of a nested selection belongs to a row that
 * exists. `maker` sets the mask of the rows that exist; the others are 0. */
static void add_mask_of_rows(Rewrite *rewrite, Block *block, Statement *maker) {
    Program *program = rewrite->routing->program;
    Expr *target = mask_target(maker);
    Tensor *mask = target->tensor;
    Tensor *all = tensor_new(program, arena_format(program->arena, "%s_all", mask->name), ROLE_TEMP,
                             mask->type, mask->rank, mask->axes, mask->span);
    Expr *selected = expr_read(program, all, target->args);
    Expr *exists = expr_apply(program, OP_LT, expr_index(program, rewrite->row),
                              site_of(rewrite)->bound, NULL);
    Expr *value = expr_apply(program, OP_WHERE, exists, selected, expr_number(program, 0));
    if (maker->kind == STATEMENT_CALL)
        maker->outputs.items[0] = selected;
    else
        maker->target = selected;
    list_push(program->arena, rewrite->routing->done, all);
    mask->selects = true;
    statement_assign(program, block, target, value, maker->span)->once = maker->once;
}

static void rewrite_loop(Rewrite *rewrite, Block *block, Statement *statement) {
    Program *program = rewrite->routing->program;
    Expr *value = dispatched_expr(rewrite, statement->value);
    if (!rewrite->tuple) {
        Expr *target = rewrite_rest(rewrite, statement->target);
        statement->value = value;
        statement->target = target;
        list_push(program->arena, &block->statements, statement);
        return;
    }
    if (!packing_of(rewrite->routing, statement->target->tensor)) {
        add_unpacked(rewrite, block, statement, value);
        return;
    }
    Index *rest[MAX_LOOPS];
    int rest_count = remaining_loops(rewrite, statement, rest);
    Expr *target = dispatched_expr(rewrite, statement->target);
    Statement *made =
        statement_loop(program, block, target, statement->accumulate, statement->reduction, rest,
                       rest_count, value, statement->span);
    made->once = statement->once;
    on_existing_rows(rewrite, made);
    if (made->bound && target->tensor->selects) add_mask_of_rows(rewrite, block, made);
}

/* ---- a top over rows ---- */

/* The operand of a top over rows; copied onto rows unless it is dispatched. It has the loops of the
 * result, but possibly other repeat indices. */
static Expr *rows_operand(Rewrite *rewrite, Block *block, Expr *operand) {
    Program *program = rewrite->routing->program;
    if (packing_of(rewrite->routing, operand->tensor)) return dispatched_expr(rewrite, operand);
    Index *indices[MAX_RANK];
    int rank = 0;
    bool placed = false;
    for (int i = 0; i < operand->count; i++) {
        const Expr *sub = operand->args[i];
        if (sub->kind != EXPR_INDEX || sub->index->of_repeat) continue;
        bool gone = in_tuple(rewrite, sub->index);
        if (!gone || !placed) indices[rank++] = gone ? rewrite->row : sub->index;
        placed |= gone;
    }
    MUST(rank <= MAX_RANK);
    const char *name = arena_format(program->arena, "%s_rows", operand->tensor->name);
    Tensor *tensor = tensor_over(program, name, ROLE_TEMP, TYPE_REAL, indices, rank, operand->span);
    Expr *read = expr_read_indices(program, tensor, indices);
    on_existing_rows(rewrite, statement_assign(program, block, read, rewrite_rest(rewrite, operand),
                                               operand->span));
    return read;
}

static void rewrite_top(Rewrite *rewrite, Block *block, Statement *top) {
    Program *program = rewrite->routing->program;
    Expr *output = top->outputs.items[0], *input = top->inputs.items[0];
    int before = 0, iterated = 0;
    for (int i = 0; i < output->count && iterated < top->top.dimension; i++) {
        const Expr *sub = output->args[i];
        if (sub->kind != EXPR_INDEX || sub->index->of_repeat) continue;
        before += in_tuple(rewrite, sub->index);
        iterated++;
    }
    top->inputs.items[0] = rows_operand(rewrite, block, input);
    top->outputs.items[0] = dispatched_expr(rewrite, output);
    if (before) top->top.dimension -= before - 1;
    list_push(program->arena, &block->statements, top);
    if (rewrite->routing->counted) add_mask_of_rows(rewrite, block, top);
}

/* ---- blocks ---- */

static void dispatch_statement(Routing *routing, Block *block, Statement *statement,
                               Statement *region) {
    Tuple tuple;
    ProgramPoint point = {.statement = statement, .block = block, .repeat = region};
    Rewrite rewrite = {.routing = routing, .region = region};
    if (choose_tuple(routing, &point, &tuple) && wants_rows(routing, statement, &tuple)) {
        rewrite.tuple = &tuple;
        rewrite.row = index_new(routing->program, "r", routing->rows);
    }
    if (statement->kind == STATEMENT_LOOP)
        rewrite_loop(&rewrite, block, statement);
    else if (rewrite.tuple)
        rewrite_top(&rewrite, block, statement);
    else
        list_push(routing->program->arena, &block->statements, statement);
}

/* rewrite_block: moves every statement of the block to the rows of the current mask if find_support
 * allows it. */
void rewrite_block(Routing *routing, Block *block, Statement *region) {
    List old = block->statements;
    block->statements = (List){NULL, 0, 0};
    LIST_EACH(Statement, statement, &old) {
        if (statement->kind == STATEMENT_REPEAT) {
            rewrite_block(routing, &statement->body, statement);
            list_push(routing->program->arena, &block->statements, statement);
        } else
            dispatch_statement(routing, block, statement, region);
    }
}
