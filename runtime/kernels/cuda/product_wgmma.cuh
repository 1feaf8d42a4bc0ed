/* product_wgmma: the tile of product_stored.cuh for tensor cores that read shared memory directly.
 *
 * Lines and results are the same. The two warpgroups share a tile, side by side or one below the
 * other. A stage has 64 terms. Operands with a regular layout (weights, packed rows) are copied in
 * boxes of 64 by 64, which one thread requests (bulk.cuh). Gathered rows are copied by all threads,
 * 16 bytes at a time, as in the other tile.
 *
 * The copying threads also multiply at no cost: the products of a stage continue while the stage
 * after the next is requested. A warp that only copies would reduce the registers of the sums. One
 * barrier of the thread block per stage therefore signals that another stage is free. Gathered rows
 * need this barrier in any case. */
#ifndef MOEC_PRODUCT_WGMMA_CUH
#define MOEC_PRODUCT_WGMMA_CUH

#include "wgmma.cuh"
#include "product_stored.cuh"

#ifdef MOEC_WGMMA

static_assert((int)MOEC_BOX == (int)MOEC_SWIZZLED, "a line of a box is one of tensor cores");

/* Where the boxes of an operand are: from element x of line y of matrix z on. */
struct MoecBoxed {
    const MoecMap *map;
    int x, y, z;
    __device__ __forceinline__ bool gathered() const { return false; }
};

/* The same, but line by line where map is NULL. */
template <class Line> struct MoecBoxedOr {
    MoecBoxed boxed;
    Line line;
    __device__ __forceinline__ bool gathered() const { return boxed.map == NULL; }
};
template <class Line>
MOEC_DEVICE MoecBoxedOr<Line> moec_boxed_or(const int32_t *gather, MoecBoxed boxed, Line line) {
    if (gather != NULL) boxed.map = NULL;
    return {boxed, line};
}

/* One operand: lines of 64 terms, or for each term SIZE neighbours in parts of 64, 64 terms of a
 * part in a row. A part is a box. */
template <int SIZE, bool ALONG>
struct MoecSwizzledPart : MoecCopied<MoecSwizzledPart<SIZE, ALONG>, SIZE, ALONG, MOEC_SWIZZLED> {
    typedef MoecCopied<MoecSwizzledPart, SIZE, ALONG, MOEC_SWIZZLED> Lines;
    enum {
        VECTORS = MOEC_SWIZZLED / 8,
        PART = MOEC_SWIZZLED * MOEC_SWIZZLED,
        PARTS = SIZE / MOEC_SWIZZLED
    };

    static __device__ __forceinline__ int place(int line, int vector) {
        return vector / VECTORS * PART + line * MOEC_SWIZZLED + (vector % VECTORS ^ line % 8) * 8;
    }

    __device__ __forceinline__ void begin(int, const MoecBoxed &) const {}
    template <class Line>
    __device__ __forceinline__ void begin(int size, const MoecBoxedOr<Line> &from) {
        if (from.gathered()) Lines::begin(size, from.line);
    }

    __device__ __forceinline__ void copy(MoecBf16 *to, int, int from, int, const MoecBoxed &boxed,
                                         uint64_t *arrivals) const {
        if (threadIdx.x != 0) return;
        moec_arrivals_expect(arrivals, PARTS * PART * 2);
#pragma unroll
        for (int i = 0; i < PARTS; i++)
            moec_copy_box(to + i * PART, *boxed.map, boxed.x + (ALONG ? from : i * MOEC_BOX),
                          boxed.y + (ALONG ? i * MOEC_BOX : from), boxed.z, arrivals);
    }
    template <class Line>
    __device__ __forceinline__ void copy(MoecBf16 *to, int size, int from, int depth,
                                         const MoecBoxedOr<Line> &lines, uint64_t *arrivals) const {
        if (lines.gathered())
            Lines::copy(to, size, from, depth, lines.line);
        else
            copy(to, size, from, depth, lines.boxed, arrivals);
    }

    /* Boxes also copy rows after the last row of a group, which belong to the next group: sets them
     * to 0. */
    template <class Line>
    static __device__ __forceinline__ void clear_from(MoecBf16 *stage, int term, const Line &from) {
        if (ALONG || from.gathered()) return;
        const int vector = (int)threadIdx.x % VECTORS * 8;
        for (int i = term * PARTS + (int)threadIdx.x / VECTORS; i < MOEC_SWIZZLED * PARTS;
             i += MOEC_TILE_THREADS / VECTORS)
            *(uint4 *)(stage + i % PARTS * PART + i / PARTS * MOEC_SWIZZLED + vector) =
                make_uint4(0, 0, 0, 0);
    }

    /* The operand from row (or column) 64 part on. */
    static __device__ __forceinline__ uint64_t matrix(const MoecBf16 *from, int part) {
        return moec_matrix(from + part * PART, PART * 2, MOEC_SWIZZLED_ALIGN);
    }
    /* Distance in bytes to the operands of the next 16 terms. */
    enum { NEXT = ALONG ? 32 : 16 * MOEC_SWIZZLED * 2 };
};

/* A tile of 128 by 256 is for a block that has a multiprocessor for itself: it fetches a quarter
 * less for the same work, but nobody multiplies while it stores. */
template <int ROWS, int WIDTH, bool LEFT_ALONG, bool RIGHT_ALONG> struct MoecTileWgmma {
    typedef MoecSwizzledPart<ROWS, LEFT_ALONG> Left;
    typedef MoecSwizzledPart<WIDTH, RIGHT_ALONG> Right;
    enum {
        HEIGHT = ROWS,
        BREADTH = WIDTH,
        DEPTH = Left::DEPTH,
        STAGE = Left::ELEMENTS + Right::ELEMENTS,
        SHARED = ROWS * WIDTH > 128 * 128 ? MOEC_WIDE_SHARED : MOEC_WGMMA_SHARED,
        STAGES = (SHARED - MOEC_SWIZZLED_ALIGN) / 2 / STAGE,
        ALONE = (int)SHARED == (int)MOEC_WIDE_SHARED,
        /* products in flight while the next ones are asked for: no other block fills the gap */
        BEHIND = ALONE ? 1 : 0,
        AHEAD = STAGES - 1 - BEHIND, /* stages on their way */
        DOWN = ROWS / 64,            /* warpgroups */
        ACROSS = 2 / DOWN,
        COLUMNS = WIDTH / ACROSS, /* of a warpgroup: 64, 128 or 256 */
        STRIDE = COLUMNS + 8      /* of results on their way out */
    };
    static_assert(DOWN * ACROSS == 2 && COLUMNS >= 64, "two warpgroups");
    static_assert(STAGES >= 3 && STAGES * STAGE * 2 >= 8 * 16 * STRIDE * 4,
                  "room to hand out the results");

    static __device__ __forceinline__ void multiply_stage(float (&sum)[COLUMNS / 2],
                                                          const MoecBf16 *stage, int group) {
        const uint64_t a = Left::matrix(stage, group / ACROSS);
        const uint64_t b = Right::matrix(stage + Left::ELEMENTS, group % ACROSS * (COLUMNS / 64));
        moec_wgmma_fence();
#pragma unroll
        for (int k = 0; k < DEPTH / 16; k++)
            moec_wgmma<!LEFT_ALONG, !RIGHT_ALONG>(sum, moec_matrix_at(a, k * Left::NEXT),
                                                  moec_matrix_at(b, k * Right::NEXT));
        moec_wgmma_commit();
    }

    /* A warp has 16 rows from `row` on: see moec_hand_out. */
    template <class Store>
    static __device__ __forceinline__ void hand_out(const float (&sum)[COLUMNS / 2], float *room,
                                                    int row, int column, int m, int n,
                                                    Store store) {
        const int lane = threadIdx.x % 32, rows = m - row < 16 ? m - row : 16;
#pragma unroll
        for (int i = 0; i < COLUMNS / 2; i += 2)
            *(float2 *)(room + (lane / 4 + i / 2 % 2 * 8) * STRIDE + i / 4 * 8 + lane % 4 * 2) =
                make_float2(sum[i], sum[i + 1]);
        __syncwarp();
        moec_hand_rows<COLUMNS, STRIDE>(room, row, column, rows, n - column, store);
    }

    /* All threads see the stage, and nobody reads the one that comes next any more. gathered: this
     * thread has copied some. */
    template <class Pairs>
    static __device__ __forceinline__ void await_stage(const Pairs &pairs, int number,
                                                       MoecBf16 *stage, uint64_t *arrivals,
                                                       unsigned phase, bool gathered) {
        if (gathered) moec_copy_wait<AHEAD - 1>();
        moec_arrivals_wait(arrivals, phase);
        const int left = pairs.terms - number * DEPTH;
        const bool clears = !LEFT_ALONG && left < DEPTH;
        if (clears) {
            Left::clear_from(stage, left, pairs.left);
            Right::clear_from(stage + Left::ELEMENTS, left, pairs.right);
        }
        if (gathered || clears) moec_fence_async();
        moec_wgmma_wait<BEHIND>();
        moec_barrier();
    }

    /* The sum continues with `more` terms of a second pair of operands. */
    template <class LeftLine, class RightLine, class MoreLeft, class MoreRight, class Store>
    MOEC_DEVICE void multiply_two(long m, long n, long depth, LeftLine left, RightLine right,
                                  long more, MoreLeft more_left, MoreRight more_right,
                                  Store store) {
        MOEC_SHARED(unsigned char, memory);
        __shared__ uint64_t arrivals[STAGES];
        MoecBf16 *const stages = (MoecBf16 *)(memory + moec_to_block(memory));
        const int warp = threadIdx.x / 32, group = warp / 4;
        auto pairs = moec_pairs<Left, Right>(ROWS, m, WIDTH, n, depth, left, right, more, more_left,
                                             more_right);
        const bool gathered =
            left.gathered() || right.gathered() || more_left.gathered() || more_right.gathered();
        const int count = pairs.stages();
        float sum[COLUMNS / 2] = {};
        moec_hold(sum);
        begin_arrivals(arrivals);
        const auto copy = [&](int number, int stage) {
            pairs.copy(number, stages + stage * STAGE, arrivals + stage);
            if (threadIdx.x == 0 && number < count) moec_arrivals_arrive(arrivals + stage);
        };
        pairs.begin();
        for (int i = 0; i < AHEAD; i++) copy(i, i);
        int now = 0, next = AHEAD;
        unsigned phase = 0;
        for (int i = 0; i < count; i++) {
            await_stage(pairs, i, stages + now * STAGE, arrivals + now, phase, gathered);
            multiply_stage(sum, stages + now * STAGE, group);
            copy(i + AHEAD, next);
            if (++now == STAGES) now = 0, phase ^= 1;
            next = next + 1 == STAGES ? 0 : next + 1;
        }
        moec_wgmma_wait<0>();
        moec_hold(sum);
        moec_barrier();
        hand_out(sum, (float *)(void *)stages + warp * 16 * STRIDE,
                 group / ACROSS * 64 + warp % 4 * 16, group % ACROSS * COLUMNS, pairs.height,
                 pairs.breadth, store);
        if (threadIdx.x == 0)
            for (int i = 0; i < STAGES; i++) moec_arrivals_end(arrivals + i);
    }

    /* Boxes may come to where the results of another tile lay. */
    static __device__ __forceinline__ void begin_arrivals(uint64_t *arrivals) {
        if (threadIdx.x == 0)
            for (int i = 0; i < STAGES; i++) moec_arrivals_begin(arrivals + i);
        moec_fence_async();
        moec_barrier();
    }

    template <class LeftLine, class RightLine, class Store>
    MOEC_DEVICE void multiply(long m, long n, long depth, LeftLine left, RightLine right,
                              Store store) {
        multiply_two(m, n, depth, left, right, 0, left, right, store);
    }
};

/* ---- over packed rows ---- */

/* See moec_by_weight, moec_by_rows, moec_by_weight_twice. Operands that are not gathered are copied
 * in boxes. */

/* Packed rows from `first`, or the rows that they gather, with lines along the sum. */
MOEC_DEVICE auto moec_boxed_rows(const int32_t *gather, const MoecBf16 *from, long row, long first,
                                 const MoecMap &map) {
    return moec_boxed_or(gather, MoecBoxed{&map, 0, (int)first, 0},
                         [=](int line) { return from + (long)gather[first + line] * row; });
}

/* The weights of a group from column n on. */
MOEC_DEVICE MoecBoxed moec_boxed_weights(const MoecGroupedOnDevice &grouped, long group, long n,
                                         const MoecMap &map) {
    const bool along = grouped.b_k == 1;
    return {&map, along ? 0 : (int)n, along ? (int)n : 0, (int)group};
}

template <class Tile, class Store>
MOEC_DEVICE void moec_by_weight_boxed(const MoecGroupedOnDevice &grouped, const int32_t *group,
                                      const int32_t *a_gather, const MoecBf16 *a, const MoecBf16 *,
                                      const MoecMap &a_map, const MoecMap &b_map, Store store) {
    moec_each_by_weight<Tile>(grouped, group, [&](const MoecRowTile &tile, long n) {
        Tile::multiply(tile.rows, grouped.n - n, grouped.k,
                       moec_boxed_rows(a_gather, a, grouped.a_row, tile.first, a_map),
                       moec_boxed_weights(grouped, tile.group, n, b_map),
                       MoecStoreAt<Store>{store, tile.first, n});
    });
}

template <class Tile, class Store>
MOEC_DEVICE void moec_by_weight_twice_boxed(
    const MoecGroupedOnDevice &grouped, const int32_t *group, const int32_t *a_gather,
    const MoecBf16 *a, const MoecBf16 *, const MoecGroupedOnDevice &more,
    const int32_t *more_gather, const MoecBf16 *more_a, const MoecBf16 *, const MoecMap &a_map,
    const MoecMap &b_map, const MoecMap &more_a_map, const MoecMap &more_b_map, Store store) {
    moec_each_by_weight<Tile>(grouped, group, [&](const MoecRowTile &tile, long n) {
        Tile::multiply_two(tile.rows, grouped.n - n, grouped.k,
                           moec_boxed_rows(a_gather, a, grouped.a_row, tile.first, a_map),
                           moec_boxed_weights(grouped, tile.group, n, b_map), more.k,
                           moec_boxed_rows(more_gather, more_a, more.a_row, tile.first, more_a_map),
                           moec_boxed_weights(more, tile.group, n, more_b_map),
                           MoecStoreAt<Store>{store, tile.first, n});
    });
}

template <class Tile, class Store>
MOEC_DEVICE void moec_by_rows_boxed(const MoecGroupedOnDevice &grouped, const int32_t *group,
                                    const int32_t *a_gather, const int32_t *b_gather,
                                    const MoecBf16 *a, const MoecBf16 *b, const MoecMap &a_map,
                                    const MoecMap &b_map, Store store) {
    moec_each_by_rows<Tile>(grouped, [&](long g, long k, long n) {
        const int first = group[g], a_step = (int)grouped.a_row, b_step = (int)grouped.b_k;
        const MoecBf16 *x = a + k, *y = b + n;
        Tile::multiply(grouped.k - k, grouped.n - n, group[g + 1] - first,
                       moec_boxed_or(a_gather, MoecBoxed{&a_map, (int)k, first, 0},
                                     [=](int r) { return x + (long)a_gather[first + r] * a_step; }),
                       moec_boxed_or(b_gather, MoecBoxed{&b_map, (int)n, first, 0},
                                     [=](int r) { return y + (long)b_gather[first + r] * b_step; }),
                       MoecStoreIn<Store>{store, g, k, n});
    });
}

#endif
#endif
