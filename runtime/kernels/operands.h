/* operands: the operands of products.
 *
 * Operands are f32, bf16 or, in products without rounding, int8. b may also be in groups (see
 * MoecGroup) or in panels (MoecInt4 and the types after it), without index tables.
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
#ifndef MOEC_FP8_OPERANDS
#define MOEC_FP8_OPERANDS MOEC_INT8_OPERANDS
#endif
#ifndef MOEC_MXFP8_OPERANDS
#define MOEC_MXFP8_OPERANDS MOEC_INT8_OPERANDS
#endif
#ifndef MOEC_MXFP4_OPERANDS
#define MOEC_MXFP4_OPERANDS MOEC_INT8_OPERANDS
#endif
#ifndef MOEC_NVFP4_OPERANDS
#define MOEC_NVFP4_OPERANDS MOEC_INT8_OPERANDS
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
MOEC_INLINE int moec_is_mxfp4(MoecType type) { return MOEC_MXFP4_OPERANDS && type == MOEC_MXFP4; }
MOEC_INLINE int moec_is_nvfp4(MoecType type) { return MOEC_NVFP4_OPERANDS && type == MOEC_NVFP4; }
MOEC_INLINE int moec_is_e2m1(MoecType type) { return moec_is_mxfp4(type) || moec_is_nvfp4(type); }
MOEC_INLINE int moec_is_e4m3(MoecType type) {
    return (MOEC_FP8_OPERANDS && type == MOEC_FP8) || (MOEC_MXFP8_OPERANDS && type == MOEC_MXFP8);
}
MOEC_INLINE int moec_is_panels(MoecType type) {
    return moec_is_int4(type) || moec_is_ternary(type) || moec_is_e2m1(type) || moec_is_e4m3(type);
}
/* Calls X with each type of panels that the program has, for code that is compiled per type. */
#define MOEC_IF_0(code)
#define MOEC_IF_1(code) code
#define MOEC_IF_VALUE(value) MOEC_IF_##value
#define MOEC_IF(name) MOEC_IF_VALUE(name)
#define MOEC_EACH(TYPE, X) MOEC_IF(MOEC_##TYPE##_OPERANDS)(X(TYPE))
#define MOEC_PANEL_TYPES(X)                                                                        \
    MOEC_EACH(INT4, X)                                                                             \
    MOEC_EACH(TERNARY, X)                                                                          \
    MOEC_EACH(FP8, X) MOEC_EACH(MXFP8, X) MOEC_EACH(MXFP4, X) MOEC_EACH(NVFP4, X)

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

/* Bytes of MOEC_PANEL_DEPTH terms of a panel. */
MOEC_INLINE long moec_part_size(MoecType type) {
    return moec_is_ternary(type) ? (long)sizeof(MoecTernary) / 2
           : moec_is_mxfp4(type) ? (long)sizeof(MoecMxfp4)
           : moec_is_nvfp4(type) ? (long)sizeof(MoecNvfp4)
           : moec_is_e4m3(type)  ? (long)sizeof(MoecFp8)
                                 : (long)sizeof(MoecInt4);
}

/* Element `index` of an array of that type; where there are groups, the group that begins there, in
 * panels the part that begins there (see moec_right). */
MOEC_INLINE const void *moec_at(const void *data, long index, MoecType type) {
    if (moec_is_groups(type)) return (const MoecGroup *)data + index / MOEC_GROUP;
    if (moec_is_panels(type))
        return (const char *)data + index / (MOEC_PANEL * MOEC_PANEL_DEPTH) * moec_part_size(type);
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
/* Each half in a word of its own. GCC makes four instructions of a conversion that is one. */
MOEC_INLINE MoecWords moec_widen(const void *x) {
#if defined(__AVX512F__) && !defined(__clang__)
    typedef int16_t Halves __attribute__((vector_size(32)));
    typedef int32_t Words __attribute__((vector_size(64)));
    const Halves halves = (Halves) * (const MoecHalves *)x;
    return (MoecWords)__builtin_ia32_pmovzxwd512_mask(halves, (Words){0}, 0xffff);
#elif defined(__AVX2__) && !defined(__clang__)
    typedef int16_t Halves __attribute__((vector_size(16)));
    return (MoecWords)__builtin_ia32_pmovzxwd256((Halves) * (const MoecHalves *)x);
#elif defined(MOEC_NEON_HERE)
    return (MoecWords)vmovl_u16(vld1_u16(x));
#else
    return __builtin_convertvector(*(const MoecHalves *)x, MoecWords);
#endif
}

/* Bytes as words with the same sign. */
MOEC_INLINE MoecWords moec_widen_bytes(const void *x) {
#if defined(__AVX512F__) && !defined(__clang__)
    typedef char Bytes __attribute__((vector_size(16), aligned(1), may_alias));
    typedef int32_t Words __attribute__((vector_size(64)));
    return (MoecWords)__builtin_ia32_pmovsxbd512_mask(*(const Bytes *)x, (Words){0}, 0xffff);
#elif defined(__AVX2__) && !defined(__clang__)
    typedef char Bytes __attribute__((vector_size(16)));
    typedef long long Pair __attribute__((vector_size(16)));
    long long eight;
    memcpy(&eight, x, sizeof eight);
    return (MoecWords)__builtin_ia32_pmovsxbd256((Bytes)(Pair){eight, 0});
#elif defined(MOEC_NEON_HERE)
    int32_t four;
    memcpy(&four, x, sizeof four);
    const int16x8_t halves = vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four)));
    return (MoecWords)vmovl_s16(vget_low_s16(halves));
#else
    typedef signed char Bytes __attribute__((vector_size(MOEC_LANES), aligned(1), may_alias));
    return __builtin_convertvector(*(const Bytes *)x, MoecWords);
#endif
}

/* Bytes, or steps of a group, as floats. */
MOEC_INLINE MoecVector moec_load_steps(const signed char *x) {
    typedef int32_t Signed __attribute__((vector_size(MOEC_LANES * 4)));
    return __builtin_convertvector((Signed)moec_widen_bytes(x), MoecVector);
}

/* Numbers of E4M3: the bits of a float, with another exponent. */
MOEC_INLINE MoecVector moec_load_e4m3(const uint8_t *x) {
    return (MoecVector)(moec_widen_bytes(x) << 20 & 0x87F00000u) * 0x1p120f;
}

/* 2^(x - 127); 255: infinite. */
MOEC_INLINE MoecVector moec_load_powers(const uint8_t *x) {
    return (MoecVector)(moec_widen_bytes(x) << 23 & 0x7F800000u);
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

/* Number i of 8 of E2M1 in each of these words, times 2. */
MOEC_INLINE MoecVector moec_load_e2m1(const uint32_t *words, const int i) {
    const MoecWords code = *(const MoecWords *)words >> 4 * i;
    typedef int32_t Signed __attribute__((vector_size(MOEC_LANES * 4)));
#if defined(__AVX512F__) && !defined(__clang__)
    const MoecVector twice = {0, 1, 2, 3, 4, 6, 8, 12, -0.0f, -1, -2, -3, -4, -6, -8, -12};
    return __builtin_shuffle(twice, (Signed)code);
#else
    const MoecWords twice = (MoecWords){0} + 0xC8643210u, size = twice >> (code & 7u) * 4 & 15u;
    return (MoecVector)((MoecWords) __builtin_convertvector((Signed)size, MoecVector) |
                        (code << 28 & 0x80000000u));
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

/* ---- panels, MOEC_PANEL_DEPTH terms at a time: a part. Values are numbers times a scale ---- */

/* Words w of 4 of part p, from a column on: of all types but E4M3. */
MOEC_INLINE const uint32_t *moec_panel_words(const void *panel, long p, long w, long column,
                                             MoecType type) {
    return (moec_is_ternary(type) ? ((const MoecTernary *)panel)[p / 2].steps[p % 2 * 2 + w / 2]
            : moec_is_mxfp4(type) ? ((const MoecMxfp4 *)panel)[p].codes[w]
            : moec_is_nvfp4(type) ? ((const MoecNvfp4 *)panel)[p].codes[w]
                                  : ((const MoecInt4 *)panel)[p].steps[w]) +
           column;
}

/* The scales of the first or the second half of the terms. */
MOEC_INLINE MoecVector moec_panel_scales(const void *panel, long p, int half, long column,
                                         MoecType type) {
    if (moec_is_ternary(type))
        return moec_load_vector(((const MoecTernary *)panel)[p / 2].scale + column);
    if (moec_is_e4m3(type)) return moec_load_powers(((const MoecFp8 *)panel)[p].scale + column);
    if (moec_is_mxfp4(type))
        return 0.5f * moec_load_powers(((const MoecMxfp4 *)panel)[p].scale + column);
    if (moec_is_nvfp4(type)) {
        const MoecNvfp4 *part = (const MoecNvfp4 *)panel + p;
        return 0.5f * moec_load_powers(part->scale + column) *
               moec_load_e4m3(part->factor[half] + column);
    }
    return moec_load_scales(((const MoecInt4 *)panel)[p].scale + column);
}

/* Numbers of term d. */
MOEC_INLINE MoecVector moec_panel_numbers(const void *panel, long p, const int d, long column,
                                          MoecType type) {
    if (moec_is_e4m3(type)) return moec_load_e4m3(((const MoecFp8 *)panel)[p].codes[d] + column);
    const uint32_t *words = moec_panel_words(panel, p, d / 8, column, type);
    if (moec_is_ternary(type)) return moec_load_ternary(words, d % 16);
    return moec_is_e2m1(type) ? moec_load_e2m1(words, d % 8) : moec_load_int4(words, d % 8);
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

#endif
