/* masked_values: products with weights that only a masked number per position needs.
 *
 *     guess[b,s,v] = sum[d] h[b,s,d] * head[d,v]             read by l alone
 *     l[b,s]       = logsumexp[v] guess[b,s,v]
 *     total[b]     = sum[s] on[b,s] * l[b,s]                 a masked loss
 *
 * The value under the mask is one number, which is cheap. It selects if its equations contain
 * products of vectors whose results nothing else reads. Equations of calls, of other repeats and
 * of values at other positions end the search.
 */
#include "transform/route/route.h"

typedef struct MaskedValues {
    const Routing *routing;
    const ProgramPoint *point; /* of the masked statement */
    const Expr *value;         /* of it, or a term of it */
    const Expr *mask;
    const Tuple *tuple;
    Index *const *indices; /* of the mask */
    int count;
    bool *own; /* by position: statements that only the masked value needs */
} MaskedValues;

static bool is_mask_axis(const MaskedValues *values, const Axis *axis) {
    for (int i = 0; i < values->count; i++)
        if (values->indices[i]->axis == axis) return true;
    return false;
}

/* True if the read has a plain index for each axis of the mask. */
static bool reads_same_position(const MaskedValues *values, const Expr *read) {
    int found = 0;
    for (int i = 0; i < read->count; i++) {
        if (!is_mask_axis(values, read->tensor->axes[i])) continue;
        if (read->args[i]->kind != EXPR_INDEX) return false;
        found++;
    }
    return found == values->count;
}

static bool has_part(const Expr *expr, const Expr *read) {
    if (expr == read) return true;
    for (int i = 0; i < expr->count; i++)
        if (has_part(expr->args[i], read)) return true;
    return false;
}

/* True if the masked statement needs the value under the mask only. */
static bool needs_masked(const MaskedValues *values, const Expr *read) {
    const Statement *statement = values->point->statement;
    return has_part(values->value, read) && !has_part(values->mask, read) &&
           !(values->tuple && depends_on_read(values->routing, statement->value, read,
                                              values->tuple, values->point->repeat));
}

/* True if the masked value alone reads the tensor. */
static bool is_read_masked(const MaskedValues *values, const Tensor *tensor) {
    const DefUse *def_use = values->routing->def_use;
    const int masked = (int)(values->point - def_use->points);
    bool read = false;
    if (!def_use_is_plain(def_use, tensor)) return false;
    const List *accesses = &def_use->accesses[tensor->id];
    LIST_EACH(const TensorAccess, access, accesses) {
        if (access->write) continue;
        read = true;
        if (!reads_same_position(values, access->expr) ||
            (access->position == masked ? !needs_masked(values, access->expr)
                                        : !values->own[access->position]))
            return false;
    }
    return read;
}

bool saves_own_products(const Routing *routing, const ProgramPoint *point, const Expr *value,
                        const Expr *mask, Index *const *indices, int count, const Tuple *tuple) {
    const DefUse *def_use = routing->def_use;
    MaskedValues values = {
        routing, point,   value, mask,
        tuple,   indices, count, arena_alloc(routing->program->arena, (size_t)def_use->count)};
    for (int i = (int)(point - def_use->points) - 1; i >= 0; i--) {
        const Statement *statement = def_use->points[i].statement;
        if (statement->kind != STATEMENT_LOOP || def_use->points[i].repeat != point->repeat ||
            !is_read_masked(&values, statement->target->tensor))
            continue;
        values.own[i] = true;
        if (has_summed_weights(statement) && statement->target->tensor->rank > count) return true;
    }
    return false;
}
