/* operands: the operands of products, and their packing.
 *
 * Operands are f32, bf16 or, in products without rounding, int8. b may also be in groups (see
 * MoecGroup) or in panels of integers (MoecInt4, MoecTernary), without index tables. A panel for
 * a tile contains an operand as 32-bit words in the order in which the tile reads them. A word is
 * usually one float. It is a pair of neighbors along k as bf16, with the first in the lower half,
 * if the product rounds its operands and the processor multiplies pairs of bf16 (MOEC_HAS_PAIRS)
 * faster than floats. The order of the words is the same, so one tile handles both. AMX requires
 * lanes of a as rows of words, and depths that are multiples of 16 words, with zeros as padding.
 *
 * Before a stand-alone program includes the kernels, it defines which of these types it does not
 * use. The code for them is then not compiled.
 */
#ifndef MOEC_OPERANDS_H
#define MOEC_OPERANDS_H

#include "calls.h"

#ifdef __AVX__
#include <immintrin.h>
#endif

#ifndef MOEC_BF16_OPERANDS
#define MOEC_BF16_OPERANDS 1
#endif
#ifndef MOEC_INT8_OPERANDS
#define MOEC_INT8_OPERANDS 1
#endif
#ifndef MOEC_INT4_OPERANDS
#define MOEC_INT4_OPERANDS MOEC_INT8_OPERANDS
#endif
#ifndef MOEC_TERNARY_OPERANDS
#define MOEC_TERNARY_OPERANDS MOEC_INT8_OPERANDS
#endif
#ifndef MOEC_BYTE_OPERANDS
#define MOEC_BYTE_OPERANDS 1
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

#if defined(__AVX512BF16__) && defined(__AVX512BW__) && defined(__AVX512VL__) &&                   \
    !defined(__clang__) && MOEC_ROUNDED_PRODUCTS
#define MOEC_PAIRS_HERE
enum { MOEC_HAS_PAIRS = 1 };
#else
enum { MOEC_HAS_PAIRS = 0 };
#endif

/* GCC 12 converts four bytes or four halves one by one without these functions. */
#if defined(__aarch64__) && defined(__ARM_NEON)
#define MOEC_NEON_HERE
#include <arm_neon.h>
#endif

/* Registers of 16 rows of 16 words; so many rows of a are multiplied at a time. */
#if defined(MOEC_PAIRS_HERE) && defined(__AMX_BF16__) && defined(__linux__) && defined(__x86_64__)
#define MOEC_AMX_HERE
enum { MOEC_HAS_AMX = 1, MOEC_AMX_ROWS = 32, MOEC_TILE_MOST = MOEC_AMX_ROWS };
#else
enum { MOEC_HAS_AMX = 0, MOEC_AMX_ROWS = 32, MOEC_TILE_MOST = MOEC_TILE_M };
#endif

/* Contents of the words of a product. */
typedef enum MoecForm { MOEC_FLOATS, MOEC_PAIRS, MOEC_PAIRS_AMX } MoecForm;

/* Rows of a tile. */
MOEC_INLINE long moec_tile_height(MoecForm form) {
    return form == MOEC_PAIRS_AMX ? (long)MOEC_AMX_ROWS : (long)MOEC_TILE_M;
}
/* So much depth is a whole number of words. */
MOEC_INLINE long moec_depth_unit(MoecForm form) {
    return form == MOEC_PAIRS_AMX ? 32 : form == MOEC_PAIRS ? 2 : 1;
}

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

/* How many words deep panels of that depth are. */
MOEC_INLINE long moec_words(MoecForm form, long depth) {
    const long unit = moec_depth_unit(form);
    return moec_ceil_div(depth, unit) * (form == MOEC_FLOATS ? 1 : unit / 2);
}

/* Constants where the program has no operands of that type. */
MOEC_INLINE int moec_is_bf16(MoecType type) { return MOEC_BF16_OPERANDS && type == MOEC_BF16; }
MOEC_INLINE int moec_is_groups(MoecType type) { return MOEC_INT8_OPERANDS && type == MOEC_INT8; }
MOEC_INLINE int moec_is_bytes(MoecType type) { return MOEC_BYTE_OPERANDS && type == MOEC_BYTE; }
MOEC_INLINE int moec_is_int4(MoecType type) { return MOEC_INT4_OPERANDS && type == MOEC_INT4; }
MOEC_INLINE int moec_is_ternary(MoecType type) {
    return MOEC_TERNARY_OPERANDS && type == MOEC_TERNARY;
}
MOEC_INLINE int moec_is_panels(MoecType type) {
    return moec_is_int4(type) || moec_is_ternary(type);
}
/* Quantized: such a product does not round its other operand. */
MOEC_INLINE int moec_is_quantized(MoecType type) {
    return moec_is_groups(type) || moec_is_panels(type);
}
MOEC_INLINE int moec_is_f32(MoecType type) {
    return !moec_is_bf16(type) && !moec_is_quantized(type) && !moec_is_bytes(type);
}
/* Bytes of an element; not of a quantized one. */
MOEC_INLINE long moec_size(MoecType type) {
    return moec_is_bytes(type) ? 1 : moec_is_bf16(type) ? 2 : 4;
}

/* Element `index` of an array of that type; where there are groups, the group that begins there, in
 * panels the part that begins there (see moec_right). */
MOEC_INLINE const void *moec_at(const void *data, long index, MoecType type) {
    if (moec_is_groups(type)) return (const MoecGroup *)data + index / MOEC_GROUP;
    if (moec_is_int4(type)) return (const MoecInt4 *)data + index / (MOEC_PANEL * MOEC_PANEL_DEPTH);
    if (moec_is_ternary(type))
        return (const MoecTernary *)data + index / (MOEC_PANEL * MOEC_TERNARY_DEPTH);
    return (const char *)data + index * moec_size(type);
}
MOEC_INLINE void *moec_to(void *data, long place, MoecType type) {
    return (char *)data + place * moec_size(type);
}
MOEC_INLINE float moec_value(const void *element, MoecType type) {
    if (moec_is_bytes(type)) return (float)*(const signed char *)element;
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
#elif defined(MOEC_NEON_HERE)
    return (MoecWords)vmovl_u16(vld1_u16(x));
#else
    return __builtin_convertvector(*(const MoecHalves *)x, MoecWords);
#endif
}

/* Bytes, or steps of a group, as floats. */
MOEC_INLINE MoecVector moec_load_steps(const signed char *x) {
#if defined(__AVX512F__) && !defined(__clang__)
    typedef char Bytes __attribute__((vector_size(16), aligned(1), may_alias));
    typedef int32_t Words __attribute__((vector_size(64)));
    const Words steps =
        (Words)__builtin_ia32_pmovsxbd512_mask(*(const Bytes *)x, (Words){0}, 0xffff);
    return __builtin_convertvector(steps, MoecVector);
#elif defined(__AVX2__) && !defined(__clang__)
    typedef char Bytes __attribute__((vector_size(16)));
    typedef long long Pair __attribute__((vector_size(16)));
    typedef int32_t Words __attribute__((vector_size(32)));
    long long eight;
    memcpy(&eight, x, sizeof eight);
    const Words steps = (Words)__builtin_ia32_pmovsxbd256((Bytes)(Pair){eight, 0});
    return __builtin_convertvector(steps, MoecVector);
#elif defined(MOEC_NEON_HERE)
    int32_t four;
    memcpy(&four, x, sizeof four);
    const int16x8_t halves = vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four)));
    return (MoecVector)vcvtq_f32_s32(vmovl_s16(vget_low_s16(halves)));
#else
    typedef signed char Bytes __attribute__((vector_size(MOEC_LANES), aligned(1), may_alias));
    return __builtin_convertvector(*(const Bytes *)x, MoecVector);
#endif
}

/* Converts from any storage type to floats, except from groups. */
MOEC_INLINE MoecVector moec_load_wide(const void *x, MoecType type) {
    if (moec_is_bytes(type)) return moec_load_steps(x);
    if (!moec_is_bf16(type)) return *(const MoecVector *)x;
    return (MoecVector)(moec_widen(x) << 16);
}

/* Integer i of 8 in each of these words of MoecInt4.steps. */
MOEC_INLINE MoecVector moec_load_int4(const uint32_t *words, const int i) {
#if defined(__AVX512F__) && !defined(__clang__)
    typedef int32_t Places __attribute__((vector_size(64)));
    const MoecVector steps = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
    return __builtin_shuffle(steps, (Places)(*(const MoecWords *)words >> 4 * i));
#else
    typedef int32_t Signed __attribute__((vector_size(MOEC_LANES * 4)));
    const Signed steps = (Signed)((*(const MoecWords *)words ^ 0x88888888u) << (28 - 4 * i)) >> 28;
    return __builtin_convertvector(steps, MoecVector);
#endif
}

/* Element i of MoecTernary in each of these words of its steps, without the scale. */
MOEC_INLINE MoecVector moec_load_ternary(const uint32_t *words, const int i) {
    const MoecWords step = *(const MoecWords *)words >> MOEC_TERNARY_BIT(i);
#if defined(__AVX512F__) && !defined(__clang__)
    typedef int32_t Places __attribute__((vector_size(64)));
    const MoecVector steps = {-1, 0, 1, 0, -1, 0, 1, 0, -1, 0, 1, 0, -1, 0, 1, 0};
    return __builtin_shuffle(steps, (Places)step);
#else
    typedef int32_t Signed __attribute__((vector_size(MOEC_LANES * 4)));
    return __builtin_convertvector((Signed)(step & 3u) - 1, MoecVector);
#endif
}

/* Scales of adjacent columns: moec_from_half of each. */
MOEC_INLINE MoecVector moec_load_scales(const uint16_t *x) {
#if defined(__AVX512F__)
    return (MoecVector)_mm512_cvtph_ps(_mm256_loadu_si256((const void *)x));
#elif defined(__F16C__)
    return (MoecVector)_mm256_cvtph_ps(_mm_loadu_si128((const void *)x));
#else
    const MoecWords half = moec_widen(x), size = half & 0x7FFFu;
    const MoecVector finite = (MoecVector)(size << 13) * 0x1p112f;
    const MoecWords beyond = (MoecWords)(size >= 0x7C00u) & 0x7F800000u;
    return (MoecVector)((half & 0x8000u) << 16 | (MoecWords)finite | beyond);
#endif
}

/* ---- panels of integers, MOEC_PANEL_DEPTH terms at a time ---- */

/* Words w of 4 of the terms with number p, from a column on. */
MOEC_INLINE const uint32_t *moec_panel_words(const void *panel, long p, long w, long column,
                                             MoecType type) {
    return moec_is_ternary(type)
               ? ((const MoecTernary *)panel)[p / 2].steps[p % 2 * 2 + w / 2] + column
               : ((const MoecInt4 *)panel)[p].steps[w] + column;
}
MOEC_INLINE MoecVector moec_panel_scales(const void *panel, long p, long column, MoecType type) {
    return moec_is_ternary(type)
               ? moec_load_vector(((const MoecTernary *)panel)[p / 2].scale + column)
               : moec_load_scales(((const MoecInt4 *)panel)[p].scale + column);
}
/* Element 8 w + i of these terms in each of words w. */
MOEC_INLINE MoecVector moec_panel_steps(const uint32_t *words, const int w, const int i,
                                        MoecType type) {
    return moec_is_ternary(type) ? moec_load_ternary(words, 8 * w + i) : moec_load_int4(words, i);
}

MOEC_INLINE float moec_vector_sum(MoecVector x) {
    MoecFour part[MOEC_LANES / 4];
    memcpy(part, &x, sizeof part);
    MoecFour sum = part[0];
    for (int i = 1; i < MOEC_LANES / 4; i++) sum += part[i];
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

/* Operand b of a product. In panels, element (i, p) is in the part at i * lane + p * depth, and
 * operands begin with a part. */
MOEC_INLINE MoecOperand moec_right(const void *b, long b_n, long b_k, MoecType type) {
    return (MoecOperand){b, b_n, moec_is_panels(type) ? (long)MOEC_PANEL : b_k, NULL, NULL, type};
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

/* A vector of a row from element i on. Of groups, it is part of one. */
MOEC_INLINE MoecVector moec_load_part(const void *row, long i, const MoecType type) {
    if (!moec_is_groups(type)) return moec_load_wide(moec_at(row, i, type), type);
    const MoecGroup *group = moec_at(row, i, MOEC_INT8);
    return group->scale * moec_load_steps(group->steps + i % MOEC_GROUP);
}

/* ---- asking ahead ---- */

/* Rows of an operand are far from each other, and the hardware prefetcher does not predict the next
 * one. While a panel is packed, the next one is prefetched into the second-level cache. */
MOEC_INLINE void moec_ask(const void *from) { __builtin_prefetch(from, 0, 2); }

/* Distance in lanes from the vector of lanes at `first` to the same vector of the next panel; 0 if
 * that vector is incomplete. */
MOEC_INLINE long moec_lanes_ahead(long first, long lanes, long width) {
    return first + width + MOEC_LANES <= lanes ? width : 0;
}

/* The first element of a lane; through `table` where there is one. */
MOEC_INLINE const char *moec_lane_at(const MoecOperand *x, const int *table, long lane) {
    return moec_at(x->data, (table != NULL ? table[lane] : lane) * x->lane, x->type);
}

enum { MOEC_ASK_BYTES = 512 << 10 }; /* more would evict the operands of the current product */

/* Prefetches part `part` of `count` of an operand of a later product into the nearest cache. Skips
 * quantized ones, which are multiplied by few rows, and rows from an index table, which other
 * threads have read. */
MOEC_INLINE void moec_ask_part(const MoecOperand *x, long lanes, long depth, long part,
                               long count) {
    const int by_lane = x->depth == 1,
              elsewhere = x->lanes != NULL || x->depths != NULL || moec_is_quantized(x->type);
    const long rows = by_lane ? lanes : depth,
               bytes = (by_lane ? depth : lanes) * moec_size(x->type);
    if (elsewhere || rows * bytes > MOEC_ASK_BYTES) return;
    for (long row = rows * part / count; row < rows * (part + 1) / count; row++) {
        const char *from = moec_element(x, by_lane ? row : 0, by_lane ? 0 : row);
        for (long at = 0; at < bytes; at += 64) __builtin_prefetch(from + at);
    }
}

/* ---- squares of words ---- */

#if defined(__AVX2__) && !defined(__clang__)

typedef int32_t MoecPlaces __attribute__((vector_size(MOEC_LANES * 4)));
enum { MOEC_TRANSPOSES = 1 };

/* Swaps rows[i][j] and rows[j][i]: for every step, exchanges the quarters of blocks of size 2 *
 * `step`.
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

/* Packs up to one vector of lanes from `first` whose elements are contiguous along depth, in whole
 * squares only; returns the depth done. After `count` it writes zeros up to a full vector; those
 * elements are overwritten later. `ahead`: distance in lanes to the lanes that are packed next. */
MOEC_INLINE long moec_pack_squares(const MoecOperand *x, long first, long count, long depth,
                                   long ahead, const int *table, long width, const MoecType type,
                                   float *out) {
    long p = 0;
    for (; MOEC_TRANSPOSES && p + MOEC_LANES <= depth; p += MOEC_LANES) {
        MoecVector rows[MOEC_LANES] = {0};
        for (long i = 0; i < MOEC_LANES && i < count; i++) {
            moec_ask(moec_at(moec_lane_at(x, table, first + i + ahead), p, type));
            rows[i] = moec_load_part(moec_lane_at(x, table, first + i), p, type);
        }
        moec_transpose(rows);
#pragma GCC unroll 16
        for (long q = 0; q < MOEC_LANES; q++) moec_store_vector(out + (p + q) * width, rows[q]);
    }
    return p;
}

/* ---- panels of floats ---- */

/* Packs adjacent lanes, one vector of them at a time. The last vector of a panel overlaps the
 * elements after it, which are overwritten later. */
MOEC_INLINE void moec_pack_neighbours(const MoecOperand *x, long first, long lanes, long depth,
                                      long width, const MoecType type, float *out) {
    const long ahead = first + width < lanes ? width : 0;
    for (long p = 0; p < depth; p++) {
        const void *from = moec_element(x, 0, p);
        for (long i = 0; i < width; i += MOEC_LANES) {
            const long there = lanes - first - i, most = moec_least(width - i, MOEC_LANES);
            float *to = out + p * width + i;
            moec_ask(moec_at(from, first + i + ahead, type));
            if (there >= MOEC_LANES)
                moec_store_vector(to, moec_load_part(from, first + i, type));
            else
                for (long j = 0; j < most; j++)
                    to[j] = j < there ? moec_element_value(x, first + i + j, p) : 0.0f;
        }
    }
}

/* The same of lanes in panels of integers. */
MOEC_INLINE void moec_pack_integers(const MoecOperand *x, long first, long lanes, long depth,
                                    long width, const MoecType type, float *out) {
    for (long i = 0; i < width; i += MOEC_LANES) {
        const long lane = first + i, column = lane % MOEC_PANEL;
        const void *from = moec_at(x->data, (lane - column) * x->lane, type);
        for (long p = 0; p < depth; p++) {
            float *to = out + p * width + i;
            if (lane >= lanes) {
                moec_store_vector(to, (MoecVector){0});
                continue;
            }
            const long part = p / MOEC_PANEL_DEPTH;
            const MoecVector scale = moec_panel_scales(from, part, column, type);
#pragma GCC unroll 4
            for (int w = 0; w < MOEC_PANEL_DEPTH / 8; w++) {
                const uint32_t *words = moec_panel_words(from, part, w, column, type);
#pragma GCC unroll 8
                for (int q = 0; q < 8; q++, to += width)
                    moec_store_vector(to, scale * moec_panel_steps(words, w, q, type));
            }
            p += MOEC_PANEL_DEPTH - 1;
        }
    }
}

/* One panel: out[depth][width] of the lanes from `first` on, zero beyond `lanes`. */
MOEC_FUNCTION void moec_pack_panel(const MoecOperand *x, long first, long lanes, long depth,
                                   long width, float *out) {
    const int neighbours = x->lane == 1 && x->lanes == NULL;
    if (moec_is_int4(x->type)) {
        moec_pack_integers(x, first, lanes, depth, width, MOEC_INT4, out);
        return;
    }
    if (moec_is_ternary(x->type)) {
        moec_pack_integers(x, first, lanes, depth, width, MOEC_TERNARY, out);
        return;
    }
    if (neighbours && moec_is_f32(x->type)) {
        moec_pack_neighbours(x, first, lanes, depth, width, MOEC_F32, out);
        return;
    }
    if (neighbours && moec_is_bf16(x->type)) {
        moec_pack_neighbours(x, first, lanes, depth, width, MOEC_BF16, out);
        return;
    }
    if (neighbours && moec_is_groups(x->type)) {
        moec_pack_neighbours(x, first, lanes, depth, width, MOEC_INT8, out);
        return;
    }
    const long count = moec_least(lanes - first, width);
    const int side_by_side = x->depth == 1 && x->depths == NULL;
    for (long i = 0; i < width; i += MOEC_LANES) {
        const long most = moec_least(width - i, MOEC_LANES), full = moec_least(count - i, most);
        long p = 0;
        const long ahead = moec_lanes_ahead(first + i, lanes, width);
        if (side_by_side && moec_is_groups(x->type))
            p = moec_pack_squares(x, first + i, full, depth, ahead, NULL, width, MOEC_INT8,
                                  out + i);
        else if (side_by_side && x->lanes == NULL)
            p = moec_pack_squares(x, first + i, full, depth, ahead, NULL, width, x->type, out + i);
        else if (side_by_side)
            p = moec_pack_squares(x, first + i, full, depth, ahead, x->lanes, width, x->type,
                                  out + i);
        for (; p < depth; p++)
            for (long j = 0; j < most; j++)
                out[p * width + i + j] = j < full ? moec_element_value(x, first + i + j, p) : 0.0f;
    }
}

/* ---- panels of pairs ---- */

/* Where the words of a panel go. One of the steps is 1. */
typedef struct MoecPanel {
    float *words;
    long lane, word; /* steps from one to the next */
    long width;      /* lanes */
    long depth;      /* in words */
} MoecPanel;

#ifdef MOEC_PAIRS_HERE

/* The first `count` numbers from there on, as bf16; zeros beyond. */
MOEC_INLINE __m256i moec_sixteen(const void *x, long count, MoecType type) {
    const __mmask16 mask = (__mmask16)((1u << (count < 16 ? count : 16)) - 1u);
    if (moec_is_bf16(type) && count >= 16) return _mm256_loadu_si256(x);
    if (moec_is_bf16(type)) return _mm256_maskz_loadu_epi16(mask, x);
    return (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, x));
}

/* The same for twice as many: 16 pairs. */
MOEC_INLINE MoecVector moec_sixteen_pairs(const void *x, long count, MoecType type) {
    if (count >= 32 && moec_is_bf16(type)) return moec_load_vector(x);
    if (count >= 32)
        return (MoecVector)_mm512_cvtne2ps_pbh(_mm512_loadu_ps((const float *)x + 16),
                                               _mm512_loadu_ps(x));
    const long rest = count > 16 ? count - 16 : 0;
    const __m512i low = _mm512_castsi256_si512(moec_sixteen(x, count, type));
    return (MoecVector)_mm512_inserti64x4(
        low, rest > 0 ? moec_sixteen(moec_at(x, 16, type), rest, type) : _mm256_setzero_si256(), 1);
}

/* Converts floats first .. end-1 of a row to bf16 in its first half. It processes whole groups of
 * 32, including neighbors of the range. */
MOEC_INLINE void moec_round_row(float *row, long first, long end) {
    for (long i = first & -2 * MOEC_LANES; i < end; i += 2 * MOEC_LANES)
        moec_store_vector(row + i / 2, moec_sixteen_pairs(row + i, 2 * MOEC_LANES, MOEC_F32));
}

/* The first `count` numbers of two rows, woven: a word has one of each. NULL: a row of zeros. */
MOEC_INLINE MoecVector moec_woven_pairs(const void *even, const void *odd, long count,
                                        MoecType type) {
    const __m512i weave =
        _mm512_set_epi32(0x001f000f, 0x001e000e, 0x001d000d, 0x001c000c, 0x001b000b, 0x001a000a,
                         0x00190009, 0x00180008, 0x00170007, 0x00160006, 0x00150005, 0x00140004,
                         0x00130003, 0x00120002, 0x00110001, 0x00100000);
    __m512i both = _mm512_setzero_si512();
    if (even != NULL) both = _mm512_castsi256_si512(moec_sixteen(even, count, type));
    if (odd != NULL) both = _mm512_inserti64x4(both, moec_sixteen(odd, count, type), 1);
    return (MoecVector)_mm512_permutexvar_epi16(weave, both);
}

/* Packs up to 16 adjacent lanes from `first` in order of words, with zeros after the depth.
 * `ahead`: distance in bytes to the next panel. */
MOEC_INLINE void moec_weave(const MoecOperand *x, long first, long count, long depth, long ahead,
                            const MoecPanel *panel, const int *depths, const MoecType type) {
    const char *data = moec_at(x->data, first, type);
    const long step = x->depth * moec_size(type), word = panel->word;
    float *to = panel->words;
    for (long p = 0; p + 1 < depth; p += 2, to += word) {
        const char *even = data + (depths != NULL ? depths[p] : p) * step,
                   *odd = data + (depths != NULL ? depths[p + 1] : p + 1) * step;
        moec_ask(even + ahead);
        moec_ask(odd + ahead);
        moec_store_vector(to, moec_woven_pairs(even, odd, count, type));
    }
    for (long p = depth / 2; p < panel->depth; p++, to += word) {
        const void *even = 2 * p < depth ? moec_element(x, first, 2 * p) : NULL;
        moec_store_vector(to, moec_woven_pairs(even, NULL, count, type));
    }
}

MOEC_INLINE void moec_weave_lanes(const MoecOperand *x, long first, long count, long depth,
                                  long ahead, const MoecPanel *panel, const MoecType type) {
    if (x->depths != NULL)
        moec_weave(x, first, count, depth, ahead, panel, x->depths, type);
    else if (count < MOEC_LANES)
        moec_weave(x, first, count, depth, ahead, panel, NULL, type);
    else
        moec_weave(x, first, MOEC_LANES, depth, ahead, panel, NULL, type);
}

/* Packs up to 16 lanes from `first` whose elements are contiguous along depth, in squares, in order
 * of words or, for AMX, of lanes. A square that is wider than the panel overlaps the elements after
 * it, which are overwritten later. */
MOEC_INLINE void moec_pack_rows(const MoecOperand *x, long first, long count, long depth,
                                long ahead, const MoecPanel *panel, const int *table,
                                const MoecType type) {
    const int by_lanes = panel->lane != 1;
    const long step = by_lanes ? panel->lane : panel->word;
    for (long p = 0; p < panel->depth; p += MOEC_LANES) {
        MoecVector rows[MOEC_LANES] = {0};
        for (long i = 0; i < MOEC_LANES && i < count; i++) {
            moec_ask(moec_at(moec_lane_at(x, table, first + i + ahead), 2 * p, type));
            rows[i] = moec_sixteen_pairs(moec_at(moec_lane_at(x, table, first + i), 2 * p, type),
                                         depth - 2 * p, type);
        }
        if (!by_lanes) moec_transpose(rows);
        float *to = panel->words + p * panel->word;
        const long most = by_lanes ? MOEC_LANES : moec_least(panel->depth - p, MOEC_LANES);
        for (long q = 0; q < most; q++) moec_store_vector(to + q * step, rows[q]);
    }
}

/* Packs adjacent lanes in order of lanes. */
MOEC_INLINE void moec_pack_columns(const MoecOperand *x, long first, long count, long depth,
                                   const MoecPanel *panel, const MoecType type) {
    for (long p = 0; p < panel->depth; p += MOEC_LANES) {
        MoecVector rows[MOEC_LANES];
        for (long q = 0; q < MOEC_LANES; q++) {
            const long even = 2 * (p + q), odd = even + 1;
            rows[q] =
                moec_woven_pairs(even < depth ? moec_element(x, first, even) : NULL,
                                 odd < depth ? moec_element(x, first, odd) : NULL, count, type);
        }
        moec_transpose(rows);
        for (long q = 0; q < MOEC_LANES; q++)
            moec_store_vector(panel->words + q * panel->lane + p, rows[q]);
    }
}

/* Up to 16 lanes from `first` on. `ahead`: lanes to those that are packed next. */
MOEC_INLINE void moec_pack_lanes(const MoecOperand *x, long first, long count, long depth,
                                 long ahead, const MoecPanel *panel, const MoecType type) {
    if (x->depth == 1 && x->depths == NULL && x->lanes == NULL)
        moec_pack_rows(x, first, count, depth, ahead, panel, NULL, type);
    else if (x->depth == 1 && x->depths == NULL)
        moec_pack_rows(x, first, count, depth, ahead, panel, x->lanes, type);
    else if (panel->lane != 1)
        moec_pack_columns(x, first, count, depth, panel, type);
    else
        moec_weave_lanes(x, first, count, depth, ahead * moec_size(type), panel, type);
}

/* One panel of pairs: the lanes from `first` on, zeros beyond `lanes`. */
MOEC_LARGE void moec_pack_pairs(const MoecOperand *x, long first, long lanes, long depth,
                                const MoecPanel *panel) {
    for (long i = 0; i < panel->width; i += MOEC_LANES) {
        const long rest = moec_least(lanes - first, panel->width) - i,
                   full = rest > 0 ? moec_least(rest, MOEC_LANES) : 0,
                   from = full > 0 ? first + i : first;
        const long ahead = moec_lanes_ahead(from, lanes, panel->width);
        MoecPanel at = *panel;
        at.words += i * panel->lane;
        if (moec_is_bf16(x->type))
            moec_pack_lanes(x, from, full, depth, ahead, &at, MOEC_BF16);
        else
            moec_pack_lanes(x, from, full, depth, ahead, &at, MOEC_F32);
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

MOEC_FUNCTION void moec_pack_pairs(const MoecOperand *x, long first, long lanes, long depth,
                                   const MoecPanel *panel) {
    (void)x, (void)first, (void)lanes, (void)depth, (void)panel;
}

MOEC_INLINE void moec_round_row(float *row, long first, long end) {
    (void)row, (void)first, (void)end;
}

MOEC_INLINE MoecVector moec_add_words(MoecVector sum, float word, MoecVector words,
                                      const int pairs) {
    (void)pairs;
    return sum + word * words;
}

#endif

/* The panel of a, or else of b, that begins at lane `first` of `lanes`. AMX wants the words of a
 * lane of a side by side. */
MOEC_LARGE void moec_pack_one(const MoecOperand *x, long first, long lanes, long depth,
                              MoecForm form, int of_a, float *out) {
    const long words = moec_words(form, depth),
               width = of_a ? moec_tile_height(form) : (long)MOEC_TILE_N;
    if (form == MOEC_FLOATS) {
        moec_pack_panel(x, first, lanes, depth, width, out);
        return;
    }
    const int by_lanes = of_a && form == MOEC_PAIRS_AMX;
    const MoecPanel panel = {out, by_lanes ? words : 1, by_lanes ? 1 : width, width, words};
    moec_pack_pairs(x, first, lanes, depth, &panel);
}

/* The first `count` of `lanes` in panels of a, or else of b. */
MOEC_FUNCTION void moec_pack_panels(const MoecOperand *x, long count, long lanes, long depth,
                                    MoecForm form, int of_a, float *out) {
    const long words = moec_words(form, depth),
               width = of_a ? moec_tile_height(form) : (long)MOEC_TILE_N;
    for (long i = 0; i < count; i += width)
        moec_pack_one(x, i, lanes, depth, form, of_a, out + i * words);
}

MOEC_INLINE void moec_pack_b(const MoecOperand *x, long count, long depth, MoecForm form,
                             float *out) {
    moec_pack_panels(x, count, count, depth, form, 0, out);
}

/* Packed, the step of a tile: see MoecTile. */
MOEC_INLINE long moec_pack_a(const MoecOperand *x, long count, long lanes, long depth,
                             MoecForm form, float *out) {
    moec_pack_panels(x, count, lanes, depth, form, 1, out);
    return form == MOEC_PAIRS_AMX ? moec_words(form, depth) : (long)MOEC_TILE_M;
}

#endif
