/* prelude: the scalar functions of compiler/ir/op.def and the random numbers, for C.
 *
 * All of them are plain arithmetic with selects instead of branches, so that gcc and clang
 * vectorise loops over them (gcc with -fno-math-errno -fno-trapping-math; -ffp-contract=fast makes
 * them faster and more exact). Errors are at most about 2 ulp.
 */
#ifndef MOEC_PRELUDE_H
#define MOEC_PRELUDE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#elif !defined(MOEC_PLAIN) /* the pragmas are then for nobody, or for -fopenmp-simd */
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#endif

#ifdef MOEC_PLAIN /* C99 without a library, after standalone/freestanding/plain_math.h */
#define MOEC_FUNCTION static
#define MOEC_INLINE static inline
#else
/* Functions that a translation unit does not call cause no code and no warning. */
#define MOEC_FUNCTION static __attribute__((unused))
#define MOEC_INLINE static inline __attribute__((unused, always_inline))
/* Long unrolled code: a single copy of it limits the compile time of a model. */
#define MOEC_LARGE static __attribute__((unused, noinline))
#endif

/* ---- threads ---- */

/* How many threads a parallel region started here would get. */
MOEC_INLINE int moec_threads(void) {
#ifdef _OPENMP
    return omp_in_parallel() ? 1 : omp_get_max_threads();
#else
    return 1;
#endif
}

/* Which of them this is. */
MOEC_INLINE int moec_thread(void) {
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

/* ---- bits ---- */

MOEC_INLINE uint32_t moec_bits(float x) {
    const union {
        float value;
        uint32_t bits;
    } both = {x};
    return both.bits;
}

MOEC_INLINE float moec_from_bits(uint32_t bits) {
    const union {
        uint32_t bits;
        float value;
    } both = {bits};
    return both.value;
}

MOEC_INLINE uint64_t moec_bits_double(double x) {
    const union {
        double value;
        uint64_t bits;
    } both = {x};
    return both.bits;
}

MOEC_INLINE double moec_from_bits_double(uint64_t bits) {
    const union {
        uint64_t bits;
        double value;
    } both = {bits};
    return both.value;
}

/* ---- binary16, "half" ---- */

/* The nearest, of two the even one; infinite beyond 65504. */
MOEC_INLINE uint16_t moec_half(float x) {
    const uint32_t bits = moec_bits(x), sign = bits >> 16 & 0x8000u, size = bits & 0x7FFFFFFFu;
    if (size > 0x7F800000u) return (uint16_t)(sign | 0x7E00u);
    if (size >= 0x477FF000u) return (uint16_t)(sign | 0x7C00u);
    if (size < 0x38800000u) /* subnormal: the sum has the digits of the result */
        return (uint16_t)(sign | (moec_bits(moec_from_bits(size) + 0.5f) - 0x3F000000u));
    return (uint16_t)(sign | ((size - 0x38000000u + 0xFFFu + (size >> 13 & 1u)) >> 13));
}

MOEC_INLINE float moec_from_half(uint16_t half) {
    const uint32_t size = half & 0x7FFFu, sign = (uint32_t)(half & 0x8000u) << 16,
                   finite = moec_bits(moec_from_bits(size << 13) * 0x1p112f);
    return moec_from_bits(sign | finite | (size >= 0x7C00u ? 0x7F800000u : 0u));
}

/* ---- numbers of 8 and of 4 bits, and powers of two ---- */

/* Finite numbers only. */
MOEC_INLINE float moec_from_e4m3(uint32_t code) {
    const uint32_t size = code & 0x7Fu;
    const float value =
        size < 8 ? (float)size * 0x1p-9f : moec_from_bits((size << 20) + 0x3C000000u);
    return code & 0x80u ? -value : value;
}

MOEC_INLINE float moec_from_e2m1(uint32_t code) {
    const uint32_t size = code & 7u;
    const float value = size < 2 ? (float)size * 0.5f : moec_from_bits((size << 22) + 0x3F000000u);
    return code & 8u ? -value : value;
}

/* 2^(exponent - 127); 0: 0, 255: infinite. */
MOEC_INLINE float moec_from_exponent(uint32_t exponent) { return moec_from_bits(exponent << 23); }

/* ---- bf16: the upper half of a float ---- */

typedef struct MoecBf16 {
    uint16_t bits;
} MoecBf16;

/* The nearest, of two the even one. */
MOEC_INLINE MoecBf16 moec_bf16(float x) {
    const uint32_t bits = moec_bits(x);
    const uint32_t nearest = (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
    return (MoecBf16){(uint16_t)(x == x ? nearest : bits >> 16 | 0x40u)};
}
MOEC_INLINE float moec_load(MoecBf16 x) { return moec_from_bits((uint32_t)x.bits << 16); }
MOEC_INLINE void moec_store(MoecBf16 *to, float x) { *to = moec_bf16(x); }

/* Whether vectors multiply pairs of bf16 faster than floats, where they multiply them at all.
 * Intel's begin one such instruction in two cycles, and in each two of floats. */
MOEC_INLINE int moec_fast_pairs(void) {
#ifdef MOEC_FAST_PAIRS
    return MOEC_FAST_PAIRS;
#elif defined(__x86_64__)
    return __builtin_cpu_supports("avx512bf16") && !__builtin_cpu_is("intel");
#else
    return 0; /* not tried */
#endif
}

/* ---- comparisons and choices; truth is 1, falsehood 0 ---- */

MOEC_INLINE float moec_min(float a, float b) { return a <= b ? a : b; }
MOEC_INLINE float moec_max(float a, float b) { return a >= b ? a : b; }
MOEC_INLINE float moec_eq(float a, float b) { return a == b ? 1.0f : 0.0f; }
MOEC_INLINE float moec_ne(float a, float b) { return a != b ? 1.0f : 0.0f; }
MOEC_INLINE float moec_lt(float a, float b) { return a < b ? 1.0f : 0.0f; }
MOEC_INLINE float moec_le(float a, float b) { return a <= b ? 1.0f : 0.0f; }
MOEC_INLINE float moec_not(float a) { return a == 0.0f ? 1.0f : 0.0f; }
MOEC_INLINE float moec_and(float a, float b) { return ((a != 0.0f) & (b != 0.0f)) ? 1.0f : 0.0f; }
MOEC_INLINE float moec_or(float a, float b) { return ((a != 0.0f) | (b != 0.0f)) ? 1.0f : 0.0f; }
MOEC_INLINE float moec_where(float condition, float a, float b) {
    return condition != 0.0f ? a : b;
}
/* Of a condition that all lanes of a vector share: x where it holds, else 0. */
MOEC_INLINE uint32_t moec_mask(int condition) { return condition ? UINT32_MAX : 0; }
MOEC_INLINE float moec_masked(float x, uint32_t mask) {
    return moec_from_bits(moec_bits(x) & mask);
}

/* Maps a float to an integer with the same order: the bits of negative numbers are inverted, both
 * zeros are equal, NaN is smallest. */
MOEC_INLINE uint32_t moec_order(float x) {
    const uint32_t bits = moec_bits(x + 0.0f);
    const uint32_t order = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
    return x == x ? order : 0u;
}

/* ---- rounding and roots ---- */

MOEC_INLINE float moec_abs(float x) { return __builtin_fabsf(x); }
MOEC_INLINE float moec_sign(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x; }
#ifdef MOEC_PLAIN
MOEC_INLINE float moec_floor(float x) { return moec_plain_floor(x); }
MOEC_INLINE float moec_sqrt(float x) { return (float)moec_double_sqrt((double)x); }
#else
MOEC_INLINE float moec_floor(float x) { return __builtin_floorf(x); }
MOEC_INLINE float moec_sqrt(float x) { return __builtin_sqrtf(x); }
#endif
MOEC_INLINE float moec_rsqrt(float x) { return 1.0f / moec_sqrt(x); }

/* The nearest number of a small format, of two the even one: see compiler/ir/op.c. Adding a power
 * of two leaves so many digits after the leading one. */
MOEC_INLINE float moec_to_format(float x, int digits, int lowest, float most) {
    const float size = moec_abs(x), kept = size > most ? most : size;
    const uint32_t exponent = moec_bits(kept) & 0x7F800000u, least = (uint32_t)(127 + lowest) << 23,
                   largest = exponent > least ? exponent : least;
    const float above = moec_from_bits(largest + ((uint32_t)(23 - digits) << 23));
    const float nearest = (kept + above) - above;
    return moec_from_bits(moec_bits(nearest) | (moec_bits(x) & 0x80000000u));
}

/* The largest power of two that is not above the absolute value, from 2^-126 to 2^127. */
MOEC_INLINE float moec_power_of_two(float x) {
    const uint32_t exponent = moec_bits(x) & 0x7F800000u,
                   least = exponent > 0x800000u ? exponent : 0x800000u,
                   power = least < 0x7F000000u ? least : 0x7F000000u;
    return x == x ? moec_from_bits(power) : x;
}

MOEC_INLINE float moec_square(float x) { return x * x; }
MOEC_INLINE float moec_cube(float x) { return x * x * x; }
MOEC_INLINE float moec_fifth(float x) { return (x * x) * (x * x) * x; }
MOEC_INLINE float moec_seventh(float x) { return (x * x) * (x * x) * (x * x) * x; }

/* The remainder has the sign of the divisor. */
MOEC_INLINE float moec_mod(float a, float b) { return a - b * moec_floor(a / b); }

/* ---- whole numbers of 64 bits: see compiler/whole.c ---- */

MOEC_INLINE int64_t moec_whole(float x) {
    return x >= -0x1p63f && x < 0x1p63f ? (int64_t)x : INT64_MIN;
}
MOEC_INLINE int64_t moec_whole_sum(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}
MOEC_INLINE int64_t moec_whole_difference(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a - (uint64_t)b);
}
MOEC_INLINE int64_t moec_whole_product(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a * (uint64_t)b);
}
MOEC_INLINE int64_t moec_whole_size(int64_t a) { return a < 0 ? moec_whole_difference(0, a) : a; }
MOEC_INLINE int64_t moec_whole_quotient(int64_t a, int64_t b) {
    if (b == 0 || (b == -1 && a == INT64_MIN)) return INT64_MIN;
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
MOEC_INLINE int64_t moec_whole_remainder(int64_t a, int64_t b) {
    if (b == 0 || b == -1) return b ? 0 : a;
    const int64_t rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

/* Functions in double precision, for tables of positions. */
#define moec_math(name) __builtin_##name

/* ---- exponential and logarithm ---- */

/* e^x = 2^n e^r with |r| <= ln 2 / 2: returns e^r - 1. Adding 1.5 * 2^23 rounds to an integer n,
 * which is in the low bits of *shifted. */
MOEC_INLINE float moec_exp_rest(float x, float *shifted) {
    *shifted = x * 1.44269504f + 12582912.0f;
    const float n = *shifted - 12582912.0f;
    const float r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
    float p = 1.3976573e-3f;
    p = p * r + 8.3682816e-3f;
    p = p * r + 4.1666519e-2f;
    p = p * r + 1.6666553e-1f;
    p = p * r + 0.5f;
    return (p * r) * r + r;
}

/* The power of two is applied in two halves, so that results in the subnormal range and infinity
 * come out right. */
MOEC_INLINE float moec_exp(float x) {
    float y = x > 89.0f ? 89.0f : x, shifted;
    y = y < -104.0f ? -104.0f : y;
    const float p = moec_exp_rest(y, &shifted) + 1.0f;
    const int32_t power = (int32_t)(moec_bits(shifted) - 0x4B400000u);
    const int32_t half = power >> 1;
    const float first = moec_from_bits((uint32_t)(half + 127) << 23);
    const float second = moec_from_bits((uint32_t)(power - half + 127) << 23);
    return p * first * second;
}

/* x = 2^n m with 2/3 <= m < 4/3. */
MOEC_INLINE float moec_log(float x) {
    const int small = x < 1.17549435e-38f;
    const float y = small ? x * 8388608.0f : x;
    const uint32_t e = (moec_bits(y) - 0x3F2AAAABu) & 0xFF800000u;
    const float m = moec_from_bits(moec_bits(y) - e) - 1.0f;
    const float n = (float)(int32_t)e * 1.19209290e-7f + (small ? -23.0f : 0.0f);
    const float s = m * m;
    float r = -0.130310059f, t = 0.140869141f;
    r = r * s - 0.121483512f;
    t = t * s + 0.139814854f;
    r = r * s - 0.166846126f;
    t = t * s + 0.200120345f;
    r = r * s - 0.249996200f;
    r = t * m + r;
    r = r * m + 0.333331972f;
    r = r * m - 0.5f;
    r = r * s + m;
    r = n * 0.693147182f + r;
    r = x == 0.0f ? -__builtin_inff() : r;
    r = x > 3.40282347e38f ? x : r;
    return x >= 0.0f ? r : __builtin_nanf("");
}

/* a^b by way of double precision; a negative base wants an integer exponent. */
MOEC_INLINE float moec_pow(float a, float b) {
    const double base = __builtin_fabs((double)a);
    const uint64_t e = (moec_bits_double(base) - 0x3FE6A09E667F3BCDu) & 0xFFF0000000000000u;
    const double m = moec_from_bits_double(moec_bits_double(base) - e);
    const double z = (m - 1.0) / (m + 1.0), s = z * z;
    double series = 1.0 / 15;
    series = series * s + 1.0 / 13;
    series = series * s + 1.0 / 11;
    series = series * s + 1.0 / 9;
    series = series * s + 1.0 / 7;
    series = series * s + 1.0 / 5;
    series = series * s + 1.0 / 3;
    series = 2.0 * (series * s * z + z);
    const double exponent = (double)((int32_t)(e >> 32) >> 20);
    double y = (double)b * (exponent * 0.69314718055994531 + series);
    y = y > 100.0 ? 100.0 : y < -110.0 ? -110.0 : y;
    const double shifted = y * 1.4426950408889634 + 6755399441055744.0;
    const double n = shifted - 6755399441055744.0;
    const double r = y - n * 0.69314718055994531;
    double p = 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    const uint64_t scale = (moec_bits_double(shifted) - 0x4338000000000000u + 1023u) << 52;
    float result = (float)(p * moec_from_bits_double(scale));
    const float huge = b > 0.0f ? __builtin_inff() : 0.0f,
                none = b > 0.0f ? 0.0f : __builtin_inff();
    result = base > 3.5e38 ? huge : result;
    result = base == 0.0 ? none : result;
    const float whole = moec_floor(b), half = b * 0.5f;
    const float odd = moec_floor(half) != half ? -result : result;
    result = a < 0.0f ? (whole == b ? odd : __builtin_nanf("")) : result;
    result = ((a != a) | (b != b)) ? a + b : result;
    return b == 0.0f ? 1.0f : result;
}

/* ---- derived functions ---- */

MOEC_INLINE float moec_sigmoid(float x) { return 1.0f / (1.0f + moec_exp(-x)); }

/* t / (t + 2) with t = e^(2|x|) - 1 = 2^n (e^r - 1) + (2^n - 1), in which nothing cancels: as exact
 * about zero as far from it, and 1 from 10 on. */
MOEC_INLINE float moec_tanh(float x) {
    float size = __builtin_fabsf(x), shifted;
    size = size > 10.0f ? 10.0f : size;
    const float rest = moec_exp_rest(size + size, &shifted);
    const float power = moec_from_bits((moec_bits(shifted) - 0x4B400000u + 127u) << 23);
    const float t = power * rest + (power - 1.0f);
    return __builtin_copysignf(t / (t + 2.0f), x);
}

MOEC_INLINE float moec_erf(float x) {
    const float size = __builtin_fabsf(x), s = x * x;
    float far = -1.72853470e-5f * size + 3.83197126e-4f;
    const float u = -3.88396438e-3f * size + 2.42546219e-2f;
    far = far * s + u;
    far = far * size - 1.06777877e-1f;
    far = far * size - 6.34846687e-1f;
    far = far * size - 1.28717512e-1f;
    far = far * size - size;
    far = size > 4.0f ? 1.0f : 1.0f - moec_exp(far);
    float near = -5.96761703e-4f;
    near = near * s + 4.99119423e-3f;
    near = near * s - 2.67681349e-2f;
    near = near * s + 1.12819925e-1f;
    near = near * s - 3.76125336e-1f;
    near = near * s + 1.28379166e-1f;
    near = near * x + x;
    near = x != x ? x : near;
    return size > 0.927734375f ? __builtin_copysignf(far, x) : near;
}

/* Of x, of (x - 1) / (x + 1) beyond tan(pi/8), of -1 / x beyond tan(3 pi/8). */
MOEC_INLINE float moec_atan(float x) {
    const float size = __builtin_fabsf(x);
    const float from = size > 2.41421356f ? 1.57079633f : size > 0.414213562f ? 0.785398163f : 0.0f;
    const float above = size > 2.41421356f ? -1.0f : size > 0.414213562f ? size - 1.0f : size;
    const float below = size > 2.41421356f ? size : size > 0.414213562f ? size + 1.0f : 1.0f;
    const float t = above / below, s = t * t;
    float p = 8.05374449538e-2f;
    p = p * s - 1.38776856032e-1f;
    p = p * s + 1.99777106478e-1f;
    p = p * s - 3.33329491539e-1f;
    return __builtin_copysignf(from + (p * s * t + t), x);
}

/* log(1 + e^x): the logarithm of 1 + t, corrected by the rounding error of the sum 1 + t. */
MOEC_INLINE float moec_softplus(float x) {
    const float t = moec_exp(-__builtin_fabsf(x)), u = 1.0f + t;
    const float rest = moec_log(u) + (t - (u - 1.0f)) / u;
    return (x > 0.0f ? x : 0.0f) + rest;
}

/* sin(x + quarter turns * pi/2), the angle reduced in double precision: exact enough for positions
 * in the millions. */
MOEC_INLINE float moec_sin_turned(float x, uint64_t quarters) {
    const double shifted = (double)x * 0.63661977236758134 + 6755399441055744.0;
    const double n = shifted - 6755399441055744.0;
    const float r = (float)(((double)x - n * 1.5707963267948966) - n * 6.123233995736766e-17);
    const float s = r * r;
    float sine = 2.86567956e-6f;
    sine = sine * s - 1.98559923e-4f;
    sine = sine * s + 8.33338592e-3f;
    sine = sine * s - 1.66666672e-1f;
    sine = sine * s * r + r;
    float cosine = 2.44677067e-5f;
    cosine = cosine * s - 1.38877297e-3f;
    cosine = cosine * s + 4.16666567e-2f;
    cosine = cosine * s - 0.5f;
    cosine = cosine * s + 1.0f;
    const uint64_t quarter = moec_bits_double(shifted) + quarters;
    const float value = (quarter & 1) != 0 ? cosine : sine;
    const float turned = (quarter & 2) != 0 ? -value : value;
    return __builtin_fabsf(x) < 1e15f ? turned : __builtin_nanf("");
}

MOEC_INLINE float moec_sin(float x) { return moec_sin_turned(x, 0); }
MOEC_INLINE float moec_cos(float x) { return moec_sin_turned(x, 1); }

/* ---- random numbers ---- */

/* Depends only on the seed, the number of the statement in the program and the position in the
 * tensor. */

MOEC_INLINE uint64_t moec_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* From 0 up to, not including, 1. */
MOEC_INLINE float moec_uniform(uint64_t seed, uint64_t place, uint64_t position) {
    const uint64_t z = seed + 0x9E3779B97F4A7C15u * (place * 0x100000001B3u + position + 1u);
    return (float)(int32_t)(moec_mix(moec_mix(z)) >> 40) * 5.9604644775390625e-8f;
}

/* Mean 0, deviation 1, by Box and Muller. */
MOEC_INLINE float moec_normal(uint64_t seed, uint64_t place, uint64_t position) {
    const float radius = moec_uniform(seed, place, position);
    const float angle = moec_uniform(seed, place ^ 0x5BD1E995u, position);
    return moec_sqrt(-2.0f * moec_log(1.0f - radius)) * moec_cos(6.28318531f * angle);
}

#endif
