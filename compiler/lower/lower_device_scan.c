/* lower_device_scan: a recurrence as one launch, independent of the number of positions.
 *
 * A block runs an instance: its threads share the elements of each statement, with a barrier before
 * the next statement. While there are few instances, blocks divide adjacent elements. If every loop
 * belongs to the instances, a thread runs an instance without barriers.
 *
 *     for cell in block() .. 32, step blocks()
 *         for s in 0 .. 1024
 *             for part in thread() .. 4096, step threads()
 *                 S[b,s,h,e,c] = decay[b,s,h] * S[b,s-1,h,e,c] + ...
 *             barrier
 */
#include "lower/lower.h"

enum { MAX_THREADS = 512, WARP = 32 };

static const Statement *body_at(const Statement *scan, int at) {
    return scan->body.statements.items[at];
}

/* The iterations of a loop in an instance. */
static long size_in(const ScanCells *cells, int statement, const Index *loop) {
    const bool groups = cells->group && cells->loops[cells->count - 1][statement] == loop;
    return groups ? cells->group : loop->axis->size;
}

static long elements_of(const ScanCells *cells, int statement, Index *const *loops, int count) {
    long elements = 1;
    for (int i = 0; i < count; i++) elements *= size_in(cells, statement, loops[i]);
    return elements;
}

/* Iterations of a scatter may add to the same element and are therefore sequential. */
static bool goes_alone(const Statement *statement) {
    return statement_is_scatter(statement);
}

/* The loops of the target as one, shared by the threads. */
static void lower_elements(Lowering *lower, const Statement *scan, const ScanCells *cells,
                           int number) {
    const Statement *statement = body_at(scan, number);
    Arena *arena = lower->arena;
    Index *loops[MAX_LOOPS];
    int kept, bindings = lower->binding_count;
    int count = free_loops(lower, statement, loops, &kept);
    bool alone = goes_alone(statement);
    long elements = elements_of(cells, number, loops, kept), inner = elements;
    const Term *part = bind_variable(lower, NULL, "part");
    lower_shared(lower, part, whole(lower, elements), alone ? BY_THE_FIRST : BY_THREADS);
    for (int i = 0; i < kept; i++) {
        const long size = size_in(cells, number, loops[i]);
        const Term *place = part, *name = bind_variable(lower, loops[i], loops[i]->name);
        inner /= size;
        if (inner > 1) place = term(arena, TERM_DIV, place, whole(lower, inner));
        if (i > 0) place = term(arena, TERM_MOD, place, whole(lower, size));
        if (size < loops[i]->axis->size) place = term(arena, TERM_ADD, cells->group_from, place);
        lower_place(lower, name, place);
    }
    lower_reduction(lower, statement, loops + kept, count - kept);
    lower_end(lower);
    lower->binding_count = bindings;
}

/* The largest number of elements that a statement computes in an instance at one position. */
static long most_elements(const Statement *scan, const ScanCells *cells) {
    long most = cells->size;
    for (int i = 0; i < scan->body.statements.count; i++) {
        const Statement *statement = body_at(scan, i);
        long elements = 1;
        for (int j = 0; j < statement->loop_count; j++)
            if (expr_uses_index(statement->target, statement->loops[j]))
                elements *= statement->loops[j]->axis->size;
        if (elements > most) most = elements;
    }
    return most / cells->size;
}

static void lower_place_of(Lowering *lower, const Statement *scan, const ScanCells *cells) {
    for (int i = 0; i < scan->body.statements.count; i++) {
        if (cells->all) {
            lower_scope(lower, FORM_SCOPE);
            lower_reduction(lower, body_at(scan, i), NULL, 0);
            lower_end(lower);
        } else {
            lower_elements(lower, scan, cells, i);
            lower_barrier(lower);
        }
    }
}

static Launch launch_of_scan(const Statement *scan, const ScanCells *cells) {
    const long most = most_elements(scan, cells);
    long threads = cells->all ? WARP * 4 : WARP;
    while (!cells->all && threads < most && threads < MAX_THREADS) threads *= 2;
    return launch_of(cells->all ? ceil_div(cells->size, threads) : cells->size, (int)threads);
}

double scan_threads(Arena *arena, const Program *program, const Statement *scan) {
    const ScanCells cells = scan_cells(arena, program, scan, true);
    const long most = most_elements(scan, &cells);
    return (double)cells.size * (double)(most < MAX_THREADS ? most : MAX_THREADS);
}

Launch lower_device_scan(Lowering *lower, const Statement *scan) {
    ScanCells cells = scan_cells(lower->arena, lower->program, scan, true);
    const Term *cell = bind_variable(lower, NULL, "cell");
    lower_shared(lower, cell, whole(lower, cells.size), cells.all ? BY_ALL : BY_BLOCKS);
    bind_cells(lower, scan, &cells, cell);
    Launch launch = launch_of_scan(scan, &cells);
    open_places(lower, scan);
    lower_place_of(lower, scan, &cells);
    close_places(lower, scan);
    lower_end(lower);
    return launch;
}
