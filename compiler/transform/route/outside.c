/* outside: the value of an expression wherever the mask is zero, if it is the same everywhere.
 *
 *     z[b,s,n] = where(chosen[b,s,n] > 0, a[b,s,n], -1e30)      -1e30
 *     m[b,s]   = max[n] z[b,s,n]
 *     p[b,s,n] = exp(z[b,s,n] - m[b,s])                         0
 *     h[b,s,n] = p[b,s,n] * g[b,s,n]                            0
 *
 * The maximum is a chosen value if the mask has an entry among those that the maximum runs over.
 */
#include "transform/route/route.h"

#include "analysis/past.h"

#include <math.h>

enum { MAX_EQUATIONS = 4 }; /* that are followed */

/* ---- reads at a tuple ---- */

bool tuple_of(const Expr *read, const int *dims, int rank, Tuple *tuple) {
    for (int i = 0; i < rank; i++) {
        const Expr *sub = read->args[dims[i]];
        if (sub->kind != EXPR_INDEX || sub->index->of_repeat) return false;
        for (int j = 0; j < i; j++)
            if (tuple->at[j]->index == sub->index) return false;
        tuple->at[i] = read->args[dims[i]];
    }
    return true;
}

bool read_at(const Expr *read, const int *dims, int rank, const Tuple *tuple) {
    for (int i = 0; i < rank; i++)
        if (!expr_equal(read->args[dims[i]], tuple->at[i])) return false;
    return true;
}

Packing *packing_candidate(const Routing *routing, const Tensor *tensor) {
    if (tensor->id >= routing->packing_count) return NULL;
    Packing *packing = &routing->packing[tensor->id];
    return packing->candidate ? packing : NULL;
}

Packing *packing_of(const Routing *routing, const Tensor *tensor) {
    Packing *packing = packing_candidate(routing, tensor);
    return packing && packing->packed ? packing : NULL;
}

int repeat_dimension(const Tensor *tensor) {
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->axes[i]->kind == AXIS_REPEAT) return i;
    return -1;
}

/* True if the access is in the mask's own step: the selection of one step is independent of values
 * of another step. */
bool step_fits(const Routing *routing, const Expr *read, const Statement *region) {
    if (!routing->home) return true;
    if (!region || (!routing->stacked && region != routing->home)) return false;
    int dimension = repeat_dimension(read->tensor);
    if (dimension < 0) return true;
    const Expr *sub = read->args[dimension];
    return sub->kind == EXPR_INDEX && sub->index == region->index;
}

bool reads_mask_at(const Routing *routing, const Expr *read, const Tuple *tuple,
                   const Statement *region) {
    return read->tensor == routing->mask && step_fits(routing, read, region) &&
           read_at(read, routing->mask_dims, routing->rank, tuple);
}

/* ---- values ---- */

/* An expression at a tuple; region: the repeat around it. */
typedef struct OutsideSearch {
    const Routing *routing;
    const Tuple *tuple;
    const Statement *region;
    int depth; /* equations on the way to it */
} OutsideSearch;

static double outside(const OutsideSearch *where, const Expr *expr);

/* The only equation that sets all of the tensor, if it is in the same region; or NULL. */
static const Statement *equation_nearby(const OutsideSearch *where, const Expr *read) {
    const Routing *routing = where->routing;
    if (read->kind != EXPR_READ || read->tensor->role != ROLE_TEMP ||
        !step_fits(routing, read, where->region))
        return NULL;
    const Statement *maker = mask_maker(routing, read->tensor);
    if (!maker || maker->kind != STATEMENT_LOOP) return NULL;
    const TensorAccess *write = routing->def_use->writes[read->tensor->id].items[0];
    return routing->def_use->points[write->position].repeat == where->region ? maker : NULL;
}

/* The value of the equation that sets the element. */
static double outside_of_read(const OutsideSearch *where, const Expr *read) {
    const Routing *routing = where->routing;
    const Packing *packing = packing_candidate(routing, read->tensor);
    Tuple tuple = {{NULL}};
    if (reads_mask_at(routing, read, where->tuple, where->region)) return 0;
    if (packing && packing->supported && read_at(read, packing->dims, routing->rank, where->tuple))
        return 0;
    const Statement *maker = where->depth < MAX_EQUATIONS ? equation_nearby(where, read) : NULL;
    if (!maker || maker->reduction != REDUCE_NONE) return NAN;
    for (int i = 0; i < routing->rank; i++) {
        for (int j = 0; j < read->count; j++)
            if (expr_equal(read->args[j], where->tuple->at[i]))
                tuple.at[i] = maker->target->args[j];
        if (!tuple.at[i]) return NAN;
    }
    return outside(&(OutsideSearch){routing, &tuple, where->region, where->depth + 1},
                   maker->value);
}

static bool has_argument(const Expr *read, const Expr *argument) {
    for (int i = 0; i < read->count; i++)
        if (expr_equal(read->args[i], argument)) return true;
    return false;
}

/* True if `largest` is the maximum over the entries of a value along all indices that limit the
 * mask, one of which is chosen. */
static bool is_largest_chosen(const OutsideSearch *where, const Expr *value, const Expr *largest) {
    const Routing *routing = where->routing;
    if (largest->kind == EXPR_APPLY && largest->op == OP_STOP) largest = largest->args[0];
    const Statement *maker = equation_nearby(where, largest);
    if (value->kind != EXPR_READ || !maker || maker->reduction != REDUCE_MAX ||
        maker->value->kind != EXPR_READ || maker->value->tensor != value->tensor)
        return false;
    for (int i = 0; i < value->count; i++)
        for (int j = 0; j < largest->count; j++)
            if (expr_equal(maker->target->args[j], maker->value->args[i]) &&
                !expr_equal(largest->args[j], value->args[i]))
                return false;
    const MaskCount count = mask_count(routing, routing->choice, 0);
    const Expr *target = mask_target(routing->choice);
    for (int i = 0; i < routing->rank; i++) {
        const Index *index = target->args[routing->mask_dims[i]]->index;
        const Expr *at = where->tuple->at[i];
        if (indices_have(count.along, count.along_count, index) &&
            (!has_argument(value, at) || has_argument(largest, at)))
            return false;
    }
    return count.least > 0;
}

/* exp(-1e30 - largest): 0 if the maximum is that of a chosen value. */
static bool is_power_left_out(const OutsideSearch *where, const Expr *expr) {
    const Expr *difference = expr->args[0];
    return expr->op == OP_EXP && difference->kind == EXPR_APPLY && difference->op == OP_SUB &&
           outside(where, difference->args[0]) <= LEFT_OUT &&
           is_largest_chosen(where, difference->args[0], difference->args[1]);
}

static double outside_of_apply(const OutsideSearch *where, const Expr *expr) {
    double args[3] = {0, 0, 0};
    bool known = !op_is_random(expr->op);
    for (int i = 0; i < expr->count; i++) {
        args[i] = outside(where, expr->args[i]);
        known &= !isnan(args[i]);
    }
    if (known) return op_value(expr->op, args[0], args[1], args[2]);
    const OpZero zero = op_table[expr->op].zero;
    if (zero == ZERO_ANY && (args[0] == 0 || args[1] == 0)) return 0;
    if (zero == ZERO_FIRST && args[0] == 0) return 0;
    if (zero == ZERO_CHOSEN && !isnan(args[0])) return args[args[0] != 0 ? 1 : 2];
    /* -1e30 on both sides is also the value outside of another mask with fewer entries */
    if (zero == ZERO_CHOSEN && args[1] == 0 && args[2] == 0) return 0;
    return is_power_left_out(where, expr) ? 0 : NAN;
}

static double outside(const OutsideSearch *where, const Expr *expr) {
    if (expr->kind == EXPR_NUMBER) return expr->number;
    if (expr->kind == EXPR_APPLY) return outside_of_apply(where, expr);
    return expr->kind == EXPR_READ ? outside_of_read(where, expr) : NAN;
}

bool vanishes(const Routing *routing, const Expr *expr, const Tuple *tuple,
              const Statement *region) {
    return outside(&(OutsideSearch){routing, tuple, region, 0}, expr) == 0;
}

bool depends_on_read(const Routing *routing, const Expr *expr, const Expr *read, const Tuple *tuple,
                     const Statement *region) {
    const OutsideSearch where = {routing, tuple, region, 0};
    if (expr == read) return true;
    if (expr->kind == EXPR_APPLY && !isnan(outside(&where, expr))) return false;
    if (expr->kind == EXPR_APPLY && expr->op == OP_WHERE) {
        const double condition = outside(&where, expr->args[0]);
        if (!isnan(condition))
            return depends_on_read(routing, expr->args[condition != 0 ? 1 : 2], read, tuple,
                                   region);
    }
    for (int i = 0; i < expr->count; i++)
        if (depends_on_read(routing, expr->args[i], read, tuple, region)) return true;
    return false;
}
