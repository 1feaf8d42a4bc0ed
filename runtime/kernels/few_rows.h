/* few_rows: c = a * b for a few rows of a. Reading b dominates the time, so b is read once, without
 * packing. MOEC_STREAMS rows or columns are read in parallel, each from its own contiguous part of
 * b. A single row is often too short for the hardware prefetcher to detect the sequential access.
 */
#ifndef MOEC_FEW_ROWS_H
#define MOEC_FEW_ROWS_H

#include "operands.h"

enum {
    MOEC_FEW_ROWS = 8,  /* the largest number of rows of a */
    MOEC_SIDE_ROWS = 4, /* rows of a that use a vector of b while it is in a register */
    MOEC_STREAMS = 8,   /* rows of b read side by side */
    /* bytes of each that are asked for before they are read: */
    MOEC_NEAR = 256, /* into the nearest cache */
    MOEC_FAR = 2048  /* into the second */
};

MOEC_INLINE void moec_ask_ahead(const void *from) {
    __builtin_prefetch((const char *)from + MOEC_FAR, 0, 2);
    __builtin_prefetch((const char *)from + MOEC_NEAR);
}

/* A product for one thread. */
typedef struct MoecBlockProduct {
    long m, n, k;
    MoecOperand a, b; /* lanes of a: m; lanes of b: n */
    void *c;
    long c_m;
    int accumulate;
    int rounded; /* a and b may be rounded to bf16, sums stay f32 */
    MoecType c_type;
    const struct MoecBlockProduct *next; /* product that probably follows, or NULL */
    long whole_rows;                     /* of a product that is cut for threads; 0: m */
} MoecBlockProduct;

/* ---- rows of b contiguous ---- */

/* c[i,j] += sum over the streams of factor[i][q] * from[q][j] for `wide` vectors at j. A vector of
 * b is loaded once. The order of a sum does not depend on the number of rows. */
MOEC_INLINE void moec_add_tile(const long rows, const long wide, float (*factor)[MOEC_STREAMS],
                               const void *const *from, const MoecType type, long j, float *c,
                               long c_m) {
    MoecVector sum[MOEC_SIDE_ROWS][MOEC_GROUP / 4];
#pragma GCC unroll 4
    for (long i = 0; i < rows; i++)
#pragma GCC unroll 16
        for (long v = 0; v < wide; v++)
            sum[i][v] = moec_load_vector(c + i * c_m + j + v * MOEC_LANES);
#pragma GCC unroll 8
    for (long q = 0; q < MOEC_STREAMS; q++) {
        const void *b = moec_at(from[q], j, type);
        const MoecGroup *group = b; /* of int8 */
        moec_ask_ahead(b);
#pragma GCC unroll 16
        for (long v = 0; v < wide; v++) {
            const MoecVector x =
                moec_is_groups(type)
                    ? moec_load_steps(group->steps + j % MOEC_GROUP + v * MOEC_LANES)
                    : moec_load_wide(moec_at(from[q], j + v * MOEC_LANES, type), type);
#pragma GCC unroll 4
            for (long i = 0; i < rows; i++)
                sum[i][v] +=
                    (moec_is_groups(type) ? factor[i][q] * group->scale : factor[i][q]) * x;
        }
    }
#pragma GCC unroll 4
    for (long i = 0; i < rows; i++)
#pragma GCC unroll 16
        for (long v = 0; v < wide; v++)
            moec_store_vector(c + i * c_m + j + v * MOEC_LANES, sum[i][v]);
}

/* All whole groups of columns. */
MOEC_INLINE void moec_add_groups(const long rows, long n, float (*factor)[MOEC_STREAMS],
                                 const void *const *from, float *c, long c_m) {
    const long all = MOEC_GROUP / MOEC_LANES, wide = rows == 1 || all < 4 ? all : 4;
    for (long j = 0; j < n / MOEC_GROUP * MOEC_GROUP; j += wide * MOEC_LANES)
        moec_add_tile(rows, wide, factor, from, MOEC_INT8, j, c, c_m);
}

MOEC_INLINE void moec_add_rows(const long rows, long n, float (*factor)[MOEC_STREAMS],
                               const void *const *from, const MoecType type, float *c, long c_m) {
    if (moec_is_groups(type)) {
        moec_add_groups(rows, n, factor, from, c, c_m);
        return;
    }
    const long vectors = 4 / moec_size(type), /* of the same number of bytes for all types */
        wide = rows > 1 && vectors < 4 ? 2 * vectors : vectors;
    long j = 0;
    for (; j + wide * MOEC_LANES <= n; j += wide * MOEC_LANES)
        moec_add_tile(rows, wide, factor, from, type, j, c, c_m);
    for (; j + vectors * MOEC_LANES <= n; j += vectors * MOEC_LANES)
        moec_add_tile(rows, vectors, factor, from, type, j, c, c_m);
    for (long i = 0; i < rows; i++)
        for (long p = j; p < n; p++) {
            float sum = c[i * c_m + p];
            for (long q = 0; q < MOEC_STREAMS; q++)
                sum += factor[i][q] * moec_value(moec_at(from[q], p, type), type);
            c[i * c_m + p] = sum;
        }
}

/* Row p of each stream of `length` rows: its address in b, and its factor for row i of a. The last
 * stream may have fewer rows; missing rows are its first row times 0. */
MOEC_INLINE void moec_stream_rows(const MoecOperand *b, long p, long length, long k,
                                  const MoecType type, const void **from) {
#pragma GCC unroll 8
    for (long q = 0; q < MOEC_STREAMS; q++) {
        const long row = q * length + p < k ? q * length + p : p;
        from[q] =
            b->depths == NULL ? moec_at(b->data, row * b->depth, type) : moec_element(b, 0, row);
    }
}

MOEC_INLINE void moec_stream_factors(const MoecOperand *a, long i, long p, long length, long k,
                                     float *factor) {
    for (long q = 0; q < MOEC_STREAMS; q++) {
        const long row = q * length + p;
        factor[q] = row < k ? moec_value(moec_element(a, i, row), a->type) : 0.0f;
    }
}

/* c[i,j] += sum over p of a[i,p] b[p,j] for `rows` rows from i on and rows p of the streams. */
MOEC_INLINE void moec_add_stream_rows(const MoecBlockProduct *block, long i, const long rows,
                                      long p, long length, const void *const *from,
                                      const MoecType type) {
    float factor[MOEC_SIDE_ROWS][MOEC_STREAMS], *c = (float *)block->c + i * block->c_m;
    for (long r = 0; r < rows; r++)
        moec_stream_factors(&block->a, i + r, p, length, block->k, factor[r]);
    moec_add_rows(rows, block->n, factor, from, type, c, block->c_m);
}

/* The same for all rows, columns contiguous. More than MOEC_SIDE_ROWS rows read b again from the
 * cache. */
MOEC_INLINE void moec_few_streams(const MoecBlockProduct *block, const MoecType type) {
    const long length = moec_ceil_div(block->k, MOEC_STREAMS);
    for (long p = 0; p < length; p++) {
        const void *from[MOEC_STREAMS];
        moec_stream_rows(&block->b, p, length, block->k, type, from);
        long i = 0;
        for (; i + 4 <= block->m; i += 4) moec_add_stream_rows(block, i, 4, p, length, from, type);
        if (block->m - i == 3) moec_add_stream_rows(block, i, 3, p, length, from, type);
        if (block->m - i == 2) moec_add_stream_rows(block, i, 2, p, length, from, type);
        if (block->m - i == 1) moec_add_stream_rows(block, i, 1, p, length, from, type);
    }
}

MOEC_LARGE void moec_few_by_rows(const MoecBlockProduct *block) {
    for (long i = 0; i < block->m && !block->accumulate; i++)
        memset((float *)block->c + i * block->c_m, 0, (size_t)block->n * sizeof(float));
    if (moec_is_groups(block->b.type))
        moec_few_streams(block, MOEC_INT8);
    else if (moec_is_bf16(block->b.type))
        moec_few_streams(block, MOEC_BF16);
    else if (moec_is_bytes(block->b.type))
        moec_few_streams(block, MOEC_BYTE);
    else
        moec_few_streams(block, MOEC_F32);
}

/* ---- columns of b contiguous ---- */

/* Neighbours along k of a row, and of columns that many elements apart; from a result to the
 * next. */
typedef struct MoecDots {
    long k;
    const void *a, *b;
    long b_n;
    int accumulate;
    long c_n;
} MoecDots;

/* c[j] (+)= a . b[j], `count` of them side by side; both contiguous along k. */
MOEC_INLINE void moec_dots_of(const MoecDots *dots, const MoecType a_type, const MoecType b_type,
                              const long count, float *c) {
    MoecVector sum[MOEC_STREAMS];
#pragma GCC unroll 8
    for (long q = 0; q < count; q++) sum[q] = (MoecVector){0};
    const long whole = dots->k - dots->k % MOEC_LANES;
    for (long p = 0; p < whole; p += MOEC_LANES) {
        const MoecVector x = moec_load_wide(moec_at(dots->a, p, a_type), a_type);
#pragma GCC unroll 8
        for (long q = 0; q < count; q++) {
            const void *b = moec_at(dots->b, q * dots->b_n + p, b_type);
            moec_ask_ahead(b);
            sum[q] += x * moec_load_wide(b, b_type);
        }
    }
    for (long q = 0; q < count; q++) {
        float rest = moec_vector_sum(sum[q]);
        for (long p = whole; p < dots->k; p++)
            rest += moec_value(moec_at(dots->a, p, a_type), a_type) *
                    moec_value(moec_at(dots->b, q * dots->b_n + p, b_type), b_type);
        float *to = c + q * dots->c_n;
        *to = dots->accumulate ? *to + rest : rest;
    }
}

MOEC_INLINE void moec_dots(const MoecDots *dots, MoecType a_type, MoecType b_type, const long count,
                           float *c) {
    if (moec_is_bf16(a_type) && moec_is_bf16(b_type))
        moec_dots_of(dots, MOEC_BF16, MOEC_BF16, count, c);
    else if (moec_is_bf16(a_type) && moec_is_bytes(b_type))
        moec_dots_of(dots, MOEC_BF16, MOEC_BYTE, count, c);
    else if (moec_is_bf16(a_type))
        moec_dots_of(dots, MOEC_BF16, MOEC_F32, count, c);
    else if (moec_is_bf16(b_type))
        moec_dots_of(dots, MOEC_F32, MOEC_BF16, count, c);
    else if (moec_is_bytes(b_type))
        moec_dots_of(dots, MOEC_F32, MOEC_BYTE, count, c);
    else
        moec_dots_of(dots, MOEC_F32, MOEC_F32, count, c);
}

/* The same for `rows` rows of f32 from row i on, and b in groups along k: a column j and the
 * `count` - 1 columns at multiples of `step` after it. */
MOEC_INLINE void moec_dots_of_groups(const MoecBlockProduct *block, long i, long j, long step,
                                     const long rows, const long count) {
    MoecVector sum[MOEC_SIDE_ROWS][MOEC_STREAMS];
    const float *a[MOEC_SIDE_ROWS];
#pragma GCC unroll 4
    for (long r = 0; r < rows; r++) {
        a[r] = moec_element(&block->a, i + r, 0);
#pragma GCC unroll 8
        for (long q = 0; q < count; q++) sum[r][q] = (MoecVector){0};
    }
    for (long p = 0; p < block->k; p += MOEC_GROUP) {
#pragma GCC unroll 8
        for (long q = 0; q < count; q++) {
            const MoecGroup *group =
                moec_at(block->b.data, (j + q * step) * block->b.lane + p, MOEC_INT8);
            moec_ask_ahead(group);
            MoecVector part[MOEC_SIDE_ROWS] = {{0}};
#pragma GCC unroll 16
            for (long v = 0; v < MOEC_GROUP; v += MOEC_LANES) {
                const MoecVector b = moec_load_steps(group->steps + v);
#pragma GCC unroll 4
                for (long r = 0; r < rows; r++) part[r] += moec_load_vector(a[r] + p + v) * b;
            }
#pragma GCC unroll 4
            for (long r = 0; r < rows; r++) sum[r][q] += group->scale * part[r];
        }
    }
    for (long r = 0; r < rows; r++)
        for (long q = 0; q < count; q++) {
            float *to = (float *)block->c + (i + r) * block->c_m + j + q * step;
            *to = moec_vector_sum(sum[r][q]) + (block->accumulate ? *to : 0.0f);
        }
}

/* Column j of b and the `count` - 1 columns at multiples of `step` after it. */
MOEC_INLINE void moec_few_columns(const MoecBlockProduct *block, long j, long step,
                                  const long count) {
    const MoecType a_type = block->a.type, b_type = block->b.type;
    const long b_n = block->b.lane;
    long i = 0;
    if (moec_is_groups(b_type)) {
        for (; i + 4 <= block->m; i += 4) moec_dots_of_groups(block, i, j, step, 4, count);
        for (; i + 2 <= block->m; i += 2) moec_dots_of_groups(block, i, j, step, 2, count);
        for (; i < block->m; i++) moec_dots_of_groups(block, i, j, step, 1, count);
        return;
    }
    for (; i < block->m; i++) {
        const MoecDots dots = {block->k,
                               moec_element(&block->a, i, 0),
                               moec_at(block->b.data, j * b_n, b_type),
                               step * b_n,
                               block->accumulate,
                               step};
        moec_dots(&dots, a_type, b_type, count, (float *)block->c + i * block->c_m + j);
    }
}

/* Both operands contiguous along k. */
MOEC_LARGE void moec_few_by_columns(const MoecBlockProduct *block) {
    const long step = block->n / MOEC_STREAMS;
    for (long j = 0; j < step; j++) moec_few_columns(block, j, step, MOEC_STREAMS);
    for (long j = step * MOEC_STREAMS; j < block->n; j++) moec_few_columns(block, j, 0, 1);
}

#endif
