/* plain_math: rounding and the functions of double precision that position tables need, without a C
 * library. Freestanding programs include it before prelude.h.
 *
 * tests/unit/test_plain_math.c measures the errors. They are at most 1 ulp for square roots, 2 ulp
 * for exp and log, 3 ulp for tanh, sin and cos (arguments up to 1e6), and 1e-14 relative for powers
 * between 1e-12 and 1e12. */
#ifndef MOEC_PLAIN_MATH_H
#define MOEC_PLAIN_MATH_H

#include <stdint.h>

#define MOEC_INFINITE (1e300 * 1e300)
#define MOEC_NOT_A_NUMBER (MOEC_INFINITE * 0.0)

typedef union MoecDouble {
    double value;
    uint64_t bits;
} MoecDouble;

/* Above 2^23 every float is an integer. */
static inline float moec_plain_floor(float x) {
    if (!(x > -8388608.0f && x < 8388608.0f)) return x;
    const float whole = (float)(int32_t)x;
    return whole > x ? whole - 1.0f : whole;
}

static inline double moec_double_fabs(double x) {
    return x < 0.0 ? -x : x;
}

static inline double moec_double_floor(double x) {
    if (!(x > -4503599627370496.0 && x < 4503599627370496.0)) return x;
    const double whole = (double)(int64_t)x;
    return whole > x ? whole - 1.0 : whole;
}

/* Newton's method from half of the exponent. As a float, the result is correctly rounded. */
static inline double moec_double_sqrt(double x) {
    if (!(x > 0.0 && x < 1.7976931348623157e308)) return x >= 0.0 ? x : MOEC_NOT_A_NUMBER;
    const int tiny = x < 2.2250738585072014e-308;
    const MoecDouble from = {tiny ? x * 18014398509481984.0 : x};
    MoecDouble root;
    root.bits = (from.bits >> 1) + 0x1FF7A3BEA91D9B1Bu;
    for (int i = 0; i < 4; i++) root.value = 0.5 * (root.value + from.value / root.value);
    return tiny ? root.value * 7.450580596923828e-09 : root.value;
}

/* x + 1.5 * 2^52 - 1.5 * 2^52: the nearest integer; its low bits are those of the sum. */
static inline double moec_double_nearest(double x) {
    const double shifted = x + 6755399441055744.0;
    return shifted - 6755399441055744.0;
}

/* 2^n of -1022 <= n <= 1023. */
static inline double moec_double_power_of_two(int n) {
    MoecDouble power;
    power.bits = (uint64_t)(n + 1023) << 52;
    return power.value;
}

/* e^x = 2^n e^r with |r| <= ln 2 / 2, e^r by its series. 2^n is applied in two halves, so that
 * subnormal results and infinity come out right. */
static inline double moec_double_exp(double x) {
    if (!(x > -746.0 && x < 710.0)) return x != x ? x : x > 0.0 ? x * 1e308 : 0.0;
    const double n = moec_double_nearest(x * 1.4426950408889634);
    const double r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = (p * r) * r + r + 1.0;
    const int power = (int)n, half = power / 2;
    return p * moec_double_power_of_two(half) * moec_double_power_of_two(power - half);
}

/* x = 2^n m with sqrt(1/2) <= m < sqrt(2); ln m = 2 artanh((m - 1) / (m + 1)). */
static inline double moec_double_log(double x) {
    if (!(x > 0.0 && x < 1.7976931348623157e308))
        return x == 0.0 ? -MOEC_INFINITE : x > 0.0 ? x : MOEC_NOT_A_NUMBER;
    const int tiny = x < 2.2250738585072014e-308;
    MoecDouble m = {tiny ? x * 18014398509481984.0 : x};
    const uint64_t least = 0x3FE6A09E667F3BCDu, one = (uint64_t)1 << 52;
    const uint64_t biased = (m.bits - least + 1023 * one) >> 52;
    m.bits -= (biased - 1023) * one;
    const double f = m.value - 1.0, z = f / (m.value + 1.0), s = z * z;
    double sum = 1.0 / 21.0;
    sum = sum * s + 1.0 / 19.0;
    sum = sum * s + 1.0 / 17.0;
    sum = sum * s + 1.0 / 15.0;
    sum = sum * s + 1.0 / 13.0;
    sum = sum * s + 1.0 / 11.0;
    sum = sum * s + 1.0 / 9.0;
    sum = sum * s + 1.0 / 7.0;
    sum = sum * s + 1.0 / 5.0;
    sum = sum * s + 1.0 / 3.0;
    /* 2 artanh z = f - z (f - 2 s sum): f is exact, the rest is small */
    const double n = (double)biased - 1023.0 - (tiny ? 54.0 : 0.0);
    const double rest = f - z * (f - 2.0 * s * sum);
    return n * 0.693147180369123816490 + (n * 1.90821492927058770002e-10 + rest);
}

static inline double moec_double_pow(double a, double b) {
    if (b == 0.0) return 1.0;
    const double size = moec_double_exp(b * moec_double_log(moec_double_fabs(a)));
    if (!(a < 0.0)) return a == 0.0 ? (b > 0.0 ? 0.0 : MOEC_INFINITE) : size;
    if (moec_double_floor(b) != b) return MOEC_NOT_A_NUMBER;
    return moec_double_floor(0.5 * b) != 0.5 * b ? -size : size;
}

/* sin(x + quarters pi / 2). pi / 2 in three parts, of which products with integers below 2^20 are
 * exact (Cody and Waite 1980). */
static inline double moec_double_sine(double x, uint64_t quarters) {
    const double n = moec_double_nearest(x * 0.63661977236758134);
    const double nearly = (x - n * 1.5707963267341256) - n * 6.0771005063039659e-11;
    const double r = nearly - n * 2.0222662487959506e-21, s = r * r;
    const uint64_t quarter = (uint64_t)(int64_t)n + quarters;
    double sine = -1.0 / 1307674368000.0;
    sine = sine * s + 1.0 / 6227020800.0;
    sine = sine * s - 1.0 / 39916800.0;
    sine = sine * s + 1.0 / 362880.0;
    sine = sine * s - 1.0 / 5040.0;
    sine = sine * s + 1.0 / 120.0;
    sine = sine * s - 1.0 / 6.0;
    sine = sine * s * r + r;
    double cosine = 1.0 / 20922789888000.0;
    cosine = cosine * s - 1.0 / 87178291200.0;
    cosine = cosine * s + 1.0 / 479001600.0;
    cosine = cosine * s - 1.0 / 3628800.0;
    cosine = cosine * s + 1.0 / 40320.0;
    cosine = cosine * s - 1.0 / 720.0;
    cosine = cosine * s + 1.0 / 24.0;
    cosine = cosine * s * s - 0.5 * s + 1.0;
    const double value = (quarter & 1u) != 0 ? cosine : sine;
    return (quarter & 2u) != 0 ? -value : value;
}

static inline double moec_double_sin(double x) {
    return moec_double_sine(x, 0);
}
static inline double moec_double_cos(double x) {
    return moec_double_sine(x, 1);
}

static inline double moec_double_tanh(double x) {
    const double size = moec_double_fabs(x);
    if (size < 0.25) { /* the odd series of sinh and the even one of cosh, without cancellation */
        const double s = x * x;
        double odd = 1.0 / 6227020800.0;
        odd = odd * s + 1.0 / 39916800.0;
        odd = odd * s + 1.0 / 362880.0;
        odd = odd * s + 1.0 / 5040.0;
        odd = odd * s + 1.0 / 120.0;
        odd = odd * s + 1.0 / 6.0;
        double even = 1.0 / 479001600.0;
        even = even * s + 1.0 / 3628800.0;
        even = even * s + 1.0 / 40320.0;
        even = even * s + 1.0 / 720.0;
        even = even * s + 1.0 / 24.0;
        even = even * s + 0.5;
        return (odd * s * x + x) / (even * s + 1.0);
    }
    const double t = moec_double_exp(-2.0 * size), value = (1.0 - t) / (1.0 + t);
    return x < 0.0 ? -value : value;
}

#endif
