/* tile: the part of c that is kept in registers while k runs.
 *
 * A tile has MOEC_TILE_M rows of a times two vectors of columns of b; the words are floats or pairs
 * (see operands.h). Pairs of bf16 are multiplied by the tile registers of AMX if the processor has
 * them and the system permits their use, MOEC_AMX_ROWS rows at a time. This is eight times as many
 * pairs per cycle as with vectors. An AMX register has 16 rows of 16 words. For a, a row is one
 * lane; for b, a row is one word of 16 lanes, the order of panels.
 */
#ifndef MOEC_TILE_H
#define MOEC_TILE_H

#include "operands.h"

enum {
    MOEC_PREFETCH_K = 128, /* so deep, and c is fetched while the sums are made */
    MOEC_AHEAD_A = 32,     /* words that are asked for ahead of those that are multiplied */
    MOEC_AHEAD_B = 16
};

typedef struct MoecTile {
    long k;         /* words */
    const float *a; /* [k] of MOEC_TILE_M neighbours, a_step apart; by_rows: rows of [k], so far
                       apart */
    long a_step;
    int by_rows;    /* always where the words are for AMX */
    const float *b; /* [k] rows of MOEC_TILE_N, b_step apart */
    MoecForm form;
    long b_step;
    float *c;
    long c_m;
    int add; /* adds to the contents of c */
} MoecTile;

/* ---- by AMX ---- */

#ifdef MOEC_AMX_HERE

/* Whether the system lets this process use the registers. It is asked once, or by several threads
 * at once, to no harm. */
MOEC_FUNCTION int moec_has_amx(void) {
    static int state; /* 0: not asked; 1: no; 2: yes */
    int known = __atomic_load_n(&state, __ATOMIC_RELAXED);
    if (known == 0) {
        const long arch_prctl = 158, request_permission = 0x1023, tile_data = 18;
        long answer;
        __asm__ volatile("syscall"
                         : "=a"(answer)
                         : "0"(arch_prctl), "D"(request_permission), "S"(tile_data)
                         : "rcx", "r11", "memory");
        known = answer == 0 ? 2 : 1;
        __atomic_store_n(&state, known, __ATOMIC_RELAXED);
    }
    return known == 2;
}

/* Configures all eight registers with all their rows, until moec_tiles_end. Other code that uses
 * the registers in this thread configures them itself. */
MOEC_FUNCTION void moec_tiles_begin(MoecForm form) {
    static const struct {
        uint8_t palette, start, none[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } all = {.palette = 1,
             .bytes = {64, 64, 64, 64, 64, 64, 64, 64},
             .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    if (form == MOEC_PAIRS_AMX) _tile_loadconfig(&all);
}

MOEC_INLINE void moec_tiles_end(MoecForm form) {
    if (form == MOEC_PAIRS_AMX) _tile_release();
}

/* c[MOEC_AMX_ROWS][MOEC_TILE_N] (+)= a * b; not `both`: the upper half of the rows. */
MOEC_INLINE void moec_tile_amx(const MoecTile *tile, const int both) {
    const long a_step = tile->a_step, a_bytes = a_step * 4, b_bytes = tile->b_step * 4,
               c_bytes = tile->c_m * 4;
    float *c = tile->c, *lower = c + 16 * tile->c_m;
    /* Where the tile to the right will be written: it has come by then. */
    if (tile->k >= MOEC_PREFETCH_K)
        for (long i = 0; i < (both ? 32 : 16); i++) {
            __builtin_prefetch(c + i * tile->c_m + 2 * MOEC_LANES, 1);
            __builtin_prefetch(c + i * tile->c_m + 3 * MOEC_LANES, 1);
        }
    __asm__ volatile("" ::
                         : "memory"); /* the intrinsics that load registers do not declare that
                                          they read memory */
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    if (tile->add) {
        _tile_loadd(0, c, c_bytes);
        _tile_loadd(1, c + 16, c_bytes);
        if (both) {
            _tile_loadd(2, lower, c_bytes);
            _tile_loadd(3, lower + 16, c_bytes);
        }
    }
    for (long p = 0; p < tile->k; p += 16) {
        const float *a = tile->a + p, *b = tile->b + p * tile->b_step;
        _tile_loadd(4, a, a_bytes);
        _tile_loadd(6, b, b_bytes);
        _tile_loadd(7, b + 16, b_bytes);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        if (both) {
            _tile_loadd(5, a + 16 * a_step, a_bytes);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, c, c_bytes);
    _tile_stored(1, c + 16, c_bytes);
    if (both) {
        _tile_stored(2, lower, c_bytes);
        _tile_stored(3, lower + 16, c_bytes);
    }
}

#else

MOEC_INLINE int moec_has_amx(void) { return 0; }
MOEC_INLINE void moec_tiles_begin(MoecForm form) { (void)form; }
MOEC_INLINE void moec_tiles_end(MoecForm form) { (void)form; }
MOEC_INLINE void moec_tile_amx(const MoecTile *tile, const int both) { (void)tile, (void)both; }

#endif

/* Form of the words of a product; rounded: its operands may be rounded to bf16. */
MOEC_INLINE MoecForm moec_form(int rounded) {
    if (!MOEC_HAS_PAIRS || !rounded) return MOEC_FLOATS;
    if (moec_has_amx()) return MOEC_PAIRS_AMX;
    return moec_fast_pairs() ? MOEC_PAIRS : MOEC_FLOATS;
}

/* ---- by vectors ---- */

/* c[rows][MOEC_TILE_N] (+)= a * b. `rows`, `pairs` and `by_rows` are constants wherever this is
 * inlined, so that `sum` stays in registers; of the rows of a, every third has one. */
MOEC_INLINE void moec_tile_rows(const MoecTile *tile, const long rows, const int pairs,
                                const int by_rows) {
    MoecVector sum[MOEC_TILE_M][2];
    const float *a = tile->a, *b = tile->b, *third[(MOEC_TILE_M + 2) / 3];
    const long step = tile->a_step;
#pragma GCC unroll 14
    for (long i = 0; i < rows; i += 3) third[i / 3] = a + i * step;
#pragma GCC unroll 14
    for (long i = 0; i < rows; i++) sum[i][0] = sum[i][1] = (MoecVector){0};
    if (tile->k >= MOEC_PREFETCH_K)
        for (long i = 0; i < rows; i++) {
            __builtin_prefetch(tile->c + i * tile->c_m, 1);
            __builtin_prefetch(tile->c + i * tile->c_m + MOEC_LANES, 1);
        }
    for (long p = 0; p < tile->k; p++) {
        const MoecVector left = moec_load_vector(b), right = moec_load_vector(b + MOEC_LANES);
        if (!by_rows) __builtin_prefetch(a + MOEC_AHEAD_A * step);
        __builtin_prefetch(b + MOEC_AHEAD_B * tile->b_step);
        __builtin_prefetch(b + MOEC_AHEAD_B * tile->b_step + MOEC_LANES);
#pragma GCC unroll 14
        for (long i = 0; i < rows; i++) {
            const float word = by_rows ? third[i / 3][i % 3 * step + p] : a[i];
            sum[i][0] = moec_add_words(sum[i][0], word, left, pairs);
            sum[i][1] = moec_add_words(sum[i][1], word, right, pairs);
        }
        a += step;
        b += tile->b_step;
    }
#pragma GCC unroll 14
    for (long i = 0; i < rows; i++) {
        float *c = tile->c + i * tile->c_m;
        if (tile->add) {
            sum[i][0] += moec_load_vector(c);
            sum[i][1] += moec_load_vector(c + MOEC_LANES);
        }
        moec_store_vector(c, sum[i][0]);
        moec_store_vector(c + MOEC_LANES, sum[i][1]);
    }
}

/* Any number of rows: the next larger of three sizes. */
MOEC_INLINE void moec_tile_sizes(const MoecTile *tile, long rows, const int pairs) {
    if (tile->by_rows)
        moec_tile_rows(tile, MOEC_TILE_M, pairs, 1);
    else if (rows <= MOEC_TILE_M / 4)
        moec_tile_rows(tile, MOEC_TILE_M / 4, pairs, 0);
    else if (rows <= MOEC_TILE_M / 2)
        moec_tile_rows(tile, MOEC_TILE_M / 2, pairs, 0);
    else
        moec_tile_rows(tile, MOEC_TILE_M, pairs, 0);
}

/* A tile into a copy where its size does not fit. */
MOEC_LARGE void moec_tile(const MoecTile *tile, long rows, long columns) {
    const int fits = rows == moec_tile_height(tile->form) && columns == MOEC_TILE_N;
    float copy[MOEC_TILE_MOST * MOEC_TILE_N] __attribute__((aligned(64)));
    MoecTile part = *tile;
    if (!fits) {
        part.c = copy;
        part.c_m = MOEC_TILE_N;
        part.add = 0;
    }
    if (MOEC_HAS_AMX && tile->form == MOEC_PAIRS_AMX && rows > MOEC_AMX_ROWS / 2)
        moec_tile_amx(&part, 1);
    else if (MOEC_HAS_AMX && tile->form == MOEC_PAIRS_AMX)
        moec_tile_amx(&part, 0);
    else if (MOEC_HAS_PAIRS && tile->form == MOEC_PAIRS)
        moec_tile_sizes(&part, rows, 1);
    else
        moec_tile_sizes(&part, rows, 0);
    for (long i = 0; i < rows && !fits; i++) {
        float *c = tile->c + i * tile->c_m;
        const float *from = copy + i * MOEC_TILE_N;
        for (long j = 0; j < columns; j++) c[j] = tile->add ? c[j] + from[j] : from[j];
    }
}

#endif
