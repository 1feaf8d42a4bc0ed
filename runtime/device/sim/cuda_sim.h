/* cuda_sim: CUDA as C++ for the simulator. Precedes every source that is compiled for it. */
#ifndef CUDA_SIM_H
#define CUDA_SIM_H

#define MOEC_SIM 1

#include "sim.h"

/* Omits the C++ overloads, whose compilation is slower than that of the kernels. */
#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#include <math.h>

#define __global__ __attribute__((noinline))
#define __device__
#define __host__
#define __constant__ const
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __shared__ static
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
#define __grid_constant__

#define threadIdx (sim_place->thread)
#define blockIdx (sim_place->block)
#define blockDim (sim_place->block_size)
#define gridDim (sim_place->grid_size)
enum { warpSize = SIM_WARP };

/* Dynamic shared memory. */
#define MOEC_SHARED(type, name) type *const name = (type *)sim_shared()

#define __syncthreads() sim_barrier(__builtin_FILE(), __builtin_LINE())
#define __trap() sim_trap(__builtin_FILE(), __builtin_LINE())
#define __threadfence() ((void)0)
#define __threadfence_block() ((void)0)

/* ---- vectors ---- */

#define SIM_VECTOR(type, name)                                                                     \
    struct alignas(2 * sizeof(type)) name##2 {                                                     \
        type x, y;                                                                                 \
    };                                                                                             \
    struct name##3 {                                                                               \
        type x, y, z;                                                                              \
    };                                                                                             \
    struct alignas(16) name##4 {                                                                   \
        type x, y, z, w;                                                                           \
    };                                                                                             \
    static inline name##2 make_##name##2(type x, type y) {                                         \
        return {x, y};                                                                             \
    }                                                                                              \
    static inline name##3 make_##name##3(type x, type y, type z) {                                 \
        return {x, y, z};                                                                          \
    }                                                                                              \
    static inline name##4 make_##name##4(type x, type y, type z, type w) {                         \
        return {x, y, z, w};                                                                       \
    }
SIM_VECTOR(float, float)
SIM_VECTOR(int, int)
SIM_VECTOR(unsigned, uint)

struct alignas(16) double2 {
    double x, y;
};
struct alignas(16) longlong2 {
    long long x, y;
};
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {
    }
};

/* ---- warps ---- */

static inline void sim_syncwarp(unsigned mask, const char *file, int line) {
    sim_exchange(mask, nullptr, 0, 1, file, line);
}

template <class T> static inline T sim_take(const SimLanes *lanes, int lane) {
    T value;
    __builtin_memcpy(&value, lanes->bytes[lane], sizeof value);
    return value;
}

/* `other`: source lane; outside of 0..31 the lane keeps its own value. */
template <class T>
static inline T sim_shuffle(unsigned mask, T value, int other, const char *file, int line) {
    const SimLanes *lanes = sim_exchange(mask, &value, sizeof value, 0, file, line);
    return sim_take<T>(lanes, other);
}

static inline int sim_up(int delta, int width) {
    int lane = sim_place->lane, from = lane - delta;
    return from < lane / width * width ? lane : from;
}

static inline int sim_down(int delta, int width) {
    int lane = sim_place->lane, from = lane + delta;
    return from >= (lane / width + 1) * width ? lane : from;
}

static inline int sim_xor(int lanes, int width) {
    int lane = sim_place->lane, from = lane ^ lanes;
    return from >= (lane / width + 1) * width ? lane : from;
}

static inline int sim_at(int from, int width) {
    return sim_place->lane / width * width + (from & (width - 1));
}

#define SIM_WHERE const char *file = __builtin_FILE(), int line = __builtin_LINE()
static inline void __syncwarp(unsigned mask = 0xffffffffu, SIM_WHERE) {
    sim_syncwarp(mask, file, line);
}
template <class T>
static inline T __shfl_sync(unsigned mask, T value, int from, int width = 32, SIM_WHERE) {
    return sim_shuffle(mask, value, sim_at(from, width), file, line);
}
template <class T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, SIM_WHERE) {
    return sim_shuffle(mask, value, sim_up((int)delta, width), file, line);
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                                 SIM_WHERE) {
    return sim_shuffle(mask, value, sim_down((int)delta, width), file, line);
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, SIM_WHERE) {
    return sim_shuffle(mask, value, sim_xor(lanes, width), file, line);
}
static inline unsigned __ballot_sync(unsigned mask, int vote, SIM_WHERE) {
    int own = vote != 0;
    const SimLanes *lanes = sim_exchange(mask, &own, sizeof own, 0, file, line);
    unsigned votes = 0;
    for (int lane = 0; lane < SIM_WARP; lane++)
        if (mask >> lane & 1 && sim_take<int>(lanes, lane)) votes |= 1u << lane;
    return votes;
}
static inline int __any_sync(unsigned mask, int vote, SIM_WHERE) {
    return __ballot_sync(mask, vote, file, line) != 0;
}
static inline int __all_sync(unsigned mask, int vote, SIM_WHERE) {
    return __ballot_sync(mask, !vote, file, line) == 0;
}
static inline unsigned __activemask() {
    return 0xffffffffu;
}

/* Block-wide votes are also barriers. */
static inline int sim_vote(int vote, const char *file, int line) {
    static int votes;
    sim_barrier(file, line);
    if (sim_place->thread.x == 0) votes = 0;
    sim_barrier(file, line);
    *(int *)sim_atomic(&votes, sizeof votes) += vote != 0;
    sim_barrier(file, line);
    return *(int *)sim_atomic(&votes, sizeof votes);
}
#define __syncthreads_count(vote) sim_vote((vote), __builtin_FILE(), __builtin_LINE())
#define __syncthreads_or(vote) (sim_vote((vote), __builtin_FILE(), __builtin_LINE()) != 0)
#define __syncthreads_and(vote) (sim_vote(!(vote), __builtin_FILE(), __builtin_LINE()) == 0)

/* ---- numbers ---- */

template <class To, class From> static inline To sim_bits(From value) {
    To bits;
    static_assert(sizeof bits == sizeof value, "sizes");
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline int __float_as_int(float value) {
    return sim_bits<int>(value);
}
static inline unsigned __float_as_uint(float value) {
    return sim_bits<unsigned>(value);
}
static inline float __int_as_float(int value) {
    return sim_bits<float>(value);
}
static inline float __uint_as_float(unsigned value) {
    return sim_bits<float>(value);
}
/* Names that the C library reserves. */
#define __expf(x) expf(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __powf(x, y) powf(x, y)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanhf(x) tanhf(x)
static inline float __fdividef(float x, float y) {
    return x / y;
}
static inline float __fdiv_rn(float x, float y) {
    return x / y;
}
static inline float __fadd_rn(float x, float y) {
    return x + y;
}
static inline float __fsub_rn(float x, float y) {
    return x - y;
}
static inline float __fmul_rn(float x, float y) {
    return x * y;
}
static inline float __fmaf_rn(float x, float y, float z) {
    return fmaf(x, y, z);
}
static inline float __fsqrt_rn(float x) {
    return sqrtf(x);
}
static inline float __frcp_rn(float x) {
    return 1.0f / x;
}
static inline float __frsqrt_rn(float x) {
    return 1.0f / sqrtf(x);
}
static inline float __saturatef(float x) {
    return x < 0 ? 0 : x > 1 ? 1 : x;
}
/* CUDA declares these for every kernel, so a kernel with one of their names does not compile. */
extern "C" {
double norm(int count, const double *values);
double rnorm(int count, const double *values);
double norm3d(double x, double y, double z);
double norm4d(double x, double y, double z, double w);
double rhypot(double x, double y);
double rcbrt(double x);
double sinpi(double x);
double cospi(double x);
double normcdf(double x);
}
static inline float rsqrtf(float x) {
    return 1.0f / sqrtf(x);
}
static inline double rsqrt(double x) {
    return 1.0 / sqrt(x);
}
static inline int __float2int_rn(float x) {
    return (int)rintf(x);
}
static inline int __float2int_rd(float x) {
    return (int)floorf(x);
}
static inline int __float2int_rz(float x) {
    return (int)x;
}
static inline float __int2float_rn(int x) {
    return (float)x;
}
static inline float __uint2float_rn(unsigned x) {
    return (float)x;
}
static inline int __popc(unsigned x) {
    return __builtin_popcount(x);
}
static inline int __popcll(unsigned long long x) {
    return __builtin_popcountll(x);
}
static inline int __ffs(int x) {
    return __builtin_ffs(x);
}
static inline int __clz(int x) {
    return x ? __builtin_clz((unsigned)x) : 32;
}
static inline int __clzll(long long x) {
    return x ? __builtin_clzll((unsigned long long)x) : 64;
}
static inline unsigned __umulhi(unsigned x, unsigned y) {
    return (unsigned)((uint64_t)x * y >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}
template <class T> static inline T __ldg(const T *from) {
    return *from;
}
template <class T> static inline T __ldcs(const T *from) {
    return *from;
}
template <class T> static inline T __ldcg(const T *from) {
    return *from;
}
template <class T> static inline void __stcs(T *to, T value) {
    *to = value;
}

#define SIM_CHOICE(type)                                                                           \
    static inline type min(type x, type y) {                                                       \
        return y < x ? y : x;                                                                      \
    }                                                                                              \
    static inline type max(type x, type y) {                                                       \
        return x < y ? y : x;                                                                      \
    }
SIM_CHOICE(int)
SIM_CHOICE(unsigned)
SIM_CHOICE(long)
SIM_CHOICE(unsigned long)
SIM_CHOICE(long long)
SIM_CHOICE(unsigned long long)
static inline float min(float x, float y) {
    return fminf(x, y);
}
static inline float max(float x, float y) {
    return fmaxf(x, y);
}
static inline double min(double x, double y) {
    return fmin(x, y);
}
static inline double max(double x, double y) {
    return fmax(x, y);
}

/* Fibers are never interrupted, so plain code is atomic. */
#define SIM_ATOMIC(name, result)                                                                   \
    template <class T> static inline T name(T *at, T value) {                                      \
        T *word = (T *)sim_atomic(at, sizeof *at), old = *word;                                    \
        *word = (result);                                                                          \
        return old;                                                                                \
    }
SIM_ATOMIC(atomicAdd, old + value)
SIM_ATOMIC(atomicSub, old - value)
SIM_ATOMIC(atomicMax, old < value ? value : old)
SIM_ATOMIC(atomicMin, value < old ? value : old)
SIM_ATOMIC(atomicExch, value)
SIM_ATOMIC(atomicOr, old | value)
SIM_ATOMIC(atomicAnd, old &value)
template <class T> static inline T atomicCAS(T *at, T expected, T value) {
    T *word = (T *)sim_atomic(at, sizeof *at), old = *word;
    if (old == expected) *word = value;
    return old;
}

/* ---- matrix instructions ---- */

/* Each lane contributes its fragments of a and b, and receives its fragment of the result. */

struct SimOperands {
    unsigned a[4], b[2];
};

static inline float sim_bf16_of(unsigned pair, int high) {
    return sim_bits<float>(high ? pair & 0xffff0000u : pair << 16);
}
static inline float sim_f16_of(unsigned pair, int high) {
    const unsigned bits = high ? pair >> 16 : pair & 0xffffu, size = bits & 0x7fffu;
    const float value =
        size < 0x400u ? ldexpf((float)size, -24) : sim_bits<float>((size << 13) + (112u << 23));
    const float signless = size < 0x7c00u ? value : size == 0x7c00u ? INFINITY : NAN;
    return bits & 0x8000u ? -signless : signless;
}

/* Products of two bf16, f16, tf32 or 8-bit values are exact: only the sum is rounded, as on a
 * device. */

/* d[16,8] += a[16,16] b[16,8] in bf16 or f16, with the fragment layout of
 * mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32. */
template <float (*sim_half_of)(unsigned, int)>
static inline void sim_mma_halves(float *d, const unsigned *a, const unsigned *b, const char *file,
                                  int line) {
    SimOperands own = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
    const SimLanes *lanes = sim_exchange(0xffffffffu, &own, sizeof own, 0, file, line);
    int group = sim_place->lane / 4, place = sim_place->lane % 4;
    SimOperands row[4], even[4], odd[4];
    for (int i = 0; i < 4; i++) {
        row[i] = sim_take<SimOperands>(lanes, group * 4 + i);
        even[i] = sim_take<SimOperands>(lanes, place * 8 + i);
        odd[i] = sim_take<SimOperands>(lanes, place * 8 + 4 + i);
    }
    for (int k = 0; k < 16; k++) {
        int half = k / 8, pair = k % 8 / 2, high = k % 2;
        float upper = sim_half_of(row[pair].a[half * 2], high),
              lower = sim_half_of(row[pair].a[half * 2 + 1], high),
              first = sim_half_of(even[pair].b[half], high),
              second = sim_half_of(odd[pair].b[half], high);
        d[0] += upper * first;
        d[1] += upper * second;
        d[2] += lower * first;
        d[3] += lower * second;
    }
}

static inline void sim_mma_bf16(float *d, const unsigned *a, const unsigned *b, SIM_WHERE) {
    sim_mma_halves<sim_bf16_of>(d, a, b, file, line);
}
static inline void sim_mma_f16(float *d, const unsigned *a, const unsigned *b, SIM_WHERE) {
    sim_mma_halves<sim_f16_of>(d, a, b, file, line);
}

/* d[16,8] += a[16,8] b[8,8], as mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32. */
static inline void sim_mma_tf32(float *d, const unsigned *a, const unsigned *b, SIM_WHERE) {
    SimOperands own = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
    const SimLanes *lanes = sim_exchange(0xffffffffu, &own, sizeof own, 0, file, line);
    int group = sim_place->lane / 4, place = sim_place->lane % 4;
    for (int i = 0; i < 4; i++) {
        int column = place * 2 + i % 2;
        float sum = d[i];
        for (int k = 0; k < 8; k++) {
            SimOperands left = sim_take<SimOperands>(lanes, group * 4 + k % 4);
            SimOperands right = sim_take<SimOperands>(lanes, column * 4 + k % 4);
            unsigned x = left.a[k / 4 * 2 + i / 2] & 0xffffe000u, y = right.b[k / 4] & 0xffffe000u;
            sum += sim_bits<float>(x) * sim_bits<float>(y);
        }
        d[i] = sum;
    }
}

/* A number of E4M3 (a fraction of 3 bits) or E5M2 (of 2). */
template <int FRACTION> static inline float sim_small(unsigned word, int i) {
    const unsigned bits = word >> 8 * i & 0xffu, size = bits & 0x7fu;
    const int bias = FRACTION == 3 ? 7 : 15, exponent = (int)(size >> FRACTION),
              fraction = (int)(size & ((1u << FRACTION) - 1));
    const float value =
        exponent ? ldexpf((float)((1 << FRACTION) + fraction), exponent - bias - FRACTION)
                 : ldexpf((float)fraction, 1 - bias - FRACTION);
    const bool none = FRACTION == 3 ? size == 0x7fu : size > 0x7cu;
    return none                             ? NAN
           : FRACTION == 2 && size == 0x7cu ? (bits & 0x80u ? -INFINITY : INFINITY)
           : bits & 0x80u                   ? -value
                                            : value;
}

/* d[16,8] += a[16,32] b[32,8] in 8 bits, with the fragment layout of
 * mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32. */
template <int A, int B>
static inline void sim_mma_small(float *d, const unsigned *a, const unsigned *b, SIM_WHERE) {
    SimOperands own = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
    const SimLanes *lanes = sim_exchange(0xffffffffu, &own, sizeof own, 0, file, line);
    int group = sim_place->lane / 4, place = sim_place->lane % 4;
    float left[2][32], right[2][32];
    for (int k = 0; k < 32; k++) {
        int half = k / 16, lane = k % 16 / 4, byte = k % 4;
        SimOperands row = sim_take<SimOperands>(lanes, group * 4 + lane);
        for (int i = 0; i < 2; i++) {
            SimOperands column = sim_take<SimOperands>(lanes, (place * 2 + i) * 4 + lane);
            left[i][k] = sim_small<A>(row.a[half * 2 + i], byte);
            right[i][k] = sim_small<B>(column.b[half], byte);
        }
    }
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 32; k++) d[i] += left[i / 2][k] * right[i % 2][k];
}

/* ldmatrix.x4 of 16-bit elements: lane i passes the address of row i % 8 of matrix i / 8. */
static inline void sim_ldmatrix(unsigned *result, const void *row, int transposed, SIM_WHERE) {
    sim_read(row, 16);
    const SimLanes *lanes = sim_exchange(0xffffffffu, &row, sizeof row, 0, file, line);
    int group = sim_place->lane / 4, place = sim_place->lane % 4;
    for (int i = 0; i < 4; i++) {
        uint16_t pair[2];
        for (int j = 0; j < 2; j++) {
            int line_of = transposed ? place * 2 + j : group,
                column = transposed ? group : place * 2 + j;
            const uint16_t *from = sim_take<const uint16_t *>(lanes, i * 8 + line_of);
            pair[j] = from[column];
        }
        result[i] = pair[0] | (unsigned)pair[1] << 16;
    }
}

static inline void sim_wgmma(float *d, int n, uint64_t a, uint64_t b, bool transposed_a,
                             bool transposed_b, bool fresh = false, SIM_WHERE) {
    const SimProduct product = {d, n, nullptr, a, b, transposed_a, transposed_b, fresh};
    sim_wgmma_on(&product, file, line);
}
static inline void sim_wgmma_kept(float *d, int n, const unsigned (&a)[4], uint64_t b,
                                  bool transposed_b, SIM_WHERE) {
    const SimProduct product = {d, n, a, 0, b, false, transposed_b, false};
    sim_wgmma_on(&product, file, line);
}

/* ---- kernel entry ---- */

template <int... Places> struct SimPlaces {};
template <int Count, int... Places> struct SimCount : SimCount<Count - 1, Count - 1, Places...> {};
template <int... Places> struct SimCount<0, Places...> { typedef SimPlaces<Places...> All; };

template <class... Types, int... Places>
static inline void sim_call(void (*kernel)(Types...), void **arguments, SimPlaces<Places...>) {
    (void)arguments;
    kernel(*(Types *)arguments[Places]...);
}

template <class... Types> static inline void sim_enter(void (*kernel)(Types...), void **arguments) {
    sim_call(kernel, arguments, typename SimCount<sizeof...(Types)>::All());
}

template <class... Types>
static constexpr SimKernel sim_describe(const char *name, void (*enter)(void **),
                                        void (*)(Types...)) {
#ifdef SIM_UNCHECKED
    const int checked = 0;
#else
    const int checked = 1;
#endif
    return SimKernel{name, enter, checked, (int)sizeof...(Types), {sizeof(Types)..., 0}};
}

#define SIM_KERNEL(name)                                                                           \
    static void sim_enter_##name(void **arguments) {                                               \
        sim_enter(name, arguments);                                                                \
    }                                                                                              \
    extern "C" __attribute__((visibility("default"))) SimKernel sim_kernel_##name =                \
        sim_describe(#name, sim_enter_##name, name);

#endif
