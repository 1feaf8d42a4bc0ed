/* matmul: c = a * b in f32 for any shape, packed, register-blocked and threaded.
 *
 * c is cut into tiles of MOEC_TILE_M x MOEC_TILE_N that live in registers while k runs. Both
 * operands are first copied ("packed") into the order in which the tile reads them: panels of
 * MOEC_TILE_M rows of a, panels of MOEC_TILE_N columns of b. A block of a fits the second-level
 * cache, a panel of b the first.
 *
 * The order of additions over k depends on the shape only, so results do not depend on the number
 * of threads. Every function may be called from inside a parallel region; it then runs in the
 * calling thread alone. Each thread owns sizeof(MoecScratch) bytes (about 1.8 MB) for packing.
 */
#ifndef MOEC_MATMUL_H
#define MOEC_MATMUL_H

#include "few_panels.h"
#include "panels.h"
#include "tile.h"

enum {
    MOEC_BLOCK_M = 252 / MOEC_TILE_M * MOEC_TILE_M,
    MOEC_BLOCK_AMX = 8 * MOEC_AMX_ROWS,
    MOEC_BLOCK_MOST = MOEC_HAS_AMX ? MOEC_BLOCK_AMX : MOEC_BLOCK_M,
    MOEC_BLOCK_N = 768,
    MOEC_BLOCK_K = 384, /* words */
    MOEC_SHORT_ROWS =
        48, /* up to this number of rows, b is read without packing if its rows are contiguous */
    MOEC_MANY_ROWS = 4 * MOEC_BLOCK_M, /* and so many, if they stay in the cache */
    MOEC_RESULT_N = 256, /* columns that are made as f32 before they are stored as bf16 */
    MOEC_DEPTH_PARTS = 4,
    MOEC_DEPTH_SUMS = 60 << 10 /* partial sums over the depth: the size of `result` */
};

typedef struct MoecScratch {
    float a[MOEC_BLOCK_MOST * MOEC_BLOCK_K + MOEC_LANES], b[MOEC_BLOCK_N * MOEC_BLOCK_K],
        result[MOEC_BLOCK_MOST * MOEC_RESULT_N];
} MoecScratch;

/* A file that includes this one may define it differently: as a thread-local variable it would be
 * part of every thread of a program that rarely multiplies. */
#ifndef moec_scratch
static _Thread_local MoecScratch moec_scratch __attribute__((unused, aligned(64)));
#endif

/* ---- one block, in this thread ---- */

/* Computes the product if it has few rows and the memory layout of b permits reading without
 * packing; returns whether it did. The order of the sums differs from that of tiles, so the choice
 * depends on the whole product: a short block at its end must not depend on the number of
 * threads. */
MOEC_FUNCTION int moec_block_few_rows(const MoecBlockProduct *block, void *scratch, size_t bytes) {
    const MoecOperand *a = &block->a, *b = &block->b;
    const long rows = block->whole_rows > 0 ? block->whole_rows : block->m;
    if (rows > MOEC_FEW_ROWS || b->lanes != NULL) return 0;
    if (moec_is_panels(b->type)) return moec_block_few_panels(block, scratch, bytes);
    if (b->lane == 1)
        moec_few_by_rows(block);
    else if (b->lane != 1 && a->depth == 1 && b->depth == 1 && a->depths == NULL &&
             b->depths == NULL) {
        if (moec_is_groups(b->type) && !moec_is_f32(a->type)) return 0;
        moec_few_by_columns(block);
    } else
        return 0;
    return 1;
}

/* So many rows of a are packed at a time. */
MOEC_INLINE long moec_block_height(MoecForm form) {
    return form == MOEC_PAIRS_AMX ? (long)MOEC_BLOCK_AMX : (long)MOEC_BLOCK_M;
}

/* Whether rows that begin so many bytes apart can be read side by side: where the beginnings share
 * one or two sets of the nearest cache, they push each other out of it. */
MOEC_INLINE int moec_rows_stay(long bytes) { return bytes % 2048 != 0; }

/* Uses the words of a full tile without packing; returns 0 if they must be packed. Depth counts
 * elements. */
MOEC_FUNCTION int moec_in_place(const MoecOperand *a, long depth, MoecTile *tile) {
    if (a->lanes != NULL || a->depths != NULL || (a->lane != 1 && a->depth != 1)) return 0;
    if (!moec_rows_stay((a->depth == 1 ? a->lane : a->depth) * moec_size(a->type))) return 0;
    tile->a = a->data;
    tile->by_rows = a->depth == 1;
    tile->a_step = tile->by_rows ? a->lane : a->depth;
    if (tile->form == MOEC_FLOATS) return moec_is_f32(a->type);
    tile->a_step /= 2;
    return moec_is_bf16(a->type) && tile->by_rows && a->lane % 2 == 0 &&
           depth % moec_depth_unit(tile->form) == 0 && (uintptr_t)a->data % sizeof(float) == 0;
}

/* A block of a and columns of b, on their way through the tiles. */
typedef struct MoecPacking {
    const MoecOperand *a, *b;
    long rows, columns, depth;
    long more;      /* rows of a after those */
    int a_in_place; /* but for rows that do not fill a tile */
    int b_in_place; /* but for columns that do not */
    int b_packed;   /* already */
    long b_words;   /* from a packed panel to the next; 0: one is all there is */
} MoecPacking;

/* The columns of b from j, as `tile` reads them. They are packed at their first use, so that they
 * are still in a near cache when they are multiplied. */
MOEC_FUNCTION void moec_block_b(const MoecPacking *x, long j, MoecTile *tile) {
    const long width = moec_least(x->columns - j, MOEC_TILE_N);
    float *words = moec_scratch.b + j / MOEC_TILE_N * x->b_words;
    tile->b = words;
    tile->b_step = MOEC_TILE_N;
    if (x->b_in_place && width == MOEC_TILE_N) {
        tile->b = moec_element(x->b, j, 0);
        tile->b_step = x->b->depth;
    } else if (!x->b_packed) {
        moec_pack_one(x->b, j, x->columns, x->depth, tile->form, 0, words);
    }
}

/* Packs the block of a, or the rows of it that do not fill a tile. */
MOEC_FUNCTION void moec_block_a(const MoecPacking *x, MoecForm form) {
    const long height = moec_tile_height(form), words = moec_words(form, x->depth),
               first = x->a_in_place ? x->rows / height * height : 0;
    const MoecOperand rest = moec_from(*x->a, first, 0);
    moec_pack_a(&rest, x->rows - first, x->rows - first + x->more, x->depth, form,
                moec_scratch.a + first * words);
}

MOEC_LARGE void moec_block_tiles(const MoecBlockProduct *block, const MoecPacking *x,
                                 const MoecTile *pattern, const MoecBlockProduct *next) {
    const long height = moec_tile_height(pattern->form),
               tiles = moec_ceil_div(x->rows, height) * moec_ceil_div(x->columns, MOEC_TILE_N);
    MoecTile tile = *pattern;
    for (long j = 0, done = 0; j < x->columns; j += MOEC_TILE_N) {
        moec_block_b(x, j, &tile);
        for (long i = 0; i < x->rows; i += height, done++) {
            if (next != NULL) {
                moec_ask_part(&next->a, next->m, next->k, done, tiles);
                moec_ask_part(&next->b, next->n, next->k, done, tiles);
            }
            const long rows = moec_least(x->rows - i, height);
            const MoecOperand a = moec_from(*x->a, i, 0);
            if (x->a_in_place && rows == height) {
                moec_in_place(&a, x->depth, &tile);
            } else {
                tile.a = moec_scratch.a + i * pattern->k;
                tile.a_step = pattern->a_step;
                tile.by_rows = pattern->by_rows;
            }
            tile.c = pattern->c + i * block->c_m + j;
            moec_tile(&tile, rows, moec_least(x->columns - j, MOEC_TILE_N));
        }
    }
}

/* Contiguous floats of b are read without packing, unless enough rows of a use them to repay the
 * packing. The limit is lower if vectors cross cache lines. */
MOEC_INLINE int moec_block_in_place(const MoecBlockProduct *block, MoecForm form) {
    const long stride = block->b.depth * (long)sizeof(float), line = 64,
               most = moec_rows_stay(stride) && stride % line == 0 ? (long)MOEC_MANY_ROWS
                                                                   : (long)MOEC_SHORT_ROWS;
    return block->m <= most && block->b.lane == 1 && block->b.lanes == NULL &&
           block->b.depths == NULL && moec_is_f32(block->b.type) && form == MOEC_FLOATS;
}

/* The results as f32. */
MOEC_LARGE void moec_block_floats(const MoecBlockProduct *block) {
    if (block->k <= 0) {
        for (long i = 0; i < block->m && !block->accumulate; i++)
            memset((float *)block->c + i * block->c_m, 0, (size_t)block->n * sizeof(float));
        return;
    }
    if (moec_block_few_rows(block, moec_scratch.a, sizeof moec_scratch.a)) return;
    const MoecForm form = moec_form(block->rounded && !moec_is_quantized(block->b.type));
    const int in_place = moec_block_in_place(block, form);
    const long most = form == MOEC_FLOATS ? MOEC_BLOCK_K : 2 * MOEC_BLOCK_K,
               even = moec_ceil_div(block->k, moec_ceil_div(block->k, most)),
               unit = moec_is_quantized(block->b.type) ? (long)MOEC_GROUP : moec_depth_unit(form),
               deep = moec_ceil_div(even, unit) * unit, high = moec_block_height(form);
    moec_tiles_begin(form);
    for (long j = 0; j < block->n; j += MOEC_BLOCK_N) {
        const long columns = moec_least(block->n - j, MOEC_BLOCK_N);
        for (long p = 0; p < block->k; p += deep) {
            const long depth = moec_least(block->k - p, deep), words = moec_words(form, depth);
            const MoecOperand a = moec_from(block->a, 0, p), b = moec_from(block->b, j, p);
            for (long i = 0; i < block->m; i += high) {
                const MoecOperand part = moec_from(a, i, 0);
                const long rows = moec_least(block->m - i, high);
                MoecTile tile = {.k = words,
                                 .a_step = form == MOEC_PAIRS_AMX ? words : (long)MOEC_TILE_M,
                                 .by_rows = form == MOEC_PAIRS_AMX,
                                 .form = form,
                                 .c = (float *)block->c + i * block->c_m + j,
                                 .c_m = block->c_m,
                                 .add = block->accumulate || p > 0},
                         probe = tile;
                const MoecPacking packing = {.a = &part,
                                             .b = &b,
                                             .rows = rows,
                                             .columns = columns,
                                             .depth = depth,
                                             .more = block->m - i - rows,
                                             .a_in_place = moec_in_place(&part, depth, &probe),
                                             .b_in_place = in_place,
                                             .b_packed = i > 0,
                                             .b_words = block->m > high ? words * MOEC_TILE_N : 0};
                moec_block_a(&packing, form);
                moec_block_tiles(block, &packing, &tile, i + j + p > 0 ? NULL : block->next);
            }
        }
    }
    moec_tiles_end(form);
}

/* A part of results that are stored as bf16, taken from there or put there. */
MOEC_FUNCTION void moec_result_part(const MoecBlockProduct *part, MoecBf16 *stored, long stored_m,
                                    int put) {
    float *made = part->c;
    for (long i = 0; i < part->m; i++)
#pragma omp simd
        for (long j = 0; j < part->n; j++) {
            if (put)
                stored[i * stored_m + j] = moec_bf16(made[i * part->c_m + j]);
            else
                made[i * part->c_m + j] = moec_load(stored[i * stored_m + j]);
        }
}

/* Results that are stored as bf16: made as f32, a part at a time, then rounded. */
MOEC_LARGE void moec_block_rounded(const MoecBlockProduct *block) {
    for (long j = 0; j < block->n; j += MOEC_RESULT_N)
        for (long i = 0; i < block->m; i += MOEC_BLOCK_M) {
            MoecBlockProduct part = *block;
            part.whole_rows = block->whole_rows > 0 ? block->whole_rows : block->m;
            part.m = moec_least(block->m - i, MOEC_BLOCK_M);
            part.n = moec_least(block->n - j, MOEC_RESULT_N);
            part.a = moec_from(block->a, i, 0);
            part.b = moec_from(block->b, j, 0);
            part.c = moec_scratch.result;
            part.c_m = MOEC_RESULT_N;
            MoecBf16 *stored = (MoecBf16 *)block->c + i * block->c_m + j;
            if (block->accumulate) moec_result_part(&part, stored, block->c_m, 0);
            moec_block_floats(&part);
            moec_result_part(&part, stored, block->c_m, 1);
        }
}

MOEC_INLINE void moec_block_multiply(const MoecBlockProduct *block) {
    if (moec_is_bf16(block->c_type))
        moec_block_rounded(block);
    else
        moec_block_floats(block);
}

/* ---- b packed already, part of a triangle ---- */

/* The part of the work for lane i of a, if a matrix of lanes of a and of b, or of lanes and depth
 * of a, has a diagonal at column i + diagonal. */
typedef enum MoecTriangle {
    MOEC_ALL,
    MOEC_LANES_AFTER,  /* lanes of b from the diagonal on */
    MOEC_DEPTH_AFTER,  /* depth from the diagonal on: a is 0 before */
    MOEC_DEPTH_BEFORE, /* lane i is at depth i - diagonal, and a is 0 beyond */
} MoecTriangle;

/* A product for one thread. b: panels of MOEC_TILE_N lanes, made by moec_pack_panels. */
typedef struct MoecPanelProduct {
    long m, n, k; /* k: at most MOEC_BLOCK_K */
    MoecOperand a;
    const float *b;
    float *c;
    long c_m;
    int accumulate;
    MoecForm form;
    MoecTriangle triangle;
    long diagonal;
} MoecPanelProduct;

/* From depth `from` on, which is a whole number of words. */
MOEC_FUNCTION void moec_panel_a(const MoecPanelProduct *x, long i, long rows, long from,
                                MoecTile *tile) {
    const MoecOperand a = moec_from(x->a, i, from);
    const long depth = tile->k;
    tile->k = moec_words(x->form, depth);
    if (rows == moec_tile_height(x->form) && moec_in_place(&a, depth, tile)) return;
    tile->a = moec_scratch.a;
    tile->a_step = moec_pack_a(&a, rows, rows, depth, x->form, moec_scratch.a);
    tile->by_rows = x->form == MOEC_PAIRS_AMX;
}

MOEC_INLINE long moec_within(long x, long most) { return x < 0 ? 0 : moec_least(x, most); }

MOEC_LARGE void moec_panel_multiply(const MoecPanelProduct *x) {
    const long words = moec_words(x->form, x->k), height = moec_tile_height(x->form),
               unit = moec_depth_unit(x->form);
    moec_tiles_begin(x->form);
    for (long i = 0; i < x->m; i += height) {
        const long rows = moec_least(x->m - i, height);
        long column = 0, from = 0, to = x->k;
        if (x->triangle == MOEC_LANES_AFTER)
            column = moec_within(i + x->diagonal, x->n) / MOEC_TILE_N * MOEC_TILE_N;
        if (x->triangle == MOEC_DEPTH_AFTER)
            from = moec_within(i + x->diagonal, x->k) / unit * unit;
        if (x->triangle == MOEC_DEPTH_BEFORE)
            to = moec_within(moec_ceil_div(moec_within(i + rows - x->diagonal, x->k), unit) * unit,
                             x->k);
        MoecTile tile = {.k = to - from,
                         .form = x->form,
                         .b_step = MOEC_TILE_N,
                         .c_m = x->c_m,
                         .add = x->accumulate};
        if (to > from) moec_panel_a(x, i, rows, from, &tile);
        for (long j = column; j < x->n; j += MOEC_TILE_N) {
            tile.b = x->b + j * words + moec_words(x->form, from) * MOEC_TILE_N;
            tile.c = x->c + i * x->c_m + j;
            moec_tile(&tile, rows, moec_least(x->n - j, MOEC_TILE_N));
        }
    }
    moec_tiles_end(x->form);
}

/* ---- threads ---- */

MOEC_ENTRY void moec_clear(void *memory, size_t bytes) {
    const size_t part = 1 << 20;
#pragma omp parallel for schedule(static) if (bytes > part)
    for (size_t at = 0; at < bytes; at += part)
        memset((char *)memory + at, 0, bytes - at < part ? bytes - at : part);
}

/* Parts of columns of b begin at multiples of this; a group is some tiles wide, and some panels. */
MOEC_INLINE long moec_column_unit(MoecType type) {
    return moec_is_quantized(type) ? (long)MOEC_GROUP : (long)MOEC_TILE_N;
}

typedef struct MoecGrid {
    long rows, columns; /* parts along m and n */
} MoecGrid;

/* Grid of c among `threads` that minimizes the largest part and its packed operands. */
MOEC_FUNCTION MoecGrid moec_grid(long m, long n, long threads) {
    MoecGrid best = {1, 1};
    double least = -1.0;
    for (long rows = 1; rows <= threads; rows++) {
        if (threads % rows != 0) continue;
        const MoecGrid grid = {moec_least(rows, moec_ceil_div(m, MOEC_TILE_M)),
                               moec_least(threads / rows, moec_ceil_div(n, MOEC_TILE_N))};
        const double height =
            (double)moec_ceil_div(moec_ceil_div(m, MOEC_TILE_M), grid.rows) * MOEC_TILE_M;
        const double width =
            (double)moec_ceil_div(moec_ceil_div(n, MOEC_TILE_N), grid.columns) * MOEC_TILE_N;
        const double cost = height * width + 16.0 * (height + width);
        if (least < 0.0 || cost < least) {
            least = cost;
            best = grid;
        }
    }
    return best;
}

/* Where part `index` of `count` of `size` units begins. */
MOEC_INLINE long moec_cut(long size, long unit, long count, long index) {
    return moec_least(moec_ceil_div(size, unit) * index / count * unit, size);
}

/* Worth the few microseconds of a parallel region. */
MOEC_INLINE int moec_worth_threads(double multiplies, double elements) {
    return multiplies / 100.0 + elements / 5.0 > 4000.0;
}

/* ---- cut along the depth ---- */

/* Rows of b that are read without packing: a cut along the depth lets each thread read memory
 * sequentially; a cut along the columns reads a piece of every row. The number of parts depends
 * only on sizes. Their sums, [part][row][n], are in the scratch memory of the calling thread. 1: no
 * cut. */
MOEC_INLINE long moec_depth_parts(double work, double read, long rows, long n) {
    const int fits = rows * n * MOEC_DEPTH_PARTS <= MOEC_DEPTH_SUMS;
    return fits && moec_worth_threads(work, read) ? MOEC_DEPTH_PARTS : 1;
}

typedef struct MoecDepths {
    const float *sums;
    long parts, rows, n;
    void *c;
    long c_m;
    int accumulate;
    MoecType c_type;
} MoecDepths;

/* c[i,j] (+)= the sum of the parts, from column j on, a scratch wide. */
MOEC_FUNCTION void moec_add_depths(const MoecDepths *x, long j) {
    const long width = moec_least(x->n - j, MOEC_RESULT_N);
    for (long i = 0; i < x->rows; i++) {
        float sum[MOEC_RESULT_N];
        void *c = moec_to(x->c, i * x->c_m + j, x->c_type);
        memcpy(sum, x->sums + i * x->n + j, (size_t)width * sizeof *sum);
        for (long part = 1; part < x->parts; part++) {
            const float *more = x->sums + (part * x->rows + i) * x->n + j;
#pragma omp simd
            for (long q = 0; q < width; q++) sum[q] += more[q];
        }
        if (moec_is_bf16(x->c_type)) {
            for (long q = 0; q < width; q++) {
                MoecBf16 *to = (MoecBf16 *)c + q;
                *to = moec_bf16(x->accumulate ? moec_load(*to) + sum[q] : sum[q]);
            }
        } else {
#pragma omp simd
            for (long q = 0; q < width; q++)
                ((float *)c)[q] = x->accumulate ? ((float *)c)[q] + sum[q] : sum[q];
        }
    }
}

/* The product computes one part of the sums. */
MOEC_INLINE void moec_part_of_depth(MoecBlockProduct *block, float *sums, long n) {
    block->c = sums;
    block->c_m = n;
    block->accumulate = 0;
    block->c_type = MOEC_F32;
}

/* Where a product is cut: parts of the depth, of rows and columns. */
typedef struct MoecCuts {
    long depths;
    MoecGrid grid;
    float *sums; /* of parts of the depth, where there are several */
} MoecCuts;

/* Parts of rows begin at multiples of this: only the last tile of a product may be incomplete,
 * because it adds to c in another order. */
MOEC_INLINE long moec_row_unit(const MoecProduct *product) {
    return moec_tile_height(moec_form(product->rounded && !moec_is_quantized(product->b_type)));
}

MOEC_FUNCTION void moec_multiply_task(const MoecProductCall *call, const MoecCuts *cuts,
                                      long task) {
    const MoecProduct *product = call->product;
    const long m = product->m, n = product->n, k = product->k,
               parts = cuts->grid.rows * cuts->grid.columns,
               batches = product->batch[0] * product->batch[1],
               unit = moec_column_unit(product->b_type), height = moec_row_unit(product);
    const long depth = task / parts / batches, batch = task / parts % batches,
               row = task % parts / cuts->grid.columns, column = task % cuts->grid.columns;
    const long outer = batch / product->batch[1], inner = batch % product->batch[1];
    const long i = moec_cut(m, height, cuts->grid.rows, row),
               j = moec_cut(n, unit, cuts->grid.columns, column),
               p = moec_cut(k, MOEC_STREAMS, cuts->depths, depth);
    const long at_a = outer * product->a_batch[0] + inner * product->a_batch[1],
               at_b = outer * product->b_batch[0] + inner * product->b_batch[1],
               at_c = outer * product->c_batch[0] + inner * product->c_batch[1];
    const MoecOperand left = {moec_at(call->a, at_a, product->a_type),
                              product->a_m,
                              product->a_k,
                              NULL,
                              NULL,
                              product->a_type};
    const MoecOperand right = moec_right(moec_at(call->b, at_b, product->b_type), product->b_n,
                                         product->b_k, product->b_type);
    MoecBlockProduct block = {moec_cut(m, height, cuts->grid.rows, row + 1) - i,
                              moec_cut(n, unit, cuts->grid.columns, column + 1) - j,
                              moec_cut(k, MOEC_STREAMS, cuts->depths, depth + 1) - p,
                              moec_from(left, i, p),
                              moec_from(right, j, p),
                              moec_to(call->c, at_c + i * product->c_m + j, product->c_type),
                              product->c_m,
                              product->accumulate,
                              product->rounded,
                              product->c_type,
                              NULL,
                              m};
    if (cuts->depths > 1) moec_part_of_depth(&block, cuts->sums + (depth * m + i) * n + j, n);
    moec_block_multiply(&block);
}

/* Elements of b. */
MOEC_INLINE double moec_elements(const MoecProduct *product) {
    return (double)product->k * (double)(product->batch[0] * product->batch[1]) *
           (double)product->n;
}

/* Parts of the depth for `rows` rows. */
MOEC_INLINE long moec_product_depths(const MoecProduct *product, long rows) {
    const double read = moec_elements(product);
    const int few =
        rows <= MOEC_FEW_ROWS && product->b_n == 1 && product->batch[0] * product->batch[1] == 1;
    return few ? moec_depth_parts((double)rows * read, read, rows, product->n) : 1;
}

/* Partial sums of a product with that many parts of the depth. */
MOEC_INLINE long moec_depth_sums(long rows, long n, long depths) {
    return depths > 1 ? depths * rows * n : 0;
}

/* Floats of `result` that it needs. To round results of undivided sums, it needs all. */
MOEC_INLINE long moec_result_floats(long rows, long n, long depths, MoecType type) {
    return depths == 1 && moec_is_bf16(type) ? (long)MOEC_DEPTH_SUMS
                                             : moec_depth_sums(rows, n, depths);
}

/* Computes products with the kernels of this file in one parallel region, with that many parts of
 * the depth. Their partial sums fit the scratch memory. Small products do not become worth threads
 * together: to wake these costs more on a busy machine. */
MOEC_FUNCTION void moec_multiply_calls(const MoecProductCall *calls, const long *depths,
                                       int count) {
    MoecCuts cuts[MOEC_SHARED_CALLS];
    int worth = 0;
    for (int i = 0; i < count; i++) {
        const double read = moec_elements(calls[i].product);
        worth |= moec_worth_threads((double)calls[i].product->m * read, read);
    }
    const long threads = worth ? moec_threads() : 1;
    float *sums = moec_scratch.result;
    for (int i = 0; i < count; i++) {
        const MoecProduct *product = calls[i].product;
        const long shared = depths[i] * product->batch[0] * product->batch[1];
        cuts[i] = (MoecCuts){
            depths[i],
            moec_grid(product->m, product->n, moec_ceil_div(threads, shared > 0 ? shared : 1)),
            sums};
        sums += moec_depth_sums(product->m, product->n, depths[i]);
    }
    const int adds = sums != moec_scratch.result;
#pragma omp parallel if (threads > 1)
    {
        for (int i = 0; i < count; i++) {
            const MoecProduct *product = calls[i].product;
            const long tasks = depths[i] * product->batch[0] * product->batch[1] *
                               cuts[i].grid.rows * cuts[i].grid.columns;
#pragma omp for schedule(static) nowait
            for (long task = 0; task < tasks; task++) moec_multiply_task(&calls[i], &cuts[i], task);
        }
        if (adds) {
#pragma omp barrier
        }
        for (int i = 0; i < count; i++) {
            const MoecProduct *product = calls[i].product;
            const MoecDepths all = {cuts[i].sums,        depths[i],      product->m,
                                    product->n,          calls[i].c,     product->c_m,
                                    product->accumulate, product->c_type};
#pragma omp for schedule(static) nowait
            for (long j = 0; j < (depths[i] > 1 ? all.n : 0); j += MOEC_RESULT_N)
                moec_add_depths(&all, j);
        }
    }
}

MOEC_FUNCTION void moec_multiply_parts(const MoecProduct *product, long depths, const void *a,
                                       const void *b, void *c) {
    const MoecProductCall call = {0, product, a, b, c};
    moec_multiply_calls(&call, &depths, 1);
}

MOEC_FUNCTION void moec_multiply(const MoecProduct *product, const void *a, const void *b,
                                 void *c) {
    moec_multiply_parts(product, moec_product_depths(product, product->m), a, b, c);
}

MOEC_INLINE int moec_host_has_product(const MoecRun *run, const MoecProductCall *call) {
    const MoecHost *host = run->host;
    return host != NULL && host->product != NULL &&
           host->product(host->self, call->index, call->a, call->b, call->c, NULL) == 0;
}

MOEC_ENTRY void moec_product(const MoecRun *run, int index, const MoecProduct *product,
                             const void *a, const void *b, void *c) {
    const MoecProductCall call = {index, product, a, b, c};
    if (!moec_host_has_product(run, &call)) moec_multiply(product, a, b, c);
}

MOEC_ENTRY void moec_shared_products(const MoecRun *run, const MoecProductCall *calls, int count) {
    MoecProductCall own[MOEC_SHARED_CALLS];
    long depths[MOEC_SHARED_CALLS], floats = 0;
    int owned = 0;
    for (int i = 0; i < count; i++) {
        const MoecProduct *product = calls[i].product;
        if (moec_host_has_product(run, &calls[i])) continue;
        const long parts = moec_product_depths(product, product->m),
                   more = moec_result_floats(product->m, product->n, parts, product->c_type);
        if (floats + more > MOEC_DEPTH_SUMS) {
            moec_multiply_calls(own, depths, owned);
            owned = 0;
            floats = 0;
        }
        own[owned] = calls[i];
        depths[owned++] = parts;
        floats += more;
    }
    if (owned) moec_multiply_calls(own, depths, owned);
}

#endif
