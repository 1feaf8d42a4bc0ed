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

static const Statement *body_at(const Statement *scan, int at) {
    return scan->body.statements.items[at];
}

/* The iterations of a loop in an instance. */
static long size_in(const ScanMap *map, int statement, const Index *loop) {
    const bool groups = map->group && map->loops[map->count - 1][statement] == loop;
    return groups ? map->group : loop->axis->size;
}

static long elements_of(const ScanMap *map, int statement, Index *const *loops, int count) {
    long elements = 1;
    for (int i = 0; i < count; i++) elements *= size_in(map, statement, loops[i]);
    return elements;
}

/* Iterations of a scatter may add to the same element and are therefore sequential. */
static bool goes_alone(const Statement *statement) {
    return statement_is_scatter(statement);
}

/* The loops of the target as one, shared by the threads. */
static void lower_elements(Lowering *lower, const Statement *scan, const ScanMap *map,
                           const Term *group_from, int number) {
    const Statement *statement = body_at(scan, number);
    Arena *arena = lower->arena;
    Index *loops[MAX_LOOPS];
    int kept, bindings = lower->binding_count;
    int count = free_loops(lower, statement, loops, &kept);
    bool alone = goes_alone(statement);
    long elements = elements_of(map, number, loops, kept), inner = elements;
    const Term *part = bind_variable(lower, NULL, "part");
    lower_shared(lower, part, whole(lower, elements), alone ? BY_THE_FIRST : BY_THREADS);
    for (int i = 0; i < kept; i++) {
        const long size = size_in(map, number, loops[i]);
        const Term *place = part, *name = bind_variable(lower, loops[i], loops[i]->name);
        inner /= size;
        if (inner > 1) place = term(arena, TERM_DIV, place, whole(lower, inner));
        if (i > 0) place = term(arena, TERM_MOD, place, whole(lower, size));
        if (size < loops[i]->axis->size) place = term(arena, TERM_ADD, group_from, place);
        lower_place(lower, name, place);
    }
    lower_reduction(lower, statement, loops + kept, count - kept);
    lower_end(lower);
    lower->binding_count = bindings;
}

static void lower_place_of(Lowering *lower, const Statement *scan, const ScanMap *map,
                           const Term *group_from) {
    for (int i = 0; i < scan->body.statements.count; i++) {
        if (map->all) {
            lower_scope(lower, FORM_SCOPE);
            lower_reduction(lower, body_at(scan, i), NULL, 0);
            lower_end(lower);
        } else {
            lower_elements(lower, scan, map, group_from, i);
            lower_barrier(lower);
        }
    }
}

void lower_device_scan(Lowering *lower, const Statement *scan, const ScanMap *map) {
    const Term *cell = bind_variable(lower, NULL, "cell");
    lower_shared(lower, cell, whole(lower, map->size), map->all ? BY_ALL : BY_BLOCKS);
    const Term *group_from = bind_cells(lower, scan, map, cell);
    open_places(lower, scan);
    lower_place_of(lower, scan, map, group_from);
    close_places(lower, scan);
    lower_end(lower);
}
