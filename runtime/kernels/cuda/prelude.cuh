/* prelude: threads, sums of a block, the scalar functions of compiler/ir/op.def and random numbers,
 * for CUDA. */
#ifndef MOEC_PRELUDE_CUH
#define MOEC_PRELUDE_CUH

/* NVRTC comes without the C library. */
#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned uint32_t;
typedef long long int64_t;
typedef unsigned long uint64_t;
#ifndef NULL
#define NULL nullptr
#endif
#else
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#endif
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif

#define MOEC_DEVICE static __device__ __forceinline__

/* ---- threads; blocks and grids have one dimension ---- */

#define moec_barrier() __syncthreads()

/* Each kernel calls this before it accesses data of earlier kernels. From here on the next kernel
 * may start its blocks, and all earlier kernels have ended. No effect if launches do not
 * overlap.
 *
 * No parameter is __restrict__: the compiler would read such an array by ld.global.nc, which may
 * precede the wait and may return stale values from the cache. */
MOEC_DEVICE void moec_begin() {
#ifdef MOEC_SIM
    sim_begin();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;" : : : "memory");
#endif
}

MOEC_DEVICE long moec_thread() { return threadIdx.x; }
MOEC_DEVICE long moec_threads() { return blockDim.x; }
MOEC_DEVICE long moec_block() { return blockIdx.x; }
MOEC_DEVICE long moec_blocks() { return gridDim.x; }
/* The first iteration of this thread, and how many threads there are in all. */
MOEC_DEVICE long moec_first() { return (long)blockIdx.x * blockDim.x + threadIdx.x; }
MOEC_DEVICE long moec_step() { return (long)gridDim.x * blockDim.x; }
/* The iteration of this thread among 32 neighbours; beyond the last iteration it does that one
 * again. */
MOEC_DEVICE long moec_column(long from, long iterations) {
    const long iteration = from + threadIdx.x % 32;
    return iteration < iterations ? iteration : iterations - 1;
}

MOEC_DEVICE long moec_least(long a, long b) { return a < b ? a : b; }
MOEC_DEVICE long moec_most(long a, long b) { return a > b ? a : b; }
MOEC_DEVICE long moec_ceil_div(long count, long size) { return (count + size - 1) / size; }

/* ---- comparisons and choices; truth is 1, falsehood 0 ---- */

MOEC_DEVICE float moec_min(float a, float b) { return a <= b ? a : b; }
MOEC_DEVICE float moec_max(float a, float b) { return a >= b ? a : b; }
MOEC_DEVICE float moec_eq(float a, float b) { return a == b ? 1.0f : 0.0f; }
MOEC_DEVICE float moec_ne(float a, float b) { return a != b ? 1.0f : 0.0f; }
MOEC_DEVICE float moec_lt(float a, float b) { return a < b ? 1.0f : 0.0f; }
MOEC_DEVICE float moec_le(float a, float b) { return a <= b ? 1.0f : 0.0f; }
MOEC_DEVICE float moec_not(float a) { return a == 0.0f ? 1.0f : 0.0f; }
MOEC_DEVICE float moec_and(float a, float b) { return a != 0.0f && b != 0.0f ? 1.0f : 0.0f; }
MOEC_DEVICE float moec_or(float a, float b) { return a != 0.0f || b != 0.0f ? 1.0f : 0.0f; }
MOEC_DEVICE float moec_where(float condition, float a, float b) {
    return condition != 0.0f ? a : b;
}

/* Functions in double precision, for tables of positions. */
#define moec_math(name) ::name

/* ---- functions ---- */

/* Factor of exponentials whose subtracted maximum changes from `before` to `after`; `after` is not
 * smaller. */
MOEC_DEVICE float moec_fade(float before, float after) {
    return before == after ? 1.0f : expf(before - after);
}

MOEC_DEVICE float moec_abs(float x) { return fabsf(x); }
MOEC_DEVICE float moec_sign(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x; }
MOEC_DEVICE float moec_floor(float x) { return floorf(x); }
MOEC_DEVICE float moec_sqrt(float x) { return sqrtf(x); }
MOEC_DEVICE float moec_rsqrt(float x) { return rsqrtf(x); }
/* As in prelude.h. */
MOEC_DEVICE float moec_to_format(float x, int digits, int lowest, float most) {
    const float size = fabsf(x), kept = size > most ? most : size;
    const int exponent = __float_as_int(kept) & 0x7F800000, least = (127 + lowest) << 23;
    const float above = __int_as_float(max(exponent, least) + ((23 - digits) << 23));
    return copysignf(__fsub_rn(__fadd_rn(kept, above), above), x);
}
MOEC_DEVICE float moec_power_of_two(float x) {
    const int exponent = __float_as_int(x) & 0x7F800000;
    return x == x ? __int_as_float(min(max(exponent, 0x800000), 0x7F000000)) : x;
}
MOEC_DEVICE float moec_square(float x) { return x * x; }
MOEC_DEVICE float moec_cube(float x) { return x * x * x; }
MOEC_DEVICE float moec_fifth(float x) { return (x * x) * (x * x) * x; }
MOEC_DEVICE float moec_seventh(float x) { return (x * x) * (x * x) * (x * x) * x; }
MOEC_DEVICE float moec_mod(float a, float b) { return a - b * floorf(a / b); }
MOEC_DEVICE float moec_exp(float x) { return expf(x); }
/* 2 to the power of x, accurate to a few ulp. */
MOEC_DEVICE float moec_exp2(float x) {
#ifdef MOEC_SIM
    return exp2f(x);
#else
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}
MOEC_DEVICE float moec_log(float x) { return logf(x); }
MOEC_DEVICE float moec_pow(float a, float b) { return powf(a, b); }
/* The divisor is at least 1: the error is at most 2 ulp, and subnormal results become 0. An exact
 * division would branch. */
MOEC_DEVICE float moec_sigmoid(float x) { return __fdividef(1.0f, 1.0f + expf(-x)); }
MOEC_DEVICE float moec_tanh(float x) { return tanhf(x); }
MOEC_DEVICE float moec_atan(float x) { return atanf(x); }
MOEC_DEVICE float moec_erf(float x) { return erff(x); }
MOEC_DEVICE float moec_softplus(float x) { return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x))); }
MOEC_DEVICE float moec_sin(float x) { return sinf(x); }
MOEC_DEVICE float moec_cos(float x) { return cosf(x); }

/* ---- whole numbers of 64 bits: see compiler/whole.c ---- */

#define MOEC_MIN_WHOLE (-0x7fffffffffffffffL - 1)

MOEC_DEVICE long moec_whole(float x) {
    return x >= -9223372036854775808.0f && x < 9223372036854775808.0f ? (long)x : MOEC_MIN_WHOLE;
}
MOEC_DEVICE long moec_whole_sum(long a, long b) {
    return (long)((unsigned long)a + (unsigned long)b);
}
MOEC_DEVICE long moec_whole_difference(long a, long b) {
    return (long)((unsigned long)a - (unsigned long)b);
}
MOEC_DEVICE long moec_whole_product(long a, long b) {
    return (long)((unsigned long)a * (unsigned long)b);
}
MOEC_DEVICE long moec_whole_size(long a) { return a < 0 ? moec_whole_difference(0, a) : a; }
MOEC_DEVICE long moec_whole_quotient(long a, long b) {
    if (b == 0 || (b == -1 && a == MOEC_MIN_WHOLE)) return MOEC_MIN_WHOLE;
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
MOEC_DEVICE long moec_whole_remainder(long a, long b) {
    if (b == 0 || b == -1) return b ? 0 : a;
    const long rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

/* ---- random numbers: the same as in prelude.h ---- */

MOEC_DEVICE uint64_t moec_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

MOEC_DEVICE float moec_uniform(uint64_t seed, uint64_t place, uint64_t position) {
    const uint64_t z = seed + 0x9E3779B97F4A7C15u * (place * 0x100000001B3u + position + 1u);
    return (float)(int32_t)(moec_mix(moec_mix(z)) >> 40) * 5.9604644775390625e-8f;
}

MOEC_DEVICE float moec_normal(uint64_t seed, uint64_t place, uint64_t position) {
    const float radius = moec_uniform(seed, place, position);
    const float angle = moec_uniform(seed, place ^ 0x5BD1E995u, position);
    return sqrtf(-2.0f * logf(1.0f - radius)) * cosf(6.28318531f * angle);
}

/* ---- sums of a warp and of a block ---- */

/* In an order that is always the same; all threads get them. */

struct MoecSum {
    MOEC_DEVICE float join(float a, float b) { return a + b; }
};
struct MoecMax {
    MOEC_DEVICE float join(float a, float b) { return moec_max(a, b); }
};
struct MoecMin {
    MOEC_DEVICE float join(float a, float b) { return moec_min(a, b); }
};

template <class Join> MOEC_DEVICE float moec_warp_join(float x) {
    for (int lanes = 16; lanes > 0; lanes /= 2)
        x = Join::join(x, __shfl_xor_sync(0xffffffffu, x, lanes));
    return x;
}

template <class Join> MOEC_DEVICE float moec_block_join(float x) {
    __shared__ float parts[32];
    x = moec_warp_join<Join>(x);
    moec_barrier();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    moec_barrier();
    x = parts[0];
    for (int i = 1; i < (int)blockDim.x / 32; i++) x = Join::join(x, parts[i]);
    return x;
}

/* Combines the threads with the same lane number. */
template <class Join> MOEC_DEVICE float moec_column_join(float x) {
    __shared__ float parts[1024];
    moec_barrier();
    parts[threadIdx.x] = x;
    moec_barrier();
    x = parts[threadIdx.x % 32];
    for (int i = 1; i < (int)blockDim.x / 32; i++)
        x = Join::join(x, parts[32 * i + threadIdx.x % 32]);
    return x;
}

MOEC_DEVICE float moec_warp_sum(float x) { return moec_warp_join<MoecSum>(x); }
MOEC_DEVICE float moec_warp_max(float x) { return moec_warp_join<MoecMax>(x); }
MOEC_DEVICE float moec_block_sum(float x) { return moec_block_join<MoecSum>(x); }
MOEC_DEVICE float moec_block_max(float x) { return moec_block_join<MoecMax>(x); }
MOEC_DEVICE float moec_block_min(float x) { return moec_block_join<MoecMin>(x); }
MOEC_DEVICE float moec_column_sum(float x) { return moec_column_join<MoecSum>(x); }
MOEC_DEVICE float moec_column_max(float x) { return moec_column_join<MoecMax>(x); }
MOEC_DEVICE float moec_column_min(float x) { return moec_column_join<MoecMin>(x); }

/* Of the counts of the threads before this one; *total is that of all. */
MOEC_DEVICE int moec_block_before(int count, int *total) {
    __shared__ int parts[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int sum = count, before = 0;
    for (int distance = 1; distance < 32; distance *= 2) {
        const int other = __shfl_up_sync(0xffffffffu, sum, distance);
        sum += lane >= distance ? other : 0;
    }
    moec_barrier();
    if (lane == 31) parts[warp] = sum;
    moec_barrier();
    *total = 0;
    for (int i = 0; i < (int)blockDim.x / 32; i++) {
        before += i < warp ? parts[i] : 0;
        *total += parts[i];
    }
    return before + sum - count;
}

/* ---- blocks that share a result ---- */

/* True in the last of `count` blocks that call this with the same counter, which is 0 before and
 * afterwards. The last block reads the values of the others through the L2 cache: __ldcg. */
MOEC_DEVICE bool moec_arrives_last(unsigned *arrived, int count) {
    __shared__ bool last;
    __threadfence();
    moec_barrier();
    if (threadIdx.x == 0) {
        last = count == 1 || atomicAdd(arrived, 1u) == (unsigned)count - 1u;
        if (last && count > 1) *arrived = 0u;
        __threadfence();
    }
    moec_barrier();
    return last;
}

/* ---- tensor cores: products of bf16, sums in f32 ---- */

/* Two numbers rounded to bf16, the first in the low half. */
MOEC_DEVICE unsigned moec_bf16_pair(float low, float high) {
#ifdef MOEC_SIM
    const unsigned a = __float_as_uint(low), b = __float_as_uint(high);
    return ((a + 0x7fffu + (a >> 16 & 1u)) >> 16) | ((b + 0x7fffu + (b >> 16 & 1u)) & 0xffff0000u);
#else
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
#endif
}

/* A number as it is stored: its first 16 bits, rounded to nearest even. */
struct MoecBf16 {
    uint16_t bits;
};

/* Numbers of small formats as they are stored: sign, exponent and fraction; 0x7f is no number. */
struct MoecE4M3 {
    uint8_t bits;
    enum { FRACTION = 3, LOWEST = -6 };
};
struct MoecE5M2 {
    uint8_t bits;
    enum { FRACTION = 2, LOWEST = -14 };
};

/* A number from its bits; LOWEST: the exponent of the smallest normal number. */
template <class Small> MOEC_DEVICE float moec_load_small(Small x) {
    const int size = x.bits & 0x7f, normal = size >> Small::FRACTION;
    const float least = (float)size * __int_as_float((127 + Small::LOWEST - Small::FRACTION) << 23);
    const float value =
        normal ? __int_as_float((size << (23 - Small::FRACTION)) + ((126 + Small::LOWEST) << 23))
               : least;
    return size == 0x7f ? NAN : x.bits & 0x80 ? -value : value;
}
/* The inverse, for numbers of the format. */
template <class Small> MOEC_DEVICE void moec_store_small(Small *to, float x) {
    const int bits = __float_as_int(x), size = bits & 0x7fffffff;
    const int normal = (size - ((126 + Small::LOWEST) << 23)) >> (23 - Small::FRACTION);
    const int least =
        (int)(fabsf(x) * __int_as_float((127 - Small::LOWEST + Small::FRACTION) << 23));
    const int value = x != x ? 0x7f : size < (127 + Small::LOWEST) << 23 ? least : normal;
    to->bits = (uint8_t)(value | (bits >> 24 & 0x80));
}

MOEC_DEVICE float moec_load(float x) { return x; }
MOEC_DEVICE float moec_load(MoecE4M3 x) { return moec_load_small(x); }
MOEC_DEVICE float moec_load(MoecE5M2 x) { return moec_load_small(x); }
MOEC_DEVICE void moec_store(MoecE4M3 *to, float x) { moec_store_small(to, x); }
MOEC_DEVICE void moec_store(MoecE5M2 *to, float x) { moec_store_small(to, x); }
MOEC_DEVICE float moec_load(signed char x) { return (float)x; }
MOEC_DEVICE float moec_load(MoecBf16 x) { return __uint_as_float((unsigned)x.bits << 16); }
MOEC_DEVICE void moec_store(float *to, float x) { *to = x; }
MOEC_DEVICE void moec_store(MoecBf16 *to, float x) { to->bits = (uint16_t)moec_bf16_pair(x, 0.0f); }

/* One store of 8 or 16 bytes at a multiple of their size. An assignment becomes one store per word
 * if the compiler cannot prove the alignment, for example after a remainder. */
MOEC_DEVICE void moec_put(uint2 *to, unsigned a, unsigned b) {
#ifdef MOEC_SIM
    *to = make_uint2(a, b);
#else
    asm volatile("st.v2.u32 [%0], {%1, %2};" : : "l"(to), "r"(a), "r"(b) : "memory");
#endif
}
MOEC_DEVICE void moec_put(uint4 *to, unsigned a, unsigned b, unsigned c, unsigned d) {
#ifdef MOEC_SIM
    *to = make_uint4(a, b, c, d);
#else
    asm volatile("st.v4.u32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(to), "r"(a), "r"(b), "r"(c), "r"(d)
                 : "memory");
#endif
}
MOEC_DEVICE void moec_put(float2 *to, float a, float b) {
    moec_put((uint2 *)to, __float_as_uint(a), __float_as_uint(b));
}
MOEC_DEVICE void moec_put(float4 *to, float a, float b, float c, float d) {
    moec_put((uint4 *)to, __float_as_uint(a), __float_as_uint(b), __float_as_uint(c),
             __float_as_uint(d));
}

/* Keeps of the elements from *from on those in range[0] .. range[1] - 1; range NULL: all. */
MOEC_DEVICE void moec_clip(long *from, long *count, const long long *range) {
    long end = *from + *count;
    if (!range) return;
    if (*from < range[0]) *from = (long)range[0];
    if (end > range[1]) end = (long)range[1];
    *count = end - *from;
}

/* Neighbours in memory together; they begin at a multiple of their size, or of 16 bytes. */
template <int COUNT> MOEC_DEVICE void moec_read(float (&lanes)[COUNT], const float *from) {
#pragma unroll
    for (int i = 0; i < COUNT; i += 4) {
        const float4 four = *(const float4 *)(from + i);
        lanes[i] = four.x, lanes[i + 1] = four.y, lanes[i + 2] = four.z, lanes[i + 3] = four.w;
    }
}
template <int COUNT> MOEC_DEVICE void moec_write(float *to, const float (&lanes)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i += 4)
        moec_put((float4 *)(to + i), lanes[i], lanes[i + 1], lanes[i + 2], lanes[i + 3]);
}
MOEC_DEVICE void moec_read(float (&lanes)[2], const float *from) {
    const float2 two = *(const float2 *)from;
    lanes[0] = two.x, lanes[1] = two.y;
}
MOEC_DEVICE void moec_write(float *to, const float (&lanes)[2]) {
    moec_put((float2 *)to, lanes[0], lanes[1]);
}
MOEC_DEVICE void moec_read(float (&lanes)[2], const MoecBf16 *from) {
    const unsigned two = *(const unsigned *)from;
    lanes[0] = __uint_as_float(two << 16), lanes[1] = __uint_as_float(two & 0xffff0000u);
}
MOEC_DEVICE void moec_write(MoecBf16 *to, const float (&lanes)[2]) {
    *(unsigned *)to = moec_bf16_pair(lanes[0], lanes[1]);
}
MOEC_DEVICE void moec_read(float (&lanes)[4], const MoecBf16 *from) {
    const uint2 four = *(const uint2 *)from;
    lanes[0] = __uint_as_float(four.x << 16), lanes[1] = __uint_as_float(four.x & 0xffff0000u);
    lanes[2] = __uint_as_float(four.y << 16), lanes[3] = __uint_as_float(four.y & 0xffff0000u);
}
MOEC_DEVICE void moec_write(MoecBf16 *to, const float (&lanes)[4]) {
    moec_put((uint2 *)to, moec_bf16_pair(lanes[0], lanes[1]), moec_bf16_pair(lanes[2], lanes[3]));
}
MOEC_DEVICE void moec_read(float (&lanes)[8], const MoecBf16 *from) {
    const uint4 all = *(const uint4 *)from;
    const unsigned pairs[4] = {all.x, all.y, all.z, all.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        lanes[2 * i] = __uint_as_float(pairs[i] << 16);
        lanes[2 * i + 1] = __uint_as_float(pairs[i] & 0xffff0000u);
    }
}
MOEC_DEVICE void moec_write(MoecBf16 *to, const float (&lanes)[8]) {
    moec_put((uint4 *)to, moec_bf16_pair(lanes[0], lanes[1]), moec_bf16_pair(lanes[2], lanes[3]),
             moec_bf16_pair(lanes[4], lanes[5]), moec_bf16_pair(lanes[6], lanes[7]));
}

/* The same where only the first `left` of them may be there; the others are 0 and not written. */
template <int COUNT>
MOEC_DEVICE void moec_read(float (&lanes)[COUNT], const float *from, long left) {
    if (left >= COUNT) return moec_read(lanes, from);
#pragma unroll
    for (int i = 0; i < COUNT; i++) lanes[i] = i < left ? from[i] : 0.0f;
}
template <int COUNT, class Element>
MOEC_DEVICE void moec_write(Element *to, const float (&lanes)[COUNT], long left) {
    if (left >= COUNT) return moec_write(to, lanes);
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        if (i < left) moec_store(to + i, lanes[i]);
}

/* d[16,8] += a b with four registers of a and two of b. types: those of a and b. */
#define MOEC_MMA(d, a, b, shape, types)                                                            \
    asm volatile("mma.sync.aligned." shape ".row.col.f32." types ".f32 "                           \
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                 \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

/* d[16,8] += a[16,16] b[16,8], spread over a warp as mma.m16n8k16 wants it. */
MOEC_DEVICE void moec_mma(float *d, const unsigned *a, const unsigned *b) {
#ifdef MOEC_SIM
    sim_mma_bf16(d, a, b);
#else
    MOEC_MMA(d, a, b, "m16n8k16", "bf16.bf16");
#endif
}

/* Loads four 8 by 8 matrices of bf16 from shared memory: lane i passes the address of row i % 8 of
 * matrix i / 8. */
MOEC_DEVICE void moec_load_matrices(unsigned *result, const void *row) {
#ifdef MOEC_SIM
    sim_ldmatrix(result, row, 0);
#else
    const unsigned at = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(result[0]), "=r"(result[1]), "=r"(result[2]), "=r"(result[3])
                 : "r"(at)
                 : "memory");
#endif
}

/* The same, each matrix transposed. */
MOEC_DEVICE void moec_load_matrices_transposed(unsigned *result, const void *row) {
#ifdef MOEC_SIM
    sim_ldmatrix(result, row, 1);
#else
    const unsigned at = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(result[0]), "=r"(result[1]), "=r"(result[2]), "=r"(result[3])
                 : "r"(at)
                 : "memory");
#endif
}

/* Shared memory whose size is an argument of the launch. */
#ifndef MOEC_SIM
#define MOEC_SHARED(type, name)                                                                    \
    extern __shared__ __align__(16) unsigned char moec_shared_bytes[];                             \
    type *const name = (type *)moec_shared_bytes
#endif

/* ---- asynchronous copies into shared memory ---- */

/* Copies `bytes` bytes and fills up to 16 bytes with zeros; both addresses are multiples of 16. */
MOEC_DEVICE void moec_copy_async(void *to, const void *from, int bytes) {
#ifdef MOEC_SIM
    sim_copy_async_filled(to, from, bytes, 16);
#else
    const unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(at), "l"(from), "r"(bytes)
                 : "memory");
#endif
}

/* 4 bytes, or zeros. */
MOEC_DEVICE void moec_copy_word_async(void *to, const void *from, bool there) {
#ifdef MOEC_SIM
    sim_copy_async_filled(to, from, there ? 4 : 0, 4);
#else
    const unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :
                 : "r"(at), "l"(from), "r"(there ? 4 : 0)
                 : "memory");
#endif
}

/* Closes a group of the copies that this thread has asked for. */
MOEC_DEVICE void moec_copy_commit() {
#ifdef MOEC_SIM
    sim_copy_commit();
#else
    asm volatile("cp.async.commit_group;" : : : "memory");
#endif
}

/* Until all groups of this thread but the last GROUPS have arrived; other threads see them after a
 * barrier. */
template <int GROUPS> MOEC_DEVICE void moec_copy_wait() {
#ifdef MOEC_SIM
    sim_copy_wait(GROUPS);
#else
    asm volatile("cp.async.wait_group %0;" : : "n"(GROUPS) : "memory");
#endif
}

/* 0, but the compiler does not know it: it computes dependent values at each use instead of keeping
 * them in registers. */
MOEC_DEVICE int moec_recomputed() {
    int zero = 0;
#ifndef MOEC_SIM
    asm volatile("mov.u32 %0, 0;" : "=r"(zero));
#endif
    return zero;
}

#endif
