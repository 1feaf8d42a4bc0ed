/* panels: packing of operands into panels for the tiles.
 *
 * A panel for a tile contains an operand as 32-bit words in the order in which the tile reads them.
 * A word is usually one float. It is a pair of neighbors along k as bf16, with the first in the
 * lower half, if the product rounds its operands and the processor multiplies pairs of bf16
 * (MOEC_HAS_PAIRS) faster than floats. The order of the words is the same, so one tile handles
 * both. AMX requires lanes of a as rows of words, and depths that are multiples of 16 words, with
 * zeros as padding. */
#ifndef MOEC_PANELS_H
#define MOEC_PANELS_H

#include "operands.h"

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
                                   long ahead, const int *table, long width, float *out) {
    const MoecType type = x->type;
    const char *row[MOEC_LANES], *next[MOEC_LANES];
    long p = 0;
    for (long i = 0; i < MOEC_LANES && i < count; i++) {
        row[i] = moec_lane_at(x, table, first + i);
        next[i] = moec_lane_at(x, table, first + i + ahead);
    }
    for (; MOEC_TRANSPOSES && p + MOEC_LANES <= depth; p += MOEC_LANES) {
        MoecVector rows[MOEC_LANES] = {0};
        for (long i = 0; i < MOEC_LANES && i < count; i++) {
            moec_ask(moec_at(next[i], p, type));
            rows[i] = moec_load_part(row[i], p, type);
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

/* The same of lanes in panels (abi.h). */
MOEC_INLINE void moec_unpack_panels(const MoecOperand *x, long first, long lanes, long depth,
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
#pragma GCC unroll 2
            for (int half = 0; half < 2; half++) {
                const MoecVector scale = moec_panel_scales(from, part, half, column, type);
#pragma GCC unroll 16
                for (int d = half * 16; d < half * 16 + 16; d++, to += width)
                    moec_store_vector(to, scale * moec_panel_numbers(from, part, d, column, type));
            }
            p += MOEC_PANEL_DEPTH - 1;
        }
    }
}

/* One panel: out[depth][width] of the lanes from `first` on, zero beyond `lanes`. */
MOEC_FUNCTION void moec_pack_panel(const MoecOperand *x, long first, long lanes, long depth,
                                   long width, float *out) {
    const int neighbours = x->lane == 1 && x->lanes == NULL;
#define MOEC_UNPACK(TYPE)                                                                          \
    if (x->type == MOEC_##TYPE) {                                                                  \
        moec_unpack_panels(x, first, lanes, depth, width, MOEC_##TYPE, out);                       \
        return;                                                                                    \
    }
    MOEC_PANEL_TYPES(MOEC_UNPACK)
#undef MOEC_UNPACK
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
        if (side_by_side && x->lanes == NULL)
            p = moec_pack_squares(x, first + i, full, depth, ahead, NULL, width, out + i);
        else if (side_by_side)
            p = moec_pack_squares(x, first + i, full, depth, ahead, x->lanes, width, out + i);
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
