/* product_units: products of operands that consist of units in 8 bits and scales.
 *
 *     c[m,n] = sum[k] (a[m,k] * a_scale[m,k / BLOCK]) * (b[k,n] * b_scale[k / BLOCK,n])
 *
 * BLOCK terms of a sum share both scales; 0: all terms. The terms of a sum are contiguous in both
 * operands, their number is a multiple of MOEC_UNITS, and lines begin at multiples of it.
 *
 * The stages in shared memory are those of product_stored.cuh: one element there is two units here,
 * since the fragments of both instructions have the same bytes. */
#ifndef MOEC_PRODUCT_UNITS_CUH
#define MOEC_PRODUCT_UNITS_CUH

#include "product_stored.cuh"

/* Two units as a pair of f16: those of E4M3 times 2^-8. 0x7f stays no number. */
template <class Small> MOEC_DEVICE unsigned moec_half_pair(unsigned two) {
    const unsigned apart = (two & 0xffu) | (two & 0xff00u) << 8;
    if constexpr (Small::FRACTION == 2) return apart << 8;
    const unsigned size = apart & 0x7f007fu;
    return (size | ((size + 0x10001u) & 0x800080u)) << 7 | (apart & 0x800080u) << 8;
}

/* d[16,8] += a[16,16] b[16,8] in f16, as moec_mma. */
MOEC_DEVICE void moec_mma_half(float *d, const unsigned *a, const unsigned *b) {
#ifdef MOEC_SIM
    sim_mma_f16(d, a, b);
#else
    MOEC_MMA(d, a, b, "m16n8k16", "f16.f16");
#endif
}

/* The sums of moec_mma_units by products of f16. The terms have another order, which is the same in
 * both operands. */
template <class A, class B>
MOEC_DEVICE void moec_mma_units_as_half(float *d, const unsigned *a, const unsigned *b) {
    constexpr float scale = (A::FRACTION == 3 ? 256.0f : 1.0f) * (B::FRACTION == 3 ? 256.0f : 1.0f);
    float part[4] = {};
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const unsigned x = a[2 * half], y = a[2 * half + 1], z = b[half];
        const unsigned left[4] = {moec_half_pair<A>(x), moec_half_pair<A>(y),
                                  moec_half_pair<A>(x >> 16), moec_half_pair<A>(y >> 16)},
                       right[2] = {moec_half_pair<B>(z), moec_half_pair<B>(z >> 16)};
        moec_mma_half(part, left, right);
    }
#pragma unroll
    for (int e = 0; e < 4; e++) d[e] += part[e] * scale;
}

/* The instruction exists on capability 8.9 and later. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890 &&                                              \
    __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1204
#define MOEC_HAS_MMA_UNITS 1
#else
#define MOEC_HAS_MMA_UNITS 0
#endif

/* d[16,8] += a[16,32] b[32,8], spread over a warp as mma.m16n8k32 of 8-bit numbers wants it. */
template <class A, class B>
MOEC_DEVICE void moec_mma_units(float *d, const unsigned *a, const unsigned *b) {
#ifdef MOEC_SIM
    sim_mma_small<A::FRACTION, B::FRACTION>(d, a, b);
#elif MOEC_HAS_MMA_UNITS
    if constexpr (A::FRACTION == 3 && B::FRACTION == 3)
        MOEC_MMA(d, a, b, "m16n8k32", "e4m3.e4m3");
    else if constexpr (A::FRACTION == 3)
        MOEC_MMA(d, a, b, "m16n8k32", "e4m3.e5m2");
    else if constexpr (B::FRACTION == 3)
        MOEC_MMA(d, a, b, "m16n8k32", "e5m2.e4m3");
    else
        MOEC_MMA(d, a, b, "m16n8k32", "e5m2.e5m2");
#else
    moec_mma_units_as_half<A, B>(d, a, b);
#endif
}

/* The scales of a tile: of its rows, of its columns. */
struct MoecTileScales {
    const float *rows, *columns;
    long row, column;             /* from one to the next */
    long row_block, column_block; /* to those of the next terms */
};

/* A store of sums of units, multiplied by the scales of their row and column. */
template <class Store> struct MoecScaledStore {
    Store store;
    MoecTileScales scales;
    __device__ __forceinline__ float scaled(float x, long row, long column) const {
        return x * scales.rows[row * scales.row] * scales.columns[column * scales.column];
    }
    __device__ __forceinline__ bool together() const { return store.together(); }
    __device__ __forceinline__ void operator()(long row, long column, float x) const {
        store(row, column, scaled(x, row, column));
    }
    template <int COUNT>
    __device__ __forceinline__ void lanes(long row, long column, float (&x)[COUNT]) const {
#pragma unroll
        for (int i = 0; i < COUNT; i++) x[i] = scaled(x[i], row, column + i);
        store.lanes(row, column, x);
    }
};
template <class Store> struct MoecLanes<MoecScaledStore<Store>> : MoecLanes<Store> {};

template <int ROWS, int WIDTH, int BLOCK>
struct MoecTileUnits : MoecTileStored<ROWS, WIDTH, true, true> {
    typedef MoecTileStored<ROWS, WIDTH, true, true> Stored;
    typedef typename Stored::Left Left;
    typedef typename Stored::Right Right;
    enum { DOWN = Stored::DOWN, BLOCKS = BLOCK > 0, PARTS = BLOCK == 16 ? 2 : 1 };

    /* The results of a thread in a warp's 16 DOWN rows and 32 columns. */
    static __device__ __forceinline__ int row_of(int i, int half) {
        return 16 * i + (int)threadIdx.x % 32 / 4 + 8 * half;
    }
    static __device__ __forceinline__ int column_of(int j, int second) {
        return 8 * j + (int)threadIdx.x % 4 * 2 + second;
    }

    /* sum += part, times the scales of the block that begins at `term`. */
    static __device__ __forceinline__ void add_part(float (&sum)[4], const float (&part)[4],
                                                    const float (&x)[2], const float (&y)[2]) {
#pragma unroll
        for (int e = 0; e < 4; e++)
            if constexpr (BLOCK > 0)
                sum[e] += part[e] * (x[e / 2] * y[e % 2]);
            else
                sum[e] += part[e];
    }

    /* Adds MOEC_UNITS terms, of which the first is number `term`. They are added to one another
     * first: devices may add them to a large sum with fewer digits than f32 has. */
    template <class A, class B>
    static __device__ __forceinline__ void
    multiply_units(float (&sum)[DOWN][4][4], const unsigned (&left)[DOWN][4],
                   const unsigned (&right)[2][4], long term, const MoecTileScales &scales, int row,
                   int column, int height, int breadth) {
#pragma unroll
        for (int p = 0; p < PARTS; p++) {
            float x[DOWN][2] = {}, y[4][2] = {};
            if constexpr (BLOCK > 0) {
                const long block = (term + 16 * p) / BLOCK;
                const float *const rows = scales.rows + block * scales.row_block,
                                   *const columns = scales.columns + block * scales.column_block;
#pragma unroll
                for (int i = 0; i < DOWN * 2; i++) {
                    const int at = row + row_of(i / 2, i % 2);
                    x[i / 2][i % 2] = at < height ? rows[at * scales.row] : 0.0f;
                }
#pragma unroll
                for (int j = 0; j < 8; j++) {
                    const int at = column + column_of(j / 2, j % 2);
                    y[j / 2][j % 2] = at < breadth ? columns[at * scales.column] : 0.0f;
                }
            }
#pragma unroll
            for (int j = 0; j < 4; j++) {
                unsigned b[2] = {right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]};
                if constexpr (PARTS == 2) b[1 - p] = 0;
#pragma unroll
                for (int i = 0; i < DOWN; i++) {
                    float part[4] = {};
                    moec_mma_units<A, B>(part, left[i], b);
                    add_part(sum[i][j], part, x[i], y[j]);
                }
            }
        }
    }

    template <class A, class B, class LeftLine, class RightLine, class Store>
    MOEC_DEVICE void multiply(long m, long n, long depth, LeftLine left, RightLine right,
                              const MoecTileScales &scales, Store store) {
        auto pairs =
            moec_pairs<Left, Right>(ROWS, m, WIDTH, n, depth / 2, left, right, 0, left, right);
        const int height = pairs.height, breadth = pairs.breadth;
        Stored::multiply_stages(
            pairs,
            [&](float(&sum)[DOWN][4][4], const MoecBf16 *stage, int number, int row, int column) {
#pragma unroll
                for (int k = 0; k < Stored::DEPTH; k += MOEC_UNITS / 2) {
                    const long term = 2L * (number * Stored::DEPTH + k);
                    if (term >= depth) break;
                    unsigned x[DOWN][4], y[2][4];
#pragma unroll
                    for (int i = 0; i < DOWN; i++) Left::left(x[i], stage, row + 16 * i, k);
#pragma unroll
                    for (int j = 0; j < 2; j++)
                        Right::right(y[j], stage + Left::ELEMENTS, column + 16 * j, k);
                    multiply_units<A, B>(sum, x, y, term, scales, row, column, height, breadth);
                }
            },
            store);
    }
};

/* A dense product of units, as moec_dense. */
template <class Tile, class Left, class Right, class Result>
MOEC_DEVICE void moec_dense_units(const MoecProduct &product, const MoecEpilogue &epilogue,
                                  const Left *a, const Right *b, Result *c) {
    const MoecScales &scales = product.scales;
    moec_each_dense<Tile>(product, [&](long i, long j, long m, long n) {
        const Left *x = a + i * product.a_batch[0] + j * product.a_batch[1] + m * product.a_m;
        const Right *y = b + i * product.b_batch[0] + j * product.b_batch[1] + n * product.b_n;
        Result *z = c + i * product.c_batch[0] + j * product.c_batch[1] + m * product.c_m + n;
        const MoecTileScales tile = {
            epilogue.a_scale + i * scales.a_batch[0] + j * scales.a_batch[1] + m * scales.a_m,
            epilogue.b_scale + i * scales.b_batch[0] + j * scales.b_batch[1] + n * scales.b_n,
            scales.a_m,
            scales.b_n,
            scales.a_k,
            scales.b_k};
        const MoecDenseStore<Result> store = {product, epilogue, z, m, n};
        const auto left = [&](long line) { return (const MoecBf16 *)(x + line * product.a_m); };
        const auto right = [&](long line) { return (const MoecBf16 *)(y + line * product.b_n); };
        if constexpr (Tile::BLOCKS)
            Tile::template multiply<Left, Right>(product.m - m, product.n - n, product.k, left,
                                                 right, tile, store);
        else
            Tile::template multiply<Left, Right>(
                product.m - m, product.n - n, product.k, left, right, tile,
                MoecScaledStore<MoecDenseStore<Result>>{store, tile});
    });
}

#endif
