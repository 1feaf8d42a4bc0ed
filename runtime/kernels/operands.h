/* operands: what a product multiplies, and how it is packed.
 *
 * Operands are f32 or bf16, b also in groups (see MoecGroup), without tables. A panel holds them as
 * words of 32 bits in the order in which a tile reads them. A word is one number as a float; where
 * the processor multiplies pairs of bf16 (MOEC_HAS_PAIRS) and the product rounds what it
 * multiplies, it is two neighbours along k as bf16, the first in the lower half. The order of the
 * words is the same, so that one tile serves both.
 *
 * A stand-alone program says before it includes the kernels which of these it has none of; what
 * only those need is then not compiled.
 */
#ifndef MOEC_OPERANDS_H
#define MOEC_OPERANDS_H

#include "abi.h"
#include "prelude.h"

#ifndef MOEC_BF16_OPERANDS
#define MOEC_BF16_OPERANDS 1
#endif
#ifndef MOEC_INT8_OPERANDS
#define MOEC_INT8_OPERANDS 1
#endif
#ifndef MOEC_ROUNDED_PRODUCTS
#define MOEC_ROUNDED_PRODUCTS 1
#endif

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
enum { MOEC_TILE_N = 2 * MOEC_LANES };

/* A program that calls kernels which were compiled apart does not read the thousands of lines of
 * that header. */
#if defined(__AVX512BF16__) && defined(__AVX512BW__) && defined(__AVX512VL__) &&                   \
    !defined(__clang__) && !defined(MOEC_KERNELS_APART) && MOEC_ROUNDED_PRODUCTS
#define MOEC_PAIRS_HERE
#include <immintrin.h>
enum { MOEC_HAS_PAIRS = 1 };
#else
enum { MOEC_HAS_PAIRS = 0 };
#endif

typedef float MoecVector __attribute__((vector_size(MOEC_LANES * 4), aligned(4), may_alias));
typedef float MoecFour __attribute__((vector_size(16)));
typedef uint32_t MoecWords __attribute__((vector_size(MOEC_LANES * 4), aligned(4), may_alias));
typedef uint16_t MoecHalves __attribute__((vector_size(MOEC_LANES * 2), aligned(2), may_alias));

/* An operand seen as lanes (rows of a, columns of b) by depth (k): element (i, p) is data[i*lane +
 * p*depth], where i or p goes through a table when there is one. Steps count elements. */
typedef struct MoecOperand {
    const void *data;
    long lane, depth;
    const int *lanes, *depths;
    MoecType type;
} MoecOperand;

MOEC_INLINE long moec_least(long a, long b) { return a < b ? a : b; }
MOEC_INLINE long moec_ceil_div(long size, long part) { return (size + part - 1) / part; }

/* Constants where the program has no operands of that type. */
MOEC_INLINE int moec_is_bf16(MoecType type) { return MOEC_BF16_OPERANDS && type == MOEC_BF16; }
MOEC_INLINE int moec_is_groups(MoecType type) { return MOEC_INT8_OPERANDS && type == MOEC_INT8; }
MOEC_INLINE int moec_is_f32(MoecType type) { return !moec_is_bf16(type) && !moec_is_groups(type); }

/* Element `place` of an array of that type; where there are groups, the group that begins there. */
MOEC_INLINE const void *moec_at(const void *data, long place, MoecType type) {
    if (moec_is_groups(type)) return (const MoecGroup *)data + place / MOEC_GROUP;
    return (const char *)data + place * (moec_is_bf16(type) ? 2 : 4);
}
MOEC_INLINE void *moec_to(void *data, long place, MoecType type) {
    return (char *)data + place * (moec_is_bf16(type) ? 2 : 4);
}
MOEC_INLINE float moec_value(const void *element, MoecType type) {
    return moec_is_bf16(type) ? moec_load(*(const MoecBf16 *)element) : *(const float *)element;
}

MOEC_INLINE MoecVector moec_load_vector(const float *x) { return *(const MoecVector *)x; }
MOEC_INLINE void moec_store_vector(float *x, MoecVector value) { *(MoecVector *)x = value; }
/* Each half in a word of its own. GCC makes four instructions of a conversion that AVX-512 has as
 * one. */
MOEC_INLINE MoecWords moec_widen(const void *x) {
#if defined(__AVX512F__) && !defined(__clang__)
    typedef int16_t Halves __attribute__((vector_size(32)));
    typedef int32_t Words __attribute__((vector_size(64)));
    const Halves halves = (Halves) * (const MoecHalves *)x;
    return (MoecWords)__builtin_ia32_pmovzxwd512_mask(halves, (Words){0}, 0xffff);
#else
    return __builtin_convertvector(*(const MoecHalves *)x, MoecWords);
#endif
}

/* Steps of a group as floats. */
MOEC_INLINE MoecVector moec_load_steps(const signed char *x) {
#if defined(__AVX512F__) && !defined(__clang__)
    typedef char Bytes __attribute__((vector_size(16), aligned(1), may_alias));
    typedef int32_t Words __attribute__((vector_size(64)));
    const Words steps =
        (Words)__builtin_ia32_pmovsxbd512_mask(*(const Bytes *)x, (Words){0}, 0xffff);
    return __builtin_convertvector(steps, MoecVector);
#else
    typedef signed char Bytes __attribute__((vector_size(MOEC_LANES), aligned(1), may_alias));
    return __builtin_convertvector(*(const Bytes *)x, MoecVector);
#endif
}

/* As floats, whatever they are stored as, but not groups. */
MOEC_INLINE MoecVector moec_load_wide(const void *x, MoecType type) {
    if (!moec_is_bf16(type)) return *(const MoecVector *)x;
    return (MoecVector)(moec_widen(x) << 16);
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
    long place = 0;
    if (operand.lanes != NULL)
        operand.lanes += lane;
    else
        place += lane * operand.lane;
    if (operand.depths != NULL)
        operand.depths += depth;
    else
        place += depth * operand.depth;
    operand.data = moec_at(operand.data, place, operand.type);
    return operand;
}

/* The address of element (lane, depth). */
MOEC_INLINE const void *moec_element(const MoecOperand *operand, long lane, long depth) {
    const long i = operand->lanes != NULL ? operand->lanes[lane] : lane;
    const long p = operand->depths != NULL ? operand->depths[depth] : depth;
    return moec_at(operand->data, i * operand->lane + p * operand->depth, operand->type);
}

/* Element (lane, depth). */
MOEC_INLINE float moec_element_value(const MoecOperand *operand, long lane, long depth) {
    if (!moec_is_groups(operand->type))
        return moec_value(moec_element(operand, lane, depth), operand->type);
    const long place = lane * operand->lane + depth * operand->depth;
    const MoecGroup *group = moec_at(operand->data, place, MOEC_INT8);
    return group->scale * (float)group->steps[place % MOEC_GROUP];
}

/* ---- squares of words ---- */

#if defined(__AVX512F__) && !defined(__clang__)

typedef int32_t MoecPlaces __attribute__((vector_size(MOEC_LANES * 4)));
enum { MOEC_TRANSPOSES = 1 };

/* rows[i][j] and rows[j][i] change places: the quarters of blocks of twice `step`, for every step.
 */
MOEC_INLINE void moec_transpose(MoecVector rows[MOEC_LANES]) {
#pragma GCC unroll 4
    for (int step = 1; step < MOEC_LANES; step *= 2) {
        MoecPlaces low = {0}, high = {0};
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

MOEC_INLINE void moec_transpose(MoecVector rows[MOEC_LANES]) { (void)rows; }

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
            rows[i] = moec_load_wide(moec_element(x, first + i, p), x->type);
        moec_transpose(rows);
#pragma GCC unroll 16
        for (long q = 0; q < MOEC_LANES; q++) moec_store_vector(out + (p + q) * width, rows[q]);
    }
    return p;
}

/* ---- panels of floats ---- */

/* One panel: out[depth][width] of lanes first .. first+count-1, zero beyond. */
MOEC_FUNCTION void moec_pack_panel(const MoecOperand *x, long first, long count, long depth,
                                   long width, float *out) {
    if (x->lane == 1 && x->lanes == NULL && count == width && moec_is_f32(x->type)) {
        for (long p = 0; p < depth; p++) {
            const float *from = moec_element(x, first, p);
            if (width == MOEC_TILE_M)
                memcpy(out + p * width, from, MOEC_TILE_M * sizeof *out);
            else
                memcpy(out + p * width, from, MOEC_TILE_N * sizeof *out);
        }
        return;
    }
    const int side_by_side = x->depth == 1 && x->depths == NULL && !moec_is_groups(x->type);
    for (long i = 0; i < width; i += MOEC_LANES) {
        const long lanes = moec_least(width - i, MOEC_LANES), full = moec_least(count - i, lanes);
        long p = 0;
        if (side_by_side) p = moec_pack_squares(x, first + i, full, depth, width, out + i);
        for (; p < depth; p++)
            for (long j = 0; j < lanes; j++)
                out[p * width + i + j] = j < full ? moec_element_value(x, first + i + j, p) : 0.0f;
    }
}

/* ---- panels of pairs ---- */

#ifdef MOEC_PAIRS_HERE

/* The first `count` numbers from there on, as bf16; zeros beyond. */
MOEC_INLINE __m256i moec_sixteen(const void *x, long count, MoecType type) {
    const __mmask16 mask = (__mmask16)((1u << (count < 16 ? count : 16)) - 1u);
    if (moec_is_bf16(type)) return _mm256_maskz_loadu_epi16(mask, x);
    return (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, x));
}

/* The same for twice as many: 16 pairs. */
MOEC_INLINE MoecVector moec_sixteen_pairs(const void *x, long count, MoecType type) {
    const long rest = count > 16 ? count - 16 : 0;
    const __m512i low = _mm512_castsi256_si512(moec_sixteen(x, count, type));
    return (MoecVector)_mm512_inserti64x4(
        low, rest > 0 ? moec_sixteen(moec_at(x, 16, type), rest, type) : _mm256_setzero_si256(), 1);
}

/* Up to 16 lanes whose elements lie side by side along depth. */
MOEC_INLINE void moec_pairs_transposed(const MoecOperand *x, long first, long count, long depth,
                                       long width, float *out, const MoecType type) {
    const long words = moec_ceil_div(depth, 2);
    for (long p = 0; p < words; p += MOEC_LANES) {
        MoecVector rows[MOEC_LANES] = {0};
        for (long i = 0; i < MOEC_LANES && i < count; i++)
            rows[i] = moec_sixteen_pairs(moec_element(x, first + i, 2 * p), depth - 2 * p, type);
        moec_transpose(rows);
        if (p + MOEC_LANES <= words) {
#pragma GCC unroll 16
            for (long q = 0; q < MOEC_LANES; q++) moec_store_vector(out + (p + q) * width, rows[q]);
        } else {
            for (long q = 0; p + q < words; q++) moec_store_vector(out + (p + q) * width, rows[q]);
        }
    }
}

/* Up to 16 lanes that lie side by side: two rows of them are woven into one. */
MOEC_INLINE void moec_pairs_woven(const MoecOperand *x, long first, long count, long depth,
                                  long width, float *out, const MoecType type) {
    for (long p = 0; p < depth; p += 2) {
        const __m512i low =
            _mm512_cvtepu16_epi32(moec_sixteen(moec_element(x, first, p), count, type));
        __m512i high = _mm512_setzero_si512();
        if (p + 1 < depth)
            high = _mm512_cvtepu16_epi32(moec_sixteen(moec_element(x, first, p + 1), count, type));
        moec_store_vector(out + p / 2 * width,
                          (MoecVector)_mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
    }
}

/* One panel of pairs: out[depth / 2, rounded up][width]. A register that is wider than the panel
 * writes what comes next, too: that is written later. */
MOEC_LARGE void moec_pack_pairs(const MoecOperand *x, long first, long count, long depth,
                                long width, float *out) {
    const int side_by_side = x->depth == 1 && x->depths == NULL;
    for (long i = 0; i < width; i += MOEC_LANES) {
        const long full = count > i ? moec_least(count - i, moec_least(width - i, MOEC_LANES)) : 0;
        if (side_by_side && moec_is_bf16(x->type))
            moec_pairs_transposed(x, first + i, full, depth, width, out + i, MOEC_BF16);
        else if (side_by_side)
            moec_pairs_transposed(x, first + i, full, depth, width, out + i, MOEC_F32);
        else if (moec_is_bf16(x->type))
            moec_pairs_woven(x, first + i, full, depth, width, out + i, MOEC_BF16);
        else
            moec_pairs_woven(x, first + i, full, depth, width, out + i, MOEC_F32);
    }
}

/* sum + word * words, a word being one number or two. */
MOEC_INLINE MoecVector moec_add_words(MoecVector sum, float word, MoecVector words,
                                      const int pairs) {
    if (!pairs) return sum + word * words;
    return (MoecVector)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_ps(word),
                                        (__m512bh)words);
}

#else

MOEC_FUNCTION void moec_pack_pairs(const MoecOperand *x, long first, long count, long depth,
                                   long width, float *out) {
    (void)x, (void)first, (void)count, (void)depth, (void)width, (void)out;
}

MOEC_INLINE MoecVector moec_add_words(MoecVector sum, float word, MoecVector words,
                                      const int pairs) {
    (void)pairs;
    return sum + word * words;
}

#endif

/* `count` lanes in panels of `width`, which is MOEC_TILE_M or MOEC_TILE_N; pairs: a constant.
 * Returns how many words deep they are. */
MOEC_LARGE long moec_pack_panels(const MoecOperand *x, long count, long depth, long width,
                                 int pairs, float *out) {
    const long words = pairs ? moec_ceil_div(depth, 2) : depth;
    for (long i = 0; i < count; i += width) {
        const long lanes = moec_least(count - i, width);
        if (pairs)
            moec_pack_pairs(x, i, lanes, depth, width, out + i * words);
        else
            moec_pack_panel(x, i, lanes, depth, width, out + i * words);
    }
    return words;
}

#endif
