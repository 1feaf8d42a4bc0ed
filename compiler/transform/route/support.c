/* support: finds tensors that are zero wherever a mask is zero, and tensors that are read only
 * where it is not.
 *
 * A tensor is supported if each statement that writes it has a value that is zero wherever the mask
 * is zero. It is demanded if each statement that reads it is under the mask at the same tuple. A
 * statement is under the mask at a tuple of its indices if its value is zero outside or its target
 * is demanded.
 *
 * Both are greatest fixed points: all tensors with the axes of the mask start as both, and
 * contradicted ones are removed until nothing changes. This is sound because statements run in
 * order: a chain of reasons ends in the mask or in an unused tensor.
 *
 *     e[b,s,n,d] = sum[f] h[b,s,n,f] * down[n,f,d]           demanded: only read below
 *     y[b,s,d]   = sum[n] chosen[b,s,n] * e[b,s,n,d]         under the mask at (b,s,n)
 */
#include "transform/route/route.h"

/* ---- candidates ---- */

/* match_axes: see route.h. */
bool match_axes(const Routing *routing, const Tensor *tensor, int *dims) {
    for (int i = 0; i < routing->rank; i++) {
        dims[i] = -1;
        for (int j = 0; j < tensor->rank; j++) {
            if (tensor->axes[j] != routing->mask->axes[routing->mask_dims[i]]) continue;
            if (dims[i] >= 0) return false;
            dims[i] = j;
        }
        if (dims[i] < 0) return false;
    }
    return true;
}

static void start_candidates(Routing *routing) {
    Program *program = routing->program;
    routing->packing_count = program->tensors.count;
    routing->packing =
        arena_alloc(program->arena, (size_t)routing->packing_count * sizeof *routing->packing);
    for (int i = 0; i < routing->packing_count; i++) {
        Tensor *tensor = program->tensors.items[i];
        Packing *packing = &routing->packing[i];
        if (tensor->role != ROLE_TEMP || tensor == routing->mask || tensor->type != TYPE_REAL)
            continue;
        packing->candidate = match_axes(routing, tensor, packing->dims);
        packing->supported = packing->demanded = packing->candidate;
    }
}

typedef struct Visit {
    Routing *routing;
    const ProgramPoint *point;
    const Tuple *tuple; /* its tuple if the statement is under the mask, or NULL */
    bool found, forced;
} Visit;

/* Visits every read of a statement: its value, operands and subscripts, but not the target
 * itself. */
static void walk_reads(const Statement *statement, void (*visit)(Expr *expr, void *data),
                       void *data) {
    if (statement->kind == STATEMENT_LOOP) {
        expr_walk(statement->value, visit, data);
        for (int i = 0; i < statement->target->count; i++)
            expr_walk(statement->target->args[i], visit, data);
    }
    if (statement->kind == STATEMENT_CALL)
        for (int i = 0; i < statement->inputs.count; i++)
            expr_walk(statement->inputs.items[i], visit, data);
}

/* A tensor that is not stacked must be in one region: elsewhere it has the value of another
 * step. */
static void support_access(Expr *expr, void *data) {
    Visit *visit = data;
    Routing *routing = visit->routing;
    if (expr->kind != EXPR_READ) return;
    Packing *packing = packing_candidate(routing, expr->tensor);
    if (!packing) return;
    if (!step_fits(routing, expr, visit->point->repeat)) packing->candidate = false;
    if (routing->home && repeat_dimension(expr->tensor) < 0) {
        if (packing->seen && packing->region != visit->point->repeat) packing->candidate = false;
        packing->seen = true;
        packing->region = visit->point->repeat;
    }
}

/* The number of rows that data determines bounds one loop: no other one may run over rows. */
static bool tuple_in_loops(const Routing *routing, const Statement *statement, const Tuple *tuple) {
    for (int i = 0; i < routing->rank; i++)
        if (!statement_loops_over(statement, tuple->at[i]->index)) return false;
    for (int i = 0; i < statement->loop_count && routing->counted; i++) {
        bool of_mask = statement->loops[i]->axis->kind != AXIS_ROWS;
        for (int j = 0; j < routing->rank; j++)
            of_mask |= tuple->at[j]->index == statement->loops[i];
        if (!of_mask) return false;
    }
    return true;
}

static void check_written(Routing *routing, const ProgramPoint *point, Expr *target) {
    Packing *packing = packing_candidate(routing, target->tensor);
    Tuple tuple = {{NULL}};
    if (!packing) return;
    support_access(target, &(Visit){.routing = routing, .point = point});
    if (!tuple_of(target, packing->dims, routing->rank, &tuple) ||
        (point->statement->kind == STATEMENT_LOOP &&
         !tuple_in_loops(routing, point->statement, &tuple)))
        packing->candidate = false;
}

/* A call iterates over leading dimensions only: its operands cannot be dispatched, except those of
 * a top over the rows. */
static void support_call(Routing *routing, const ProgramPoint *point) {
    const Statement *call = point->statement;
    for (int side = 0; side < 2; side++) {
        const List *operands = side ? &call->outputs : &call->inputs;
        LIST_EACH(Expr, operand, operands) {
            Packing *packing = packing_candidate(routing, operand->tensor);
            if (!packing) continue;
            check_written(routing, point, operand);
            if (!statement_selects(call)) {
                packing->candidate = packing->supported = false;
                packing->blocker = call;
            }
            for (int j = 0; j < routing->rank && statement_selects(call); j++)
                if (packing->dims[j] == top_dimension(call, operand)) packing->candidate = false;
        }
    }
}

/* A value computed before the top may be needed outside of it. */
static void check_early(const Routing *routing, const ProgramPoint *point) {
    Statement *statement = point->statement;
    if (point->repeat != routing->home ||
        (statement->kind != STATEMENT_LOOP && !statement_selects(statement)))
        return;
    Packing *packing = packing_candidate(routing, mask_target(statement)->tensor);
    if (packing) packing->candidate = false;
}

static void check_accesses(Routing *routing) {
    bool early = true;
    for (int i = 0; i < routing->def_use->count; i++) {
        const ProgramPoint *point = &routing->def_use->points[i];
        if (point->statement == routing->choice) early = false;
        if (early) check_early(routing, point);
        walk_reads(point->statement, support_access, &(Visit){.routing = routing, .point = point});
        if (point->statement->kind == STATEMENT_LOOP)
            check_written(routing, point, point->statement->target);
        if (point->statement->kind == STATEMENT_CALL) support_call(routing, point);
    }
}

/* ---- statements under the mask ---- */

typedef struct SupportSearch {
    const Routing *routing;
    const ProgramPoint *point;
    Tuple *tuple;
    bool found;
} SupportSearch;

/* A maximum over selected entries differs from one over all entries; the tuple must then stay on
 * the left. */
static bool reduces_well(const Routing *routing, const Statement *statement, const Tuple *tuple) {
    if (statement->reduction != REDUCE_MAX && statement->reduction != REDUCE_MIN) return true;
    for (int i = 0; i < routing->rank; i++) {
        bool left = false;
        for (int j = 0; j < statement->target->count; j++)
            if (statement->target->args[j]->kind == EXPR_INDEX)
                left |= statement->target->args[j]->index == tuple->at[i]->index;
        if (!left) return false;
    }
    return true;
}

static void try_read(Expr *expr, void *data) {
    SupportSearch *search = data;
    const Routing *routing = search->routing;
    const Statement *statement = search->point->statement;
    if (search->found || expr->kind != EXPR_READ) return;
    const Packing *packing = packing_candidate(routing, expr->tensor);
    const int *dims = expr->tensor == routing->mask   ? routing->mask_dims
                      : packing && packing->supported ? packing->dims
                                                      : NULL;
    Tuple tuple = {{NULL}};
    if (!dims || !tuple_of(expr, dims, routing->rank, &tuple)) return;
    if (!tuple_in_loops(routing, statement, &tuple) || !reduces_well(routing, statement, &tuple))
        return;
    if (!vanishes(routing, statement->value, &tuple, search->point->repeat)) return;
    *search->tuple = tuple;
    search->found = true;
}

/* Sets the tuple at which the statement is under the mask; false if it is not. */
bool choose_tuple(const Routing *routing, const ProgramPoint *point, Tuple *tuple) {
    Statement *statement = point->statement;
    Expr *target = NULL;
    *tuple = (Tuple){{NULL}};
    if (statement == routing->choice) return false;
    if (statement->kind == STATEMENT_LOOP) target = statement->target;
    if (statement_selects(statement)) target = statement->outputs.items[0];
    if (!target) return false;
    const Packing *packing = packing_candidate(routing, target->tensor);
    if (packing && (packing->supported || packing->demanded))
        return tuple_of(target, packing->dims, routing->rank, tuple);
    if (statement->kind == STATEMENT_CALL) return false;
    SupportSearch search = {.routing = routing, .point = point, .tuple = tuple};
    expr_walk(statement->value, try_read, &search);
    return search.found;
}

/* ---- the fixed points ---- */

static bool check_support(const Routing *routing, const ProgramPoint *point) {
    Statement *statement = point->statement;
    Tuple tuple = {{NULL}};
    Packing *packing;
    if (statement->kind == STATEMENT_CALL) {
        bool changed = false;
        for (int i = 0; i < statement->outputs.count; i++) {
            packing = packing_candidate(routing, ((Expr *)statement->outputs.items[i])->tensor);
            changed |= packing && packing->supported;
            if (packing) packing->supported = false;
        }
        return changed;
    }
    packing = packing_candidate(routing, statement->target->tensor);
    if (!packing || !packing->supported) return false;
    tuple_of(statement->target, packing->dims, routing->rank, &tuple);
    packing->supported = vanishes(routing, statement->value, &tuple, point->repeat);
    return !packing->supported;
}

/* True for a read without effect where the mask is zero: a value around it is known there, as in
 * where(n < 6, e[b,s,n % 6] * chosen[b,s,n % 6], 0) or max[n] where(on[b,s,n], e[b,s,n,d], -9). */
static bool is_masked_read(const Visit *visit, const Expr *read, const Packing *packing) {
    const Statement *statement = visit->point->statement;
    Tuple at = {{NULL}};
    if (statement->kind != STATEMENT_LOOP) return false;
    for (int i = 0; i < visit->routing->rank; i++) at.at[i] = read->args[packing->dims[i]];
    return !depends_on_read(visit->routing, statement->value, read, &at, visit->point->repeat);
}

static void check_demand(Expr *expr, void *data) {
    Visit *visit = data;
    if (expr->kind != EXPR_READ) return;
    Packing *packing = packing_candidate(visit->routing, expr->tensor);
    if (!packing || !packing->demanded) return;
    if (visit->tuple && read_at(expr, packing->dims, visit->routing->rank, visit->tuple)) return;
    if (is_masked_read(visit, expr, packing)) return;
    packing->blocker = visit->point->statement;
    packing->demanded = false;
    visit->found = true;
}

/* True if the statement computes more than one number per entry of the mask. */
static bool loops_beyond(const Routing *routing, const Statement *statement) {
    return statement->kind == STATEMENT_CALL || statement->loop_count > routing->rank;
}

static void find_packed(Expr *expr, void *data) {
    Visit *visit = data;
    const Packing *packing =
        expr->kind == EXPR_READ ? packing_of(visit->routing, expr->tensor) : NULL;
    if (packing) visit->found = true;
    if (packing && !packing->supported) visit->forced = true;
}

static bool is_product_of_two(const Statement *statement) {
    const Expr *value = statement->value;
    return statement->reduction == REDUCE_SUM && value->kind == EXPR_APPLY && value->op == OP_MUL &&
           value->args[0]->kind == EXPR_READ && value->args[1]->kind == EXPR_READ;
}

/* True for a read of whole rows of a parameter or its gradient, which the mask selects. */
static bool is_selected_row(const Routing *routing, const Expr *read, const Tuple *tuple) {
    const Expr *last = read->count ? read->args[read->count - 1] : NULL;
    bool table = read->tensor->role == ROLE_PARAMETER || read->tensor->role == ROLE_GRADIENT;
    bool selected = false;
    for (int i = 0; table && i < routing->rank; i++) {
        if (expr_uses_index(last, tuple->at[i]->index)) return false;
        selected |= expr_uses_index(read, tuple->at[i]->index);
    }
    return selected;
}

static bool reads_selected_row(const Routing *routing, const Statement *statement,
                               const Tuple *tuple) {
    const Expr *const *factors = (const Expr *const *)statement->value->args;
    return is_selected_row(routing, factors[0], tuple) ||
           is_selected_row(routing, factors[1], tuple) ||
           is_selected_row(routing, statement->target, tuple);
}

/* True if a statement under the mask is faster on rows. One number per entry is cheap without rows
 * and finds its dispatched values there, if these are known to be zero elsewhere. A plain matrix
 * product of dense values is faster dense, unless the mask selects few rows of a table. */
bool wants_rows(const Routing *routing, const Statement *statement, const Tuple *tuple) {
    const Expr *target =
        statement->kind == STATEMENT_LOOP ? statement->target : statement->outputs.items[0];
    if (packing_of(routing, target->tensor)) return true;
    Visit visit = {.routing = (Routing *)routing};
    walk_reads(statement, find_packed, &visit);
    if (visit.forced) return true;
    return loops_beyond(routing, statement) &&
           (visit.found || !is_product_of_two(statement) ||
            (selects_few(routing) && reads_selected_row(routing, statement, tuple)));
}

/* Small tensors with only the axes of the mask stay dense, unless they depend on values that exist
 * on rows only. */
static bool grow_packed(Routing *routing) {
    bool changed = false;
    for (int i = 0; i < routing->def_use->count; i++) {
        const ProgramPoint *point = &routing->def_use->points[i];
        const Statement *statement = point->statement;
        const Expr *target = statement->kind == STATEMENT_LOOP ? statement->target
                             : statement_selects(statement)    ? statement->outputs.items[0]
                                                               : NULL;
        Packing *packing = target ? packing_candidate(routing, target->tensor) : NULL;
        if (!packing || packing->packed || !(packing->supported || packing->demanded)) continue;
        Visit visit = {.routing = routing};
        walk_reads(statement, find_packed, &visit);
        int own = target->tensor->rank - (repeat_dimension(target->tensor) >= 0);
        packing->packed = own > routing->rank || loops_beyond(routing, statement) || visit.forced;
        changed |= packing->packed;
    }
    return changed;
}

/* find_support: sets routing->packing for the current mask. */
void find_support(Routing *routing) {
    start_candidates(routing);
    check_accesses(routing);
    bool changed;
    do {
        changed = false;
        for (int i = 0; i < routing->def_use->count; i++) {
            const ProgramPoint *point = &routing->def_use->points[i];
            Tuple tuple;
            changed |= check_support(routing, point);
            bool under = choose_tuple(routing, point, &tuple);
            Visit visit = {.routing = routing, .point = point, .tuple = under ? &tuple : NULL};
            walk_reads(point->statement, check_demand, &visit);
            changed |= visit.found;
        }
    } while (changed);
    while (grow_packed(routing)) continue;
}
