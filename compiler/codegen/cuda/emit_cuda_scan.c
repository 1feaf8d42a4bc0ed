/* emit_cuda_scan: a recurrence as one launch, however many places it has.
 *
 * A block takes a cell: its threads share the elements of each statement and wait for each other
 * before the next one. Where every loop is one of the cells, a thread takes a cell and waits for
 * nobody.
 *
 *     for cell in block() .. 32, step blocks()
 *         for s in 0 .. 1024
 *             for part in thread() .. 4096, step threads()
 *                 S[b,s,h,e,c] = decay[b,s,h] * S[b,s-1,h,e,c] + ...
 *             barrier
 */
#include "codegen/emit.h"

enum { MAX_GRID = 1 << 20, MAX_THREADS = 512, WARP = 32 };

static const Statement *body_at(const Statement *scan, int at) {
    return scan->body.statements.items[at];
}

static long elements_of(Index *const *loops, int count) {
    long elements = 1;
    for (int i = 0; i < count; i++) elements *= loops[i]->axis->size;
    return elements;
}

/* Neighbouring elements that are added up in one place go one after the other. */
static bool goes_alone(const Statement *statement) {
    return statement_is_scatter(statement);
}

/* The loops of the target as one, of which the threads take parts. */
static void lower_elements(Emitter *emitter, const Statement *statement) {
    Arena *arena = emitter->arena;
    Index *loops[MAX_LOOPS];
    int kept, bindings = emitter->binding_count;
    int count = free_loops(emitter, statement, loops, &kept);
    bool alone = goes_alone(statement);
    long elements = elements_of(loops, kept), inner = elements;
    const Term *part = bind_variable(emitter, NULL, "part");
    lower_shared(emitter, part, whole(emitter, elements), alone ? BY_THE_FIRST : BY_THREADS);
    for (int i = 0; i < kept; i++) {
        const long size = loops[i]->axis->size;
        const Term *place = part, *name = bind_variable(emitter, loops[i], loops[i]->name);
        inner /= size;
        if (inner > 1) place = term(arena, "$0 / $1", place, whole(emitter, inner));
        if (i > 0) place = term(arena, "$0 % $1", place, whole(emitter, size));
        lower_place(emitter, name, place);
    }
    lower_reduction(emitter, statement, loops + kept, count - kept);
    lower_end(emitter);
    emitter->binding_count = bindings;
}

static long most_elements(const Emitter *emitter, const Statement *scan) {
    long most = 1;
    for (int i = 0; i < scan->body.statements.count; i++) {
        Index *loops[MAX_LOOPS];
        int kept;
        free_loops(emitter, body_at(scan, i), loops, &kept);
        long elements = elements_of(loops, kept);
        if (elements > most) most = elements;
    }
    return most;
}

static void lower_place_of(Emitter *emitter, const Statement *scan, bool all) {
    for (int i = 0; i < scan->body.statements.count; i++) {
        if (all) {
            lower_scope(emitter, FORM_SCOPE);
            lower_reduction(emitter, body_at(scan, i), NULL, 0);
            lower_end(emitter);
        } else {
            lower_elements(emitter, body_at(scan, i));
            lower_barrier(emitter);
        }
    }
}

static Launch launch_of(const Emitter *emitter, const ScanCells *cells, long most) {
    long threads = cells->all ? WARP * 4 : WARP;
    while (!cells->all && threads < most && threads < MAX_THREADS) threads *= 2;
    long blocks = cells->all ? ceil_div(cells->size, threads) : cells->size;
    if (blocks > MAX_GRID) blocks = MAX_GRID;
    return (Launch){arena_format(emitter->arena, "%ld", blocks), (int)threads};
}

void emit_cuda_scan(Emitter *emitter, const Statement *scan) {
    KernelText text;
    Arena *arena = emitter->arena;
    Kernel *kernel = scan_kernel(emitter, scan);
    ScanCells cells = scan_cells(arena, emitter->program, scan, true);
    open_kernel(emitter, kernel, &text);
    const Term *cell = bind_variable(emitter, NULL, "cell");
    lower_shared(emitter, cell, whole(emitter, cells.size), cells.all ? BY_ALL : BY_BLOCKS);
    bind_cells(emitter, scan, &cells, cell);
    Launch launch = launch_of(emitter, &cells, most_elements(emitter, scan));
    open_places(emitter, scan);
    lower_place_of(emitter, scan, cells.all);
    close_places(emitter, scan);
    lower_end(emitter);
    add_parameters(emitter, &text.parameters, &text.arguments);
    finish_device_kernel(emitter, &text, NULL, launch);
}
