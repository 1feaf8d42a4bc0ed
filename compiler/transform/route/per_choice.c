/* per_choice: adds the axes of several choices to a value that these share, if the chosen entries
 * are fewer than the elements of the value.
 *
 *     a[b,s,n] = sum[j] x[b,s,j] * down[n,j]        a[b,s,n,h] = sum[j] x[b,s,j] * down[n,j]
 *     y[b,s,h,d] = sum[n]                      -->  y[b,s,h,d] = sum[n]
 *       chosen[b,s,h,n] * a[b,s,n] * up[n,d]          chosen[b,s,h,n] * a[b,s,n,h] * up[n,d]
 *
 * All readers must be under the mask at the subscripts of the value. A sum over the choices, as in
 * the gradient, moves to its readers:
 *
 *     g[b,s,n] = sum[h] chosen[b,s,h,n] * e[b,s,h]  g[b,s,n,h] = chosen[b,s,h,n] * e[b,s,h]
 *     z[b,s,j] = sum[n] g[b,s,n] * down[n,j]   -->  z[b,s,j] = sum[n,h] g[b,s,n,h] * down[n,j]
 *
 * Without rows for all changed values, the changes are undone.
 */
#include "transform/route/route.h"

typedef struct Widened {
    Tensor *tensor;
    int rank;           /* before */
    bool sum;           /* over the missing axes */
    int dims[MAX_RANK]; /* its dimension for each axis of the mask, or -1 */
} Widened;

typedef struct Saved {
    Statement *statement, before;
} Saved;

typedef struct Widening {
    Routing *routing;
    List changed; /* Widened * */
    List saved;   /* Saved * */
} Widening;

/* ---- selection ---- */

/* Finds the axes of the mask in the tensor: all axes of the data, a part of the others. */
static bool shares_axes(const Routing *routing, const Tensor *tensor, int *dims) {
    int shared = 0, missing = 0;
    for (int i = 0; i < routing->rank; i++) {
        const Axis *axis = routing->mask->axes[routing->mask_dims[i]];
        dims[i] = -1;
        for (int j = 0; j < tensor->rank; j++) {
            if (tensor->axes[j] != axis) continue;
            if (dims[i] >= 0) return false;
            dims[i] = j;
        }
        if (dims[i] < 0 && axis->kind != AXIS_PLAIN) return false;
        shared += dims[i] >= 0 && axis->kind == AXIS_PLAIN;
        missing += dims[i] < 0;
    }
    return shared && missing && tensor->rank + missing <= MAX_DIMENSIONS;
}

/* Rows that share the weights of an entry are as fast as dense products; others are gathered. */
static bool rows_are_fewer(const Routing *routing, const Tensor *tensor, const int *dims) {
    double entries = 1;
    int shared = 0;
    for (int i = 0; i < routing->rank; i++) {
        if (dims[i] < 0) continue;
        entries *= axis_expected(tensor->axes[dims[i]]);
        shared++;
    }
    double most = tensor->rank > shared ? 1 : GATHERED_SHARE;
    return axis_expected(routing->rows) <= most * entries;
}

/* True for an equation without random values. */
static bool can_have_copies(const Routing *routing, const Statement *statement) {
    if (statement->kind != STATEMENT_LOOP || statement->once || statement_is_scatter(statement) ||
        statement->loop_count + routing->rank > MAX_LOOPS)
        return false;
    for (int i = 0; i < statement->target->count; i++)
        if (statement->target->args[i]->kind != EXPR_INDEX) return false;
    return !has_random_value(statement->value);
}

/* True for a statement under the mask that reads or writes the value at the tuple. */
static bool is_under(const Routing *routing, const TensorAccess *access, const int *dims,
                     Tuple *tuple) {
    const ProgramPoint *point = &routing->def_use->points[access->position];
    if (point->statement->kind != STATEMENT_LOOP || !choose_tuple(routing, point, tuple))
        return false;
    for (int i = 0; i < routing->rank; i++)
        if (dims[i] >= 0 && !expr_equal(access->expr->args[dims[i]], tuple->at[i])) return false;
    return true;
}

/* True if the value is a sum of masked terms over the missing axes. */
static bool sums_choices(const Routing *routing, const TensorAccess *write, const int *dims) {
    const Statement *statement = routing->def_use->points[write->position].statement;
    Tuple tuple;
    if (statement->reduction != REDUCE_SUM || !is_under(routing, write, dims, &tuple)) return false;
    for (int i = 0; i < routing->rank; i++)
        if (dims[i] < 0 && expr_uses_index(statement->target, tuple.at[i]->index)) return false;
    return true;
}

/* True if the expression is a product with the tensor as one factor. */
static bool is_factor_of(const Expr *expr, const Tensor *tensor) {
    if (expr->kind == EXPR_READ) return expr->tensor == tensor;
    if (expr->kind != EXPR_APPLY || expr->op != OP_MUL) return false;
    const bool first = expr_reads(expr->args[0], tensor),
               second = expr_reads(expr->args[1], tensor);
    return first != second && is_factor_of(expr->args[second], tensor);
}

/* True if the reader can sum over the missing axes. */
static bool can_sum(const Routing *routing, const TensorAccess *access) {
    const Statement *statement = routing->def_use->points[access->position].statement;
    return can_have_copies(routing, statement) && statement->reduction <= REDUCE_SUM &&
           is_factor_of(statement->value, access->expr->tensor);
}

/* True if the accesses are in one step of the repeat of the choice, where the value is that of this
 * step. */
static bool is_in_step(const Routing *routing, const TensorAccess *write,
                       const TensorAccess *access) {
    const Statement *region = routing->def_use->points[access->position].repeat,
                    *made = routing->def_use->points[write->position].repeat;
    return step_fits(routing, access->expr, region) &&
           (region == made || (routing->home && repeat_dimension(access->expr->tensor) >= 0));
}

static bool can_widen(const Routing *routing, Widened *widened) {
    const DefUse *def_use = routing->def_use;
    const Tensor *tensor = widened->tensor;
    Tuple tuple;
    if (tensor->role != ROLE_TEMP || tensor->type != TYPE_REAL || tensor->observed ||
        !shares_axes(routing, tensor, widened->dims) ||
        !rows_are_fewer(routing, tensor, widened->dims) || !def_use_is_plain(def_use, tensor))
        return false;
    const TensorAccess *write = def_use->writes[tensor->id].items[0];
    const List *accesses = &def_use->accesses[tensor->id];
    if (!can_have_copies(routing, def_use->points[write->position].statement)) return false;
    widened->sum = sums_choices(routing, write, widened->dims);
    LIST_EACH(const TensorAccess, access, accesses) {
        if (!is_in_step(routing, write, access)) return false;
        if (access->write) continue;
        if (widened->sum ? !can_sum(routing, access)
                         : !is_under(routing, access, widened->dims, &tuple))
            return false;
    }
    return accesses->count > 1;
}

/* ---- rewriting ---- */

typedef struct WideRewrite {
    const Widened *widened;
    const Routing *routing;
    const Tuple *tuple;
} WideRewrite;

static Expr *with_choice(Program *program, Expr *read, void *data) {
    const WideRewrite *rewrite = data;
    const Widened *widened = rewrite->widened;
    if (read->tensor != widened->tensor) return NULL;
    Expr *subs[MAX_RANK] = {NULL};
    int rank = widened->rank;
    for (int i = 0; i < rank; i++) subs[i] = read->args[i];
    for (int i = 0; i < rewrite->routing->rank; i++)
        if (widened->dims[i] < 0) subs[rank++] = rewrite->tuple->at[i];
    return expr_read(program, widened->tensor, subs);
}

static void save_statement(Widening *widening, Statement *statement) {
    Arena *arena = widening->routing->program->arena;
    Saved *saved = arena_alloc(arena, sizeof *saved);
    *saved = (Saved){statement, *statement};
    list_push(arena, &widening->saved, saved);
}

/* The number of loops that subscript the target; they are the first ones. */
static int target_loops(const Statement *statement) {
    int count = 0;
    for (int i = 0; i < statement->target->count; i++)
        count += !statement->target->args[i]->index->of_repeat;
    return count;
}

/* Inserts loops over the missing axes at position `at`; returns their indices as a tuple. */
static Tuple add_choice_loops(const WideRewrite *rewrite, Statement *statement, int at) {
    const Widened *widened = rewrite->widened;
    const int added = widened->tensor->rank - widened->rank;
    Tuple tuple = {{NULL}};
    for (int i = statement->loop_count - 1; i >= at; i--)
        statement->loops[i + added] = statement->loops[i];
    for (int i = 0; i < rewrite->routing->rank; i++) {
        if (widened->dims[i] >= 0) continue;
        Axis *axis = rewrite->routing->mask->axes[rewrite->routing->mask_dims[i]];
        statement->loops[at] = index_over(rewrite->routing->program, axis);
        tuple.at[i] = expr_index(rewrite->routing->program, statement->loops[at++]);
    }
    statement->loop_count += added;
    return tuple;
}

/* The terms of a sum over the missing axes become the value: loops over these axes are no longer
 * reduced. */
static void keep_terms(const WideRewrite *rewrite, Statement *statement) {
    Index *reduced[MAX_LOOPS];
    int count = 0, at = target_loops(statement);
    for (int i = at; i < statement->loop_count; i++) {
        bool kept = false;
        for (int j = 0; j < rewrite->routing->rank; j++)
            kept |= rewrite->widened->dims[j] < 0 &&
                    rewrite->tuple->at[j]->index == statement->loops[i];
        if (!kept) reduced[count++] = statement->loops[i];
    }
    for (int i = 0; i < rewrite->routing->rank; i++)
        if (rewrite->widened->dims[i] < 0) statement->loops[at++] = rewrite->tuple->at[i]->index;
    for (int i = 0; i < count; i++) statement->loops[at + i] = reduced[i];
    if (!count) statement->reduction = REDUCE_NONE;
}

static void widen_equation(WideRewrite *rewrite, const TensorAccess *access, Statement *statement) {
    Program *program = rewrite->routing->program;
    Tuple tuple;
    rewrite->tuple = &tuple;
    if (rewrite->widened->sum) {
        is_under(rewrite->routing, access, rewrite->widened->dims, &tuple);
        keep_terms(rewrite, statement);
    } else {
        tuple = add_choice_loops(rewrite, statement, target_loops(statement));
    }
    statement->target = with_choice(program, statement->target, rewrite);
}

static void widen_reader(WideRewrite *rewrite, const TensorAccess *access, Statement *statement) {
    Tuple tuple;
    rewrite->tuple = &tuple;
    if (rewrite->widened->sum) {
        tuple = add_choice_loops(rewrite, statement, statement->loop_count);
        statement->reduction = REDUCE_SUM;
    } else {
        is_under(rewrite->routing, access, rewrite->widened->dims, &tuple);
    }
    rewrite_statement(rewrite->routing->program, statement, false, with_choice, rewrite);
}

static void widen_value(Widening *widening, const Widened *found) {
    Routing *routing = widening->routing;
    const List *accesses = &routing->def_use->accesses[found->tensor->id];
    Widened *widened = arena_alloc(routing->program->arena, sizeof *widened);
    int last = -1;
    *widened = *found;
    list_push(routing->program->arena, &widening->changed, widened);
    for (int i = 0; i < routing->rank; i++)
        if (widened->dims[i] < 0)
            widened->tensor->axes[widened->tensor->rank++] =
                routing->mask->axes[routing->mask_dims[i]];
    LIST_EACH(const TensorAccess, access, accesses) {
        Statement *statement = routing->def_use->points[access->position].statement;
        WideRewrite rewrite = {widened, routing, NULL};
        if (access->position == last) continue;
        last = access->position;
        save_statement(widening, statement);
        if (access->write)
            widen_equation(&rewrite, access, statement);
        else
            widen_reader(&rewrite, access, statement);
    }
}

static void undo_widening(const Widening *widening) {
    for (int i = widening->saved.count - 1; i >= 0; i--) {
        const Saved *saved = widening->saved.items[i];
        *saved->statement = saved->before;
    }
    LIST_EACH(const Widened, widened, &widening->changed) widened->tensor->rank = widened->rank;
}

/* ---- the pass ---- */

static void renew_support(Routing *routing) {
    routing->def_use = def_use_new(routing->program);
    find_support(routing);
}

/* Widens the next value; false if there is none. */
static bool widen_next(Widening *widening) {
    const Program *program = widening->routing->program;
    for (int i = program->tensors.count - 1; i >= 0; i--) {
        Tensor *tensor = program->tensors.items[i];
        Widened widened = {.tensor = tensor, .rank = tensor->rank};
        if (!can_widen(widening->routing, &widened)) continue;
        widen_value(widening, &widened);
        return true;
    }
    return false;
}

/* True if all statements that access the tensor compute one number per entry. */
static bool is_small(const Routing *routing, const Tensor *tensor) {
    const List *accesses = &routing->def_use->accesses[tensor->id];
    LIST_EACH(const TensorAccess, access, accesses)
        if (routing->def_use->points[access->position].statement->loop_count > routing->rank)
            return false;
    return true;
}

/* True if all values with new axes are on rows. A weight that these values read may stay dense. */
static bool all_dispatched(const Widening *widening) {
    const Routing *routing = widening->routing;
    bool any = false;
    LIST_EACH(const Widened, widened, &widening->changed) {
        const bool dispatched = packing_of(routing, widened->tensor);
        if (!dispatched && !(widened->sum && is_small(routing, widened->tensor))) return false;
        any |= dispatched;
    }
    return any && rows_pay(routing);
}

/* True if a tensor has a part of the axes of the mask. */
static bool any_shares_axes(const Routing *routing) {
    int dims[MAX_RANK];
    LIST_EACH(const Tensor, tensor, &routing->program->tensors)
        if (tensor->role == ROLE_TEMP && shares_axes(routing, tensor, dims)) return true;
    return false;
}

void per_choice(Routing *routing) {
    Widening widening = {.routing = routing};
    if (!any_shares_axes(routing)) return;
    do renew_support(routing);
    while (widen_next(&widening));
    if (!widening.changed.count) return;
    if (all_dispatched(&widening))
        routing->program->has[HAS_PER_CHOICE] = true;
    else
        undo_widening(&widening);
}
