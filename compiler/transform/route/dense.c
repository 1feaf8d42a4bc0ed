/* dense: when rows of a mask are not faster, and why.
 *
 * A group of rows shares the weights that an index of the mask selects: a product over the rows of
 * a group is as fast as a dense one. Without such weights each row is gathered alone, which is
 * faster only if the mask has few entries.
 *
 *     h[b,s,n,f] = sum[d] x[b,s,d] * up[n,d,f]      rows: up[n,.,.] is read once per group
 *     h[b,s,f] = sum[d] x[b,s,d] * up[d,f]          rows of a mask on[b,s]: all are one group
 *     y[b,s,c] = sum[j] near[s,j] * v[b,j,c]        dense, unless near[s,j] has few entries
 */
#include "transform/route/route.h"

typedef struct WeightSearch {
    const Routing *routing;
    const Tuple *tuple;
    bool found;
} WeightSearch;

static void find_weight(Expr *expr, void *data) {
    WeightSearch *search = data;
    if (expr->kind != EXPR_READ || expr->tensor->role != ROLE_PARAMETER) return;
    for (int i = 0; i < search->routing->rank; i++)
        search->found |= expr_uses_index(expr, search->tuple->at[i]->index);
}

bool selects_few(const Routing *routing) {
    double entries = 1;
    const Axis *rows = routing->rows;
    for (int i = 0; i < routing->rank; i++) {
        const Axis *axis = routing->mask->axes[routing->mask_dims[i]];
        entries *= axis_expected(axis);
    }
    return axis_expected(rows) <= GATHERED_SHARE * entries;
}

/* True if the statement reads weights of a group of rows. */
static bool reads_weights(const Routing *routing, const Statement *statement, const Tuple *tuple) {
    WeightSearch search = {.routing = routing, .tuple = tuple};
    if (is_of_positions(routing)) return has_summed_weights(statement);
    expr_walk(statement->value, find_weight, &search);
    return search.found;
}

/* True if a statement that would run on rows reads weights of a group. */
static bool has_weights(const Routing *routing) {
    for (int i = 0; i < routing->def_use->count; i++) {
        const ProgramPoint *point = &routing->def_use->points[i];
        Tuple tuple;
        if (point->statement->kind == STATEMENT_LOOP && choose_tuple(routing, point, &tuple) &&
            wants_rows(routing, point->statement, &tuple) &&
            reads_weights(routing, point->statement, &tuple))
            return true;
    }
    return false;
}

/* The rows of a top are few by intent. */
bool rows_pay(const Routing *routing) {
    return routing->choice->kind == STATEMENT_CALL || selects_few(routing) || has_weights(routing);
}

/* The first value over the entries that a statement reads outside of the mask, if no such value
 * depends on it; or NULL. */
static const Packing *blocked_value(const Routing *routing, const Tensor **value) {
    const Packing *found = NULL;
    for (int i = 0; i < routing->packing_count; i++) {
        const Packing *packing = &routing->packing[i];
        const Statement *blocker = packing->blocker;
        if (!blocker || packing->packed || packing->supported || !blocker->span.source) continue;
        const Expr *target = blocker->kind == STATEMENT_LOOP ? blocker->target : NULL;
        bool passes = target && target->tensor->id < routing->packing_count &&
                      routing->packing[target->tensor->id].blocker;
        if (passes) continue;
        *value = routing->program->tensors.items[i];
        if ((*value)->rank <= routing->mask->rank) continue;
        return packing;
    }
    return found;
}

/* True if an equation of the value reads weights of an entry. */
static bool value_has_weights(const Routing *routing, const Tensor *value, const Packing *packing) {
    const List *writes = &routing->def_use->writes[value->id];
    LIST_EACH(const TensorAccess, write, writes) {
        const Statement *statement = routing->def_use->points[write->position].statement;
        Tuple tuple = {{NULL}};
        if (statement->kind == STATEMENT_LOOP &&
            tuple_of(statement->target, packing->dims, routing->rank, &tuple) &&
            reads_weights(routing, statement, &tuple))
            return true;
    }
    return false;
}

void find_dense_choice(const Routing *routing) {
    Arena *arena = routing->program->arena;
    const Tensor *value = NULL;
    const Packing *packing = blocked_value(routing, &value);
    if (routing->choice->kind != STATEMENT_CALL || !packing ||
        !value_has_weights(routing, value, packing))
        return;
    DenseChoice *dense = arena_alloc(arena, sizeof *dense);
    *dense = (DenseChoice){routing->choice, value};
    list_push(arena, routing->dense, dense);
}

static bool is_listed(const Program *program, const Tensor *mask) {
    for (int i = 0; i < program->masked.count; i++)
        if (expr_reads(((MaskedReduction *)program->masked.items[i])->mask, mask)) return true;
    return false;
}

void note_dense_choices(const Routing *routing) {
    Program *program = routing->program;
    LIST_EACH(const DenseChoice, dense, routing->dense) {
        Expr *output = mask_target(dense->choice);
        const Axis *axis = output->tensor->axes[top_dimension(dense->choice, output)];
        bool on_rows = is_listed(program, output->tensor);
        for (int j = 0; j < dense->value->rank; j++)
            on_rows |= dense->value->axes[j]->kind == AXIS_ROWS;
        if (on_rows) continue;
        list_copy(program->arena, &program->masked,
                  &(MaskedReduction){.mask = output,
                                     .axis = axis,
                                     .entries = axis->size,
                                     .span = dense->choice->span,
                                     .asked = dense->choice->asked},
                  sizeof(MaskedReduction));
    }
}

const char *why_dense(const Routing *routing) {
    Arena *arena = routing->program->arena;
    const Tensor *value = NULL;
    const Packing *packing = blocked_value(routing, &value);
    if (packing) {
        Span span =
            packing->blocker->asked.source ? packing->blocker->asked : packing->blocker->span;
        return arena_format(arena,
                            "'%s' is also read where the mask is 0 (%s:%d:%d); read it under the "
                            "mask only",
                            value->stem, span.source->path, span_line(span), span_column(span));
    }
    return arena_format(arena,
                        "no weights belong to an entry, and more than %g %% of the entries are "
                        "expected; state a smaller share with density(mask, share)",
                        100 * GATHERED_SHARE);
}
