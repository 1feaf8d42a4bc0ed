/* product: matrix products in tiles of 64 by 64. A thread has 4 by 4 sums; operands come by way of shared memory. */
#ifndef MOEC_PRODUCT_CUH
#define MOEC_PRODUCT_CUH

#include "prelude.cuh"

enum { MOEC_TILE = 64, MOEC_TILE_DEPTH = 16, MOEC_TILE_THREADS = 256 };

/* One tile: sum[k] left(i, k) * right(k, j) for i < m, j < n, handed to store(i, j, sum). left_along: neighbours in memory
 * differ in k; right_along: they do as well. */
template <class Left, class Right, class Store>
MOEC_DEVICE void moec_tile(long m, long n, long depth, bool left_along, bool right_along, Left left,
                           Right right, Store store) {
    __shared__ __align__(16) float a[MOEC_TILE_DEPTH][MOEC_TILE + 4];
    __shared__ __align__(16) float b[MOEC_TILE_DEPTH][MOEC_TILE + 4];
    const int thread = threadIdx.x, row = thread / 16 * 4, column = thread % 16 * 4;
    float sum[4][4] = {};
    for (long from = 0; from < depth; from += MOEC_TILE_DEPTH) {
        moec_barrier();
        for (int i = 0; i < 4; i++) {
            const int at = thread + i * MOEC_TILE_THREADS;
            const int ak = left_along ? at % 16 : at / 64, am = left_along ? at / 16 : at % 64;
            const int bk = right_along ? at % 16 : at / 64, bn = right_along ? at / 16 : at % 64;
            a[ak][am] = am < m && from + ak < depth ? left(am, from + ak) : 0.0f;
            b[bk][bn] = bn < n && from + bk < depth ? right(from + bk, bn) : 0.0f;
        }
        moec_barrier();
#pragma unroll
        for (int k = 0; k < MOEC_TILE_DEPTH; k++) {
            const float4 x = *(const float4 *)&a[k][row], y = *(const float4 *)&b[k][column];
            const float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) sum[i][j] += xs[i] * ys[j];
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (row + i < m && column + j < n) store(row + i, column + j, sum[i][j]);
}

/* ---- dense, of fixed shape ---- */

extern "C" __global__ void moec_product_on_device(MoecProduct product, const float *a, const float *b,
                                                  float *c) {
    const long rows = moec_pieces(product.m, MOEC_TILE), columns = moec_pieces(product.n, MOEC_TILE);
    const long tiles = rows * columns * product.batch[0] * product.batch[1];
    for (long tile = moec_block(); tile < tiles; tile += moec_blocks()) {
        const long m = tile / columns % rows * MOEC_TILE, n = tile % columns * MOEC_TILE;
        const long j = tile / columns / rows % product.batch[1], i = tile / columns / rows / product.batch[1];
        const float *x = a + i * product.a_batch[0] + j * product.a_batch[1] + m * product.a_m;
        const float *y = b + i * product.b_batch[0] + j * product.b_batch[1] + n * product.b_n;
        float *z = c + i * product.c_batch[0] + j * product.c_batch[1] + m * product.c_m + n;
        moec_tile(
            product.m - m, product.n - n, product.k, product.a_k == 1, product.b_k == 1,
            [&](long row, long k) { return x[row * product.a_m + k * product.a_k]; },
            [&](long k, long column) { return y[k * product.b_k + column * product.b_n]; },
            [&](long row, long column, float sum) {
                float *at = z + row * product.c_m + column;
                *at = product.accumulate ? *at + sum : sum;
            });
    }
}

/* ---- over packed rows ---- */

/* c[r,n] (+)= sum[k] a[A(r),k] * b[g][k,n] for rows r of group g. The tiles of a group follow those of the groups before it;
 * there may be more blocks than tiles. */
extern "C" __global__ void moec_rows_by_weight(MoecGroupedOnDevice grouped, const int32_t *group,
                                               const int32_t *a_gather, const int32_t *b_gather,
                                               const float *a, const float *b, float *c) {
    (void)b_gather;
    const long columns = moec_pieces(grouped.n, MOEC_TILE);
    for (long task = moec_block();; task += moec_blocks()) {
        long tile = task / columns, g = 0;
        for (; g < grouped.groups; g++) {
            const long tiles = moec_pieces(group[g + 1] - group[g], MOEC_TILE);
            if (tile < tiles) break;
            tile -= tiles;
        }
        if (g == grouped.groups) return;
        const long first = group[g] + tile * MOEC_TILE, n = task % columns * MOEC_TILE;
        const float *y = b + g * grouped.b_group + n * grouped.b_n;
        float *z = c + first * grouped.c_row + n;
        moec_tile(
            group[g + 1] - first, grouped.n - n, grouped.k, true, grouped.b_k == 1,
            [&](long row, long k) {
                const long at = a_gather != NULL ? a_gather[first + row] : first + row;
                return a[at * grouped.a_row + k];
            },
            [&](long k, long column) { return y[k * grouped.b_k + column * grouped.b_n]; },
            [&](long row, long column, float sum) {
                float *at = z + row * grouped.c_row + column;
                *at = grouped.accumulate ? *at + sum : sum;
            });
    }
}

/* c[g][k,n] (+)= sum[r in g] a[A(r),k] * b[B(r),n]; an empty group gives 0. */
extern "C" __global__ void moec_rows_by_rows(MoecGroupedOnDevice grouped, const int32_t *group,
                                             const int32_t *a_gather, const int32_t *b_gather,
                                             const float *a, const float *b, float *c) {
    const long rows = moec_pieces(grouped.k, MOEC_TILE), columns = moec_pieces(grouped.n, MOEC_TILE);
    for (long tile = moec_block(); tile < grouped.groups * rows * columns; tile += moec_blocks()) {
        const long g = tile / columns / rows, k = tile / columns % rows * MOEC_TILE;
        const long n = tile % columns * MOEC_TILE, first = group[g];
        float *z = c + g * grouped.b_group + k * grouped.c_row + n;
        moec_tile(
            grouped.k - k, grouped.n - n, group[g + 1] - first, false, false,
            [&](long row, long r) {
                const long at = a_gather != NULL ? a_gather[first + r] : first + r;
                return a[at * grouped.a_row + k + row];
            },
            [&](long r, long column) {
                const long at = b_gather != NULL ? b_gather[first + r] : first + r;
                return b[at * grouped.b_k + n + column];
            },
            [&](long row, long column, float sum) {
                float *at = z + row * grouped.c_row + column;
                *at = grouped.accumulate ? *at + sum : sum;
            });
    }
}

#endif
