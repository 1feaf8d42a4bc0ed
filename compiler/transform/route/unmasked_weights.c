/* unmasked_weights: sums whose weights depend on a mask without being zero where it is: a note for
 * `check`, since all entries are computed.
 *
 *     left[b,s,n] = where(on[b,s,n] > 0, z[b,s,n], -1e30)
 *     w[b,s,n]    = exp(z[b,s,n] - (logsumexp[n] left[b,s,n]))
 *     y[b,s,d]    = sum[n] w[b,s,n] * e[b,s,n,d]
 *
 * With left instead of z in w, or with on as a factor, the sum would select.
 */
#include "analysis/access.h"
#include "transform/route/route.h"

typedef struct MaskReads {
    const Routing *routing;
    bool found;
} MaskReads;

static void find_selection(Expr *expr, void *data) {
    MaskReads *search = data;
    if (expr->kind != EXPR_READ) return;
    const Statement *maker = mask_maker(search->routing, expr->tensor);
    search->found |= expr->tensor->selects || (maker && statement_selects(maker));
}

typedef struct MaskSearch {
    const Routing *routing;
    const Tensor *weights;
    const Statement *statement;
    Expr *mask; /* that is found, or NULL */
} MaskSearch;

/* Finds a mask of data over all axes of the weights: a tensor or a condition. `route` reports
 * selections. */
static void find_data_mask(Expr *expr, void *data) {
    MaskSearch *search = data;
    MaskReads selection = {search->routing, false};
    const Tensor *weights = search->weights;
    if (search->mask || (expr->kind != EXPR_READ && expr->kind != EXPR_APPLY)) return;
    if (!expr_has_reads(expr) || !is_zero_or_one(search->routing, expr)) return;
    for (int i = 0; i < weights->rank; i++) {
        bool used = weights->axes[i]->kind == AXIS_REPEAT;
        for (int j = 0; j < search->statement->loop_count; j++) {
            const Index *loop = search->statement->loops[j];
            used |= loop->axis == weights->axes[i] && expr_uses_index(expr, loop);
        }
        if (!used) return;
    }
    expr_walk(expr, find_selection, &selection);
    if (!selection.found) search->mask = expr;
}

/* The first mask in the equations of the weights, up to products with parameters; or NULL. */
static Expr *mask_behind(const Routing *routing, const Tensor *weights, int position) {
    const DefUse *def_use = routing->def_use;
    Arena *arena = routing->program->arena;
    bool *needed = arena_alloc(arena, (size_t)def_use->tensor_count * sizeof *needed);
    needed[weights->id] = true;
    for (int i = position - 1; i >= 0; i--) {
        const Statement *statement = def_use->points[i].statement;
        MaskSearch search = {routing, weights, statement, NULL};
        List reads = {0};
        if (statement->kind != STATEMENT_LOOP || !needed[statement->target->tensor->id] ||
            has_summed_weights(statement))
            continue;
        expr_walk(statement->value, find_data_mask, &search);
        if (search.mask) return search.mask;
        reads_of(arena, statement, &reads);
        LIST_EACH(const Expr, read, &reads) needed[read->tensor->id] = true;
    }
    return NULL;
}

typedef struct WeightsOfSum {
    Routing *routing;
    const ProgramPoint *point;
    bool found;
} WeightsOfSum;

/* Where the user wrote it. */
static Span mask_location(const Expr *mask, const Routing *routing) {
    const Statement *maker = mask->kind == EXPR_READ ? mask_maker(routing, mask->tensor) : NULL;
    if (maker && mask_target(maker)->tensor->span.source) return mask_target(maker)->tensor->span;
    return mask->span;
}

static void note_weights(Expr *read, void *data) {
    WeightsOfSum *sum = data;
    const Routing *routing = sum->routing;
    const Statement *statement = sum->point->statement;
    Program *program = routing->program;
    Index *indices[MAX_RANK];
    const Axis *axis = NULL;
    int count = 0;
    if (sum->found || read->kind != EXPR_READ || read->tensor->role != ROLE_TEMP ||
        read->tensor->type != TYPE_REAL)
        return;
    for (int i = 0; i < read->count; i++) {
        if (read->args[i]->kind != EXPR_INDEX) return;
        Index *index = read->args[i]->index;
        if (index->of_repeat) continue;
        if (index->axis->kind == AXIS_PLAIN && sums_over(statement, index)) axis = index->axis;
        indices[count++] = index;
    }
    if (!axis || !saves_products(routing, sum->point, statement->value, read, indices, count))
        return;
    const Expr *mask =
        mask_behind(routing, read->tensor, (int)(sum->point - routing->def_use->points));
    if (!mask) return;
    const Span span = mask_location(mask, routing);
    sum->found = true;
    read->tensor->dense =
        arena_format(program->arena, "'%s' is not 0 where its mask is 0%s; multiply it by the mask",
                     read->tensor->stem,
                     span.source ? arena_format(program->arena, " (%s:%d:%d)", span.source->path,
                                                span_line(span), span_column(span))
                                 : "");
    list_dense(program, read, axis, statement);
}

void unmasked_weights(Routing *routing) {
    const DefUse *def_use = routing->def_use;
    for (int i = 0; i < def_use->count; i++) {
        const ProgramPoint *point = &def_use->points[i];
        const Statement *statement = point->statement;
        MaskReads selection = {routing, false};
        WeightsOfSum sum = {routing, point, false};
        if (statement->kind != STATEMENT_LOOP || statement->reduction != REDUCE_SUM) continue;
        expr_walk(statement->value, find_selection, &selection);
        if (!selection.found) expr_walk(statement->value, note_weights, &sum);
    }
}
