/* saved_work: the values that are not computed where a mask is zero.
 *
 *     y[b,s,d] = sum[n] on[b,s,n] * e[b,s,n,d]        a vector per entry of the sum
 *     y[b,s,d] = x[b,s,d] + on[b,s] * f[b,s,d]        products with weights compute f
 *     f[b,s,d] = sum[h] tanh(sum[e] x[b,s,e] * up[e,h]) * down[h,d]
 *
 * A sum reads the vectors of selected entries only. Without a sum over an axis of the mask that is
 * not one of the data, the mask has to be one of single positions and save products. A value from
 * which the rest of the equation is computed is needed everywhere: x in on * f + (1 - on) * x.
 * masked_values.c has the rule for one number per position.
 */
#include "analysis/access.h"
#include "transform/route/route.h"

static void find_summed_weights(Expr *expr, void *data) {
    const Statement **statement = data;
    if (expr->kind != EXPR_READ || expr->tensor->role != ROLE_PARAMETER || !*statement) return;
    for (int i = 0; i < (*statement)->loop_count; i++) {
        const Index *loop = (*statement)->loops[i];
        if (expr_uses_index(expr, loop) && !expr_uses_index((*statement)->target, loop)) {
            *statement = NULL;
            return;
        }
    }
}

bool has_summed_weights(const Statement *statement) {
    const Statement *searched = statement;
    if (statement->kind != STATEMENT_LOOP || statement->reduction != REDUCE_SUM) return false;
    expr_walk(statement->value, find_summed_weights, &searched);
    return !searched;
}

/* ---- the origin of a value ---- */

typedef struct ValueOrigin {
    const Routing *routing;
    const ProgramPoint *point; /* of the statement that reads the value */
    Index *const *indices;     /* of the mask */
    int count;
    const Tensor *wanted; /* NULL: products with weights, for each of the indices */
} ValueOrigin;

static bool has_axes(const ValueOrigin *origin, const Tensor *tensor) {
    for (int i = 0; i < origin->count; i++)
        if (!tensor_has_axis(tensor, origin->indices[i]->axis)) return false;
    return true;
}

static bool writes_needed(const Routing *routing, const Statement *statement, const bool *needed) {
    List writes = {0};
    writes_of(routing->program->arena, statement, &writes);
    LIST_EACH(const Expr, write, &writes)
        if (needed[write->tensor->id]) return true;
    return false;
}

/* True if the value is computed from the tensor, or by products, in the equations before it. */
static bool comes_from(const ValueOrigin *origin, const Tensor *value) {
    const DefUse *def_use = origin->routing->def_use;
    Arena *arena = origin->routing->program->arena;
    bool *needed = arena_alloc(arena, (size_t)def_use->tensor_count * sizeof *needed);
    if (value->id >= def_use->tensor_count) return false; /* a mask that this pass names */
    needed[value->id] = true;
    for (int i = (int)(origin->point - def_use->points) - 1; i >= 0; i--) {
        const Statement *statement = def_use->points[i].statement;
        List reads = {0};
        if ((!origin->wanted && statement->kind != STATEMENT_LOOP) ||
            !writes_needed(origin->routing, statement, needed))
            continue;
        if (!origin->wanted && has_summed_weights(statement)) return true;
        reads_of(arena, statement, &reads);
        LIST_EACH(const Expr, read, &reads) {
            if (read->tensor == origin->wanted) return true;
            if (origin->wanted || has_axes(origin, read->tensor)) needed[read->tensor->id] = true;
        }
    }
    return false;
}

/* ---- the values of a statement ---- */

/* The temporaries that the value reads outside of the mask. */
static void list_values(const Routing *routing, const Expr *expr, const Expr *mask, List *values) {
    if (expr == mask) return;
    if (expr->kind == EXPR_READ && expr->tensor->role == ROLE_TEMP)
        list_push(routing->program->arena, values, (Expr *)expr);
    for (int i = 0; i < expr->count; i++) list_values(routing, expr->args[i], mask, values);
}

/* True for a vector per entry of the mask: read with its indices and others. */
static bool is_vector(const Expr *read, Index *const *indices, int count) {
    int own = 0, shared = 0;
    for (int i = 0; i < read->count; i++) {
        if (read->args[i]->kind != EXPR_INDEX || read->args[i]->index->of_repeat) continue;
        own++;
        shared += indices_have(indices, count, read->args[i]->index);
    }
    return shared == count && own > shared;
}

static bool is_needed_everywhere(const ValueOrigin *origin, const Expr *read, const List *values) {
    ValueOrigin search = *origin;
    search.wanted = read->tensor;
    LIST_EACH(const Expr, other, values)
        if (other->tensor != read->tensor && comes_from(&search, other->tensor)) return true;
    return false;
}

bool sums_over(const Statement *statement, const Index *index) {
    return statement_loops_over(statement, index) && !expr_uses_index(statement->target, index);
}

bool saves_work(const Routing *routing, const ProgramPoint *point, const Expr *value,
                const Expr *mask, Index *const *indices, int count, const Tuple *tuple) {
    const Statement *statement = point->statement;
    const ValueOrigin origin = {routing, point, indices, count, NULL};
    List masked = {0}, all = {0};
    bool reduces = false, kept = true, of_data = true;
    for (int i = 0; i < count; i++) {
        if (!statement_loops_over(statement, indices[i])) return false;
        reduces |= indices[i]->axis->kind == AXIS_PLAIN && sums_over(statement, indices[i]);
        kept &= !sums_over(statement, indices[i]);
    }
    for (int i = 0; i < statement->loop_count; i++)
        of_data &= statement->loops[i]->axis->kind == AXIS_PLAIN ||
                   indices_have(indices, count, statement->loops[i]);
    if (!reduces && !of_data) return false;
    list_values(routing, value, mask, &masked);
    list_values(routing, statement->value, NULL, &all);
    LIST_EACH(const Expr, read, &masked) {
        if (!is_vector(read, indices, count) ||
            (tuple && depends_on_read(routing, statement->value, read, tuple, point->repeat)))
            continue;
        if (reduces || (kept && has_summed_weights(statement)) ||
            (comes_from(&origin, read->tensor) && !is_needed_everywhere(&origin, read, &all)))
            return true;
    }
    return saves_own_products(routing, point, value, mask, indices, count, tuple);
}

bool saves_products(const Routing *routing, const ProgramPoint *point, const Expr *value,
                    const Expr *weights, Index *const *indices, int count) {
    const ValueOrigin origin = {routing, point, indices, count, NULL};
    List values = {0};
    list_values(routing, value, weights, &values);
    LIST_EACH(const Expr, read, &values)
        if (is_vector(read, indices, count) && comes_from(&origin, read->tensor)) return true;
    return false;
}

/* True for a read with all indices of the statement, among them further ones of a vector. */
static bool is_whole_vector(const Statement *statement, const Expr *read, Index *const *indices,
                            int count) {
    bool further = false;
    for (int i = 0; i < statement->loop_count; i++) {
        const Index *loop = statement->loops[i];
        if (!expr_uses_index(read, loop)) return false;
        further |= loop->axis->kind == AXIS_PLAIN && !indices_have(indices, count, loop);
    }
    return further && is_vector(read, indices, count);
}

bool saves_networks(const Routing *routing, const ProgramPoint *point, const Expr *value,
                    Index *const *indices, int count) {
    const ValueOrigin origin = {routing, point, indices, count, NULL};
    List values = {0};
    list_values(routing, value, NULL, &values);
    LIST_EACH(const Expr, read, &values)
        if (is_whole_vector(point->statement, read, indices, count) &&
            comes_from(&origin, read->tensor))
            return true;
    return false;
}

const Expr *shifted_value(const Routing *routing, const ProgramPoint *point, const Expr *mask,
                          Index *const *indices, int count) {
    const ValueOrigin origin = {routing, point, indices, count, NULL};
    List values = {0};
    list_values(routing, point->statement->value, mask, &values);
    LIST_EACH(const Expr, read, &values) {
        bool uses_all = true, shifted = false;
        for (int i = 0; i < count; i++)
            uses_all &= indices[i]->axis->kind != AXIS_PLAIN &&
                        !sums_over(point->statement, indices[i]) &&
                        expr_uses_index(read, indices[i]);
        for (int i = 0; i < read->count; i++)
            shifted |=
                read->args[i]->kind == EXPR_APPLY && read->tensor->axes[i]->kind == AXIS_SEQUENCE;
        if (uses_all && shifted && comes_from(&origin, read->tensor)) return read;
    }
    return NULL;
}
