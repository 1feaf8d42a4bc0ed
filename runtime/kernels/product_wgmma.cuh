/* product_wgmma: the tile of product_stored.cuh for tensor cores that read shared memory by themselves.
 *
 * The same lines, the same results; two warpgroups, one beside or below the other. A stage has 64 terms. Gathered rows have no
 * regular place, so both operands come by copies of 16 bytes, as in the other tile: that each thread then makes its copies
 * known to the tensor cores (a proxy fence) costs one instruction a stage.
 */
#ifndef MOEC_PRODUCT_WGMMA_CUH
#define MOEC_PRODUCT_WGMMA_CUH

#include "product_stored.cuh"
#include "wgmma.cuh"

#ifdef MOEC_WGMMA

/* One operand: lines of 64 terms, or for each term SIZE neighbours in parts of 64, 64 terms of a part in a row. */
template <int SIZE, bool ALONG>
struct MoecSwizzledPart : MoecCopied<MoecSwizzledPart<SIZE, ALONG>, SIZE, ALONG, MOEC_SWIZZLED> {
    enum { PIECES = MOEC_SWIZZLED / 8, PART = MOEC_SWIZZLED * MOEC_SWIZZLED };

    static __device__ __forceinline__ int place(int line, int piece) {
        return piece / PIECES * PART + line * MOEC_SWIZZLED + (piece % PIECES ^ line % 8) * 8;
    }

    /* The operand from row (or column) 64 part on. */
    static __device__ __forceinline__ uint64_t matrix(const MoecBf16 *from, int part) {
        return moec_matrix(from + part * PART, PART * 2, MOEC_SWIZZLED_ALIGN);
    }
    /* Bytes to what is multiplied next, 16 terms further on. */
    enum { NEXT = ALONG ? 32 : 16 * MOEC_SWIZZLED * 2 };
};

/* A tile of 128 by 256 is for a block that has a multiprocessor for itself: it fetches a quarter less for the same work, but
 * nobody multiplies while it stores. */
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
        BEHIND = ALONE ? 1 : 0,      /* products in flight while the next ones are asked for: no other block fills the gap */
        AHEAD = STAGES - 1 - BEHIND, /* stages on their way */
        DOWN = ROWS / 64,            /* warpgroups */
        ACROSS = 2 / DOWN,
        COLUMNS = WIDTH / ACROSS, /* of a warpgroup: 64, 128 or 256 */
        STRIDE = COLUMNS + 8      /* of results on their way out */
    };
    static_assert(DOWN * ACROSS == 2 && COLUMNS >= 64, "two warpgroups");
    static_assert(STAGES >= 3 && STAGES * STAGE * 2 >= 8 * 16 * STRIDE * 4, "room to hand out the results");

    static __device__ __forceinline__ void multiply_stage(float (&sum)[COLUMNS / 2], const MoecBf16 *stage, int group) {
        const uint64_t a = Left::matrix(stage, group / ACROSS);
        const uint64_t b = Right::matrix(stage + Left::ELEMENTS, group % ACROSS * (COLUMNS / 64));
        moec_wgmma_fence();
#pragma unroll
        for (int k = 0; k < DEPTH / 16; k++)
            moec_wgmma<!LEFT_ALONG, !RIGHT_ALONG>(sum, moec_matrix_at(a, k * Left::NEXT), moec_matrix_at(b, k * Right::NEXT));
        moec_wgmma_commit();
    }

    /* A warp has 16 rows from `row` on: see moec_hand_out. */
    template <class Store>
    static __device__ __forceinline__ void hand_out(const float (&sum)[COLUMNS / 2], float *room, int row, int column, int m,
                                                    int n, Store store) {
        const int lane = threadIdx.x % 32, rows = m - row < 16 ? m - row : 16;
#pragma unroll
        for (int i = 0; i < COLUMNS / 2; i += 2)
            *(float2 *)(room + (lane / 4 + i / 2 % 2 * 8) * STRIDE + i / 4 * 8 + lane % 4 * 2) = make_float2(sum[i], sum[i + 1]);
        __syncwarp();
        moec_hand_rows<COLUMNS, STRIDE>(room, row, column, rows, n - column, store);
    }

    /* The sum goes on with `more` terms of a second pair of operands. */
    template <class LeftLine, class RightLine, class MoreLeft, class MoreRight, class Store>
    MOEC_DEVICE void multiply_two(long m, long n, long depth, LeftLine left, RightLine right, long more, MoreLeft more_left,
                                  MoreRight more_right, Store store) {
        MOEC_SHARED(unsigned char, memory);
        MoecBf16 *const stages = (MoecBf16 *)(memory + moec_to_block(memory));
        const int warp = threadIdx.x / 32, group = warp / 4;
        const int first = (int)moec_pieces(depth, DEPTH), turns = first + (int)moec_pieces(more, DEPTH);
        const int height = m < ROWS ? (int)m : ROWS, breadth = n < WIDTH ? (int)n : WIDTH;
        const int terms = (int)depth, more_terms = (int)more;
        float sum[COLUMNS / 2] = {};
        moec_hold(sum);
        Left x;
        Right y;
        const auto copy = [&](int turn, MoecBf16 *to) {
            if (turn < first) {
                x.copy(to, height, turn * DEPTH, terms, left);
                y.copy(to + Left::ELEMENTS, breadth, turn * DEPTH, terms, right);
            } else if (turn < turns) {
                if (turn == first) x.begin(height, more_left), y.begin(breadth, more_right);
                x.copy(to, height, (turn - first) * DEPTH, more_terms, more_left);
                y.copy(to + Left::ELEMENTS, breadth, (turn - first) * DEPTH, more_terms, more_right);
            }
            moec_copy_commit();
        };
        x.begin(height, left);
        y.begin(breadth, right);
        for (int i = 0; i < AHEAD; i++) copy(i, stages + i * STAGE);
        int now = 0, next = AHEAD;
        for (int i = 0; i < turns; i++) {
            moec_copy_wait<AHEAD - 1>();
            moec_fence_async();
            moec_wgmma_wait<BEHIND>();
            moec_barrier(); /* all see the stage, and nobody reads the one that comes next any more */
            multiply_stage(sum, stages + now * STAGE, group);
            copy(i + AHEAD, stages + next * STAGE);
            now = now + 1 == STAGES ? 0 : now + 1;
            next = next + 1 == STAGES ? 0 : next + 1;
        }
        moec_wgmma_wait<0>();
        moec_hold(sum);
        moec_copy_wait<0>();
        moec_barrier();
        hand_out(sum, (float *)(void *)stages + warp * 16 * STRIDE, group / ACROSS * 64 + warp % 4 * 16,
                 group % ACROSS * COLUMNS, height, breadth, store);
        moec_barrier();
    }

    template <class LeftLine, class RightLine, class Store>
    MOEC_DEVICE void multiply(long m, long n, long depth, bool, bool, LeftLine left, RightLine right, Store store) {
        multiply_two(m, n, depth, left, right, 0, left, right, store);
    }
};

#endif
#endif
