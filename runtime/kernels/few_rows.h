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

/* ---- b in panels ---- */

enum { MOEC_PANELS = 4, MOEC_PANEL_VECTORS = MOEC_PANEL / MOEC_LANES, MOEC_DIGITS = 3 };

/* MOEC_PANEL_DEPTH terms of a row of a as integers of at most 2^22 times `scale`, a power of two:
 * within 2^-22 of the largest term. An integer has three digits of 8 bits with a sign, the lowest
 * first. digits[d][0][w] has those of the terms 8 w + 0, 2, 4, 6, and digits[d][1][w] of 8 w + 1,
 * 3, 5, 7. This is the order of the integers in MoecInt4 and MoecTernary. */
typedef struct MoecDigits {
    uint8_t digits[MOEC_DIGITS][2][MOEC_PANEL_DEPTH / 8][4];
    int32_t eight; /* 8 times the sum of the integers */
    float scale;
} MoecDigits;

/* Bytes by bytes with sums of four adjacent products: integers of b, 0 .. 15, by digits of a. */
#ifdef __AVX512BW__
#define MOEC_BYTES_HERE
typedef __m512i MoecBytes;
MOEC_INLINE MoecBytes moec_every(const void *four) {
    int32_t word;
    memcpy(&word, four, sizeof word);
    return _mm512_set1_epi32(word);
}
#ifdef __AVX512VNNI__
MOEC_INLINE MoecBytes moec_add_bytes(MoecBytes sum, MoecBytes b, MoecBytes a) {
    return _mm512_dpbusd_epi32(sum, b, a);
}
MOEC_INLINE MoecBytes moec_sums(MoecBytes sum) { return sum; }
#else
MOEC_INLINE MoecBytes moec_add_bytes(MoecBytes sum, MoecBytes b, MoecBytes a) {
    return _mm512_add_epi16(sum, _mm512_maddubs_epi16(b, a));
}
MOEC_INLINE MoecBytes moec_sums(MoecBytes sum) {
    return _mm512_madd_epi16(sum, _mm512_set1_epi16(1));
}
#endif
#elif defined(__AVX2__) && !defined(__AVX512F__)
#define MOEC_BYTES_HERE
typedef __m256i MoecBytes;
MOEC_INLINE MoecBytes moec_every(const void *four) {
    int32_t word;
    memcpy(&word, four, sizeof word);
    return _mm256_set1_epi32(word);
}
/* Eight sums of two products are at most 8 * 2 * 15 * 128 < 2^15. */
MOEC_INLINE MoecBytes moec_add_bytes(MoecBytes sum, MoecBytes b, MoecBytes a) {
    return _mm256_add_epi16(sum, _mm256_maddubs_epi16(b, a));
}
MOEC_INLINE MoecBytes moec_sums(MoecBytes sum) {
    return _mm256_madd_epi16(sum, _mm256_set1_epi16(1));
}
#endif

#ifdef MOEC_BYTES_HERE

/* Bytes of even and of odd terms, from bytes of all in their order. */
MOEC_INLINE void moec_split_pairs(const uint8_t *bytes, void *even, void *odd) {
    typedef uint16_t Pairs __attribute__((vector_size(MOEC_PANEL_DEPTH)));
    typedef uint8_t Half __attribute__((vector_size(MOEC_PANEL_DEPTH / 2)));
    Pairs pairs;
    memcpy(&pairs, bytes, sizeof pairs);
    const Half low = __builtin_convertvector(pairs & 0xFF, Half),
               high = __builtin_convertvector(pairs >> 8, Half);
    memcpy(even, &low, sizeof low);
    memcpy(odd, &high, sizeof high);
}

/* The largest size of MOEC_PANEL_DEPTH terms, as bits. Infinity and NaN have more than finite
 * numbers. */
MOEC_INLINE uint32_t moec_most_bits(const float *x) {
    MoecWords largest = {0};
    for (int i = 0; i < MOEC_PANEL_DEPTH; i += MOEC_LANES) {
        const MoecWords size = (MoecWords)moec_load_vector(x + i) & 0x7FFFFFFFu,
                        larger = (MoecWords)(size > largest);
        largest = (size & larger) | (largest & ~larger);
    }
    uint32_t most = 0;
    for (int i = 0; i < MOEC_LANES; i++) most = largest[i] > most ? largest[i] : most;
    return most;
}

/* The bytes of an integer plus 128 in each of its three digits are the digits plus 128. */
MOEC_INLINE void moec_digits_of(const float *x, MoecDigits *made) {
    const uint32_t most = moec_most_bits(x), infinite = 0x7F800000u;
    const int some = most >= moec_bits(0x1p-100f) && most < infinite;
    const float power = some ? moec_from_bits(most & infinite) : 1.0f;
    uint8_t digits[MOEC_DIGITS][MOEC_PANEL_DEPTH];
    MoecWords sum = {0};
    for (int i = 0; i < MOEC_PANEL_DEPTH; i += MOEC_LANES) {
        typedef int32_t Signed __attribute__((vector_size(MOEC_LANES * 4)));
        typedef uint8_t Bytes __attribute__((vector_size(MOEC_LANES)));
        const MoecVector term = moec_load_vector(x + i) * (0x1p21f / power);
        const MoecWords half = ((MoecWords)term & 0x80000000u) | moec_bits(0.5f),
                        nearest =
                            (MoecWords) __builtin_convertvector(term + (MoecVector)half, Signed),
                        whole = nearest & (some ? ~0u : 0u);
        sum += whole;
#pragma GCC unroll 3
        for (int d = 0; d < MOEC_DIGITS; d++) {
            const Bytes digit = __builtin_convertvector((whole + 0x808080u) >> 8 * d, Bytes) ^ 0x80;
            memcpy(digits[d] + i, &digit, sizeof digit);
        }
    }
    for (int d = 0; d < MOEC_DIGITS; d++)
        moec_split_pairs(digits[d], made->digits[d][0], made->digits[d][1]);
    made->eight = 0;
    for (int i = 0; i < MOEC_LANES; i++) made->eight += 8 * (int32_t)sum[i];
    made->scale = most < infinite ? 0x1p-21f * power : moec_from_bits(infinite | 1u << 22);
}

/* Bytes of the even and the odd terms of words w of 4 of a part. */
MOEC_INLINE void moec_part_bytes(const void *panel, long p, const int w, long column,
                                 const MoecType type, MoecBytes *made) {
    const MoecWords words = *(const MoecWords *)moec_panel_words(panel, p, w, column, type);
    const int ternary = moec_is_ternary(type), first = ternary ? w % 2 * 4 : 0;
    const uint32_t mask = ternary ? 0x03030303u : 0x0F0F0F0Fu;
    made[0] = (MoecBytes)(words >> first & mask);
    made[1] = (MoecBytes)(words >> (ternary ? first + 2 : 4) & mask);
}

/* The sum of the terms of a row times -8, or -1 of ternary integers, which are stored from 0 on. */
MOEC_INLINE MoecWords moec_less_eight(const MoecDigits *x, const MoecType type) {
    return (MoecWords){0} - (uint32_t)(moec_is_ternary(type) ? x->eight / 8 : x->eight);
}

MOEC_INLINE MoecVector moec_part_sum(MoecWords whole, const MoecDigits *x, MoecVector scale) {
    typedef int32_t Signed __attribute__((vector_size(MOEC_LANES * 4)));
    return scale * x->scale * __builtin_convertvector((Signed)whole, MoecVector);
}

/* Adds the terms of one part of a panel for `rows` rows: exact sums of integers, rounded once. With
 * 32 registers, all bytes of the part stay in registers; with 16, the sums of two vectors do. */
MOEC_INLINE void moec_add_part(const void *panel, const MoecDigits *const *a, long p,
                               const long rows, const MoecType type,
                               MoecVector sum[4][MOEC_PANEL_VECTORS]) {
#ifdef __AVX512BW__
    MoecBytes b[MOEC_PANEL_DEPTH / 8][2];
#pragma GCC unroll 4
    for (int w = 0; w < MOEC_PANEL_DEPTH / 8; w++) moec_part_bytes(panel, p, w, 0, type, b[w]);
    const MoecVector scale = moec_panel_scales(panel, p, 0, type);
#pragma GCC unroll 4
    for (long r = 0; r < rows; r++) {
        const MoecDigits *x = a[r] + p;
        MoecWords whole = moec_less_eight(x, type);
#pragma GCC unroll 3
        for (int d = 0; d < MOEC_DIGITS; d++) {
            MoecBytes digit = {0};
#pragma GCC unroll 4
            for (int w = 0; w < MOEC_PANEL_DEPTH / 8; w++) {
                digit = moec_add_bytes(digit, b[w][0], moec_every(x->digits[d][0][w]));
                digit = moec_add_bytes(digit, b[w][1], moec_every(x->digits[d][1][w]));
            }
            whole += (MoecWords)moec_sums(digit) << 8 * d;
        }
        sum[r][0] += moec_part_sum(whole, x, scale);
    }
#else
    for (long r = 0; r < rows; r++) {
        const MoecDigits *x = a[r] + p;
        MoecBytes digit[2][MOEC_DIGITS];
#pragma GCC unroll 3
        for (int d = 0; d < MOEC_DIGITS; d++) digit[0][d] = digit[1][d] = (MoecBytes){0};
        /* GCC would keep digits of several panels on the stack */
        __asm__ volatile("" ::: "memory");
#pragma GCC unroll 4
        for (int w = 0; w < MOEC_PANEL_DEPTH / 8; w++) {
            MoecBytes b[2][2];
            moec_part_bytes(panel, p, w, 0, type, b[0]);
            moec_part_bytes(panel, p, w, MOEC_LANES, type, b[1]);
#pragma GCC unroll 3
            for (int d = 0; d < MOEC_DIGITS; d++)
#pragma GCC unroll 2
                for (int half = 0; half < 2; half++) {
                    const MoecBytes four = moec_every(x->digits[d][half][w]);
                    digit[0][d] = moec_add_bytes(digit[0][d], b[0][half], four);
                    digit[1][d] = moec_add_bytes(digit[1][d], b[1][half], four);
                    /* GCC would add all products at the end, from the stack. */
                    __asm__("" : "+x"(digit[0][d]), "+x"(digit[1][d]));
                }
        }
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            MoecWords whole = moec_less_eight(x, type);
#pragma GCC unroll 3
            for (int d = 0; d < MOEC_DIGITS; d++)
                whole += (MoecWords)moec_sums(digit[v][d]) << 8 * d;
            sum[r][v] += moec_part_sum(whole, x, moec_panel_scales(panel, p, v * MOEC_LANES, type));
        }
    }
#endif
}

#else

MOEC_INLINE void moec_add_part(const void *panel, const float *const *a, long p, const long rows,
                               const MoecType type, MoecVector sum[4][MOEC_PANEL_VECTORS]) {
    MoecVector made[4][MOEC_PANEL_VECTORS] = {0};
#pragma GCC unroll 32
    for (int d = 0; d < MOEC_PANEL_DEPTH; d++)
#pragma GCC unroll 4
        for (long v = 0; v < MOEC_PANEL_VECTORS; v++) {
            const MoecVector b = moec_panel_steps(
                moec_panel_words(panel, p, d / 8, v * MOEC_LANES, type), d / 8, d % 8, type);
#pragma GCC unroll 4
            for (long r = 0; r < rows; r++) made[r][v] += a[r][p * MOEC_PANEL_DEPTH + d] * b;
        }
#pragma GCC unroll 4
    for (long v = 0; v < MOEC_PANEL_VECTORS; v++)
#pragma GCC unroll 4
        for (long r = 0; r < rows; r++)
            sum[r][v] += moec_panel_scales(panel, p, v * MOEC_LANES, type) * made[r][v];
}

#endif

#ifdef MOEC_BYTES_HERE
typedef MoecDigits MoecTerms;
#else
typedef float MoecTerms;
#endif

/* c[i,j] (+)= a[i] . b[j]: `rows` rows from i on, columns of `panels` panels that begin `step`
 * columns apart, the first at j. The sums of an element have the same order for all numbers of
 * rows. a: the terms of each row. */
MOEC_INLINE void moec_few_panels(const MoecBlockProduct *block, const MoecTerms *const *a, long i,
                                 long j, long step, const long rows, const long panels,
                                 const MoecType type) {
    const long bytes =
        moec_is_ternary(type) ? (long)sizeof(MoecTernary) / 2 : (long)sizeof(MoecInt4);
    MoecVector sum[MOEC_PANELS][4][MOEC_PANEL_VECTORS] = {0};
    const void *from[MOEC_PANELS];
    for (long q = 0; q < panels; q++)
        from[q] = moec_at(block->b.data, (j + q * step) * block->b.lane, type);
    for (long p = 0; p < block->k / MOEC_PANEL_DEPTH; p++) {
#pragma GCC unroll 4
        for (long q = 0; q < panels; q++) {
            for (long at = 0; at < bytes; at += 64)
                moec_ask_ahead((const char *)from[q] + p * bytes + at);
            moec_add_part(from[q], a + i, p, rows, type, sum[q]);
        }
    }
    for (long q = 0; q < panels; q++)
        for (long r = 0; r < rows; r++) {
            const long column = j + q * step, width = moec_least(block->n - column, MOEC_PANEL);
            float *to = (float *)block->c + (i + r) * block->c_m + column, made[MOEC_PANEL];
            for (long v = 0; v < MOEC_PANEL_VECTORS; v++)
                moec_store_vector(made + v * MOEC_LANES, sum[q][r][v]);
            for (long x = 0; x < width; x++) to[x] = made[x] + (block->accumulate ? to[x] : 0.0f);
        }
}

/* A single row reads several panels side by side, several rows one. terms: memory for those of all
 * rows. */
MOEC_INLINE void moec_few_integers(const MoecBlockProduct *block, void *terms,
                                   const MoecType type) {
    const MoecTerms *a[MOEC_FEW_ROWS];
    for (long i = 0; i < block->m; i++) {
        const float *x = moec_element(&block->a, i, 0);
#ifdef MOEC_BYTES_HERE
        MoecDigits *digits = (MoecDigits *)terms + i * (block->k / MOEC_PANEL_DEPTH);
        for (long p = 0; p < block->k / MOEC_PANEL_DEPTH; p++)
            moec_digits_of(x + p * MOEC_PANEL_DEPTH, digits + p);
        a[i] = digits;
#else
        a[i] = x;
        (void)terms;
#endif
    }
    const long all = moec_ceil_div(block->n, MOEC_PANEL),
               step = block->m == 1 ? all / MOEC_PANELS : 0;
    for (long q = 0; q < step; q++)
        moec_few_panels(block, a, 0, q * MOEC_PANEL, step * MOEC_PANEL, 1, MOEC_PANELS, type);
    for (long q = step * MOEC_PANELS; q < all; q++) {
        long i = 0;
        for (; i + 4 <= block->m; i += 4)
            moec_few_panels(block, a, i, q * MOEC_PANEL, 0, 4, 1, type);
        for (; i + 2 <= block->m; i += 2)
            moec_few_panels(block, a, i, q * MOEC_PANEL, 0, 2, 1, type);
        for (; i < block->m; i++) moec_few_panels(block, a, i, q * MOEC_PANEL, 0, 1, 1, type);
    }
}

MOEC_LARGE void moec_few_int4(const MoecBlockProduct *block, void *terms) {
    moec_few_integers(block, terms, MOEC_INT4);
}

MOEC_LARGE void moec_few_ternary(const MoecBlockProduct *block, void *terms) {
    moec_few_integers(block, terms, MOEC_TERNARY);
}

/* Computes the product if it has few rows and the memory layout of b permits reading without
 * packing; returns whether it did. The order of the sums differs from that of tiles, so the choice
 * depends on the whole product: a short block at its end must not depend on the number of
 * threads. */
MOEC_FUNCTION int moec_block_few_rows(const MoecBlockProduct *block, void *scratch, size_t bytes) {
    const MoecOperand *a = &block->a, *b = &block->b;
    const long rows = block->whole_rows > 0 ? block->whole_rows : block->m;
    if (rows > MOEC_FEW_ROWS || b->lanes != NULL) return 0;
    if (moec_is_panels(b->type)) {
        const size_t groups = (size_t)(block->m * (block->k / MOEC_PANEL_DEPTH));
        if (!moec_is_f32(a->type) || a->depth != 1 || a->depths != NULL ||
            groups * sizeof(MoecDigits) > bytes)
            return 0;
        if (moec_is_ternary(b->type))
            moec_few_ternary(block, scratch);
        else
            moec_few_int4(block, scratch);
        return 1;
    }
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

#endif
