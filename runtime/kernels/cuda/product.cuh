/* product: tiled matrix products, dense ones and those over packed rows.
 *
 * A tile is a struct with a size and a function `multiply`. It computes sum[k] a[i,k] * b[k,j] for
 * i < m, j < n and passes the results to store(i, j, sum). An operand consists of lines of
 * contiguous elements. With left_along the lines of a are its rows, else there is a line for each
 * k. With right_along the lines of b are its columns, else there is a line for each k. left(i) and
 * right(i) return the address of line i.
 *
 *     MoecTileExact    f32 throughout; 64 by 64, a thread has 4 by 4 sums
 *     MoecTileRounded  operands rounded to bf16 during the copy into shared memory, products by
 *                      tensor cores, sums in f32; 128 by 128
 *     MoecTileStored   (product_stored.cuh) operands that are stored as bf16, in lines that begin
 *                      at multiples of 16 bytes */
#ifndef MOEC_PRODUCT_CUH
#define MOEC_PRODUCT_CUH

#include "prelude.cuh"
#include "shapes.h"

struct MoecTileExact {
    enum { SIZE = 64, HEIGHT = SIZE, BREADTH = SIZE, DEPTH = 16 };

    template <class Left, class Right, class Store>
    MOEC_DEVICE void multiply(long m, long n, long depth, bool left_along, bool right_along,
                              Left left, Right right, Store store) {
        __shared__ __align__(16) float a[DEPTH][SIZE + 4];
        __shared__ __align__(16) float b[DEPTH][SIZE + 4];
        const int thread = threadIdx.x, row = thread / 16 * 4, column = thread % 16 * 4;
        float sum[4][4] = {};
        for (long from = 0; from < depth; from += DEPTH) {
            moec_barrier();
            for (int i = 0; i < 4; i++) {
                const int at = thread + i * MOEC_TILE_THREADS;
                const int ak = left_along ? at % 16 : at / 64, am = left_along ? at / 16 : at % 64;
                const int bk = right_along ? at % 16 : at / 64,
                          bn = right_along ? at / 16 : at % 64;
                const long k = from + ak, l = from + bk;
                a[ak][am] =
                    am < m && k < depth ? moec_load(left_along ? left(am)[k] : left(k)[am]) : 0.0f;
                b[bk][bn] = bn < n && l < depth
                                ? moec_load(right_along ? right(bn)[l] : right(l)[bn])
                                : 0.0f;
            }
            moec_barrier();
#pragma unroll
            for (int k = 0; k < DEPTH; k++) {
                const float4 x = *(const float4 *)&a[k][row], y = *(const float4 *)&b[k][column];
                const float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
                for (int i = 0; i < 4; i++)
#pragma unroll
                    for (int j = 0; j < 4; j++) sum[i][j] += xs[i] * ys[j];
            }
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                if (row + i < m && column + j < n) store(row + i, column + j, sum[i][j]);
    }
};

/* A block of 128 rows by 32 of an operand on its way: four times four neighbours in memory for each
 * thread. The rows are those of the left operand or the columns of the right one; in shared memory
 * neighbours differ in k. */
struct MoecRoundedPart {
    enum { ROWS = 128, DEPTH = 32, STRIDE = 40 };
    float x[4][4];

    static __device__ __forceinline__ int row_of(int i, bool along) {
        return along ? (int)threadIdx.x / 8 + 32 * i : (int)threadIdx.x % 32 * 4;
    }
    static __device__ __forceinline__ int k_of(int i, bool along) {
        return along ? (int)threadIdx.x % 8 * 4 : (int)threadIdx.x / 32 + 8 * i;
    }

    /* Reads four neighbors of which `left` exist, with one access if their address is a multiple of
     * their size. */
    static __device__ __forceinline__ void read_four(float *four, const float *at, long left) {
        if (left >= 4 && ((size_t)at & 15) == 0) {
            const float4 all = *(const float4 *)at;
            four[0] = all.x, four[1] = all.y, four[2] = all.z, four[3] = all.w;
            return;
        }
#pragma unroll
        for (int j = 0; j < 4; j++) four[j] = j < left ? at[j] : 0.0f;
    }
    static __device__ __forceinline__ void read_four(float *four, const MoecBf16 *at, long left) {
        if (left >= 4 && ((size_t)at & 7) == 0) {
            const uint2 all = *(const uint2 *)at;
            four[0] = __uint_as_float(all.x << 16), four[1] = __uint_as_float(all.x & 0xffff0000u);
            four[2] = __uint_as_float(all.y << 16), four[3] = __uint_as_float(all.y & 0xffff0000u);
            return;
        }
#pragma unroll
        for (int j = 0; j < 4; j++) four[j] = j < left ? moec_load(at[j]) : 0.0f;
    }

    template <class Line>
    __device__ __forceinline__ void read(long rows, long from, long depth, bool along, Line line) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const long row = row_of(i, along), k = from + k_of(i, along);
            const long left = along ? depth - k : rows - row;
            const bool there = row < rows && k < depth;
            read_four(x[i],
                      !there  ? NULL
                      : along ? line(row) + k
                              : line(k) + row,
                      there ? left : 0);
        }
    }

    __device__ __forceinline__ void write(uint16_t *to, bool along) const {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint16_t *at = to + row_of(i, along) * STRIDE + k_of(i, along);
            const unsigned low = moec_bf16_pair(x[i][0], x[i][1]),
                           high = moec_bf16_pair(x[i][2], x[i][3]);
            if (along) {
                ((unsigned *)at)[0] = low;
                ((unsigned *)at)[1] = high;
                continue;
            }
            at[0] = (uint16_t)low;
            at[STRIDE] = (uint16_t)(low >> 16);
            at[2 * STRIDE] = (uint16_t)high;
            at[3 * STRIDE] = (uint16_t)(high >> 16);
        }
    }
};

/* Number of neighbors of a row that a store accepts together; 0: single results only. A store that
 * accepts several has the functions `lanes` and `together`. `together` returns true if its lines
 * begin at multiples of 16 bytes. ALWAYS: it accepts only groups of this size, and rows have a
 * multiple of it. */
template <class Store> struct MoecLanes {
    enum { COUNT = 0, ALWAYS = 0 };
};

/* A function of so many neighbours as a store. */
template <int LANES, class Function> struct MoecLaneStore {
    Function function;
    __device__ __forceinline__ bool together() const { return true; }
    __device__ __forceinline__ void lanes(long row, long column, const float (&x)[LANES]) const {
        function(row, column, x);
    }
    __device__ __forceinline__ void lanes(long group, long row, long column,
                                          const float (&x)[LANES]) const {
        function(group, row, column, x);
    }
};
template <int LANES, class Function> struct MoecLanes<MoecLaneStore<LANES, Function>> {
    enum { COUNT = LANES, ALWAYS = 1 };
};
template <int LANES, class Function>
MOEC_DEVICE MoecLaneStore<LANES, Function> moec_in_lanes(Function function) {
    return MoecLaneStore<LANES, Function>{function};
}

/* Passes `rows` rows of a warp's results from shared memory, with stride STRIDE, to `store`: 32
 * columns of a row at a time, or as many neighbors as the store accepts. The first result is at
 * (row, column); there are `columns` columns. */
template <int COLUMNS, int STRIDE, class Store>
MOEC_DEVICE void moec_hand_rows(const float *room, long row, long column, int rows, int columns,
                                Store store) {
    enum { LANES = MoecLanes<Store>::COUNT, ALWAYS = MoecLanes<Store>::ALWAYS };
    const int lane = threadIdx.x % 32;
    if constexpr (LANES > 0) {
        if (store.together()) {
            enum { PARTS = COLUMNS / LANES };
            for (int at = lane; at < rows * PARTS; at += 32) {
                const int j = at / PARTS, c = at % PARTS * LANES;
                const float *from = room + j * STRIDE + c;
                float x[LANES];
                moec_read(x, from);
                if (c + LANES <= columns) store.lanes(row + j, column + c, x);
                if constexpr (!ALWAYS)
                    for (int i = 0; c + LANES > columns && c + i < columns; i++)
                        store(row + j, column + c + i, from[i]);
            }
            return;
        }
    }
    if constexpr (!ALWAYS)
        for (int c = lane; c < COLUMNS && c < columns; c += 32) {
#pragma unroll 4
            for (int j = 0; j < rows; j++) store(row + j, column + c, room[j * STRIDE + c]);
        }
}

/* Hands the results of a tile to `store`: those of tensor cores are spread over a warp in parts of
 * 8 bytes, which would touch memory in fragments. A warp has 16 DOWN rows from `row` on and 32
 * columns from `column` on; `room` is shared memory of its own, MOEC_ROOM(DOWN) floats. */
#define MOEC_ROOM(down) ((down) < 2 ? 640 : 1280)
template <int DOWN, class Store>
MOEC_DEVICE void moec_hand_out(float sum[DOWN][4][4], float *room, int row, int column, long m,
                               long n, Store store) {
    enum { STRIDE = 40, TWO = DOWN < 2 ? 1 : 2 };
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < DOWN; i += TWO) {
        __syncwarp();
#pragma unroll
        for (int j = 0; j < TWO * 4; j++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float *two = sum[i + j / 4][j % 4] + 2 * half;
                float *at =
                    room + (j / 4 * 16 + lane / 4 + half * 8) * STRIDE + j % 4 * 8 + lane % 4 * 2;
                *(float2 *)at = make_float2(two[0], two[1]);
            }
        __syncwarp();
        const int rows = (int)moec_least(16 * TWO, m - row - 16 * i),
                  columns = (int)moec_least(32, n - column);
        moec_hand_rows<32, STRIDE>(room, row + 16 * i, column, rows, columns, store);
    }
}

struct MoecTileRounded {
    enum {
        SIZE = 128,
        HEIGHT = SIZE,
        BREADTH = SIZE,
        DEPTH = 32,
        STRIDE = MoecRoundedPart::STRIDE
    };

    /* A warp has 64 rows and 32 columns: 4 by 4 results of 16 by 8. */
    MOEC_DEVICE void multiply_part(const uint16_t *a, const uint16_t *b, float sum[4][4][4]) {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        const int row = warp / 4 * 64 + lane % 16,
                  column = warp % 4 * 32 + lane / 16 * 8 + lane % 8;
#pragma unroll
        for (int k = 0; k < DEPTH; k += 16) {
            unsigned left[4][4], right[2][4];
#pragma unroll
            for (int i = 0; i < 4; i++)
                moec_load_matrices(left[i], a + (row + 16 * i) * STRIDE + k + lane / 16 * 8);
#pragma unroll
            for (int j = 0; j < 2; j++)
                moec_load_matrices(right[j], b + (column + 16 * j) * STRIDE + k + lane / 8 % 2 * 8);
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) moec_mma(sum[i][j], left[i], right[j / 2] + j % 2 * 2);
        }
    }

    template <class Left, class Right, class Store>
    MOEC_DEVICE void multiply(long m, long n, long depth, bool left_along, bool right_along,
                              Left left, Right right, Store store) {
        __shared__ __align__(16) uint16_t parts[4][SIZE * STRIDE]; /* of a, of b, in two halves */
        const int warp = threadIdx.x / 32;
        MoecRoundedPart x, y;
        float sum[4][4][4] = {};
        if (depth > 0) {
            x.read(m, 0, depth, left_along, left);
            y.read(n, 0, depth, right_along, right);
        }
        int half = 0;
        for (long from = 0; from < depth; from += DEPTH, half ^= 1) {
            /* Slower threads still read the other half. */
            x.write(parts[half], left_along);
            y.write(parts[2 + half], right_along);
            moec_barrier();
            if (from + DEPTH < depth) {
                x.read(m, from + DEPTH, depth, left_along, left);
                y.read(n, from + DEPTH, depth, right_along, right);
            }
            multiply_part(parts[half], parts[2 + half], sum);
        }
        moec_barrier();
        moec_hand_out<4>(sum, (float *)(void *)parts + warp * MOEC_ROOM(4), warp / 4 * 64,
                         warp % 4 * 32, m, n, store);
        moec_barrier();
    }
};

/* ---- dense, of fixed shape ---- */

MOEC_DEVICE float moec_gelu(float x) {
    return 0.5f * x * (1.0f + moec_tanh(0.79788456f * (x + 0.044715f * x * x * x)));
}

/* Its derivative. */
MOEC_DEVICE float moec_gelu_slope(float x) {
    const float t = moec_tanh(0.79788456f * (x + 0.044715f * x * x * x));
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * 0.79788456f * (1.0f + 0.134145f * x * x);
}

/* Applies the epilogue (see MoecEpilogueOp) and stores the results, 16 bytes at a time if possible.
 * Rows and columns count from an offset in the matrix. */
template <class C> struct MoecDenseStore {
    const MoecProduct &product;
    const MoecEpilogue &epilogue;
    C *c; /* address of that offset */
    long first_row, first_column;

    enum { LANES = 16 / sizeof(C) };
    __device__ __forceinline__ bool together() const {
        return (product.c_m | product.add_m | product.kept_m) % LANES == 0 &&
               ((size_t)c | (size_t)epilogue.add | (size_t)epilogue.bias | (size_t)epilogue.kept) %
                       16 ==
                   0;
    }
    __device__ __forceinline__ void operator()(long row, long column, float x) const {
        float one[1] = {x};
        store(row, column, one);
    }
    __device__ __forceinline__ void lanes(long row, long column, float (&x)[LANES]) const {
        store(row, column, x);
    }

    template <int COUNT>
    static __device__ __forceinline__ void read(float (&x)[COUNT], const C *from) {
        if constexpr (COUNT > 1)
            moec_read(x, from);
        else
            x[0] = moec_load(*from);
    }
    template <int COUNT>
    static __device__ __forceinline__ void write(C *to, const float (&x)[COUNT]) {
        if constexpr (COUNT > 1)
            moec_write(to, x);
        else
            moec_store(to, x[0]);
    }
    template <int COUNT>
    static __device__ __forceinline__ void add(float (&x)[COUNT], const C *from) {
        float more[COUNT];
        read(more, from);
#pragma unroll
        for (int i = 0; i < COUNT; i++) x[i] += more[i];
    }
    template <int COUNT>
    __device__ __forceinline__ void end(long row, long column, float (&x)[COUNT]) const {
        C *const kept = (C *)epilogue.kept + row * product.kept_m + column;
        if (product.epilogue_ops & MOEC_SCALE) {
#pragma unroll
            for (int i = 0; i < COUNT; i++) x[i] *= product.scale;
        }
        if (product.epilogue_ops & MOEC_ADD)
            add(x, (const C *)epilogue.add + row * product.add_m + column);
        if (product.epilogue_ops & MOEC_BIAS) add(x, (const C *)epilogue.bias + column);
        if (product.epilogue_ops & MOEC_KEEP) write(kept, x);
        if (product.epilogue_ops & MOEC_GELU) {
#pragma unroll
            for (int i = 0; i < COUNT; i++) x[i] = moec_gelu(x[i]);
        }
        if (product.epilogue_ops & MOEC_GELU_BACK) {
            float at[COUNT];
            read(at, kept);
#pragma unroll
            for (int i = 0; i < COUNT; i++) x[i] *= moec_gelu_slope(at[i]);
        }
    }
    template <int COUNT>
    __device__ __forceinline__ void store(long row, long column, float (&x)[COUNT]) const {
        C *const at = c + row * product.c_m + column;
        if (product.epilogue_ops != 0) end(first_row + row, first_column + column, x);
        if (product.accumulate) add(x, at);
        write(at, x);
    }
};
template <class C> struct MoecLanes<MoecDenseStore<C>> {
    enum { COUNT = MoecDenseStore<C>::LANES, ALWAYS = 0 };
};

/* each(i, j, m, n) for the tiles of all matrices [i,j], whose first results are at (m, n). */
template <class Tile, class Each>
MOEC_DEVICE void moec_each_dense(const MoecProduct &product, Each each) {
    const long rows = moec_ceil_div(product.m, Tile::HEIGHT),
               columns = moec_ceil_div(product.n, Tile::BREADTH);
    const long tiles = rows * columns * product.batch[0] * product.batch[1];
    for (long tile = moec_block(); tile < tiles; tile += moec_blocks())
        each(tile / columns / rows / product.batch[1], tile / columns / rows % product.batch[1],
             tile / columns % rows * Tile::HEIGHT, tile % columns * Tile::BREADTH);
}

template <class Tile, class Left, class Right, class Result>
MOEC_DEVICE void moec_dense(const MoecProduct &product, const MoecEpilogue &epilogue, const Left *a,
                            const Right *b, Result *c) {
    const bool a_along = product.a_k == 1, b_along = product.b_k == 1;
    moec_each_dense<Tile>(product, [&](long i, long j, long m, long n) {
        const Left *x = a + i * product.a_batch[0] + j * product.a_batch[1] + m * product.a_m;
        const Right *y = b + i * product.b_batch[0] + j * product.b_batch[1] + n * product.b_n;
        Result *z = c + i * product.c_batch[0] + j * product.c_batch[1] + m * product.c_m + n;
        Tile::multiply(
            product.m - m, product.n - n, product.k, a_along, b_along,
            [&](long line) { return x + line * (a_along ? product.a_m : product.a_k); },
            [&](long line) { return y + line * (b_along ? product.b_n : product.b_k); },
            MoecDenseStore<Result>{product, epilogue, z, m, n});
    });
}

/* ---- over packed rows ---- */

/* Lines with as many elements from each to the next. A line's number and the step fit in 32 bits,
 * their product does not. FIXED: no kernel that may still run writes them. */
template <class Element, bool FIXED = false> struct MoecEvenLines {
    const Element *first;
    int step;
    __device__ __forceinline__ const Element *operator()(int line) const {
        return first + (long)line * step;
    }
};

/* A store whose rows and columns are relative to a tile, and one that also receives the group. */
template <class Store> struct MoecStoreAt {
    Store store;
    long row, column;
    __device__ __forceinline__ void operator()(long r, long c, float x) const {
        store(row + r, column + c, x);
    }
    __device__ __forceinline__ bool together() const { return store.together(); }
    template <int COUNT>
    __device__ __forceinline__ void lanes(long r, long c, float (&x)[COUNT]) const {
        store.lanes(row + r, column + c, x);
    }
};
template <class Store> struct MoecStoreIn {
    Store store;
    long group, row, column;
    __device__ __forceinline__ void operator()(long r, long c, float x) const {
        store(group, row + r, column + c, x);
    }
    __device__ __forceinline__ bool together() const { return store.together(); }
    template <int COUNT>
    __device__ __forceinline__ void lanes(long r, long c, float (&x)[COUNT]) const {
        store.lanes(group, row + r, column + c, x);
    }
};
template <class Store> struct MoecLanes<MoecStoreAt<Store>> : MoecLanes<Store> {};
template <class Store> struct MoecLanes<MoecStoreIn<Store>> : MoecLanes<Store> {};

/* The tiles of all groups have numbers; some numbers have no tile. A group begins after the full
 * tiles of the rows before it and one more for each group before it, so that its number needs no
 * counting. Where there are more groups than rows, the number is that of the tile's first row. */
struct MoecRowTile {
    long group, first, rows; /* rows: 0 when there is no such tile */
};

MOEC_DEVICE long moec_row_tiles(long rows, long groups, long size) {
    return moec_least(rows, rows / size + groups);
}

MOEC_DEVICE MoecRowTile moec_row_tile(const int32_t *group, long groups, long size, long number) {
    const bool by_row = group[groups] < group[groups] / size + groups;
    long low = 0, high = groups; /* the last group that begins at the number or before */
    while (high - low > 1) {
        const long middle = (low + high) / 2;
        const long begins = by_row ? group[middle] : group[middle] / size + middle;
        if (begins <= number)
            low = middle;
        else
            high = middle;
    }
    const long begin = group[low], end = group[low + 1];
    const long first = by_row ? number : begin + (number - begin / size - low) * size;
    const bool there = first < end && (first - begin) % size == 0;
    return MoecRowTile{low, first, there ? moec_least(size, end - first) : 0};
}

/* The same for tiles of one row, looked for by a whole block at once. */
MOEC_DEVICE MoecRowTile moec_row_alone(const int32_t *group, long groups, long row) {
    __shared__ int found;
    moec_barrier();
    for (long g = moec_thread(); g < groups; g += moec_threads())
        if (group[g] <= row && row < group[g + 1]) found = (int)g;
    moec_barrier();
    return MoecRowTile{found, row, 1};
}

/* each(tile, n) for all tiles of packed rows and their first columns n. There may be fewer blocks
 * than tiles. */
template <class Tile, class Each>
MOEC_DEVICE void moec_each_by_weight(const MoecGroupedOnDevice &grouped, const int32_t *group,
                                     Each each) {
    const long columns = moec_ceil_div(grouped.n, Tile::BREADTH);
    const long tasks =
        moec_row_tiles(group[grouped.groups], grouped.groups, Tile::HEIGHT) * columns;
    for (long task = moec_block(); task < tasks; task += moec_blocks()) {
        MoecRowTile tile = Tile::HEIGHT == 1
                               ? moec_row_alone(group, grouped.groups, task / columns)
                               : moec_row_tile(group, grouped.groups, Tile::HEIGHT, task / columns);
        if (tile.rows > 0 && grouped.weight != NULL) tile.group = grouped.weight[tile.first];
        if (tile.rows > 0) each(tile, task % columns * Tile::BREADTH);
    }
}

/* The weights of a group from column n on. */
template <class Right>
MOEC_DEVICE MoecEvenLines<Right> moec_weights(const MoecGroupedOnDevice &grouped, const Right *b,
                                              long group, long n) {
    return {b + group * grouped.b_group + n * grouped.b_n,
            (int)(grouped.b_k == 1 ? grouped.b_n : grouped.b_k)};
}

/* sum[k] a[A(r),k] * b[g][k,n] for rows r of group g, handed to store(r, n, sum). */
template <class Tile, class Left, class Right, class Store>
MOEC_DEVICE void moec_by_weight(const MoecGroupedOnDevice &grouped, const int32_t *group,
                                const int32_t *a_gather, const Left *a, const Right *b,
                                Store store) {
    moec_each_by_weight<Tile>(grouped, group, [&](const MoecRowTile &tile, long n) {
        const long first = tile.first;
        Tile::multiply(
            tile.rows, grouped.n - n, grouped.k, true, grouped.b_k == 1,
            [&](long row) {
                return a + (a_gather != NULL ? a_gather[first + row] : first + row) * grouped.a_row;
            },
            moec_weights(grouped, b, tile.group, n), MoecStoreAt<Store>{store, first, n});
    });
}

/* each(g, k, n) for the tiles of all groups. */
template <class Tile, class Each>
MOEC_DEVICE void moec_each_by_rows(const MoecGroupedOnDevice &grouped, Each each) {
    const long rows = moec_ceil_div(grouped.k, Tile::HEIGHT),
               columns = moec_ceil_div(grouped.n, Tile::BREADTH);
    for (long tile = moec_block(); tile < grouped.groups * rows * columns; tile += moec_blocks())
        each(tile / columns / rows, tile / columns % rows * Tile::HEIGHT,
             tile % columns * Tile::BREADTH);
}

/* sum[r in g] a[A(r),k] * b[B(r),n], passed to store(g, k, n, sum); the result of an empty group is
 * 0. */
template <class Tile, class Left, class Right, class Store>
MOEC_DEVICE void moec_by_rows(const MoecGroupedOnDevice &grouped, const int32_t *group,
                              const int32_t *a_gather, const int32_t *b_gather, const Left *a,
                              const Right *b, Store store) {
    moec_each_by_rows<Tile>(grouped, [&](long g, long k, long n) {
        const int first = group[g], a_step = (int)grouped.a_row, b_step = (int)grouped.b_k;
        const Left *x = a + k;
        const Right *y = b + n;
        Tile::multiply(
            grouped.k - k, grouped.n - n, group[g + 1] - first, false, false,
            [&](int r) {
                return x + (long)(a_gather != NULL ? a_gather[first + r] : first + r) * a_step;
            },
            [&](int r) {
                return y + (long)(b_gather != NULL ? b_gather[first + r] : first + r) * b_step;
            },
            MoecStoreIn<Store>{store, g, k, n});
    });
}

/* Stores results as they are, 16 bytes at once where it can. */
template <class C> struct MoecPlainStore {
    MoecGroupedOnDevice grouped;
    C *c;
    __device__ __forceinline__ void operator()(long row, long column, float sum) const {
        C *at = c + row * grouped.c_row + column;
        moec_store(at, grouped.accumulate ? moec_load(*at) + sum : sum);
    }
    __device__ __forceinline__ void operator()(long group, long row, long column, float sum) const {
        (*this)(row, group * grouped.b_group + column, sum);
    }

    enum { LANES = 16 / sizeof(C) };
    __device__ __forceinline__ bool together() const {
        return grouped.c_row % LANES == 0 && grouped.b_group % LANES == 0 && (size_t)c % 16 == 0;
    }
    __device__ __forceinline__ void lanes(long row, long column, float (&x)[LANES]) const {
        C *at = c + row * grouped.c_row + column;
        if (grouped.accumulate) {
            float before[LANES];
            moec_read(before, at);
#pragma unroll
            for (int i = 0; i < LANES; i++) x[i] += before[i];
        }
        moec_write(at, x);
    }
    __device__ __forceinline__ void lanes(long group, long row, long column,
                                          float (&x)[LANES]) const {
        lanes(row, group * grouped.b_group + column, x);
    }
};
template <class C> struct MoecLanes<MoecPlainStore<C>> {
    enum { COUNT = MoecPlainStore<C>::LANES, ALWAYS = 0 };
};

#endif
