/* routing: products over packed rows. */
#ifndef MOEC_ROUTING_H
#define MOEC_ROUTING_H

#include "matmul.h"
#include "packing.h"

/* In how many blocks of at most so many rows a group is worked on. No sum depends on it. */
MOEC_INLINE long moec_row_blocks(const int *group, long g, long most) {
    return moec_ceil_div(group[g + 1] - group[g], most);
}

enum { MOEC_SHARES = 8 }; /* tasks for a thread, about: groups differ in size */

/* Maximum number of rows per task: many, since a weight is packed for each task, but few enough
 * that all threads have tasks. */
MOEC_FUNCTION long moec_task_rows(long rows, long block) {
    const long share = moec_ceil_div(rows, MOEC_SHARES * moec_threads()),
               blocks = moec_ceil_div(share, block);
    return moec_least(blocks < 1 ? 1 : blocks, MOEC_MANY_ROWS / MOEC_BLOCK_M) * block;
}

/* How products of rows by weight are cut: parts of the depth, of each block of rows, of columns. */
typedef struct MoecRowCuts {
    long depths, blocks, columns;
    long most, height; /* rows of a block; alignment of block starts */
    float *sums;       /* of parts of the depth, where there are several */
    long all;          /* rows */
    double work, read; /* multiplications; elements of b */
} MoecRowCuts;

/* The part of the product that a task makes. */
MOEC_FUNCTION MoecBlockProduct moec_rows_task(const MoecGroupedCall *call, const MoecRowCuts *cuts,
                                              long task) {
    const MoecGrouped *grouped = call->grouped;
    const MoecRows *rows = call->rows;
    const int *group = rows->group;
    const long column = task % cuts->columns, depth = task / cuts->columns % cuts->depths;
    long block = task / cuts->columns / cuts->depths, g = 0;
    while (block >= moec_row_blocks(group, g, cuts->most))
        block -= moec_row_blocks(group, g++, cuts->most);
    const long count = group[g + 1] - group[g], blocks = moec_row_blocks(group, g, cuts->most),
               unit = moec_column_unit(grouped->b_type);
    const long i = moec_cut(count, cuts->height, blocks, block),
               j = moec_cut(grouped->n, unit, cuts->columns, column),
               p = moec_cut(grouped->k, MOEC_STREAMS, cuts->depths, depth), row = group[g] + i;
    const MoecOperand left = {call->a, grouped->a_row, 1, rows->a_gather, NULL, grouped->a_type};
    const long weight = rows->b_gather == NULL ? g : rows->b_gather[group[g]];
    const MoecOperand right =
        moec_right(moec_at(call->b, weight * grouped->b_group, grouped->b_type), grouped->b_n,
                   grouped->b_k, grouped->b_type);
    MoecBlockProduct product = {moec_cut(count, cuts->height, blocks, block + 1) - i,
                                moec_cut(grouped->n, unit, cuts->columns, column + 1) - j,
                                moec_cut(grouped->k, MOEC_STREAMS, cuts->depths, depth + 1) - p,
                                moec_from(left, row, p),
                                moec_from(right, j, p),
                                moec_to(call->c, row * grouped->c_row + j, grouped->c_type),
                                grouped->c_row,
                                grouped->accumulate,
                                grouped->rounded,
                                grouped->c_type,
                                NULL,
                                0};
    if (cuts->depths > 1) {
        moec_part_of_depth(&product, cuts->sums + (depth * cuts->all + row) * grouped->n + j,
                           grouped->n);
    }
    return product;
}

/* Without the columns and the memory of the sums. */
MOEC_FUNCTION MoecRowCuts moec_row_cuts(const MoecGrouped *grouped, const MoecRows *rows) {
    const MoecForm form = moec_form(grouped->rounded && !moec_is_quantized(grouped->b_type));
    const double weight = (double)grouped->n * (double)grouped->k;
    MoecRowCuts cuts = {.all = rows->group[grouped->groups], .height = moec_tile_height(form)};
    cuts.most = moec_task_rows(cuts.all, moec_block_height(form));
    for (long g = 0; g < grouped->groups; g++) {
        cuts.blocks += moec_row_blocks(rows->group, g, cuts.most);
        cuts.read += rows->group[g + 1] > rows->group[g] ? weight : 0.0;
    }
    cuts.work = (double)cuts.all * weight;
    /* not on a mesh, where the number of rows depends on the other processes */
    const int cuttable = grouped->b_n == 1 && rows->b_gather == NULL;
    cuts.depths = cuttable ? moec_depth_parts(cuts.work, cuts.read, cuts.all, grouped->n) : 1;
    return cuts;
}

/* Rows of each group times the weight of the group, with these cuts in one parallel region. */
MOEC_FUNCTION void moec_rows_by_weight(const MoecGroupedCall *calls, MoecRowCuts *cuts, int count) {
    int worth = 0;
    for (int i = 0; i < count; i++) worth |= moec_worth_threads(cuts[i].work, cuts[i].read);
    const long threads = worth ? moec_threads() : 1;
    float *sums = moec_scratch.result;
    for (int i = 0; i < count; i++) {
        const long n = calls[i].grouped->n, least = moec_ceil_div(n, 4 * MOEC_TILE_N),
                   shared = cuts[i].blocks * cuts[i].depths;
        cuts[i].columns =
            threads == 1 || shared == 0 ? 1 : moec_least(moec_ceil_div(4 * threads, shared), least);
        cuts[i].sums = sums;
        sums += moec_depth_sums(cuts[i].all, n, cuts[i].depths);
    }
    const int adds = sums != moec_scratch.result;
#pragma omp parallel if (threads > 1)
    {
        for (int i = 0; i < count; i++) {
            const long tasks = cuts[i].blocks * cuts[i].depths * cuts[i].columns;
#pragma omp for schedule(dynamic) nowait
            for (long task = 0; task < tasks; task++) {
                MoecBlockProduct product = moec_rows_task(&calls[i], &cuts[i], task);
                const MoecBlockProduct next =
                    moec_rows_task(&calls[i], &cuts[i], moec_least(task + threads, tasks - 1));
                product.next = &next;
                moec_block_multiply(&product);
            }
        }
        if (adds) {
#pragma omp barrier
        }
        for (int i = 0; i < count; i++) {
            const MoecGrouped *grouped = calls[i].grouped;
            const MoecDepths all = {cuts[i].sums,        cuts[i].depths, cuts[i].all,
                                    grouped->n,          calls[i].c,     grouped->c_row,
                                    grouped->accumulate, grouped->c_type};
#pragma omp for schedule(static) nowait
            for (long j = 0; j < (all.parts > 1 ? all.n : 0); j += MOEC_RESULT_N)
                moec_add_depths(&all, j);
        }
    }
}

/* The part of the product that a task makes: of one group, cut into a grid. */
MOEC_FUNCTION MoecBlockProduct moec_group_task(const MoecGrouped *grouped, const MoecRows *rows,
                                               const void *a, const void *b, void *c,
                                               const MoecGrid *grid, long task) {
    const long parts = grid->rows * grid->columns, g = task / parts,
               row = task % parts / grid->columns, column = task % grid->columns;
    const long height = moec_tile_height(moec_form(grouped->rounded)),
               i = moec_cut(grouped->k, height, grid->rows, row);
    const long j = moec_cut(grouped->n, MOEC_TILE_N, grid->columns, column);
    const MoecOperand left = {a, 1, grouped->a_row, NULL, rows->a_gather, grouped->a_type};
    const MoecOperand right = {b, 1, grouped->b_k, NULL, rows->b_gather, grouped->b_type};
    return (MoecBlockProduct){
        moec_cut(grouped->k, height, grid->rows, row + 1) - i,
        moec_cut(grouped->n, MOEC_TILE_N, grid->columns, column + 1) - j,
        rows->group[g + 1] - rows->group[g],
        moec_from(left, i, rows->group[g]),
        moec_from(right, j, rows->group[g]),
        moec_to(c, g * grouped->b_group + i * grouped->c_row + j, grouped->c_type),
        grouped->c_row,
        grouped->accumulate,
        grouped->rounded,
        grouped->c_type,
        NULL,
        grouped->k};
}

MOEC_FUNCTION void moec_rows_by_rows(const MoecGrouped *grouped, const MoecRows *rows,
                                     const void *a, const void *b, void *c) {
    const double outputs = (double)grouped->groups * (double)grouped->n * (double)grouped->k;
    const double work =
        (double)rows->group[grouped->groups] * (double)grouped->n * (double)grouped->k;
    const long threads = moec_worth_threads(work, outputs) ? moec_threads() : 1;
    const long share = moec_ceil_div(2 * MOEC_SHARES * threads, grouped->groups);
    const MoecGrid grid = moec_grid(grouped->k, grouped->n, threads == 1 ? 1 : share);
    const long tasks = grouped->groups * grid.rows * grid.columns;
#pragma omp parallel for schedule(dynamic) if (threads > 1)
    for (long task = 0; task < tasks; task++) {
        MoecBlockProduct product = moec_group_task(grouped, rows, a, b, c, &grid, task);
        const MoecBlockProduct next =
            moec_group_task(grouped, rows, a, b, c, &grid, moec_least(task + threads, tasks - 1));
        product.next = &next;
        moec_block_multiply(&product);
    }
}

MOEC_ENTRY void moec_shared_grouped(const MoecGroupedCall *calls, int count) {
    MoecRowCuts cuts[MOEC_SHARED_CALLS];
    long floats = 0;
    int first = 0;
    for (int i = 0; i < count; i++) {
        const MoecGrouped *grouped = calls[i].grouped;
        cuts[i] = moec_row_cuts(grouped, calls[i].rows);
        const long more =
            moec_result_floats(cuts[i].all, grouped->n, cuts[i].depths, grouped->c_type);
        if (floats + more > MOEC_DEPTH_SUMS) {
            moec_rows_by_weight(calls + first, cuts + first, i - first);
            first = i;
            floats = 0;
        }
        floats += more;
    }
    moec_rows_by_weight(calls + first, cuts + first, count - first);
}

MOEC_ENTRY void moec_grouped_product(const MoecGrouped *grouped, const MoecRows *rows,
                                     const void *a, const void *b, void *c) {
    const MoecGroupedCall call = {grouped, rows, a, b, c};
    if (grouped->kind == MOEC_ROWS_BY_WEIGHT)
        moec_shared_grouped(&call, 1);
    else
        moec_rows_by_rows(grouped, rows, a, b, c);
}

#endif
