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
#include "analysis/access.h"
#include "ir/call.h"
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

static double selected_share(const Routing *routing) {
    double entries = 1;
    for (int i = 0; i < routing->rank; i++)
        entries *= axis_expected(routing->mask->axes[routing->mask_dims[i]]);
    return axis_expected(routing->rows) / entries;
}

bool selects_few(const Routing *routing) {
    return selected_share(routing) <= GATHERED_SHARE;
}

/* Products of one group are as fast for all positions as for most of them. */
static bool selects_most(const Routing *routing) {
    return masks_positions(routing) && selected_share(routing) > WORTH_SHARE;
}

/* True if the statement reads weights of a group of rows. */
static bool reads_group_weights(const Routing *routing, const Statement *statement,
                                const Tuple *tuple) {
    WeightSearch search = {.routing = routing, .tuple = tuple};
    if (masks_positions(routing)) return has_summed_weights(statement);
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
            reads_group_weights(routing, point->statement, &tuple))
            return true;
    }
    return false;
}

/* The rows of a top are few by intent. */
bool rows_pay(const Routing *routing) {
    return routing->choice->kind == STATEMENT_CALL || selects_few(routing) ||
           (!selects_most(routing) && has_weights(routing));
}

/* True if the equation does not need the value where the mask that it reads is zero. */
static bool masks_value(const Routing *routing, const ProgramPoint *point, const Tensor *value) {
    const Statement *statement = point->statement;
    List reads = {0};
    Tuple tuple = {{NULL}};
    bool masked = false;
    if (statement->kind != STATEMENT_LOOP) return false;
    reads_of(routing->program->arena, statement, &reads);
    LIST_EACH(const Expr, read, &reads)
        masked |= read->tensor == routing->mask &&
                  tuple_of(read, routing->mask_dims, routing->rank, &tuple);
    if (!masked) return false;
    LIST_EACH(const Expr, read, &reads)
        if (read->tensor == value &&
            !depends_on_read(routing, statement->value, read, &tuple, point->repeat))
            return true;
    return false;
}

/* Most values are over positions: those matter that an equation masks. */
static bool is_masked_somewhere(const Routing *routing, const Tensor *value) {
    const List *accesses = &routing->def_use->accesses[routing->mask->id];
    LIST_EACH(const TensorAccess, access, accesses)
        if (masks_value(routing, &routing->def_use->points[access->position], value)) return true;
    return false;
}

/* The first value over the entries that a statement reads outside of the mask, if no such value
 * depends on it; or NULL. */
static const Packing *blocked_value(const Routing *routing, const Tensor **value) {
    for (int i = 0; i < routing->packing_count; i++) {
        const Packing *packing = &routing->packing[i];
        const Statement *blocker = packing->blocker;
        if (!blocker || packing->packed || packing->supported || !blocker->span.source) continue;
        const Expr *target = blocker->kind == STATEMENT_LOOP ? blocker->target : NULL;
        bool passes = target && target->tensor->id < routing->packing_count &&
                      routing->packing[target->tensor->id].blocker;
        *value = routing->program->tensors.items[i];
        if ((*value)->rank <= routing->mask->rank) continue;
        if (masks_positions(routing) ? is_masked_somewhere(routing, *value) : !passes)
            return packing;
    }
    return NULL;
}

/* True if an equation of the value reads weights of an entry. */
static bool value_has_weights(const Routing *routing, const Tensor *value, const Packing *packing) {
    const List *writes = &routing->def_use->writes[value->id];
    LIST_EACH(const TensorAccess, write, writes) {
        const Statement *statement = routing->def_use->points[write->position].statement;
        Tuple tuple = {{NULL}};
        if (statement->kind == STATEMENT_LOOP &&
            tuple_of(statement->target, packing->dims, routing->rank, &tuple) &&
            reads_group_weights(routing, statement, &tuple))
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
    *dense = (DenseChoice){routing->choice, value, packing->blocker};
    list_push(arena, routing->dense, dense);
}

static bool is_listed(const Program *program, const Tensor *mask) {
    for (int i = 0; i < program->masked.count; i++)
        if (expr_reads(((MaskedReduction *)program->masked.items[i])->mask, mask)) return true;
    return false;
}

static bool has_unmasked_weights(const Program *program, const Statement *statement) {
    LIST_EACH(const MaskedReduction, masked, &program->masked)
        if (masked->mask->kind == EXPR_READ && masked->mask->tensor->dense &&
            masked->span.source == statement->span.source &&
            masked->span.start == statement->span.start)
            return true;
    return false;
}

void list_dense(Program *program, Expr *mask, const Axis *axis, const Statement *at) {
    list_copy(program->arena, &program->masked,
              &(MaskedReduction){.mask = mask,
                                 .axis = axis,
                                 .entries = axis->size,
                                 .span = at->span,
                                 .asked = at->asked},
              sizeof(MaskedReduction));
}

void note_dense_choices(const Routing *routing) {
    Program *program = routing->program;
    LIST_EACH(const DenseChoice, dense, routing->dense) {
        Expr *output = mask_target(dense->choice);
        const Axis *axis = output->tensor->axes[top_dimension(dense->choice, output)];
        bool on_rows =
            is_listed(program, output->tensor) || has_unmasked_weights(program, dense->reader);
        for (int j = 0; j < dense->value->rank; j++)
            on_rows |= dense->value->axes[j]->kind == AXIS_ROWS;
        if (on_rows) continue;
        list_dense(program, output, axis, dense->choice);
    }
}

/* A value over the entries whose equation runs over rows of another mask, or NULL: a statement
 * visits one number of rows that data determines. */
static const Tensor *value_on_other_rows(const Routing *routing) {
    for (int i = 0; i < routing->packing_count && routing->counted; i++) {
        const Packing *packing = &routing->packing[i];
        const Tensor *tensor = routing->program->tensors.items[i];
        for (int j = 0; j < tensor->rank; j++)
            if (packing->demanded && !packing->candidate && tensor->axes[j]->kind == AXIS_ROWS)
                return tensor;
    }
    return NULL;
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
    value = value_on_other_rows(routing);
    if (value)
        return arena_format(arena,
                            "'%s' is computed for the rows of another mask already; declare an "
                            "axis of the selected entries instead",
                            value->stem);
    if (selects_most(routing))
        return arena_format(arena,
                            "%.3g %% of the entries are expected, and rows of more than %g %% are "
                            "not worth it; state a smaller share with density(mask, share)",
                            100 * selected_share(routing), 100 * WORTH_SHARE);
    return arena_format(arena,
                        "no weights belong to an entry, and more than %g %% of the entries are "
                        "expected; state a smaller share with density(mask, share)",
                        100 * GATHERED_SHARE);
}

/* True if all statements that read the result run on rows. */
static bool is_read_on_rows(const Routing *routing, const Expr *result) {
    const List *accesses = &routing->def_use->accesses[result->tensor->id];
    int dims[MAX_RANK], reads = 0;
    if (!match_axes(routing, result->tensor, dims)) return false;
    LIST_EACH(const TensorAccess, access, accesses) {
        const ProgramPoint *point = &routing->def_use->points[access->position];
        Tuple tuple;
        if (access->write) continue;
        reads++;
        if (!choose_tuple(routing, point, &tuple) ||
            !wants_rows(routing, point->statement, &tuple) ||
            !read_at(access->expr, dims, routing->rank, &tuple))
            return false;
    }
    return reads > 0;
}

void find_dense_call(const Routing *routing) {
    for (int i = 0; i < routing->def_use->count; i++) {
        const Statement *call = routing->def_use->points[i].statement;
        if (call->kind != STATEMENT_CALL || !call->row->along || statement_selects(call)) continue;
        const Expr *result = call->outputs.items[0];
        if (is_read_on_rows(routing, result))
            routing->mask->dense =
                arena_format(routing->program->arena, "'%s', since '%s' reads other positions",
                             result->tensor->stem, call->row->name);
    }
}
