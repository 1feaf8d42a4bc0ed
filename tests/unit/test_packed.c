/* Weights in panels: rounding against its definition, and products against sums in double precision. The kernels are those of
 * this CPU, as programs have them. */
#include "kernels.h"
#include "data/shards.h"

#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static float *room(long count) {
    float *x = malloc(((size_t)count + 1) * sizeof *x);
    assert_non_null(x);
    return x;
}

/* Every type of panels, and the largest error of rounding as a part of the largest weight of a group: half the largest distance of
 * two neighbors, or the part that is cut off at the end. */
static const struct {
    MoecType type;
    size_t bytes;
    long depth;
    double error;
} panel_types[] = {{MOEC_INT4, sizeof(MoecInt4), MOEC_PANEL_DEPTH, 1 / 7.5},
                   {MOEC_TERNARY, sizeof(MoecTernary), MOEC_TERNARY_DEPTH, 1 / 1.5},
                   {MOEC_FP8, sizeof(MoecFp8), MOEC_PANEL_DEPTH, 1 / 16.0},
                   {MOEC_MXFP8, sizeof(MoecFp8), MOEC_PANEL_DEPTH, 1 / 8.0},
                   {MOEC_MXFP4, sizeof(MoecMxfp4), MOEC_PANEL_DEPTH, 1 / 4.0},
                   {MOEC_NVFP4, sizeof(MoecNvfp4), MOEC_PANEL_DEPTH, 1 / 4.0}};
enum { PANEL_TYPES = sizeof panel_types / sizeof *panel_types };

static int row_of(MoecType type) {
    int i = 0;
    while (panel_types[i].type != type) i++;
    return i;
}

static long depth_of(MoecType type) {
    return panel_types[row_of(type)].depth;
}

static void *panels_for(MoecType type, long n, long k) {
    void *made = malloc((size_t)((n + MOEC_PANEL - 1) / MOEC_PANEL * (k / depth_of(type))) *
                        panel_types[row_of(type)].bytes);
    assert_non_null(made);
    return made;
}

static double uniform(void) {
    return 2 * drand48() - 1;
}

/* ---- rounding ---- */

/* The numbers of E2M1 and E4M3, by their definition: the bits of an exponent and a fraction. */
static double format_value(unsigned code, int exponent_bits, int digits, int bias) {
    const int sign = (int)(code >> (exponent_bits + digits)) & 1,
              exponent = (int)(code >> digits) & ((1 << exponent_bits) - 1),
              fraction = (int)code & ((1 << digits) - 1);
    const double size = exponent ? ldexp((1 << digits) + fraction, exponent - bias - digits)
                                 : ldexp(fraction, 1 - bias - digits);
    return sign ? -size : size;
}
static double e2m1(unsigned code) {
    return format_value(code, 2, 1, 1);
}
static double e4m3(unsigned code) {
    return format_value(code, 4, 3, 7);
}
static double power(unsigned exponent) {
    return exponent < 255 ? ldexp(1, (int)exponent - 127) : INFINITY;
}

/* Weight (j, p) of a matrix in panels. */
static double stored(MoecType type, const void *packed, long k, long j, long p) {
    const long depth = depth_of(type), at = j / MOEC_PANEL * (k / depth) + p / depth, i = p % depth,
               lane = j % MOEC_PANEL;
    const long bit = i % 8 / 2 * 8 + i / 8 % 2 * 4 + i % 2 * 2;
    switch (type) {
    case MOEC_INT4: {
        const MoecInt4 *part = (const MoecInt4 *)packed + at;
        return (double)moec_from_half(part->scale[lane]) *
               ((int)(part->steps[i / 8][lane] >> i % 8 * 4 & 15u) - 8);
    }
    case MOEC_MXFP4: {
        const MoecMxfp4 *part = (const MoecMxfp4 *)packed + at;
        return power(part->scale[lane]) * e2m1(part->codes[i / 8][lane] >> i % 8 * 4 & 15u);
    }
    case MOEC_NVFP4: {
        const MoecNvfp4 *part = (const MoecNvfp4 *)packed + at;
        return power(part->scale[lane]) * e4m3(part->factor[i / 16][lane]) *
               e2m1(part->codes[i / 8][lane] >> i % 8 * 4 & 15u);
    }
    case MOEC_TERNARY: {
        const MoecTernary *part = (const MoecTernary *)packed + at;
        return (double)part->scale[lane] * ((int)(part->steps[i / 16][lane] >> bit & 3u) - 1);
    }
    default: {
        const MoecFp8 *part = (const MoecFp8 *)packed + at;
        return power(part->scale[lane]) * e4m3(part->codes[i][lane]);
    }
    }
}

/* Rounds a single column of `k` weights and returns the values. */
static void rounded(MoecType type, const float *weights, long k, double *values) {
    const MoecWeightCopy one = {
        .type = type, .batch = 1, .n = 1, .k = k, .n_stride = k, .k_stride = 1};
    void *packed = panels_for(type, 1, k);
    moec_round_panels(&one, weights, packed);
    for (long p = 0; p < k; p++) values[p] = stored(type, packed, k, 0, p);
    free(packed);
}

static void halves(void **state) {
    (void)state;
    for (uint32_t half = 0; half < 0x10000; half++) {
        const uint32_t exponent = half >> 10 & 31, fraction = half & 1023;
        const double size = exponent == 0    ? ldexp(fraction, -24)
                            : exponent < 31  ? ldexp(1024 + fraction, (int)exponent - 25)
                            : fraction != 0U ? NAN
                                             : INFINITY;
        const float value = moec_from_half((uint16_t)half);
        if (isnan(size)) {
            assert_true(isnan(value) && isnan(moec_from_half(moec_half(value))));
            continue;
        }
        assert_true((double)value == (half & 0x8000u ? -size : size));
        assert_int_equal(moec_half(value), half);
        if (exponent == 31) continue;
        /* halfway to the next one: the even one; beyond it: the next one */
        const float next = exponent == 30 && fraction == 1023
                               ? (half & 0x8000u ? -65536.0f : 65536.0f)
                               : moec_from_half((uint16_t)(half + 1)),
                    middle = value + (next - value) / 2;
        assert_int_equal(moec_half(middle), half + (half & 1));
        assert_int_equal(moec_half(nextafterf(middle, next)), half + 1);
        assert_int_equal(moec_half(nextafterf(middle, value)), half);
    }
}

/* Multiples of a scale stay as they are; other weights become the nearest of 16 multiples. */
static void weights_become_multiples(void **state) {
    (void)state;
    for (int run = 0; run < 20000; run++) {
        float weights[MOEC_PANEL_DEPTH], most = 0;
        double values[MOEC_PANEL_DEPTH];
        const float scale = moec_from_half(moec_half((float)(0.01 + drand48())));
        const int exact = run % 2, widest = run / 2 % 8 + 1;
        for (int i = 0; i < MOEC_PANEL_DEPTH; i++) {
            const long step = lrand48() % (2 * widest + (widest < 8)) - widest;
            weights[i] = exact ? scale * (float)step : (float)uniform();
            if (fabsf(weights[i]) > fabsf(most)) most = weights[i];
        }
        rounded(MOEC_INT4, weights, MOEC_PANEL_DEPTH, values);
        const double unit = fabs((double)most) / 8;
        for (int i = 0; i < MOEC_PANEL_DEPTH; i++) {
            if (exact && values[i] != (double)weights[i])
                fail_msg("%g became %g", (double)weights[i], values[i]);
            /* half a step, one at the end without a multiple, and the rounding of the scale */
            const double opposite = (double)weights[i] / (double)most,
                         limit = opposite < -7.5 / 8 ? 1 : 0.5;
            if (!exact && !(fabs(values[i] - (double)weights[i]) <= unit * (limit + 0x1p-8)))
                fail_msg("%g became %g of %g", (double)weights[i], values[i], (double)most);
        }
        float again[MOEC_PANEL_DEPTH];
        double twice[MOEC_PANEL_DEPTH];
        for (int i = 0; i < MOEC_PANEL_DEPTH; i++) again[i] = (float)values[i];
        rounded(MOEC_INT4, again, MOEC_PANEL_DEPTH, twice);
        for (int i = 0; i < MOEC_PANEL_DEPTH; i++) assert_true(twice[i] == values[i]);
    }
}

/* The weights of a file in Q4_0 keep their values and become the same blocks again. */
static void blocks_of_q4_0(void **state) {
    (void)state;
    const BlockType *type = block_type_named("q4_0");
    assert_non_null(type);
    for (int run = 0; run < 5000; run++) {
        float weights[MOEC_PANEL_DEPTH];
        double values[MOEC_PANEL_DEPTH];
        unsigned char block[18], again[18];
        for (int i = 0; i < MOEC_PANEL_DEPTH; i++)
            weights[i] = run % 50 ? (float)(uniform() * pow(10, run % 9 - 6)) : 0;
        blocks_quantize(type, weights, MOEC_PANEL_DEPTH, block);
        for (int i = 0; i < MOEC_PANEL_DEPTH; i++) weights[i] = block_value(type, block, (size_t)i);
        rounded(MOEC_INT4, weights, MOEC_PANEL_DEPTH, values);
        for (int i = 0; i < MOEC_PANEL_DEPTH; i++) assert_true(values[i] == (double)weights[i]);
        blocks_quantize(type, weights, MOEC_PANEL_DEPTH, again);
        assert_memory_equal(block, again, sizeof block);
    }
}

/* -1, 0 and 1 times any number stay as they are. Of other weights, those of more than 0.7 times the mean size become their own mean
 * size. */
static void weights_become_ternary(void **state) {
    (void)state;
    for (int run = 0; run < 20000; run++) {
        float weights[MOEC_TERNARY_DEPTH];
        double values[MOEC_TERNARY_DEPTH], sum = 0, rest = 0, count = 0;
        const float scale = (float)(uniform() * pow(10, run % 30 - 15));
        for (int i = 0; i < MOEC_TERNARY_DEPTH; i++) {
            weights[i] =
                run % 2 ? scale * (float)(lrand48() % (run % 3 + 2) % 3 - 1) : (float)uniform();
            sum += fabs((double)weights[i]);
        }
        for (int i = 0; i < MOEC_TERNARY_DEPTH; i++)
            if (fabs((double)weights[i]) > 0.7 * sum / MOEC_TERNARY_DEPTH)
                rest += fabs((double)weights[i]), count++;
        rounded(MOEC_TERNARY, weights, MOEC_TERNARY_DEPTH, values);
        for (int i = 0; i < MOEC_TERNARY_DEPTH; i++) {
            const double size = fabs((double)weights[i]), sign = copysign(1, (double)weights[i]),
                         wanted = size > 0.7 * sum / MOEC_TERNARY_DEPTH ? sign * rest / count : 0;
            if (run % 2 ? values[i] != (double)weights[i]
                        : !(fabs(values[i] - wanted) <= 1e-7 * fabs(wanted)))
                fail_msg("%g became %.9g, not %.9g", (double)weights[i], values[i], wanted);
        }
    }
    float weights[MOEC_TERNARY_DEPTH] = {0};
    double values[MOEC_TERNARY_DEPTH];
    for (int i = 0; i < 2; i++) {
        weights[7] = i ? NAN : -INFINITY;
        rounded(MOEC_TERNARY, weights, MOEC_TERNARY_DEPTH, values);
        assert_false(isfinite(values[7]));
    }
}

/* The nearest number of the format in units of `scale`, on a tie the one with an even code: by trying all of them. */
static double nearest(double weight, double scale, double (*value)(unsigned), unsigned codes) {
    double best = 0;
    unsigned chosen = 0;
    for (unsigned code = 0; code < codes; code++) {
        const double number = value(code) * scale, distance = fabs(number - fabs(weight)),
                     least = fabs(best - fabs(weight));
        if (distance < least || (distance == least && chosen % 2)) best = number, chosen = code;
    }
    return copysign(best, weight);
}

static double power_below(double most) {
    return ldexp(1, ilogb(fmax(most, 0x1p-96)));
}

/* Weights of two groups become the nearest numbers with the scale of the format, and stay there. */
static void weights_become_formats(void **state) {
    (void)state;
    enum { TERMS = 64 };
    const MoecType types[] = {MOEC_FP8, MOEC_MXFP8, MOEC_MXFP4, MOEC_NVFP4};
    for (int run = 0; run < 8000; run++) {
        const MoecType type = types[run % 4];
        const double size = pow(10, run / 4 % 30 - 15);
        float weights[TERMS];
        double values[TERMS], twice[TERMS], column = 0;
        for (int i = 0; i < TERMS; i++) {
            weights[i] = (float)(uniform() * size * (i < 16 ? 0.1 : i < 32 ? 1 : 0.01));
            if (run % 7 == 0) /* few digits, for ties */
                weights[i] = (float)(lrand48() % 33 - 16) * (float)power_below(size) / 4;
            column = fmax(column, fabs((double)weights[i]));
        }
        rounded(type, weights, TERMS, values);
        for (int i = 0; i < TERMS; i++) {
            const int group = type == MOEC_NVFP4 ? 16 : 32;
            double most = 0;
            for (int j = i / group * group; j < i / group * group + group; j++)
                most = fmax(most, fabs((double)weights[j]));
            const double above = power_below(column) * (power_below(column) < column ? 2 : 1);
            double scale = type == MOEC_FP8     ? fmax(above, 0x1p-96) / 256
                           : type == MOEC_MXFP8 ? power_below(most) / 256
                                                : power_below(most) / 4;
            if (type == MOEC_NVFP4) {
                const double common = power_below(column) / 1024;
                scale = fmax(nearest((double)((float)most / (float)(6 * common)), 1, e4m3, 127),
                             0x1p-9) *
                        common;
            }
            const int wide = type == MOEC_FP8 || type == MOEC_MXFP8;
            const double wanted =
                nearest((double)weights[i], scale, wide ? e4m3 : e2m1, wide ? 127 : 8);
            /* the inverse of the scale of nvfp4 is rounded, which can change the side of the middle */
            const double farther = fabs(values[i] - (double)weights[i]) - fabs(wanted - (double)weights[i]);
            if (values[i] != wanted && !(type == MOEC_NVFP4 && fabs(farther) <= scale * 1e-5))
                fail_msg("type %d: %g became %g, not %g (scale %g)", type, (double)weights[i],
                         values[i], wanted, scale);
        }
        float again[TERMS];
        for (int i = 0; i < TERMS; i++) again[i] = (float)values[i];
        rounded(type, again, TERMS, twice);
        for (int i = 0; i < TERMS; i++)
            if (twice[i] != values[i])
                fail_msg("type %d, run %d, term %d: %.9g, then %.9g", type, run, i, values[i], twice[i]);
    }
}

/* Zeros, tiny weights, and weights that are not finite. */
static void strange_weights(void **state) {
    (void)state;
    for (int t = 0; t < PANEL_TYPES; t++) {
        const MoecType type = panel_types[t].type;
        const long depth = depth_of(type);
        float weights[MOEC_TERNARY_DEPTH] = {0};
        double values[MOEC_TERNARY_DEPTH];
        rounded(type, weights, depth, values);
        for (int i = 0; i < depth; i++) assert_true(values[i] == 0);
        weights[3] = 1e-30f;
        rounded(type, weights, depth, values);
        if (!(fabs(values[3]) <= (type == MOEC_INT4 ? 0 : 2e-30) && values[4] == 0))
            fail_msg("type %d: %g, %g", type, values[3], values[4]);
        weights[3] = NAN;
        rounded(type, weights, depth, values);
        assert_true(type == MOEC_INT4 ? isnan(values[3]) : !isfinite(values[3]));
        weights[3] = -INFINITY;
        rounded(type, weights, depth, values);
        assert_false(isfinite(values[3]));
    }
}

/* ---- products ---- */

typedef struct Matrix {
    MoecType type;
    long batch, n, k;
    void *packed;
    double *values; /* [batch][n][k] */
} Matrix;

/* Weights with strides as of a parameter [k][n]; some columns are far larger than others. */
static Matrix matrix_new(MoecType type, long batch, long n, long k) {
    Matrix made = {type,
                   batch,
                   n,
                   k,
                   panels_for(type, batch * n, k),
                   malloc((size_t)(batch * n * k) * sizeof *made.values)};
    float *weights = room(batch * n * k);
    assert_non_null(made.values);
    for (long i = 0; i < batch * n * k; i++)
        weights[i] = (float)(uniform() * (i % n % 7 ? 0.02 : 3));
    const MoecWeightCopy one = {.type = type,
                                .batch = batch,
                                .n = n,
                                .k = k,
                                .batch_stride = n * k,
                                .n_stride = 1,
                                .k_stride = n};
    moec_round_panels(&one, weights, made.packed);
    for (long g = 0; g < batch; g++)
        for (long j = 0; j < n; j++)
            for (long p = 0; p < k; p++) {
                const double value = stored(type, made.packed, k, g * n + j, p),
                             weight = (double)weights[g * n * k + p * n + j];
                assert_true(fabs(value - weight) <=
                            (j % 7 ? 0.02 : 3) * panel_types[row_of(type)].error);
                made.values[(g * n + j) * k + p] = value;
            }
    free(weights);
    return made;
}

static void matrix_free(Matrix *of) {
    free(of->packed);
    free(of->values);
}

/* Activations with the magnitudes of a transformer: some are hundreds of times larger. */
static float *activations(long m, long k) {
    float *a = room(m * k);
    for (long i = 0; i < m * k; i++)
        a[i] = (float)(uniform() * (i % 97 == 5 ? 300 : 1) * (i / k % 3 == 1 ? 1e-6 : 1));
    return a;
}

/* The largest error of an element in units of its limit: rounding of sums, 2^-20 of the magnitude of
 * the terms, and of activations, 2^-22 of the largest one of a group. */
static double error_of(const Matrix *b, const float *a, long m, const float *before,
                       const float *c) {
    double worst = 0;
    for (long i = 0; i < m; i++)
        for (long j = 0; j < b->n; j++) {
            double sum = before ? (double)before[i * b->n + j] : 0, limit = fabs(sum) * 0x1p-20;
            for (long p = 0; p < b->k; p += MOEC_PANEL_DEPTH) {
                double most = 0, weights = 0;
                for (long q = p; q < p + MOEC_PANEL_DEPTH; q++) {
                    const double x = (double)a[i * b->k + q], w = b->values[j * b->k + q];
                    sum += x * w;
                    limit += fabs(x * w) * 0x1p-20;
                    most = fmax(most, fabs(x));
                    weights += fabs(w);
                }
                limit += most * weights * 0x1p-22;
            }
            worst = fmax(worst, fabs((double)c[i * b->n + j] - sum) / limit);
        }
    return worst;
}

static MoecProduct product_with(const Matrix *b, long m) {
    return (MoecProduct){.m = m,
                         .n = b->n,
                         .k = b->k,
                         .a_m = b->k,
                         .a_k = 1,
                         .b_k = 1,
                         .b_n = b->k,
                         .c_m = b->n,
                         .batch = {1, 1},
                         .b_type = b->type};
}

static void check_rows(const Matrix *b, long m, int accumulate) {
    float *a = activations(m, b->k), *c = room(m * b->n), *before = room(m * b->n);
    MoecProduct product = product_with(b, m);
    for (long i = 0; i < m * b->n; i++) before[i] = c[i] = (float)uniform();
    c[m * b->n] = 7;
    product.accumulate = accumulate;
    moec_multiply(&product, a, b->packed, c);
    const double worst = error_of(b, a, m, accumulate ? before : NULL, c);
    if (!(worst <= 1)) fail_msg("%ld rows, %ld columns, depth %ld: error %g", m, b->n, b->k, worst);
    assert_true(c[m * b->n] == 7);
    /* the same bits with other numbers of threads */
    const int threads = omp_get_max_threads();
    float *again = room(m * b->n);
    for (int count = 1; count <= 3; count++) {
        omp_set_num_threads(count);
        memcpy(again, before, (size_t)(m * b->n) * sizeof *again);
        moec_multiply(&product, a, b->packed, again);
        assert_memory_equal(again, c, (size_t)(m * b->n) * sizeof *c);
    }
    omp_set_num_threads(threads);
    /* a few rows together: the bits of each row alone */
    for (long i = 0; i < m && m <= MOEC_FEW_ROWS; i++) {
        MoecProduct single = product_with(b, 1);
        single.accumulate = accumulate;
        memcpy(again, before + i * b->n, (size_t)b->n * sizeof *again);
        moec_multiply(&single, a + i * b->k, b->packed, again);
        assert_memory_equal(again, c + i * b->n, (size_t)b->n * sizeof *c);
    }
    free(a), free(c), free(before), free(again);
}

static void products_of_all_shapes(void **state) {
    (void)state;
    const long sizes[][2] = {{1, 32},     {15, 32},    {17, 96},   {33, 64},
                             {48, 448},   {40, 192},   {250, 32},  {1001, 160},
                             {576, 1536}, {1536, 576}, {2048, 896}},
               rows[] = {1, 2, 3, 4, 7, 8, 9, 33};
    for (size_t i = 0; i < PANEL_TYPES * sizeof sizes / sizeof *sizes; i++) {
        const long *size = sizes[i / PANEL_TYPES];
        const MoecType type = panel_types[i % PANEL_TYPES].type;
        if (size[1] % depth_of(type)) continue;
        Matrix b = matrix_new(type, 1, size[0], size[1]);
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            check_rows(&b, rows[r], (int)(i / PANEL_TYPES + r) % 2);
        matrix_free(&b);
    }
}

/* Weights in int8, in groups along the columns or along the depth: sums of double precision, and, of few
 * rows, the bits of each row alone. */
static void rows_in_int8(void **state) {
    (void)state;
    const long n = 448, k = 320, count = n * k;
    float *weights = room(count);
    MoecGroup *groups = malloc((size_t)(count / MOEC_GROUP) * sizeof *groups);
    assert_non_null(groups);
    for (long i = 0; i < count; i++) weights[i] = (float)(uniform() * (i % 7 ? 0.02 : 3));
    moec_round_groups(weights, groups, (size_t)count);
    for (long m = 1; m <= 33; m += m <= MOEC_FEW_ROWS ? 1 : 12)
        for (int form = 0; form < 4; form++) {
            const int along = form % 2;
            const double bound =
                m <= MOEC_FEW_ROWS ? 0x1p-20 : 0x1p-19; /* tiles add in one order */
            float *a = activations(m, k), *c = room(m * n), *single = room(n);
            MoecProduct product = {.m = m,
                                   .n = n,
                                   .k = k,
                                   .a_m = k,
                                   .a_k = 1,
                                   .b_k = along ? 1 : n,
                                   .b_n = along ? k : 1,
                                   .c_m = n,
                                   .accumulate = form / 2,
                                   .batch = {1, 1},
                                   .b_type = MOEC_INT8};
            for (long i = 0; i < m * n; i++) c[i] = 0.25f;
            moec_multiply(&product, a, groups, c);
            product.m = 1;
            for (long i = 0; i < m; i++) {
                for (long j = 0; j < n; j++) {
                    double sum = product.accumulate ? 0.25 : 0, limit = 0.25 * bound;
                    for (long p = 0; p < k; p++) {
                        const long at = along ? j * k + p : p * n + j;
                        const MoecGroup *group = &groups[at / MOEC_GROUP];
                        const double term = (double)a[i * k + p] * group->steps[at % MOEC_GROUP] *
                                            (double)group->scale;
                        sum += term;
                        limit += fabs(term) * bound;
                    }
                    assert_true(fabs((double)c[i * n + j] - sum) <= limit);
                    single[j] = 0.25f;
                }
                moec_multiply(&product, a + i * k, groups, single);
                if (m <= MOEC_FEW_ROWS)
                    assert_memory_equal(single, c + i * n, (size_t)n * sizeof *c);
            }
            free(a), free(c), free(single);
        }
    free(weights), free(groups);
}

/* Rows that are not finite, or all zero, and their neighbors. */
static void strange_rows(void **state) {
    (void)state;
    for (int t = 0; t < PANEL_TYPES; t++) {
        Matrix b = matrix_new(panel_types[t].type, 1, 40, 64);
        float *a = activations(3, 64), *c = room(3 * 40);
        const MoecProduct product = product_with(&b, 3);
        for (int i = 0; i < 64; i++) a[i] = 0;
        a[64 + 40] = NAN;
        a[128 + 3] = INFINITY;
        moec_multiply(&product, a, b.packed, c);
        for (int j = 0; j < 40; j++)
            assert_true(c[j] == 0 && isnan(c[40 + j]) && !isfinite(c[80 + j]));
        matrix_free(&b);
        free(a), free(c);
    }
}

enum { GROUPS = 5, N = 48, K = 192, ROWS = 23 };

/* Rows of each expert times its matrix, rows through a table. */
static void check_dispatched(MoecType type) {
    Matrix b = matrix_new(type, GROUPS, N, K);
    const int group[GROUPS + 1] = {0, 1, 1, 4, 13, ROWS};
    int gather[ROWS];
    float *a = activations(ROWS, K), *c = room(ROWS * N);
    for (int r = 0; r < ROWS; r++) gather[r] = (r * 7 + 3) % ROWS;
    const MoecGrouped grouped = {.kind = MOEC_ROWS_BY_WEIGHT,
                                 .groups = GROUPS,
                                 .n = N,
                                 .k = K,
                                 .a_row = K,
                                 .b_group = N * K,
                                 .b_k = 1,
                                 .b_n = K,
                                 .c_row = N,
                                 .b_type = type};
    const MoecRows rows = {.group = group, .a_gather = gather};
    moec_grouped_product(&grouped, &rows, a, b.packed, c);
    for (int g = 0; g < GROUPS; g++)
        for (int r = group[g]; r < group[g + 1]; r++) {
            const Matrix one = {type, 1, N, K, NULL, b.values + (long)g * N * K};
            assert_true(error_of(&one, a + gather[r] * K, 1, NULL, c + r * N) <= 1);
        }
    matrix_free(&b);
    free(a), free(c);
}

static void dispatched_rows(void **state) {
    (void)state;
    for (int t = 0; t < PANEL_TYPES; t++) check_dispatched(panel_types[t].type);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves),          cmocka_unit_test(weights_become_multiples),
        cmocka_unit_test(blocks_of_q4_0),  cmocka_unit_test(weights_become_ternary),
        cmocka_unit_test(weights_become_formats),
        cmocka_unit_test(strange_weights), cmocka_unit_test(products_of_all_shapes),
        cmocka_unit_test(rows_in_int8),    cmocka_unit_test(strange_rows),
        cmocka_unit_test(dispatched_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
