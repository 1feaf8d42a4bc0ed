/* product_stored: the tile for operands that are stored as bf16.
 *
 * A tile has ROWS by WIDTH results. A stage consists of DEPTH terms of its sums: asynchronous
 * copies load both operands into shared memory, several stages ahead of the products. An operand
 * consists of lines of contiguous elements. They are its rows (of the right operand: its columns)
 * if it is stored `along` the sum, else one line per term. The caller provides the start of each
 * line, so that gathered rows have no extra cost. Missing elements at an edge are 0.
 *
 * In shared memory the 16-byte vectors of a line are permuted, so that a warp reads without bank
 * conflicts. The vectors with equal index in eight lines of a matrix are at eight different
 * offsets in units of 16 bytes, modulo 128.
 *
 * Lines begin at multiples of 16 bytes. */
#ifndef MOEC_PRODUCT_STORED_CUH
#define MOEC_PRODUCT_STORED_CUH

#include "product.cuh"

/* Of kernels with this tile: two blocks fit on a multiprocessor, one multiplies while the other
 * stores. */
#define MOEC_STORED_BOUNDS MOEC_TILE_THREADS, 2
/* The same with two pairs of operands, or with a larger tile. These need more registers than are
 * available for two thread blocks. */
#define MOEC_STORED_TWICE_BOUNDS MOEC_TILE_THREADS, 1

/* The copies of one operand into shared memory: SIZE rows (or columns) by TERMS terms.
 * `Part::place(line, vector)` returns the offset of the 16 bytes of a line. */
template <class Part, int SIZE, bool ALONG, int TERMS> struct MoecCopied {
    enum {
        DEPTH = TERMS,
        VECTOR = 8, /* elements of 16 bytes */
        ELEMENTS = SIZE * DEPTH,
        LENGTH = ALONG ? DEPTH : SIZE, /* of a line */
        VECTORS = LENGTH / VECTOR,
        LINES = ELEMENTS / LENGTH,
        STEP = MOEC_TILE_THREADS / VECTORS, /* lines that all threads copy at once */
        COUNT = LINES / STEP                /* lines of a thread */
    };

    /* Addresses of the lines of this thread if they run along the sum: they are constant over all
     * stages. */
    const MoecBf16 *lines[ALONG ? COUNT : 1];

    /* Number of bytes of the vector at `at` that are before the end of the line. */
    static __device__ __forceinline__ int bytes_before(int end, int at) {
        const int left = end - at;
        return 2 * (left < 0 ? 0 : left > VECTOR ? VECTOR : left);
    }

    template <class Line> __device__ __forceinline__ void begin(int size, Line line) {
#pragma unroll
        for (int i = 0; ALONG && i < COUNT; i++) {
            const int row = (int)threadIdx.x / VECTORS + i * STEP;
            lines[ALONG ? i : 0] = line(row < size ? row : 0) + threadIdx.x % VECTORS * VECTOR;
        }
    }

    /* Line i of this thread of those that begin at `from`, where each term has a line. */
    template <class Line>
    static __device__ __forceinline__ const MoecBf16 *line_of(const Line &line, int from, int i,
                                                              int depth) {
        const int term = from + (int)threadIdx.x / VECTORS + i * STEP;
        return line(term < depth ? term : from);
    }
    static __device__ __forceinline__ const MoecBf16 *line_of(const MoecEvenLines<MoecBf16> &line,
                                                              int from, int i, int) {
        return line(from + (int)threadIdx.x / VECTORS) + i * (STEP * (long)line.step);
    }

    /* Requests the terms from `from`. A missing vector at an edge copies 0 bytes from another
     * address. This avoids branches, because all threads execute this code at every stage. */
    template <class Line>
    __device__ __forceinline__ void copy(MoecBf16 *to, int size, int from, int depth,
                                         Line line) const {
        const int vector = (int)threadIdx.x % VECTORS;
        const int bytes = ALONG ? bytes_before(depth, from + vector * VECTOR)
                                : bytes_before(size, vector * VECTOR);
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            const int number = (int)threadIdx.x / VECTORS + i * STEP;
            const bool there = ALONG ? number < size : from + number < depth;
            const MoecBf16 *at = ALONG ? lines[ALONG ? i : 0] + from
                                       : line_of(line, from, i, depth) + vector * VECTOR;
            moec_copy_async(to + Part::place(number, vector), at, there ? bytes : 0);
        }
    }
};

/* Two pairs of operands whose products are added, one stage after the other: each has part x of the
 * left operand, then part y of the right one. The second pair may have no terms. 32-bit integers
 * save registers. */
template <class Left, class Right, class LeftLine, class RightLine, class MoreLeft, class MoreRight>
struct MoecPairs {
    int height, breadth, terms, more_terms;
    LeftLine left;
    RightLine right;
    MoreLeft more_left;
    MoreRight more_right;
    Left x;
    Right y;

    __device__ __forceinline__ int first() const { return (terms + Left::DEPTH - 1) / Left::DEPTH; }
    __device__ __forceinline__ int stages() const {
        return first() + (more_terms + Left::DEPTH - 1) / Left::DEPTH;
    }

    __device__ __forceinline__ void begin() { x.begin(height, left), y.begin(breadth, right); }

    /* Asks for a stage, where there is one of that number. */
    template <class... Arrivals>
    __device__ __forceinline__ void copy(int number, MoecBf16 *to, Arrivals... arrivals) {
        const int before = first();
        if (number < before) {
            x.copy(to, height, number * Left::DEPTH, terms, left, arrivals...);
            y.copy(to + Left::ELEMENTS, breadth, number * Left::DEPTH, terms, right, arrivals...);
        } else if (number < stages()) {
            if (number == before) x.begin(height, more_left), y.begin(breadth, more_right);
            x.copy(to, height, (number - before) * Left::DEPTH, more_terms, more_left, arrivals...);
            y.copy(to + Left::ELEMENTS, breadth, (number - before) * Left::DEPTH, more_terms,
                   more_right, arrivals...);
        }
        moec_copy_commit();
    }
};

/* The pairs for a tile of at most `rows` by `columns`, limited by the remaining size m by n. */
template <class Left, class Right, class LeftLine, class RightLine, class MoreLeft, class MoreRight>
MOEC_DEVICE MoecPairs<Left, Right, LeftLine, RightLine, MoreLeft, MoreRight>
moec_pairs(int rows, long m, int columns, long n, long depth, LeftLine left, RightLine right,
           long more, MoreLeft more_left, MoreRight more_right) {
    const int height = m < rows ? (int)m : rows, breadth = n < columns ? (int)n : columns;
    return {height, breadth, (int)depth, (int)more, left, right, more_left, more_right};
}

/* One operand as a warp multiplies it. */
template <int SIZE, bool ALONG>
struct MoecStoredPart : MoecCopied<MoecStoredPart<SIZE, ALONG>, SIZE, ALONG, 32> {
    enum { VECTOR = 8, LENGTH = ALONG ? 32 : SIZE };

    static __device__ __forceinline__ int place(int line, int vector) {
        const int swizzle = ALONG ? line / 2 % 4 : line % 8;
        return line * LENGTH + (vector ^ swizzle) * VECTOR;
    }

    /* A matrix of 16 by 16 for a left operand: rows from `row` on, terms from `k` on. */
    static __device__ __forceinline__ void left(unsigned *result, const MoecBf16 *from, int row,
                                                int k) {
        const int lane = threadIdx.x % 32, in = lane % 8, second = lane / 8 % 2 * 8,
                  third = lane / 16 * 8;
        if (ALONG)
            moec_load_matrices(result, from + place(row + second + in, (k + third) / VECTOR));
        else
            moec_load_matrices_transposed(result,
                                          from + place(k + third + in, (row + second) / VECTOR));
    }

    /* Two matrices of 16 by 8 for a right operand: columns from `column` on. */
    static __device__ __forceinline__ void right(unsigned *result, const MoecBf16 *from, int column,
                                                 int k) {
        const int lane = threadIdx.x % 32, in = lane % 8, second = lane / 8 % 2 * 8,
                  third = lane / 16 * 8;
        if (ALONG)
            moec_load_matrices(result, from + place(column + third + in, (k + second) / VECTOR));
        else
            moec_load_matrices_transposed(result,
                                          from + place(k + second + in, (column + third) / VECTOR));
    }
};

template <int ROWS, int WIDTH, bool LEFT_ALONG, bool RIGHT_ALONG> struct MoecTileStored {
    typedef MoecStoredPart<ROWS, LEFT_ALONG> Left;
    typedef MoecStoredPart<WIDTH, RIGHT_ALONG> Right;
    enum {
        HEIGHT = ROWS,
        BREADTH = WIDTH,
        DEPTH = Left::DEPTH,
        STAGE = Left::ELEMENTS + Right::ELEMENTS,
        STAGES = 49152 / 2 / STAGE < 4 ? 49152 / 2 / STAGE : 4,
        ACROSS = WIDTH / 32, /* warps side by side */
        DOWN = ROWS * ACROSS / 8 / 16
    };
    static_assert(STAGES * STAGE * 2 >= 8 * MOEC_ROOM(DOWN) * 4, "room to hand out the results");

    static __device__ __forceinline__ void
    multiply_stage(float sum[DOWN][4][4], const MoecBf16 *stage, int row, int column) {
        const MoecBf16 *a = stage, *b = stage + Left::ELEMENTS;
#pragma unroll
        for (int k = 0; k < DEPTH; k += 16) {
            unsigned left[DOWN][4], right[2][4];
#pragma unroll
            for (int i = 0; i < DOWN; i++) Left::left(left[i], a, row + 16 * i, k);
#pragma unroll
            for (int j = 0; j < 2; j++) Right::right(right[j], b, column + 16 * j, k);
#pragma unroll
            for (int i = 0; i < DOWN; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) moec_mma(sum[i][j], left[i], right[j / 2] + j % 2 * 2);
        }
    }

    /* The sum continues with `more` terms of a second pair of operands. */
    template <class LeftLine, class RightLine, class MoreLeft, class MoreRight, class Store>
    MOEC_DEVICE void multiply_two(long m, long n, long depth, LeftLine left, RightLine right,
                                  long more, MoreLeft more_left, MoreRight more_right,
                                  Store store) {
        auto pairs = moec_pairs<Left, Right>(ROWS, m, WIDTH, n, depth, left, right, more, more_left,
                                             more_right);
        multiply_stages(
            pairs,
            [](float(&sum)[DOWN][4][4], const MoecBf16 *stage, int, int row, int column) {
                multiply_stage(sum, stage, row, column);
            },
            store);
    }

    /* add(sum, stage, number, row, column) adds the products of a stage: those of this warp begin
     * at (row, column). */
    template <class Pairs, class Add, class Store>
    MOEC_DEVICE void multiply_stages(Pairs &pairs, Add add, Store store) {
        __shared__ __align__(128) MoecBf16 stages[STAGES][STAGE];
        const int warp = threadIdx.x / 32, row = warp / ACROSS * 16 * DOWN,
                  column = warp % ACROSS * 32;
        const int count = pairs.stages();
        float sum[DOWN][4][4] = {};
        pairs.begin();
        for (int i = 0; i < STAGES - 1; i++) pairs.copy(i, stages[i]);
        int now = 0, next = STAGES - 1;
        for (int i = 0; i < count; i++) {
            moec_copy_wait<STAGES - 2>();
            /* all see the stage, and nobody reads the one that comes next any more */
            moec_barrier();
            pairs.copy(i + STAGES - 1, stages[next]);
            add(sum, stages[now], i, row, column);
            now = now + 1 == STAGES ? 0 : now + 1;
            next = next + 1 == STAGES ? 0 : next + 1;
        }
        moec_copy_wait<0>();
        moec_barrier();
        moec_hand_out<DOWN>(sum, (float *)(void *)stages + warp * MOEC_ROOM(DOWN), row, column,
                            pairs.height, pairs.breadth, store);
        moec_barrier();
    }

    template <class LeftLine, class RightLine, class Store>
    MOEC_DEVICE void multiply(long m, long n, long depth, bool, bool, LeftLine left,
                              RightLine right, Store store) {
        multiply_two(m, n, depth, left, right, 0, left, right, store);
    }
};

/* Two products over the same packed rows that add up, as moec_by_weight: `more` has the sizes of
 * the second pair. */
template <class Tile, class Store>
MOEC_DEVICE void moec_by_weight_twice(const MoecGroupedOnDevice &grouped, const int32_t *group,
                                      const int32_t *a_gather, const MoecBf16 *a, const MoecBf16 *b,
                                      const MoecGroupedOnDevice &more, const int32_t *more_gather,
                                      const MoecBf16 *more_a, const MoecBf16 *more_b, Store store) {
    moec_each_by_weight<Tile>(grouped, group, [&](const MoecRowTile &tile, long n) {
        const long first = tile.first;
        Tile::multiply_two(
            tile.rows, grouped.n - n, grouped.k,
            [&](long row) {
                return a + (a_gather != NULL ? a_gather[first + row] : first + row) * grouped.a_row;
            },
            moec_weights(grouped, b, tile.group, n), more.k,
            [&](long row) {
                return more_a +
                       (more_gather != NULL ? more_gather[first + row] : first + row) * more.a_row;
            },
            moec_weights(more, more_b, tile.group, n), MoecStoreAt<Store>{store, first, n});
    });
}

#endif
