/* product_row: one row times a matrix. Every element of the matrix is read once, and memory
 * bandwidth limits the speed.
 *
 * Every thread therefore starts loads of several 16-byte vectors of the matrix before it uses the
 * first. A thread block requests its first vectors before it waits for the kernel that computes the
 * row, or before it computes the row itself. A line of the matrix is a column if it runs ALONG the
 * sum, else the elements of one term for all columns. Lines begin at multiples of 16 bytes; a row
 * has a multiple of their elements.
 *
 * A thread adds its terms, then the sums of the threads are combined in a fixed order. */
#ifndef MOEC_PRODUCT_ROW_CUH
#define MOEC_PRODUCT_ROW_CUH

#include "product.cuh"

#define MOEC_ROW_BOUNDS MOEC_ROW_THREADS, 2
/* For sizes that are not known when the kernel is compiled: they need more registers. */
#define MOEC_ROW_GROUPED_BOUNDS MOEC_ROW_THREADS, 1

/* 16 bytes of elements. Those of the matrix pass through no cache that others need, and their reads
 * stay where they are written. fixed: no kernel that may still run writes them, so that a read
 * through the read-only cache returns no old values. */
template <class Element> struct MoecVector16 {
    enum { COUNT = 16 / sizeof(Element) };
    uint4 bits;

    __device__ __forceinline__ void stream(const Element *from, bool there, bool fixed) {
        bits = make_uint4(0u, 0u, 0u, 0u);
        if (!there) return;
#ifdef MOEC_SIM
        if (fixed) sim_read_constant(from, sizeof bits);
        bits = *(const uint4 *)from;
#else
        if (fixed)
            asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
                         : "l"(from));
        else
            asm volatile("ld.global.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
                         : "l"(from));
#endif
    }
    __device__ __forceinline__ void read(const Element *from, bool there) {
        bits = there ? *(const uint4 *)from : make_uint4(0u, 0u, 0u, 0u);
    }
    __device__ __forceinline__ float at(int i) const {
        const unsigned words[4] = {bits.x, bits.y, bits.z, bits.w};
        if (sizeof(Element) == 4) return __uint_as_float(words[i]);
        return __uint_as_float(i % 2 ? words[i / 2] & 0xffff0000u : words[i / 2] << 16);
    }
};

/* Sums COUNT numbers over the lanes of a warp that differ in the bits DISTANCE, DISTANCE / 2 ..
 * LAST of their index. Each step halves the numbers per lane. Returns the index of the first number
 * that this lane keeps. */
template <int COUNT, int DISTANCE, int LAST> MOEC_DEVICE int moec_fold(float *x) {
    if constexpr (DISTANCE < LAST) {
        return 0;
    } else if constexpr (COUNT == 1) {
        x[0] += __shfl_xor_sync(0xffffffffu, x[0], DISTANCE);
        return moec_fold<1, DISTANCE / 2, LAST>(x);
    } else {
        const bool upper = (threadIdx.x & DISTANCE) != 0;
#pragma unroll
        for (int i = 0; i < COUNT / 2; i++) {
            const float other =
                __shfl_xor_sync(0xffffffffu, upper ? x[i] : x[i + COUNT / 2], DISTANCE);
            x[i] = (upper ? x[i + COUNT / 2] : x[i]) + other;
        }
        return (upper ? COUNT / 2 : 0) + moec_fold<COUNT / 2, DISTANCE / 2, LAST>(x);
    }
}

/* How many numbers moec_fold leaves. */
static __host__ __device__ constexpr int moec_folded(int count, int distance, int last) {
    return distance < last || count == 1 ? count : moec_folded(count / 2, distance / 2, last);
}

/* Forces additions to the pointer to happen at their use: pointers that are kept for a whole loop
 * cost registers. */
template <class Element> MOEC_DEVICE void moec_hold_pointer(const Element *&at) {
#ifndef MOEC_SIM
    asm volatile("" : "+l"(at));
#endif
}

/* A row is a pointer, or a function that computes it and returns one. */
template <class Element> MOEC_DEVICE const Element *moec_row(const Element *row) { return row; }
template <class Row> MOEC_DEVICE auto moec_row(const Row &row) { return row(); }

/* COLUMNS results of a row. `run` hands result i < n to store(i, sum); it gets the row from ready()
 * after it has requested elements of the matrix. Of several MATRICES, lines across the sum, threads
 * side by side have one each: store(i, sum, ...) gets a result of each. */
template <class Element, int COLUMNS, bool ALONG, int MATRICES = 1> struct MoecTileRow {
    enum {
        HEIGHT = 1,
        BREADTH = COLUMNS,
        VECTOR = MoecVector16<Element>::COUNT,
        WARPS = MOEC_ROW_THREADS / 32,
        AHEAD = 3
    };
    enum { TEAM = MOEC_ROW_THREADS / MATRICES }; /* threads that have the same matrix */

    template <bool FIXED, class Ready, class Store>
    MOEC_DEVICE void run(int n, int depth, MoecEvenLines<Element, FIXED> line, Ready ready,
                         Store store) {
        if constexpr (ALONG)
            run_along(n, depth, line, ready, store);
        else
            run_across(n, depth, line, ready,
                       [&](int column, const float *sums) { store(column, sums[0]); });
    }

    /* `line` is that of the matrix of the thread. */
    MOEC_DEVICE int matrix() { return (int)threadIdx.x / TEAM; }

    /* A line for each term: LANES threads side by side have its columns, the others other terms.
     * store(i, sums) gets as many as there are matrices. */
    template <bool FIXED, class Ready, class Store>
    MOEC_DEVICE void run_across(int n, int depth, MoecEvenLines<Element, FIXED> line, Ready ready,
                                Store store) {
        enum {
            LANES = BREADTH / VECTOR,
            STEP = TEAM / LANES,
            LEFT = moec_folded(VECTOR, 16, LANES)
        };
        /* lanes that keep the same */
        enum { SAME = 16 / VECTOR < LANES ? 0 : 2 * (16 / VECTOR) - LANES };
        __shared__ float sums[WARPS][BREADTH];
        const int term = (int)threadIdx.x % TEAM / LANES,
                  column = (int)threadIdx.x % LANES * VECTOR;
        MoecVector16<Element> vectors[2][AHEAD];
        float x[2][AHEAD], sum[VECTOR] = {};
        const Element *const own = line(term) + column;
        /* The first test is the same for all threads: where the sizes are known it goes. */
        const auto ask = [&](int half, int from) {
            const Element *at = own + (long)from * line.step;
            moec_hold_pointer(at);
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                const int k = from + i * STEP;
                vectors[half][i].stream(at + (long)(i * STEP) * line.step,
                                        k < depth && k + term < depth && column < n, FIXED);
            }
        };
        const Element *row = NULL;
        const auto ask_row = [&](int half, int from) {
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                const int k = from + i * STEP;
                x[half][i] = k < depth && k + term < depth ? moec_load(row[k + term]) : 0.0f;
            }
        };
        ask(0, 0);
        ask(1, AHEAD * STEP);
        row = ready();
        ask_row(0, 0);
        ask_row(1, AHEAD * STEP);
#pragma unroll 1
        for (int from = 0; from < depth; from += 2 * AHEAD * STEP) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                if (from + half * AHEAD * STEP >= depth) break;
#pragma unroll
                for (int i = 0; i < AHEAD; i++)
#pragma unroll
                    for (int j = 0; j < VECTOR; j++) sum[j] += x[half][i] * vectors[half][i].at(j);
                ask(half, from + (2 + half) * AHEAD * STEP);
                ask_row(half, from + (2 + half) * AHEAD * STEP);
            }
        }
        const int kept = column + moec_fold<VECTOR, 16, LANES>(sum);
        if ((threadIdx.x & SAME) == 0)
#pragma unroll
            for (int j = 0; j < LEFT; j++) sums[threadIdx.x / 32][kept + j] = sum[j];
        moec_barrier();
        if (threadIdx.x < BREADTH && (int)threadIdx.x < n) {
            float all[MATRICES] = {};
#pragma unroll
            for (int i = 0; i < WARPS; i++) all[i / (WARPS / MATRICES)] += sums[i][threadIdx.x];
            store(threadIdx.x, all);
        }
    }

    /* A line for each column: a warp has a few of those. */
    template <bool FIXED, class Ready, class Store>
    MOEC_DEVICE void run_along(int n, int depth, MoecEvenLines<Element, FIXED> line, Ready ready,
                               Store store) {
        enum { OWN = BREADTH / WARPS, STEP = 32 * VECTOR };
        static_assert(OWN == 4, "columns of a warp");
        const int first = (int)threadIdx.x / 32 * OWN, term = (int)threadIdx.x % 32 * VECTOR;
        MoecVector16<Element> vectors[2][OWN], x[2];
        float sum[OWN] = {};
        const Element *const own = line(first) + term;
        const auto ask = [&](int half, int from) {
#pragma unroll
            for (int i = 0; i < OWN; i++)
                vectors[half][i].stream(own + from + (long)i * line.step,
                                        from < depth && from + term < depth && first + i < n,
                                        FIXED);
        };
        ask(0, 0);
        ask(1, STEP);
        const Element *const row = ready();
        x[0].read(row + term, term < depth);
        x[1].read(row + STEP + term, STEP + term < depth);
#pragma unroll 1
        for (int from = 0; from < depth; from += 2 * STEP) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                if (from + half * STEP >= depth) break;
                const int next = from + (2 + half) * STEP;
#pragma unroll
                for (int i = 0; i < OWN; i++)
#pragma unroll
                    for (int j = 0; j < VECTOR; j++)
                        sum[i] += x[half].at(j) * vectors[half][i].at(j);
                ask(half, next);
                x[half].read(row + next + term, next + term < depth);
            }
        }
        const int kept = first + moec_fold<OWN, 16, 1>(sum);
        if (threadIdx.x % 8 == 0 && kept < n) store(kept, sum[0]);
    }

    /* As the tiles of products over packed rows: m is 1. */
    template <class Left, class Right, class Store>
    MOEC_DEVICE void multiply(long, long n, long depth, bool, bool, Left left, Right right,
                              Store store) {
        run((int)moec_least(n, BREADTH), (int)depth, right, [&] { return left(0); },
            [&](int column, float sum) { store(0, column, sum); });
        moec_barrier(); /* all threads are done with shared memory */
    }
};

/* sum[k] row[k] * matrix[k,n], passed to store(0, n, sum); `step` is the stride between lines.
 * FIXED: no kernel that may still run writes the matrix. A thread block has one tile. */
template <class Tile, bool ALONG, bool FIXED, class Row, class Element, class Store>
MOEC_DEVICE void moec_row_by_matrix(int tile, int n, int depth, int step, const Row &row,
                                    const Element *matrix, Store store) {
    const int first = tile * Tile::BREADTH;
    const MoecEvenLines<Element, FIXED> lines = {matrix + (ALONG ? (long)first * step : first),
                                                 step};
    if (!FIXED) moec_begin();
    Tile::run(
        n - first, depth, lines,
        [&] {
            if (FIXED) moec_begin();
            return moec_row(row);
        },
        [&](int column, float sum) { store(0, first + column, sum); });
}

/* The same with two matrices alike, whose results go to store(0, n, sum, other). */
template <class Tile, bool ALONG, bool FIXED, class Row, class Element, class Store>
MOEC_DEVICE void moec_row_by_matrices(int tile, int n, int depth, int step, const Row &row,
                                      const Element *matrix, const Element *other, Store store) {
    static_assert(!ALONG, "lines across the sum");
    const int first = tile * Tile::BREADTH;
    const MoecEvenLines<Element, FIXED> lines = {(Tile::matrix() ? other : matrix) + first, step};
    if (!FIXED) moec_begin();
    Tile::run_across(
        n - first, depth, lines,
        [&] {
            if (FIXED) moec_begin();
            return moec_row(row);
        },
        [&](int column, const float *sums) { store(0, first + column, sums[0], sums[1]); });
}

#endif
