#include "random.h"

#include <math.h>
#include <string.h>

/* Inlined into the loops over many numbers. */
#define INLINE static inline __attribute__((always_inline))

/* The finaliser of splitmix64. */
INLINE uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

INLINE uint64_t mixed(uint64_t seed, uint64_t place) {
    return mix(mix(seed + 0x9E3779B97F4A7C15u * (place + 1)) ^ seed);
}

uint64_t random_bits(uint64_t seed, uint64_t place) {
    return mixed(seed, place);
}

double random_uniform(uint64_t seed, uint64_t place) {
    return (double)(random_bits(seed, place) >> 11) * 0x1p-53;
}

/* ---- normal numbers ----
 *
 * Without branches, calls and conversions without a vector instruction, for vectorization; and
 * without the C library, whose results differ in the last digits between versions. */

INLINE uint64_t bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

INLINE double from_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Converts an integer below 2^52 by storing it in the mantissa bits of 2^52. */
INLINE double from_integer(uint64_t integer) {
    return from_bits(bits_of(0x1p52) | integer) - 0x1p52;
}

/* random_uniform, of two halves of its 53 bits. */
INLINE double uniform(uint64_t seed, uint64_t place) {
    uint64_t bits = mixed(seed, place) >> 11;
    return (from_integer(bits >> 26) * 0x1p26 + from_integer(bits & 0x3FFFFFF)) * 0x1p-53;
}

/* ln x of 2^-53 <= x <= 1, where x = 2^n m with m about 1, and ln m = 2 artanh((m - 1) / (m + 1)).
 */
INLINE double logarithm(double x) {
    const uint64_t middle = bits_of(0.7071067811865476), one = (uint64_t)1 << 52;
    const uint64_t n_and_bias = (bits_of(x) - middle + 1023 * one) >> 52;
    const double m = from_bits(bits_of(x) - (n_and_bias - 1023) * one);
    const double z = (m - 1) / (m + 1), s = z * z;
    double sum = 1.0 / 21;
    sum = sum * s + 1.0 / 19;
    sum = sum * s + 1.0 / 17;
    sum = sum * s + 1.0 / 15;
    sum = sum * s + 1.0 / 13;
    sum = sum * s + 1.0 / 11;
    sum = sum * s + 1.0 / 9;
    sum = sum * s + 1.0 / 7;
    sum = sum * s + 1.0 / 5;
    sum = sum * s + 1.0 / 3;
    return (from_integer(n_and_bias) - 1023) * 0.6931471805599453 + 2 * (sum * s * z + z);
}

/* cos(2 pi u) for 0 <= u < 1: the sine or cosine of the distance x to the nearest quarter turn.
 * Adding 1.5 * 2^52 rounds to an integer, which is then in the low bits. */
INLINE double cosine_of_turn(double u) {
    const double shifted = 4 * u + 0x1.8p52, quarters = shifted - 0x1.8p52;
    const uint64_t quarter = bits_of(shifted) & 3;
    const double x = (u - 0.25 * quarters) * 6.283185307179586, s = x * x;
    double cosine = 1.0 / 20922789888000;
    cosine = cosine * s - 1.0 / 87178291200;
    cosine = cosine * s + 1.0 / 479001600;
    cosine = cosine * s - 1.0 / 3628800;
    cosine = cosine * s + 1.0 / 40320;
    cosine = cosine * s - 1.0 / 720;
    cosine = cosine * s + 1.0 / 24;
    cosine = cosine * s - 0.5;
    cosine = cosine * s + 1;
    double sine = -1.0 / 1307674368000;
    sine = sine * s + 1.0 / 6227020800;
    sine = sine * s - 1.0 / 39916800;
    sine = sine * s + 1.0 / 362880;
    sine = sine * s - 1.0 / 5040;
    sine = sine * s + 1.0 / 120;
    sine = sine * s - 1.0 / 6;
    sine = sine * s * x + x;
    const double size = quarter & 1 ? sine : cosine;
    return from_bits(bits_of(size) ^ ((quarter + 1) & 2) << 62);
}

/* Box and Muller (1958). Clang cannot vectorize if errno is set, and would warn about the
 * pragma. */
INLINE void draw_normals(uint64_t seed, uint64_t first, size_t count, double *normals) {
#ifndef __clang__
#pragma omp simd
#endif
    for (size_t i = 0; i < count; i++) {
        const uint64_t place = 2 * (first + i);
        normals[i] = sqrt(-2 * logarithm(1 - uniform(seed, place))) *
                     cosine_of_turn(uniform(seed, place + 1));
    }
}

#ifdef __x86_64__

__attribute__((target("avx512dq"))) static void draw_in_eights(uint64_t seed, uint64_t first,
                                                               size_t count, double *normals) {
    draw_normals(seed, first, count, normals);
}

__attribute__((target("avx2"))) static void draw_in_fours(uint64_t seed, uint64_t first,
                                                          size_t count, double *normals) {
    draw_normals(seed, first, count, normals);
}

void random_normals(uint64_t seed, uint64_t first, size_t count, double *normals) {
    if (__builtin_cpu_supports("avx512dq"))
        draw_in_eights(seed, first, count, normals);
    else if (__builtin_cpu_supports("avx2"))
        draw_in_fours(seed, first, count, normals);
    else
        draw_normals(seed, first, count, normals);
}

#else

void random_normals(uint64_t seed, uint64_t first, size_t count, double *normals) {
    draw_normals(seed, first, count, normals);
}

#endif

double random_normal(uint64_t seed, uint64_t place) {
    double normal;
    random_normals(seed, place, 1, &normal);
    return normal;
}

/* Four rounds of a Feistel network on the smallest even number of bits for `count` values. A result
 * outside the range is mapped again; this ends because the network is a permutation. */
uint64_t random_permuted(uint64_t seed, uint64_t value, uint64_t count) {
    int half = 1;
    while (half < 31 && ((uint64_t)1 << (2 * half)) < count) half++;
    uint64_t mask = ((uint64_t)1 << half) - 1;
    do {
        for (uint64_t round = 0; round < 4; round++) {
            uint64_t left = value >> half, right = value & mask;
            value = (right << half) | ((left ^ random_bits(seed + round, right)) & mask);
        }
    } while (value >= count);
    return value;
}

uint64_t random_seed_for(uint64_t seed, const char *name) {
    uint64_t hash = 0xCBF29CE484222325u ^ mix(seed);
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 0x100000001B3u;
    return mix(hash);
}
