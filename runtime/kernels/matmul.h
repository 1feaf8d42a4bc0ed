/* matmul: c = a * b in f32 for any shape, packed, register-blocked and threaded.
 *
 * c is cut into tiles of MOEC_TILE_M x MOEC_TILE_N that live in registers while k runs. Both
 * operands are first copied ("packed") into the order in which the tile reads them: panels of
 * MOEC_TILE_M rows of a, panels of MOEC_TILE_N columns of b. A block of a fits the second-level
 * cache, a panel of b the first.
 *
 * The order of additions over k depends on the shape only, so results do not depend on the number
 * of threads. Every function may be called from inside a parallel region; it then runs in the
 * calling thread alone. Each thread owns sizeof(MoecScratch) bytes (about 1.6 MB) for packing.
 */
#ifndef MOEC_MATMUL_H
#define MOEC_MATMUL_H

#include "abi.h"
#include "prelude.h"

/* Sizes by register file: floats in a register, rows of a tile. A tile is two registers wide. */
#if defined(__AVX512F__)
enum { MOEC_LANES = 16, MOEC_TILE_M = 14 };
#elif defined(__AVX__)
enum { MOEC_LANES = 8, MOEC_TILE_M = 6 };
#elif defined(__aarch64__)
enum { MOEC_LANES = 4, MOEC_TILE_M = 12 };
#else
enum { MOEC_LANES = 4, MOEC_TILE_M = 4 };
#endif
enum {
    MOEC_TILE_N = 2 * MOEC_LANES,
    MOEC_BLOCK_M = 252 / MOEC_TILE_M * MOEC_TILE_M,
    MOEC_BLOCK_N = 768,
    MOEC_BLOCK_K = 384,
    MOEC_FEW_ROWS =
        4, /* so many rows and fewer: the product is bound by reading b, which is then not packed */
    MOEC_FEW_DOTS = 8, /* the same where b lies along k and packing would have to transpose it */
    MOEC_SHORT_ROWS =
        48,          /* so many rows and fewer: b is read in place if its rows are contiguous */
    MOEC_STREAMS = 8 /* rows of b read side by side when there are few rows */
};

typedef float MoecVector __attribute__((vector_size(MOEC_LANES * 4), aligned(4), may_alias));
typedef float MoecFour __attribute__((vector_size(16)));

/* An operand seen as lanes (rows of a, columns of b) by depth (k): element (i, p) is data[i*lane +
 * p*depth], where i or p goes through a table when there is one. */
typedef struct MoecOperand {
    const float *data;
    long lane, depth;
    const int *lanes, *depths;
} MoecOperand;

/* A product for one thread. */
typedef struct MoecBlockProduct {
    long m, n, k;
    MoecOperand a, b; /* lanes of a: m; lanes of b: n */
    float *c;
    long c_m;
    int accumulate;
} MoecBlockProduct;

typedef struct MoecScratch {
    float a[MOEC_BLOCK_M * MOEC_BLOCK_K + MOEC_LANES], b[MOEC_BLOCK_N * MOEC_BLOCK_K],
        tile[MOEC_TILE_M * MOEC_TILE_N];
} MoecScratch;

static _Thread_local MoecScratch moec_scratch __attribute__((unused, aligned(64)));

MOEC_INLINE long moec_least(long a, long b) {
    return a < b ? a : b;
}
MOEC_INLINE long moec_pieces(long size, long piece) {
    return (size + piece - 1) / piece;
}
MOEC_INLINE MoecVector moec_load(const float *x) {
    return *(const MoecVector *)x;
}
MOEC_INLINE void moec_store(float *x, MoecVector value) {
    *(MoecVector *)x = value;
}

MOEC_INLINE float moec_vector_sum(MoecVector x) {
    MoecFour part[MOEC_LANES / 4];
    memcpy(part, &x, sizeof part);
    MoecFour sum = part[0];
    for (int i = 1; i < MOEC_LANES / 4; i++) sum += part[i];
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

/* The operand from lane `lane` and depth `depth` on. */
MOEC_INLINE MoecOperand moec_from(MoecOperand operand, long lane, long depth) {
    if (operand.lanes != NULL)
        operand.lanes += lane;
    else
        operand.data += lane * operand.lane;
    if (operand.depths != NULL)
        operand.depths += depth;
    else
        operand.data += depth * operand.depth;
    return operand;
}

/* The address of element (lane, depth). */
MOEC_INLINE const float *moec_element(const MoecOperand *operand, long lane, long depth) {
    const long i = operand->lanes != NULL ? operand->lanes[lane] : lane;
    const long p = operand->depths != NULL ? operand->depths[depth] : depth;
    return operand->data + i * operand->lane + p * operand->depth;
}

/* ---- packing ---- */

#if defined(__AVX512F__) && !defined(__clang__)

typedef int32_t MoecPlaces __attribute__((vector_size(MOEC_LANES * 4)));
enum { MOEC_TRANSPOSES = 1 };

/* rows[i][j] and rows[j][i] change places: the quarters of blocks of twice `step`, for every step.
 */
MOEC_INLINE void moec_transpose(MoecVector rows[MOEC_LANES]) {
#pragma GCC unroll 4
    for (int step = 1; step < MOEC_LANES; step *= 2) {
        MoecPlaces low, high;
#pragma GCC unroll 16
        for (int j = 0; j < MOEC_LANES; j++) {
            low[j] = (j & step) != 0 ? MOEC_LANES + j - step : j;
            high[j] = (j & step) != 0 ? MOEC_LANES + j : j + step;
        }
#pragma GCC unroll 16
        for (int i = 0; i < MOEC_LANES; i++) {
            if ((i & step) != 0) continue;
            const MoecVector upper = rows[i], lower = rows[i + step];
            rows[i] = __builtin_shuffle(upper, lower, low);
            rows[i + step] = __builtin_shuffle(upper, lower, high);
        }
    }
}

#else /* no cheap shuffle of that width: one element at a time */

enum { MOEC_TRANSPOSES = 0 };

MOEC_INLINE void moec_transpose(MoecVector rows[MOEC_LANES]) {
    (void)rows;
}

#endif

/* Lanes first .. first+count-1, at most a register of them, whose elements lie side by side along
 * depth: whole squares only; returns the depth done. Beyond `count` it writes zeros, up to a full
 * register: what stands there is written later. */
MOEC_LARGE long moec_pack_squares(const MoecOperand *x, long first, long count, long depth,
                                  long width, float *out) {
    long p = 0;
    for (; MOEC_TRANSPOSES && p + MOEC_LANES <= depth; p += MOEC_LANES) {
        MoecVector rows[MOEC_LANES] = {0};
        for (long i = 0; i < MOEC_LANES && i < count; i++)
            rows[i] = moec_load(moec_element(x, first + i, p));
        moec_transpose(rows);
#pragma GCC unroll 16
        for (long q = 0; q < MOEC_LANES; q++) moec_store(out + (p + q) * width, rows[q]);
    }
    return p;
}

/* One panel: out[depth][width] of lanes first .. first+count-1, zero beyond. */
MOEC_FUNCTION void moec_pack_panel(const MoecOperand *x, long first, long count, long depth,
                                   long width, float *out) {
    if (x->lane == 1 && x->lanes == NULL && count == width) {
        for (long p = 0; p < depth; p++) {
            const float *from = moec_element(x, first, p);
            if (width == MOEC_TILE_M)
                memcpy(out + p * width, from, MOEC_TILE_M * sizeof *out);
            else
                memcpy(out + p * width, from, MOEC_TILE_N * sizeof *out);
        }
        return;
    }
    const int side_by_side = x->depth == 1 && x->depths == NULL;
    for (long i = 0; i < width; i += MOEC_LANES) {
        const long lanes = moec_least(width - i, MOEC_LANES), full = moec_least(count - i, lanes);
        long p = 0;
        if (side_by_side) p = moec_pack_squares(x, first + i, full, depth, width, out + i);
        for (; p < depth; p++)
            for (long j = 0; j < lanes; j++)
                out[p * width + i + j] = j < full ? *moec_element(x, first + i + j, p) : 0.0f;
    }
}

/* `count` lanes in panels of `width`, which is MOEC_TILE_M or MOEC_TILE_N. */
MOEC_LARGE void moec_pack_panels(const MoecOperand *x, long count, long depth, long width,
                                 float *out) {
    for (long i = 0; i < count; i += width)
        moec_pack_panel(x, i, moec_least(count - i, width), depth, width, out + i * depth);
}

/* ---- one tile ---- */

typedef struct MoecTile {
    long k;
    const float *a; /* [k][MOEC_TILE_M] */
    const float *b; /* [k] rows of MOEC_TILE_N, b_step apart */
    long b_step;
    float *c;
    long c_m;
    int add; /* to what stands in c */
} MoecTile;

/* c[rows][MOEC_TILE_N] (+)= a * b. `rows` is a constant wherever this is inlined, so that `sum`
 * stays in registers. */
MOEC_INLINE void moec_tile_rows(const MoecTile *tile, const long rows) {
    MoecVector sum[MOEC_TILE_M][2];
    const float *a = tile->a, *b = tile->b;
#pragma GCC unroll 14
    for (long i = 0; i < rows; i++) sum[i][0] = sum[i][1] = (MoecVector){0};
    for (long p = 0; p < tile->k; p++) {
        const MoecVector left = moec_load(b), right = moec_load(b + MOEC_LANES);
#pragma GCC unroll 14
        for (long i = 0; i < rows; i++) {
            sum[i][0] += a[i] * left;
            sum[i][1] += a[i] * right;
        }
        a += MOEC_TILE_M;
        b += tile->b_step;
    }
#pragma GCC unroll 14
    for (long i = 0; i < rows; i++) {
        float *c = tile->c + i * tile->c_m;
        if (tile->add) {
            sum[i][0] += moec_load(c);
            sum[i][1] += moec_load(c + MOEC_LANES);
        }
        moec_store(c, sum[i][0]);
        moec_store(c + MOEC_LANES, sum[i][1]);
    }
}

/* A tile with any number of rows: the next larger of three sizes, into a copy when that or the
 * width does not fit. */
MOEC_LARGE void moec_tile(const MoecTile *tile, long rows, long columns) {
    const int fits = rows == MOEC_TILE_M && columns == MOEC_TILE_N;
    float *copy = moec_scratch.tile;
    MoecTile part = *tile;
    if (!fits) {
        part.c = copy;
        part.c_m = MOEC_TILE_N;
        part.add = 0;
    }
    if (rows <= MOEC_TILE_M / 4)
        moec_tile_rows(&part, MOEC_TILE_M / 4);
    else if (rows <= MOEC_TILE_M / 2)
        moec_tile_rows(&part, MOEC_TILE_M / 2);
    else
        moec_tile_rows(&part, MOEC_TILE_M);
    for (long i = 0; i < rows && !fits; i++) {
        float *c = tile->c + i * tile->c_m;
        const float *from = copy + i * MOEC_TILE_N;
        for (long j = 0; j < columns; j++) c[j] = tile->add ? c[j] + from[j] : from[j];
    }
}

/* ---- few rows: read b once, as it lies ---- */

/* c[j] += sum over the streams of factor[q] * from[q][j]. */
MOEC_INLINE void moec_add_streams(long n, const float *factor, const float *const *from, float *c) {
    long j = 0;
    for (; j + MOEC_LANES <= n; j += MOEC_LANES) {
        MoecVector sum = moec_load(c + j);
#pragma GCC unroll 8
        for (long q = 0; q < MOEC_STREAMS; q++) sum += factor[q] * moec_load(from[q] + j);
        moec_store(c + j, sum);
    }
    for (; j < n; j++) {
        float sum = c[j];
        for (long q = 0; q < MOEC_STREAMS; q++) sum += factor[q] * from[q][j];
        c[j] = sum;
    }
}

/* c[i,j] += sum over p of a[i,p] b[p,j], columns contiguous: MOEC_STREAMS rows of b at a time,
 * those beyond k times 0. */
MOEC_LARGE void moec_few_by_rows(const MoecBlockProduct *block) {
    for (long i = 0; i < block->m && !block->accumulate; i++)
        memset(block->c + i * block->c_m, 0, (size_t)block->n * sizeof *block->c);
    for (long p = 0; p < block->k; p += MOEC_STREAMS) {
        const float *from[MOEC_STREAMS];
        for (long q = 0; q < MOEC_STREAMS; q++)
            from[q] = moec_element(&block->b, 0, p + q < block->k ? p + q : p);
        for (long i = 0; i < block->m; i++) {
            float factor[MOEC_STREAMS];
            for (long q = 0; q < MOEC_STREAMS; q++)
                factor[q] = p + q < block->k ? *moec_element(&block->a, i, p + q) : 0.0f;
            moec_add_streams(block->n, factor, from, block->c + i * block->c_m);
        }
    }
}

/* c[j] (+)= a . b[j], `count` of them side by side; both contiguous along k. */
MOEC_INLINE void moec_dots(long k, const float *a, const float *b, long b_n, const long count,
                           float *c, int accumulate) {
    MoecVector sum[MOEC_STREAMS];
#pragma GCC unroll 8
    for (long q = 0; q < count; q++) sum[q] = (MoecVector){0};
    const long whole = k - k % MOEC_LANES;
    for (long p = 0; p < whole; p += MOEC_LANES) {
        const MoecVector x = moec_load(a + p);
#pragma GCC unroll 8
        for (long q = 0; q < count; q++) sum[q] += x * moec_load(b + q * b_n + p);
    }
    for (long q = 0; q < count; q++) {
        float rest = moec_vector_sum(sum[q]);
        for (long p = whole; p < k; p++) rest += a[p] * b[q * b_n + p];
        c[q] = accumulate ? c[q] + rest : rest;
    }
}

/* Both operands contiguous along k: MOEC_STREAMS columns of b at a time. */
MOEC_LARGE void moec_few_by_columns(const MoecBlockProduct *block) {
    const long b_n = block->b.lane;
    for (long j = 0; j < block->n; j += MOEC_STREAMS) {
        const float *b = block->b.data + j * b_n;
        for (long i = 0; i < block->m; i++) {
            const float *a = moec_element(&block->a, i, 0);
            float *c = block->c + i * block->c_m + j;
            if (j + MOEC_STREAMS <= block->n)
                moec_dots(block->k, a, b, b_n, MOEC_STREAMS, c, block->accumulate);
            else
                for (long q = 0; q < block->n - j; q++)
                    moec_dots(block->k, a, b + q * b_n, b_n, 1, c + q, block->accumulate);
        }
    }
}

/* ---- one block, in this thread ---- */

/* Rows m0 .. of one packed block of a against columns of b, packed (b_step 0) or in place. */
MOEC_LARGE void moec_block_tiles(const MoecBlockProduct *block, long rows, long columns,
                                 const MoecTile *pattern) {
    const int in_place = pattern->b_step != MOEC_TILE_N || pattern->b != moec_scratch.b;
    for (long j = 0; j < columns; j += MOEC_TILE_N) {
        const long width = moec_least(columns - j, MOEC_TILE_N);
        MoecTile tile = *pattern;
        tile.b = in_place ? pattern->b + j : pattern->b + j * pattern->k;
        if (in_place &&
            width < MOEC_TILE_N) { /* the last columns: a full register would read beyond the row */
            const MoecOperand rest = {tile.b, 1, tile.b_step, NULL, NULL};
            moec_pack_panels(&rest, width, tile.k, MOEC_TILE_N, moec_scratch.b);
            tile.b = moec_scratch.b;
            tile.b_step = MOEC_TILE_N;
        }
        for (long i = 0; i < rows; i += MOEC_TILE_M) {
            tile.a = pattern->a + i * pattern->k;
            tile.c = pattern->c + i * block->c_m + j;
            moec_tile(&tile, moec_least(rows - i, MOEC_TILE_M), width);
        }
    }
}

/* Does the product when it has few rows and b lies well for reading in place. */
MOEC_FUNCTION int moec_block_few_rows(const MoecBlockProduct *block) {
    const MoecOperand *a = &block->a, *b = &block->b;
    if (block->m > MOEC_FEW_DOTS || b->lanes != NULL) return 0;
    if (b->lane == 1 && block->m <= MOEC_FEW_ROWS)
        moec_few_by_rows(block);
    else if (b->lane != 1 && a->depth == 1 && b->depth == 1 && a->depths == NULL &&
             b->depths == NULL)
        moec_few_by_columns(block);
    else
        return 0;
    return 1;
}

MOEC_LARGE void moec_block_multiply(const MoecBlockProduct *block) {
    if (block->k <= 0) {
        for (long i = 0; i < block->m && !block->accumulate; i++)
            memset(block->c + i * block->c_m, 0, (size_t)block->n * sizeof *block->c);
        return;
    }
    if (moec_block_few_rows(block)) return;
    const int in_place = block->m <= MOEC_SHORT_ROWS && block->b.lane == 1 &&
                         block->b.lanes == NULL && block->b.depths == NULL;
    const long deep = moec_pieces(block->k, moec_pieces(block->k, MOEC_BLOCK_K));
    for (long j = 0; j < block->n; j += MOEC_BLOCK_N) {
        const long columns = moec_least(block->n - j, MOEC_BLOCK_N);
        for (long p = 0; p < block->k; p += deep) {
            const long depth = moec_least(block->k - p, deep);
            const MoecOperand a = moec_from(block->a, 0, p), b = moec_from(block->b, j, p);
            if (!in_place) moec_pack_panels(&b, columns, depth, MOEC_TILE_N, moec_scratch.b);
            for (long i = 0; i < block->m; i += MOEC_BLOCK_M) {
                const long rows = moec_least(block->m - i, MOEC_BLOCK_M);
                const MoecOperand part = moec_from(a, i, 0);
                moec_pack_panels(&part, rows, depth, MOEC_TILE_M, moec_scratch.a);
                const MoecTile pattern = {depth,
                                          moec_scratch.a,
                                          in_place ? b.data : moec_scratch.b,
                                          in_place ? b.depth : MOEC_TILE_N,
                                          block->c + i * block->c_m + j,
                                          block->c_m,
                                          block->accumulate || p > 0};
                moec_block_tiles(block, rows, columns, &pattern);
            }
        }
    }
}

/* ---- threads ---- */

typedef struct MoecGrid {
    long rows, columns; /* pieces along m and n */
} MoecGrid;

/* How to cut c among `threads`: the largest piece and what must be packed for it are to be small.
 */
MOEC_FUNCTION MoecGrid moec_grid(long m, long n, long threads) {
    MoecGrid best = {1, 1};
    double least = -1.0;
    for (long rows = 1; rows <= threads; rows++) {
        if (threads % rows != 0) continue;
        const MoecGrid grid = {moec_least(rows, moec_pieces(m, MOEC_TILE_M)),
                               moec_least(threads / rows, moec_pieces(n, MOEC_TILE_N))};
        const double height =
            (double)moec_pieces(moec_pieces(m, MOEC_TILE_M), grid.rows) * MOEC_TILE_M;
        const double width =
            (double)moec_pieces(moec_pieces(n, MOEC_TILE_N), grid.columns) * MOEC_TILE_N;
        const double cost = height * width + 16.0 * (height + width);
        if (least < 0.0 || cost < least) {
            least = cost;
            best = grid;
        }
    }
    return best;
}

/* Where piece `index` of `count` of `size` units begins. */
MOEC_INLINE long moec_cut(long size, long unit, long count, long index) {
    return moec_least(moec_pieces(size, unit) * index / count * unit, size);
}

/* Worth the few microseconds of a parallel region. */
MOEC_INLINE int moec_worth_threads(double multiplies, double elements) {
    return multiplies / 100.0 + elements / 5.0 > 4000.0;
}

/* The product as `product` says, by our own kernels. */
MOEC_FUNCTION void moec_multiply(const MoecProduct *product, const float *a, const float *b,
                                 float *c) {
    const long m = product->m, n = product->n, k = product->k,
               batches = product->batch[0] * product->batch[1];
    const double work = (double)m * (double)n * (double)k * (double)batches;
    const long threads =
        moec_worth_threads(work, (double)(k * batches) * (double)n) ? moec_threads() : 1;
    const MoecGrid grid = moec_grid(m, n, moec_pieces(threads, batches > 0 ? batches : 1));
    const long pieces = grid.rows * grid.columns;
#pragma omp parallel for schedule(static) if (threads > 1)
    for (long task = 0; task < batches * pieces; task++) {
        const long outer = task / pieces / product->batch[1],
                   inner = task / pieces % product->batch[1];
        const long row = task % pieces / grid.columns, column = task % grid.columns;
        const long i = moec_cut(m, MOEC_TILE_M, grid.rows, row),
                   j = moec_cut(n, MOEC_TILE_N, grid.columns, column);
        const MoecOperand left = {a + outer * product->a_batch[0] + inner * product->a_batch[1],
                                  product->a_m, product->a_k, NULL, NULL};
        const MoecOperand right = {b + outer * product->b_batch[0] + inner * product->b_batch[1],
                                   product->b_n, product->b_k, NULL, NULL};
        const MoecBlockProduct block = {moec_cut(m, MOEC_TILE_M, grid.rows, row + 1) - i,
                                        moec_cut(n, MOEC_TILE_N, grid.columns, column + 1) - j,
                                        k,
                                        moec_from(left, i, 0),
                                        moec_from(right, j, 0),
                                        c + outer * product->c_batch[0] +
                                            inner * product->c_batch[1] + i * product->c_m + j,
                                        product->c_m,
                                        product->accumulate};
        moec_block_multiply(&block);
    }
}

/* Product `index` of the table: lent to the host when it has one for it, else ours. */
MOEC_FUNCTION void moec_product(const MoecRun *run, int index, const MoecProduct *product,
                                const float *a, const float *b, float *c) {
    const MoecHost *host = run->host;
    if (host == NULL || host->product == NULL || host->product(host->self, index, a, b, c, NULL) != 0)
        moec_multiply(product, a, b, c);
}

#endif
