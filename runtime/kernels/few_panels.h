/* few_panels: products of a few rows of a with b in panels (abi.h), read without unpacking.
 *
 * Integers, and numbers of E2M1 times 2, are multiplied as bytes, as far as the processor has that
 * instruction: the terms of a become integers of three bytes. Other numbers become floats. */
#ifndef MOEC_FEW_PANELS_H
#define MOEC_FEW_PANELS_H

#include "few_rows.h"

enum { MOEC_PANELS = 4, MOEC_PANEL_VECTORS = MOEC_PANEL / MOEC_LANES, MOEC_DIGITS = 3 };

/* MOEC_PANEL_DEPTH terms of a row of a as integers of at most 2^22 times `scale`, a power of two:
 * within 2^-22 of the largest term. An integer has three digits of 8 bits with a sign, the lowest
 * first. digits[d][0][w] has those of the terms 8 w + 0, 2, 4, 6, and digits[d][1][w] of 8 w + 1,
 * 3, 5, 7. This is the order of the numbers in panels. */
typedef struct MoecDigits {
    uint8_t digits[MOEC_DIGITS][2][MOEC_PANEL_DEPTH / 8][4];
    int32_t sum[2]; /* of the integers of each half */
    float scale;
} MoecDigits;

/* Bytes by bytes with sums of four adjacent products: numbers of b, from 0 on, by digits of a.
 * Without sums of 32 bits, eight sums of two products of int4 are at most 8 * 2 * 15 * 128 < 2^15,
 * and four of E2M1 at most 4 * 2 * 24 * 128. */
#ifdef __AVX512BW__
#define MOEC_BYTES_HERE
typedef __m512i MoecBytes;
MOEC_INLINE MoecBytes moec_from_table(__m128i table, MoecWords bytes) {
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), (MoecBytes)bytes);
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
MOEC_INLINE MoecBytes moec_from_table(__m128i table, MoecWords bytes) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), (MoecBytes)bytes);
}
MOEC_INLINE MoecBytes moec_add_bytes(MoecBytes sum, MoecBytes b, MoecBytes a) {
    return _mm256_add_epi16(sum, _mm256_maddubs_epi16(b, a));
}
MOEC_INLINE MoecBytes moec_sums(MoecBytes sum) {
    return _mm256_madd_epi16(sum, _mm256_set1_epi16(1));
}
#endif

#ifdef MOEC_BYTES_HERE

MOEC_INLINE MoecBytes moec_every(const void *four) {
    uint32_t word;
    memcpy(&word, four, sizeof word);
    return (MoecBytes)((MoecWords){0} + word);
}

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
    MoecWords sum[2] = {{0}};
    for (int i = 0; i < MOEC_PANEL_DEPTH; i += MOEC_LANES) {
        typedef int32_t Signed __attribute__((vector_size(MOEC_LANES * 4)));
        typedef uint8_t Bytes __attribute__((vector_size(MOEC_LANES)));
        const MoecVector term = moec_load_vector(x + i) * (0x1p21f / power);
        const MoecWords half = ((MoecWords)term & 0x80000000u) | moec_bits(0.5f),
                        nearest =
                            (MoecWords) __builtin_convertvector(term + (MoecVector)half, Signed),
                        whole = nearest & (some ? ~0u : 0u);
        sum[i / 16] += whole;
#pragma GCC unroll 3
        for (int d = 0; d < MOEC_DIGITS; d++) {
            const Bytes digit = __builtin_convertvector((whole + 0x808080u) >> 8 * d, Bytes) ^ 0x80;
            memcpy(digits[d] + i, &digit, sizeof digit);
        }
    }
    for (int d = 0; d < MOEC_DIGITS; d++)
        moec_split_pairs(digits[d], made->digits[d][0], made->digits[d][1]);
    for (int half = 0; half < 2; half++) {
        made->sum[half] = 0;
        for (int i = 0; i < MOEC_LANES; i++) made->sum[half] += (int32_t)sum[half][i];
    }
    made->scale = most < infinite ? 0x1p-21f * power : moec_from_bits(infinite | 1u << 22);
}

/* Bytes of the even and the odd terms of words w of 4 of a part: numbers plus moec_zero. */
MOEC_INLINE void moec_part_bytes(const void *panel, long p, const int w, long column,
                                 const MoecType type, MoecBytes *made) {
    const MoecWords words = *(const MoecWords *)moec_panel_words(panel, p, w, column, type);
    const int ternary = moec_is_ternary(type), first = ternary ? w % 2 * 4 : 0;
    const uint32_t mask = ternary ? 0x03030303u : 0x0F0F0F0Fu;
    const MoecWords even = words >> first & mask, odd = words >> (ternary ? first + 2 : 4) & mask;
    const __m128i twice = _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
    made[0] = moec_is_e2m1(type) ? moec_from_table(twice, even) : (MoecBytes)even;
    made[1] = moec_is_e2m1(type) ? moec_from_table(twice, odd) : (MoecBytes)odd;
}
MOEC_INLINE int32_t moec_zero(const MoecType type) {
    return moec_is_ternary(type) ? 1 : moec_is_e2m1(type) ? 12 : 8;
}

/* A part is one sum of integers, or one per half. */
MOEC_INLINE int moec_part_sums(const MoecType type) {
#ifdef __AVX512VNNI__
    return moec_is_nvfp4(type) ? 2 : 1;
#else
    return moec_is_e2m1(type) ? 2 : 1;
#endif
}

/* The terms of sum h times -moec_zero. */
MOEC_INLINE MoecWords moec_less_zero(const MoecDigits *x, int h, const MoecType type) {
    const int32_t sum = moec_part_sums(type) == 2 ? x->sum[h] : x->sum[0] + x->sum[1];
    return (MoecWords){0} - (uint32_t)(moec_zero(type) * sum);
}

MOEC_INLINE MoecVector moec_part_sum(MoecWords whole, const MoecDigits *x, MoecVector scale) {
    typedef int32_t Signed __attribute__((vector_size(MOEC_LANES * 4)));
    return scale * x->scale * __builtin_convertvector((Signed)whole, MoecVector);
}

/* Adds the terms of one part of a panel for `rows` rows: exact sums of integers, rounded once. With
 * 32 registers, all bytes of the part stay in registers; with 16, the sums of two vectors do. */
MOEC_INLINE void moec_add_bytes_of(const void *panel, const void *const *a, long p, const long rows,
                                   const MoecType type, MoecVector sum[4][MOEC_PANEL_VECTORS]) {
    const int sums = moec_part_sums(type), words = MOEC_PANEL_DEPTH / 8 / sums;
#ifdef __AVX512BW__
    MoecBytes b[MOEC_PANEL_DEPTH / 8][2];
#pragma GCC unroll 4
    for (int w = 0; w < MOEC_PANEL_DEPTH / 8; w++) moec_part_bytes(panel, p, w, 0, type, b[w]);
#pragma GCC unroll 2
    for (int h = 0; h < sums; h++) {
        const MoecVector scale = moec_panel_scales(panel, p, h, 0, type);
#pragma GCC unroll 4
        for (long r = 0; r < rows; r++) {
            const MoecDigits *x = (const MoecDigits *)a[r] + p;
            MoecWords whole = moec_less_zero(x, h, type);
#pragma GCC unroll 3
            for (int d = 0; d < MOEC_DIGITS; d++) {
                MoecBytes digit = {0};
#pragma GCC unroll 4
                for (int w = h * words; w < (h + 1) * words; w++) {
                    digit = moec_add_bytes(digit, b[w][0], moec_every(x->digits[d][0][w]));
                    digit = moec_add_bytes(digit, b[w][1], moec_every(x->digits[d][1][w]));
                }
                whole += (MoecWords)moec_sums(digit) << 8 * d;
            }
            sum[r][0] += moec_part_sum(whole, x, scale);
        }
    }
#else
    for (long r = 0; r < rows; r++) {
        const MoecDigits *x = (const MoecDigits *)a[r] + p;
#pragma GCC unroll 2
        for (int h = 0; h < sums; h++) {
            MoecBytes digit[2][MOEC_DIGITS];
#pragma GCC unroll 3
            for (int d = 0; d < MOEC_DIGITS; d++) digit[0][d] = digit[1][d] = (MoecBytes){0};
            /* GCC would keep digits of several panels on the stack */
            __asm__ volatile("" ::: "memory");
#pragma GCC unroll 4
            for (int w = h * words; w < (h + 1) * words; w++) {
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
                MoecWords whole = moec_less_zero(x, h, type);
#pragma GCC unroll 3
                for (int d = 0; d < MOEC_DIGITS; d++)
                    whole += (MoecWords)moec_sums(digit[v][d]) << 8 * d;
                sum[r][v] +=
                    moec_part_sum(whole, x, moec_panel_scales(panel, p, h, v * MOEC_LANES, type));
            }
        }
    }
#endif
}

MOEC_INLINE int moec_by_bytes(const MoecType type) { return !moec_is_e4m3(type); }

#else

MOEC_INLINE void moec_digits_of(const float *x, MoecDigits *made) { (void)x, (void)made; }
MOEC_INLINE void moec_add_bytes_of(const void *panel, const void *const *a, long p, const long rows,
                                   const MoecType type, MoecVector sum[4][MOEC_PANEL_VECTORS]) {
    (void)panel, (void)a, (void)p, (void)rows, (void)type, (void)sum;
}
MOEC_INLINE int moec_by_bytes(const MoecType type) {
    (void)type;
    return 0;
}

#endif

/* The same with floats: the sum of each half is multiplied by its scale. */
MOEC_INLINE void moec_add_floats_of(const void *panel, const void *const *a, long p,
                                    const long rows, const MoecType type,
                                    MoecVector sum[4][MOEC_PANEL_VECTORS]) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        MoecVector made[4][MOEC_PANEL_VECTORS] = {0};
#pragma GCC unroll 16
        for (int d = half * 16; d < half * 16 + 16; d++)
#pragma GCC unroll 4
            for (long v = 0; v < MOEC_PANEL_VECTORS; v++) {
                const MoecVector b = moec_panel_numbers(panel, p, d, v * MOEC_LANES, type);
#pragma GCC unroll 4
                for (long r = 0; r < rows; r++)
                    made[r][v] += ((const float *)a[r])[p * MOEC_PANEL_DEPTH + d] * b;
            }
#pragma GCC unroll 4
        for (long v = 0; v < MOEC_PANEL_VECTORS; v++)
#pragma GCC unroll 4
            for (long r = 0; r < rows; r++)
                sum[r][v] += moec_panel_scales(panel, p, half, v * MOEC_LANES, type) * made[r][v];
    }
}

/* c[i,j] (+)= a[i] . b[j]: `rows` rows from i on, columns of `panels` panels that begin `step`
 * columns apart, the first at j. The sums of an element have the same order for all numbers of
 * rows. a: the terms of each row, digits or floats. */
MOEC_INLINE void moec_few_panels(const MoecBlockProduct *block, const void *const *a, long i,
                                 long j, long step, const long rows, const long panels,
                                 const MoecType type) {
    const long bytes = moec_part_size(type);
    MoecVector sum[MOEC_PANELS][4][MOEC_PANEL_VECTORS] = {0};
    const void *from[MOEC_PANELS];
    for (long q = 0; q < panels; q++)
        from[q] = moec_at(block->b.data, (j + q * step) * block->b.lane, type);
    for (long p = 0; p < block->k / MOEC_PANEL_DEPTH; p++) {
#pragma GCC unroll 4
        for (long q = 0; q < panels; q++) {
            for (long at = 0; at < bytes; at += 64)
                moec_ask_ahead((const char *)from[q] + p * bytes + at);
            if (moec_by_bytes(type))
                moec_add_bytes_of(from[q], a + i, p, rows, type, sum[q]);
            else
                moec_add_floats_of(from[q], a + i, p, rows, type, sum[q]);
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

/* A single row reads several panels side by side, several rows one. digits: memory for those of all
 * rows. */
MOEC_INLINE void moec_few_of_type(const MoecBlockProduct *block, MoecDigits *digits,
                                  const MoecType type) {
    const void *a[MOEC_FEW_ROWS];
    const long parts = block->k / MOEC_PANEL_DEPTH;
    for (long i = 0; i < block->m; i++) {
        const float *x = moec_element(&block->a, i, 0);
        a[i] = x;
        if (!moec_by_bytes(type)) continue;
        for (long p = 0; p < parts; p++)
            moec_digits_of(x + p * MOEC_PANEL_DEPTH, digits + i * parts + p);
        a[i] = digits + i * parts;
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

#define MOEC_FEW(TYPE)                                                                             \
    MOEC_LARGE void moec_few_##TYPE(const MoecBlockProduct *block, MoecDigits *digits) {           \
        moec_few_of_type(block, digits, MOEC_##TYPE);                                              \
    }
MOEC_PANEL_TYPES(MOEC_FEW)
#undef MOEC_FEW

/* The product, if rows of a are floats one after the other; returns whether it is done. */
MOEC_FUNCTION int moec_block_few_panels(const MoecBlockProduct *block, void *scratch,
                                        size_t bytes) {
    const MoecOperand *a = &block->a;
    const size_t groups = (size_t)(block->m * (block->k / MOEC_PANEL_DEPTH));
    if (!moec_is_f32(a->type) || a->depth != 1 || a->depths != NULL ||
        groups * sizeof(MoecDigits) > bytes)
        return 0;
    (void)scratch; /* a program without panels */
#define MOEC_FEW(TYPE)                                                                             \
    if (block->b.type == MOEC_##TYPE) moec_few_##TYPE(block, scratch);
    MOEC_PANEL_TYPES(MOEC_FEW)
#undef MOEC_FEW
    return 1;
}

#endif
