/* lower_scan: a recurrence as one kernel: a loop over positions that contains the statements of the
 * body in order. Independent instances (sequences of a batch, heads, columns of a state) are
 * distributed among threads.
 *
 *     for iteration in parallel 0 .. 32                     b = iteration / 4, h = iteration % 4
 *         for s in 0 .. 1024
 *             S[b,s,h,e,c] = decay[b,s,h] * S[b,s-1,h,e,c] + ...
 */
#include "lower/lower.h"

/* Maximum number of column sums. More instances than ENOUGH_CELLS would separate elements that are
 * contiguous in the memory of a CPU. Blocks that keep a GPU at work; adjacent elements of each. */
enum { MAX_COLUMNS = 512, ENOUGH_CELLS = 8, ENOUGH_BLOCKS = 128, LEAST_GROUP = 4 };

/* ---- instances ---- */

/* The dimension of each tensor of a scan that runs over an instance, by tensor id; -1: unknown. Its
 * subscript in the first access. */
typedef struct Class {
    const Statement *scan;
    int *dimension;
    const Expr **first;
    bool *written;
    bool good, changed;
} Class;

static Statement *body_at(const Statement *scan, int at) {
    return scan->body.statements.items[at];
}

static Index *loop_at(const Expr *access, int dimension) {
    return sub_loop(access->args[dimension], access->tensor->axes[dimension]);
}

/* The only dimension that the index subscripts, as a loop over it; -1: none. */
static int place_of(const Expr *access, const Index *index) {
    int found = -1;
    for (int i = 0; i < access->count; i++) {
        if (!expr_uses_index(access->args[i], index)) continue;
        if (found >= 0 || loop_at(access, i) != index) return -1;
        found = i;
    }
    return found;
}

static void set_dimension(Class *class, const Expr *access, int dimension) {
    int *known = &class->dimension[access->tensor->id];
    const Expr **first = &class->first[access->tensor->id];
    if (dimension < 0 || (*known >= 0 && *known != dimension) ||
        (*first && !same_start(*first, access->args[dimension]))) {
        class->good = false;
        return;
    }
    if (*known < 0) class->changed = true;
    *known = dimension;
    *first = access->args[dimension];
}

/* Checks that both have the same element of the instance, or that neither is known to. */
static void agree(Class *class, const Expr *target, const Expr *read) {
    int at = class->dimension[target->tensor->id], there = class->dimension[read->tensor->id];
    if (read->kind != EXPR_READ || !class->written[read->tensor->id]) return;
    if (at < 0 && there < 0) return;
    const Index *loop = at >= 0 ? loop_at(target, at) : loop_at(read, there);
    if (!loop) {
        class->good = false;
        return;
    }
    set_dimension(class, target, place_of(target, loop));
    if (class->good) set_dimension(class, read, place_of(read, loop));
}

static void agree_all(Class *class, const Expr *target, const Expr *expr) {
    if (expr->kind == EXPR_READ) agree(class, target, expr);
    for (int i = 0; i < expr->count; i++) agree_all(class, target, expr->args[i]);
}

/* The instances along a dimension of the first target; false if there are none. */
static bool find_class(Arena *arena, const Program *program, const Statement *scan, int dimension,
                       Class *class) {
    const List *body = &scan->body.statements;
    size_t tensors = (size_t)program->tensors.count;
    *class = (Class){.scan = scan, .good = true, .changed = true};
    class->dimension = arena_alloc(arena, tensors * sizeof *class->dimension);
    class->first = arena_alloc(arena, tensors * sizeof *class->first);
    class->written = arena_alloc(arena, tensors * sizeof *class->written);
    for (size_t i = 0; i < tensors; i++) class->dimension[i] = -1;
    for (int i = 0; i < body->count; i++)
        class->written[body_at(scan, i)->target->tensor->id] = true;
    const Expr *first = body_at(scan, 0)->target;
    const Index *loop = loop_at(first, dimension);
    if (!loop) return false;
    class->dimension[first->tensor->id] = dimension;
    while (class->good && class->changed) {
        class->changed = false;
        for (int i = 0; i < body->count && class->good; i++) {
            const Statement *statement = body_at(scan, i);
            agree_all(class, statement->target, statement->target);
            agree_all(class, statement->target, statement->value);
        }
    }
    for (int i = 0; i < body->count && class->good; i++) {
        const Expr *target = body_at(scan, i)->target;
        const int at = class->dimension[target->tensor->id];
        const Index *own = at >= 0 ? loop_at(target, at) : NULL;
        class->good = own && own->axis->size == loop->axis->size;
    }
    return class->good;
}

/* Adjacent elements in memory stay in one instance, for vectors or adjacent threads. */
static bool is_innermost_of(const Class *class, int tensors) {
    for (int i = 0; i < class->scan->body.statements.count; i++) {
        const Tensor *tensor = body_at(class->scan, i)->target->tensor;
        if (tensor->id < tensors && class->dimension[tensor->id] == tensor->rank - 1) return true;
    }
    return false;
}

static void add_class(Arena *arena, ScanCells *cells, const Class *class) {
    const List *body = &class->scan->body.statements;
    Index **loops = arena_alloc(arena, (size_t)body->count * sizeof *loops);
    for (int i = 0; i < body->count; i++) {
        const Expr *target = body_at(class->scan, i)->target;
        loops[i] = loop_at(target, class->dimension[target->tensor->id]);
    }
    cells->sizes[cells->count] = loops[0]->axis->size;
    cells->loops[cells->count++] = loops;
    cells->size *= loops[0]->axis->size;
}

/* On a GPU, adjacent elements are divided among blocks while there are few instances. */
static void add_groups(Arena *arena, ScanCells *cells, const Class *class) {
    const Expr *first = body_at(class->scan, 0)->target;
    const long size = loop_at(first, class->dimension[first->tensor->id])->axis->size;
    long group = size;
    while (cells->size * (size / group) < ENOUGH_BLOCKS && group % 2 == 0 && group > LEAST_GROUP)
        group /= 2;
    if (group == size) return;
    const long outer = cells->size;
    add_class(arena, cells, class);
    cells->group = group;
    cells->sizes[cells->count - 1] = size / group;
    cells->size = outer * (size / group);
}

ScanCells scan_cells(Arena *arena, const Program *program, const Statement *scan, bool device) {
    ScanCells cells = {.size = 1, .all = true};
    const Expr *first = body_at(scan, 0)->target;
    Class inner;
    bool left = false;
    int classes = 0;
    bool behind = false;
    for (int i = 0; i < first->count; i++) {
        Class class;
        behind |= expr_uses_index(first->args[i], scan->index);
        if (!device && behind && cells.size >= ENOUGH_CELLS) break;
        if (!find_class(arena, program, scan, i, &class)) continue;
        classes++;
        if (is_innermost_of(&class, program->tensors.count)) {
            inner = class;
            left = true;
        } else {
            add_class(arena, &cells, &class);
        }
    }
    for (int i = 0; i < scan->body.statements.count; i++)
        cells.all &= body_at(scan, i)->loop_count == classes;
    cells.all &= device;
    if (left && cells.all)
        add_class(arena, &cells, &inner);
    else if (left && device)
        add_groups(arena, &cells, &inner);
    return cells;
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

void bind_cells(Lowering *lower, const Statement *scan, ScanCells *cells, const Term *cell) {
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
            cells->group_from =
                bind_variable(lower, NULL, arena_format(arena, "%s_from", loops[0]->name));
            lower_place(lower, cells->group_from,
                        term(arena, TERM_MUL, place, whole(lower, cells->group)));
            return;
        }
        const Term *name = bind_variable(lower, loops[0], loops[0]->name);
        lower_place(lower, name, place);
        for (int j = 1; j < scan->body.statements.count; j++) bind_index(lower, loops[j], name);
    }
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

void lower_scan(Lowering *lower, const Statement *scan) {
    ScanCells cells = scan_cells(lower->arena, lower->program, scan, false);
    const Term *cell = bind_variable(lower, NULL, "cell");
    lower_count(lower, cell, cells.size, IN_BRACES)->run = RUN_PARALLEL;
    bind_cells(lower, scan, &cells, cell);
    open_places(lower, scan);
    for (int i = 0; i < scan->body.statements.count; i++) lower_statement(lower, body_at(scan, i));
    close_places(lower, scan);
    lower_end(lower);
}
