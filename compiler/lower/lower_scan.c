/* lower_scan: a recurrence as one kernel: a loop over positions that contains the statements of the
 * body in order. Independent instances (sequences of a batch, heads, columns of a state) are
 * distributed among threads.
 *
 *     for iteration in parallel 0 .. 32                     b = iteration / 4, h = iteration % 4
 *         for s in 0 .. 1024
 *             S[b,s,h,e,c] = decay[b,s,h] * S[b,s-1,h,e,c] + ...
 */
#include "lower/lower.h"

/* Maximum number of column sums. */
enum { MAX_COLUMNS = 512 };

static Statement *body_at(const Statement *scan, int at) {
    return scan->body.statements.items[at];
}

/* ---- both targets ---- */

Kernel *scan_kernel(Lowering *lower, const Statement *scan) {
    Kernel *kernel = arena_alloc(lower->arena, sizeof *kernel);
    for (int i = 0; i < scan->body.statements.count; i++) {
        Member *member = arena_alloc(lower->arena, sizeof *member);
        member->statement = body_at(scan, i);
        list_push(lower->arena, &kernel->members, member);
    }
    return kernel;
}

const Term *bind_cells(Lowering *lower, const Statement *scan, const ScanMap *cells,
                       const Term *cell) {
    Arena *arena = lower->arena;
    long inner = cells->size;
    for (int i = 0; i < cells->count; i++) {
        Index **loops = cells->loops[i];
        const bool groups = cells->group && i == cells->count - 1;
        const long size = cells->sizes[i];
        const Term *place = cell;
        inner /= size;
        if (inner > 1) place = term(arena, TERM_DIV, place, whole(lower, inner));
        if (i > 0)
            place = term(arena, TERM_MOD, place,
                         groups ? whole(lower, size) : size_term(lower, loops[0]->axis));
        if (groups) {
            const Term *from =
                bind_variable(lower, NULL, arena_format(arena, "%s_from", loops[0]->name));
            lower_place(lower, from, term(arena, TERM_MUL, place, whole(lower, cells->group)));
            return from;
        }
        const Term *name = bind_variable(lower, loops[0], loops[0]->name);
        lower_place(lower, name, place);
        for (int j = 1; j < scan->body.statements.count; j++) bind_index(lower, loops[j], name);
    }
    return NULL;
}

void open_places(Lowering *lower, const Statement *scan) {
    long size = scan->index->axis->size;
    const Term *name = bind_variable(lower, scan->index, scan->index->name);
    if (!scan->reverse) {
        lower_count(lower, name, size, IN_BRACES);
        return;
    }
    const Term *back = term_variable_of(lower->arena, name, "_back");
    lower_count(lower, back, size, IN_BRACES);
    lower_place(lower, name, term(lower->arena, TERM_SUB, whole(lower, size - 1), back));
}

void close_places(Lowering *lower, const Statement *scan) {
    List others = {0};
    lower_end(lower);
    for (int i = 0; i < lower->repeats_used.count; i++)
        if (lower->repeats_used.items[i] != scan->index)
            list_push(lower->arena, &others, lower->repeats_used.items[i]);
    lower->repeats_used = others;
}

int free_loops(const Lowering *lower, const Statement *statement, Index **loops, int *kept) {
    int count = 0;
    for (int reduced = 0; reduced < 2; reduced++) {
        for (int i = 0; i < statement->loop_count; i++) {
            Index *index = statement->loops[i];
            bool inner =
                statement->reduction != REDUCE_NONE && !expr_uses_index(statement->target, index);
            if (inner == (reduced > 0) && !bound_index(lower, index)) loops[count++] = index;
        }
        if (!reduced) *kept = count;
    }
    return count;
}

/* The position of the scan that bounds the nonzero terms of a loop, or NULL:
 *
 *     sum[j] where(j < i, x[j], 0)
 */
static const Index *limit_of(const Statement *statement, const Index *index) {
    const Expr *value = statement->value;
    if (value->kind != EXPR_APPLY || value->op != OP_WHERE || !expr_is_number(value->args[2], 0))
        return NULL;
    const Expr *below = value->args[0];
    if (below->kind != EXPR_APPLY || below->op != OP_LT) return NULL;
    const Expr *place = below->args[0], *limit = below->args[1];
    bool fits = place->kind == EXPR_INDEX && place->index == index && limit->kind == EXPR_INDEX &&
                limit->index->of_repeat && limit->index->axis->size <= index->axis->size;
    return fits ? limit->index : NULL;
}

/* adds: the body of the loop accumulates. */
static void open_loop(Lowering *lower, const Statement *statement, Index *index, bool adds) {
    const Index *limit = adds ? limit_of(statement, index) : NULL;
    const Term *below = limit ? bound_index(lower, (Index *)limit) : NULL;
    const Term *name = bind_variable(lower, index, index->name);
    FormNode *loop = lower_count(lower, name, index->axis->size, IN_BRACES);
    loop->iterations = index->axis->size;
    if (below) loop->values[1] = below;
    loop->beyond = below != NULL;
}

/* At the first position, a product with the previous state is zero. On a CPU this is one condition:
 * a condition per element would prevent vectorization. */
static bool open_guard(Lowering *lower, const Statement *statement) {
    if (lower->program->target->launches || statement->reduction != REDUCE_SUM) return false;
    const Term *guard = product_guard(lower, statement->value);
    if (guard) lower_if(lower, guard, IN_BRACES);
    return guard != NULL;
}

void lower_reduction(Lowering *lower, const Statement *statement, Index **loops, int count) {
    if (statement->reduction == REDUCE_NONE) {
        const Term *value = value_of(lower, statement);
        lower_write(lower, statement, statement->accumulate, value)->scatters =
            statement_is_scatter(statement);
        return;
    }
    const Term *sum = bind_real(lower, statement, "_sum");
    lower_let(lower, sum, sum_start(lower, statement->reduction));
    int bindings = lower->binding_count;
    bool sums = statement->reduction == REDUCE_SUM;
    bool guarded = open_guard(lower, statement);
    for (int i = 0; i < count; i++) open_loop(lower, statement, loops[i], sums);
    lower_join(lower, sum, statement->reduction, value_of(lower, statement));
    for (int i = 0; i < count + guarded; i++) lower_end(lower);
    lower->binding_count = bindings;
    lower_write(lower, statement, statement->accumulate, sum);
}

/* ---- CPU ---- */

/* The number of reads of adjacent elements along the loop. */
static int neighbours(const Expr *expr, const Index *index) {
    int count = 0;
    if (expr->kind == EXPR_READ && expr->count) {
        const Expr *last = expr->args[expr->count - 1];
        count += last->kind == EXPR_INDEX && last->index == index;
    }
    for (int i = 0; i < expr->count; i++) count += neighbours(expr->args[i], index);
    return count;
}

/* True if the sums for all iterations of the target's last loop are computed together, because
 * their terms are contiguous in this order. */
static bool sums_by_column(const Statement *statement, Index **loops, int kept, int count) {
    if (statement->reduction != REDUCE_SUM || !kept || count == kept) return false;
    if (loops[kept - 1]->axis->size > MAX_COLUMNS) return false;
    return neighbours(statement->value, loops[kept - 1]) >=
           neighbours(statement->value, loops[count - 1]);
}

static void lower_columns(Lowering *lower, const Statement *statement, Index **loops, int kept,
                          int count) {
    Index *column = loops[kept - 1];
    Arena *arena = lower->arena;
    const Term *sum = bind_real(lower, statement, "_sum");
    lower_array(lower, sum, column->axis->size, zeros(lower));
    int bindings = lower->binding_count;
    bool guarded = open_guard(lower, statement);
    for (int i = kept; i < count; i++) open_loop(lower, statement, loops[i], true);
    open_loop(lower, statement, column, true);
    const Term *place = bound_index(lower, column);
    const Term *element = term_element(arena, sum, place);
    lower_join(lower, element, REDUCE_SUM, value_of(lower, statement));
    for (int i = kept; i <= count + guarded; i++) lower_end(lower);
    lower->binding_count = bindings;
    open_loop(lower, statement, column, statement->accumulate);
    place = bound_index(lower, column);
    lower_write(lower, statement, statement->accumulate, term_element(arena, sum, place));
    lower_end(lower);
}

static void lower_statement(Lowering *lower, const Statement *statement) {
    Index *loops[MAX_LOOPS];
    int kept, bindings = lower->binding_count;
    int count = free_loops(lower, statement, loops, &kept);
    bool columns = sums_by_column(statement, loops, kept, count);
    int outer = kept - columns;
    for (int i = 0; i < outer; i++) open_loop(lower, statement, loops[i], statement->accumulate);
    if (!outer) lower_scope(lower, FORM_SCOPE);
    if (columns)
        lower_columns(lower, statement, loops, kept, count);
    else
        lower_reduction(lower, statement, loops + kept, count - kept);
    if (!outer) lower_end(lower);
    for (int i = 0; i < outer; i++) lower_end(lower);
    lower->binding_count = bindings;
}

void lower_scan(Lowering *lower, const Statement *scan, const ScanMap *map) {
    const Term *cell = bind_variable(lower, NULL, "cell");
    lower_count(lower, cell, map->size, IN_BRACES)->run = RUN_PARALLEL;
    bind_cells(lower, scan, map, cell);
    open_places(lower, scan);
    for (int i = 0; i < scan->body.statements.count; i++) lower_statement(lower, body_at(scan, i));
    close_places(lower, scan);
    lower_end(lower);
}
