/* The kernels of generated programs against plain loops in double precision, with sizes that are not multiples of the tiles. */
#include "kernels.h"
#include "device/device.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { GUARD = 7 };

/* `count` numbers from -1 to 1, followed by a guard that must stay unchanged. */
static float *numbers(long count) {
    float *x = malloc((size_t)(count + 1) * sizeof *x);
    assert_non_null(x);
    for (long i = 0; i < count; i++) x[i] = (float)(2 * drand48() - 1);
    x[count] = GUARD;
    return x;
}

static double *zeros(long count) {
    double *x = calloc((size_t)count + 1, sizeof *x);
    assert_non_null(x);
    return x;
}

/* Norm of the difference over the norm of the expected values. `terms` has the magnitudes of the summed terms, or is NULL. Two
 * rounding errors of these are also accepted, for sums whose terms cancel. */
static void assert_sums(const float *x, const double *right, const double *terms, long count,
                        double tolerance) {
    double error = 0, norm = 0, size = 0;
    for (long i = 0; i < count; i++) {
        error += (x[i] - right[i]) * (x[i] - right[i]);
        norm += right[i] * right[i];
        size += terms ? terms[i] * terms[i] : 0;
    }
    if (!(sqrt(error) <= tolerance * sqrt(norm) + 2 * FLT_EPSILON * sqrt(size) + 1e-12))
        fail_msg("relative error %g", sqrt(error / norm));
    assert_true(x[count] == (float)GUARD);
}

static void assert_close(const float *x, const double *right, long count, double tolerance) {
    assert_sums(x, right, NULL, count, tolerance);
}

static long up_to(long most) {
    return 1 + lrand48() % most;
}

/* ---- products ---- */

static MoecProduct product_of(long m, long n, long k, int form) {
    MoecProduct product = {
        .m = m, .n = n, .k = k, .a_m = k, .a_k = 1, .b_k = n, .b_n = 1, .c_m = n, .batch = {1, 1}};
    if (form & 1) product.a_m = 1, product.a_k = m;
    if (form & 2) product.b_k = 1, product.b_n = k;
    product.accumulate = form >> 2 & 1;
    return product;
}

static void multiply_plainly(const MoecProduct *product, const float *a, const float *b,
                             double *c) {
    for (long i = 0; i < product->m; i++)
        for (long j = 0; j < product->n; j++) {
            double sum = product->accumulate ? c[i * product->c_m + j] : 0;
            for (long p = 0; p < product->k; p++)
                sum += (double)a[i * product->a_m + p * product->a_k] *
                       b[p * product->b_k + j * product->b_n];
            c[i * product->c_m + j] = sum;
        }
}

/* The same with the library, if it exists and supports this product. */
static void check_lent(const MoecProduct *product, const float *a, const float *b, float *c,
                       const double *right) {
    const MoecTable table = {.products = product, .product_count = 1};
    Products *products = products_new(&table);
    if (products && products_run(products, 0, a, b, c, NULL) == 0)
        assert_close(c, right, product->batch[0] * product->batch[1] * product->m * product->n,
                     3e-6);
    products_free(products);
}

/* The same bits for any number of threads; before: the initial c. */
static void check_threads(const MoecProduct *product, const float *a, const float *b,
                          const float *before, const float *c) {
    const long count = product->batch[0] * product->batch[1] * product->m * product->n;
    const int threads = omp_get_max_threads();
    float *other = malloc((size_t)count * sizeof *other);
    assert_non_null(other);
    for (int number = 1; number <= 3; number++) {
        memcpy(other, before, (size_t)count * sizeof *other);
        omp_set_num_threads(number);
        moec_multiply(product, a, b, other);
        assert_memory_equal(other, c, (size_t)count * sizeof *other);
    }
    omp_set_num_threads(threads);
    free(other);
}

/* The product, for every element of the batch, with our kernel and for some shapes with the library. */
static void check_product(const MoecProduct *product) {
    const long m = product->m, n = product->n, k = product->k,
               batches = product->batch[0] * product->batch[1];
    float *a = numbers(batches * m * k), *b = numbers(batches * n * k),
          *c = numbers(batches * m * n);
    float *lent = numbers(batches * m * n);
    /* all positive: a sum that cancels has no useful relative error */
    for (long i = 0; i < batches * m * k; i++) a[i] = fabsf(a[i]);
    for (long i = 0; i < batches * n * k; i++) b[i] = fabsf(b[i]);
    double *right = zeros(batches * m * n);
    for (long i = 0; i < batches * m * n; i++) right[i] = lent[i] = c[i];
    for (long i = 0; i < product->batch[0]; i++)
        for (long j = 0; j < product->batch[1]; j++)
            multiply_plainly(product, a + i * product->a_batch[0] + j * product->a_batch[1],
                             b + i * product->b_batch[0] + j * product->b_batch[1],
                             right + i * product->c_batch[0] + j * product->c_batch[1]);
    moec_multiply(product, a, b, c);
    assert_close(c, right, batches * m * n, 3e-6);
    if (m <= 15) check_threads(product, a, b, lent, c);
    if (k == 17 || batches > 1) check_lent(product, a, b, lent, right);
    free(a), free(b), free(c), free(lent), free(right);
}

static void products_of_all_shapes(void **state) {
    (void)state;
    const long m[] = {1, 3, 5, 8, 13, 15, 33, 260}, n[] = {1, 16, 31, 33, 130, 800},
               k[] = {1, 3, 17, 100, 500};
    for (size_t i = 0; i < sizeof m / sizeof *m; i++)
        for (size_t j = 0; j < sizeof n / sizeof *n; j++)
            for (size_t p = 0; p < sizeof k / sizeof *k; p++)
                for (int form = 0; form<8; form += m[i] * n[j] * k[p]> 1000000 ? 3 : 1) {
                    const MoecProduct product = product_of(m[i], n[j], k[p], form);
                    check_product(&product);
                }
}

static void products_in_batches(void **state) {
    (void)state;
    for (int form = 0; form < 8; form++) {
        const long m = up_to(40), n = up_to(60), k = up_to(50), outer = up_to(3), inner = up_to(3);
        MoecProduct product = product_of(m, n, k, form);
        product.batch[0] = outer, product.batch[1] = inner;
        product.a_batch[0] = inner * m * k, product.a_batch[1] = m * k;
        product.b_batch[0] = inner * n * k, product.b_batch[1] = n * k;
        product.c_batch[0] = m * n, product.c_batch[1] = outer * m * n;
        check_product(&product);
    }
    for (int form = 0; form < 8; form++) { /* operands that the batch shares, or with the batch as an inner dimension */
        const long m = 64, n = 40 + up_to(20), k = 33 + up_to(30), batch = 1 + up_to(4);
        MoecProduct product = product_of(m, n, k, form & 4);
        product.batch[0] = batch;
        product.a_batch[0] = form & 1 ? 0 : m * k;
        product.b_batch[0] = form & 2 ? 1 : n;
        product.b_k = batch * n, product.b_n = form & 2 ? batch : 1;
        product.c_batch[0] = m * n;
        check_product(&product);
    }
}

/* ---- dispatched rows ---- */

/* Divides `rows` rows into groups of uneven sizes, some of them empty. */
static int *some_groups(long groups, long rows) {
    int *group = calloc((size_t)groups + 1, sizeof *group);
    assert_non_null(group);
    for (long g = 1; g < groups; g++) {
        long end =
            lrand48() % 3 == 0 ? group[g - 1] : group[g - 1] + lrand48() % (rows / groups * 2 + 2);
        group[g] = (int)(end < rows ? end : rows);
    }
    group[groups] = (int)rows;
    return group;
}

static int *some_gather(long rows, long from) {
    int *gather = malloc((size_t)rows * sizeof *gather);
    assert_non_null(gather);
    for (long r = 0; r < rows; r++) gather[r] = (int)(lrand48() % from);
    return gather;
}

static void check_rows_by_weight(long groups, long rows, long n, long k, int form) {
    const long tokens = 2 * rows;
    int *group = some_groups(groups, rows), *gather = some_gather(rows, tokens);
    float *a = numbers(tokens * k), *b = numbers(groups * n * k), *c = numbers(rows * n);
    double *right = zeros(rows * n);
    const MoecGrouped grouped = {MOEC_ROWS_BY_WEIGHT,
                                 groups,
                                 n,
                                 k,
                                 k,
                                 n * k,
                                 form & 1 ? 1 : n,
                                 form & 1 ? k : 1,
                                 n,
                                 form >> 1 & 1,
                                 0,
                                 MOEC_F32,
                                 MOEC_F32,
                                 MOEC_F32};
    for (long g = 0; g < groups; g++)
        for (long r = group[g]; r < group[g + 1]; r++)
            for (long j = 0; j < n; j++) {
                double sum = grouped.accumulate ? c[r * n + j] : 0;
                for (long p = 0; p < k; p++)
                    sum += (double)a[(form & 4 ? gather[r] : r) * k + p] *
                           b[g * n * k + p * grouped.b_k + j * grouped.b_n];
                right[r * n + j] = sum;
            }
    const MoecRows packed = {group, form & 4 ? gather : NULL, NULL};
    moec_grouped_product(&grouped, &packed, a, b, c);
    assert_close(c, right, rows * n, 3e-6);
    free(group), free(gather), free(a), free(b), free(c), free(right);
}

static void check_rows_by_rows(long groups, long rows, long n, long k, int form) {
    const long tokens = 2 * rows;
    int *group = some_groups(groups, rows), *gather = some_gather(rows, tokens),
        *other = some_gather(rows, tokens);
    float *a = numbers(tokens * k), *b = numbers(tokens * n), *c = numbers(groups * n * k);
    double *right = zeros(groups * n * k);
    const MoecGrouped grouped = {
        MOEC_ROWS_BY_ROWS, groups, n,        k,        k,       n * k, n, 1, n,
        form >> 1 & 1,     0,      MOEC_F32, MOEC_F32, MOEC_F32};
    const MoecRows packed = {group, form & 4 ? gather : NULL, form & 1 ? other : NULL};
    for (long i = 0; i < groups * n * k; i++) right[i] = grouped.accumulate ? c[i] : 0;
    for (long g = 0; g < groups; g++)
        for (long r = group[g]; r < group[g + 1]; r++)
            for (long p = 0; p < k; p++)
                for (long j = 0; j < n; j++)
                    right[(g * k + p) * n + j] +=
                        (double)a[(packed.a_gather ? gather[r] : r) * k + p] *
                        b[(packed.b_gather ? other[r] : r) * n + j];
    moec_grouped_product(&grouped, &packed, a, b, c);
    assert_close(c, right, groups * n * k, 3e-6);
    free(group), free(gather), free(other), free(a), free(b), free(c), free(right);
}

static void grouped_products(void **state) {
    (void)state;
    for (int run = 0; run < 48; run++) {
        const long groups = up_to(9), rows = up_to(run % 6 ? 60 : 900), n = up_to(90),
                   k = up_to(run % 5 ? 60 : 450);
        check_rows_by_weight(groups, rows, n, k, run % 8);
        check_rows_by_rows(groups, rows, n, k, run % 8);
    }
}

static void top_marks_the_largest(void **state) {
    (void)state;
    for (int run = 0; run < 60; run++) {
        /* also above the limit of the kernel for few candidates */
        const long most = run % 20 == 4 ? 2500 : 300, outer = up_to(5),
                   size = up_to(run % 2 ? 12 : most), inner = up_to(4),
                   k = up_to(run % 4 || size < 10 ? size : 10);
        float *p = numbers(outer * size * inner), *mask = numbers(outer * size * inner);
        for (long i = 0; i < outer * size * inner; i++) p[i] = run % 3 ? p[i] : roundf(4 * p[i]);
        for (long i = 0; run % 7 == 0 && i < outer * size * inner; i += up_to(size)) p[i] = NAN;
        moec_top(outer, size, inner, k, p, mask);
        for (long choice = 0; choice < outer * inner; choice++) {
            const long first = choice / inner * size * inner + choice % inner;
            for (long i = 0; i < size; i++) {
                const float x = p[first + i * inner];
                long before = 0;
                for (long j = 0; j < size; j++) {
                    const float y = p[first + j * inner];
                    before += y > x || (isnan(x) && !isnan(y)) ||
                              (j < i && (y == x || (isnan(x) && isnan(y))));
                }
                assert_true(mask[first + i * inner] == (before < k ? 1.0f : 0.0f));
            }
        }
        free(p), free(mask);
    }
}

/* A mask [tokens, middle, keys], keyed by a tensor over the tokens and by its last dimension. */
typedef struct Packing {
    long tokens, middle, keys, kinds, rows;
    float *mask;
    int *kind, *coordinate[3], *group, *row_of, *other, *start, *list;
} Packing;

static int *new_integers(long count) {
    int *x = malloc((size_t)(count + 1) * sizeof *x);
    assert_non_null(x);
    return x;
}

static Packing packing_new(void) {
    Packing packing = {
        .tokens = up_to(20), .middle = up_to(3), .keys = up_to(6), .kinds = up_to(3)};
    const long entries = packing.tokens * packing.middle * packing.keys;
    packing.mask = numbers(entries);
    for (long i = 0; i < entries; i++) packing.rows += packing.mask[i] = packing.mask[i] > 0.2f;
    packing.kind = some_gather(packing.tokens, packing.kinds);
    for (int i = 0; i < 3; i++) packing.coordinate[i] = new_integers(packing.rows);
    packing.group = new_integers(packing.kinds * packing.keys);
    packing.row_of = new_integers(entries);
    packing.other = new_integers(packing.rows);
    packing.start = new_integers(packing.tokens * packing.middle);
    packing.list = new_integers(packing.rows);
    return packing;
}

static void packing_free(Packing *packing) {
    int *all[] = {packing->kind,          packing->coordinate[0], packing->coordinate[1],
                  packing->coordinate[2], packing->group,         packing->row_of,
                  packing->other,         packing->start,         packing->list};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    free(packing->mask);
}

/* Visits the rows in the required order and compares them. */
static void check_packing(const Packing *packing) {
    long row = 0;
    for (long g = 0; g < packing->kinds * packing->keys; g++) {
        assert_int_equal(packing->group[g], row);
        for (long t = 0; t < packing->tokens; t++)
            for (long m = 0; m < packing->middle; m++) {
                const long entry = (t * packing->middle + m) * packing->keys + g % packing->keys;
                if (packing->kind[t] != g / packing->keys || packing->mask[entry] == 0) continue;
                assert_int_equal(packing->coordinate[0][row], t);
                assert_int_equal(packing->coordinate[1][row], m);
                assert_int_equal(packing->coordinate[2][row], g % packing->keys);
                assert_int_equal(packing->other[row], t * packing->middle + m);
                assert_int_equal(packing->row_of[entry], row++);
            }
    }
    assert_int_equal(row, packing->rows);
    assert_int_equal(packing->group[packing->kinds * packing->keys], packing->rows);
    for (long o = 0; o < packing->tokens * packing->middle; o++)
        for (int i = packing->start[o]; i < packing->start[o + 1]; i++) {
            assert_int_equal(packing->other[packing->list[i]], o);
            assert_true(i == packing->start[o] || packing->list[i] > packing->list[i - 1]);
        }
    assert_int_equal(packing->start[packing->tokens * packing->middle], packing->rows);
}

static void packing_sorts_rows(void **state) {
    (void)state;
    for (int run = 0; run < 50; run++) {
        Packing packing = packing_new();
        const MoecPack pack = {.rank = 3,
                               .shape = {packing.tokens, packing.middle, packing.keys},
                               .key = {0, 0, 1},
                               .rows = packing.rows,
                               .through_count = 1,
                               .through_stride = {{1}},
                               .through_size = {packing.kinds}};
        const MoecPacked packed = {packing.coordinate, packing.group, packing.row_of,
                                   packing.other,      packing.start, packing.list};
        const int *through[] = {packing.kind};
        moec_pack(&pack, packing.mask, through, &packed);
        check_packing(&packing);
        packing_free(&packing);
    }
}

/* ---- attention ---- */

enum { Q, K, V, O, LSE, SINK, DOCUMENTS, CHOSEN, BIAS, TENSORS };

typedef struct Case {
    MoecAttend attend;
    int has_sink, has_documents, has_bias, is_step;
    long position, size[TENSORS];
    float *x[TENSORS], *grad[TENSORS]; /* grad[O] is an input, grad[LSE] is unused */
    double *right[TENSORS], *right_grad[TENSORS];
    double *terms[TENSORS]; /* magnitudes of the terms in the gradients of q, k and sinks */
    double *score, *weight; /* per query */
    double *bend;           /* score / cap, before the bias */
    signed char *bytes[2];  /* of a decode step: keys and values are these times the scale of their row */
    float *scale[2];
} Case;

/* Queries attend to chosen pairs only. */
static const float *chosen_of(const Case *test) {
    return test->attend.chosen_block[2] ? test->x[CHOSEN] : NULL;
}

static const float *bias_of(const Case *test) {
    return test->has_bias ? test->x[BIAS] : NULL;
}

static int is_chosen(const Case *test, long b, long s, long h, long t) {
    const MoecAttend *attend = &test->attend;
    const long *block = attend->chosen_block;
    if (!block[2]) return 1;
    const long queries = (attend->queries + block[0] - 1) / block[0],
               heads = (attend->heads + block[1] - 1) / block[1],
               keys = (attend->places + block[2] - 1) / block[2],
               first = attend->chosen_all ? 0 : b * queries;
    return test->x[CHOSEN][((first + s / block[0]) * heads + h / block[1]) * keys + t / block[2]] != 0;
}

/* All pairs, none, or some; the block of the query itself or not. */
static void choose_pairs(Case *test) {
    const MoecAttend *attend = &test->attend;
    const long *block = attend->chosen_block, share = lrand48() % 4, own = lrand48() % 2;
    if (!block[2]) return;
    const long keys = (attend->places + block[2] - 1) / block[2],
               heads = (attend->heads + block[1] - 1) / block[1],
               queries = (attend->queries + block[0] - 1) / block[0];
    for (long i = 0; i < test->size[CHOSEN]; i++) {
        const long s = i / keys / heads % queries * block[0] + test->position;
        const int within = own && i % keys == s / block[2];
        test->x[CHOSEN][i] =
            within || share == 3 || (share && lrand48() % (share == 1 ? 10 : 2) == 0) ? 1.0f : 0.0f;
    }
}

/* The chosen pairs as bits; bits after the last element are set. */
static float *words_of(const Case *test) {
    const MoecAttend *attend = &test->attend;
    const long elements = (attend->places + attend->chosen_block[2] - 1) / attend->chosen_block[2],
               words = (elements + MOEC_WORD - 1) / MOEC_WORD, rows = test->size[CHOSEN] / elements;
    float *made = numbers(rows * words);
    for (long i = 0; i < rows * words; i++) {
        unsigned bits = 0;
        for (long j = 0; j < MOEC_WORD; j++) {
            const long at = i % words * MOEC_WORD + j;
            bits |= (unsigned)(at >= elements || test->x[CHOSEN][i / words * elements + at] != 0) << j;
        }
        made[i] = (float)bits;
    }
    return made;
}

/* The last rows of keys or values for a decode step, each at its index in a ring buffer of `rows` rows. */
static float *ring_of(const Case *test, const float *x, long rows, long width) {
    const MoecAttend *attend = &test->attend;
    const long end = test->position + attend->queries;
    float *ring = numbers(attend->batch * rows * width);
    for (long b = 0; b < attend->batch; b++)
        for (long t = end > rows ? end - rows : 0; t < end; t++)
            memcpy(ring + (b * rows + t % rows) * width, x + (b * attend->keys + t) * width,
                   (size_t)width * sizeof *ring);
    return ring;
}

/* Repeats the decode step with no more keys than the window has. */
static void check_ring(Case *test, const float *sink, const float *documents) {
    MoecAttend attend = test->attend;
    attend.keys = attend.window + attend.queries - 1 + up_to(20);
    float *k = ring_of(test, test->x[K], attend.keys, attend.key_heads * attend.width);
    float *v = ring_of(test, test->x[V], attend.keys, attend.value_heads * attend.value_width);
    float **x = test->x;
    const MoecAttendWork work = {
        x[Q], k, v, sink, documents, NULL, NULL, x[O], x[LSE], chosen_of(test), bias_of(test)};
    moec_attend_step(&attend, test->position, &work);
    assert_close(x[O], test->right[O], test->size[O], 3e-6);
    assert_close(x[LSE], test->right[LSE], test->size[LSE], 3e-6);
    free(k), free(v);
}

/* Quantizes rows of keys or values to integers times one power of two per row, which bf16 represents exactly: x and its
 * integers. */
static void round_rows(float *x, long count, long width, signed char *bytes, float *scale) {
    for (long i = 0; i < count; i++) {
        float most = 0;
        for (long j = 0; j < width; j++) most = fmaxf(most, fabsf(x[i * width + j]));
        scale[i] = exp2f(ceilf(log2f(most / 127)));
        for (long j = 0; j < width; j++) {
            bytes[i * width + j] = (signed char)lrintf(x[i * width + j] / scale[i]);
            x[i * width + j] = scale[i] * (float)bytes[i * width + j];
        }
    }
}

static MoecBf16 *halves_of(const Case *test, int tensor) {
    MoecBf16 *halves = malloc((size_t)test->size[tensor] * sizeof *halves);
    for (long i = 0; i < test->size[tensor]; i++) halves[i] = moec_bf16(test->x[tensor][i]);
    return halves;
}

/* Repeats the decode step with keys and values in int8 or bf16, and queries in f32 or bf16. */
static void check_types(Case *test, const float *sink, const float *documents) {
    MoecBf16 *q = halves_of(test, Q), *k = halves_of(test, K), *v = halves_of(test, V);
    for (int i = 0; i < 4; i++) {
        const int halves = i / 2;
        MoecAttend attend = test->attend;
        attend.q_type = i % 2 ? MOEC_BF16 : MOEC_F32;
        attend.k_type = attend.v_type = halves ? MOEC_BF16 : MOEC_BYTE;
        const MoecAttendWork work = {.q = i % 2 ? (void *)q : test->x[Q],
                                     .k = halves ? (void *)k : test->bytes[0],
                                     .v = halves ? (void *)v : test->bytes[1],
                                     .sink = sink,
                                     .documents = documents,
                                     .k_scale = halves ? NULL : test->scale[0],
                                     .v_scale = halves ? NULL : test->scale[1],
                                     .o = test->x[O],
                                     .lse = test->x[LSE],
                                     .chosen = chosen_of(test),
                                     .bias = bias_of(test)};
        moec_attend_step(&attend, test->position, &work);
        assert_close(test->x[O], test->right[O], test->size[O], 3e-6);
        assert_close(test->x[LSE], test->right[LSE], test->size[LSE], 3e-6);
    }
    free(q), free(k), free(v);
}

static Case case_new(MoecAttend attend, int is_step) {
    Case test = {.attend = attend, .has_sink = (int)(lrand48() % 2), .is_step = is_step};
    const long rows = attend.batch * attend.queries * attend.heads,
               key_count = attend.batch * attend.keys,
               later = attend.mask == MOEC_MASK_NONE && !is_step;
    const long size[TENSORS] = {rows * attend.width,
                                key_count * attend.key_heads * attend.width,
                                key_count * attend.value_heads * attend.value_width,
                                rows * attend.value_width,
                                rows,
                                attend.heads,
                                key_count,
                                attend.batch * attend.queries * attend.heads * attend.places,
                                attend.batch * attend.heads * (later ? 2 * attend.places - 1 : attend.places)};
    if (is_step) test.position = lrand48() % (attend.keys - attend.queries + 1);
    for (int i = 0; i < TENSORS; i++) {
        test.size[i] = size[i];
        test.x[i] = numbers(size[i]);
        test.grad[i] = numbers(size[i]);
        test.right[i] = zeros(size[i]);
        test.right_grad[i] = zeros(size[i]);
        test.terms[i] = zeros(size[i]);
    }
    test.has_documents = lrand48() % 2;
    long document = 0, mixed = lrand48() % 3 == 0; /* sorted, as packed documents are, or unsorted */
    for (long i = 0; i < key_count; i++) {
        document = mixed ? lrand48() % 3 : document + (lrand48() % 40 == 0);
        test.x[DOCUMENTS][i] = (float)document;
    }
    for (int i = 0; i < 2; i++) {
        const long width = i ? attend.value_width : attend.width;
        test.bytes[i] = malloc((size_t)size[K + i]);
        test.scale[i] = numbers(size[K + i] / width);
        if (is_step)
            round_rows(test.x[K + i], size[K + i] / width, width, test.bytes[i], test.scale[i]);
    }
    for (long i = 0; i < size[Q] && is_step; i++) test.x[Q][i] = moec_load(moec_bf16(test.x[Q][i]));
    if (attend.queries != attend.keys && !is_step) test.has_documents = 0;
    test.has_bias = lrand48() % 3 == 0 && (attend.queries == attend.keys || is_step);
    choose_pairs(&test);
    test.score = zeros(attend.keys);
    test.weight = zeros(attend.keys);
    test.bend = zeros(attend.keys);
    return test;
}

static void case_free(Case *test) {
    for (int i = 0; i < TENSORS; i++) {
        free(test->x[i]), free(test->grad[i]);
        free(test->right[i]), free(test->right_grad[i]), free(test->terms[i]);
    }
    for (int i = 0; i < 2; i++) free(test->bytes[i]), free(test->scale[i]);
    free(test->score), free(test->weight), free(test->bend);
}

/* Keeps the `best` largest weights; on a tie the first. */
static void keep_best(double *weight, long first, long end, long best) {
    for (long t = first; t < end; t++) {
        long before = 0;
        for (long u = first; u < end; u++)
            before += fabs(weight[u]) > weight[t] || (fabs(weight[u]) == weight[t] && u < t);
        if (before >= best) weight[t] = -weight[t]; /* a marker for remaining candidates */
    }
    for (long t = first; t < end; t++) weight[t] = weight[t] > 0 ? weight[t] : 0;
}

/* Where the bias of a pair is; of its gradient if `each`: that of each batch element. */
static long bias_at(const Case *test, long b, long h, long distance, int each) {
    const MoecAttend *attend = &test->attend;
    const int later = attend->mask == MOEC_MASK_NONE && !test->is_step;
    const long count = later ? 2 * attend->places - 1 : attend->places,
               own = attend->bias_all && !each ? 0 : b;
    return (own * attend->heads + h) * count + distance + (later ? attend->places - 1 : 0);
}

/* One query: row (b, s, h) has number `row`; its q, k, v, o start at `at`, keys are `step` apart. */
static void attend_plainly(Case *test, long b, long s, long h) {
    const MoecAttend *attend = &test->attend;
    const long width = attend->width, values = attend->value_width,
               row = (b * attend->queries + s) * attend->heads + h;
    const long kh = h * attend->key_heads / attend->heads,
               vh = h * attend->value_heads / attend->heads;
    const long position = test->position + s;
    const long end = attend->mask == MOEC_MASK_NONE && !test->is_step ? attend->keys : position + 1;
    const long low = position - attend->window + 1,
               first = attend->mask == MOEC_MASK_WINDOW && low > 0 ? low : 0;
    const float *document = test->x[DOCUMENTS] + b * attend->keys;
    double sum = test->has_sink ? exp(test->x[SINK][h]) : 0, total = 0, totals = 0;
    for (long t = first; t < end; t++) {
        test->score[t] = -INFINITY;
        if (test->has_documents && document[t] != document[position]) continue;
        if (!is_chosen(test, b, s, h, t)) continue;
        const float *key = test->x[K] + ((b * attend->keys + t) * attend->key_heads + kh) * width;
        double score = 0;
        for (long e = 0; e < width; e++)
            score += (double)test->x[Q][row * width + e] * key[e] * attend->scale;
        score = attend->cap != 0 ? attend->cap * tanh(score / attend->cap) : score;
        test->bend[t] = attend->cap != 0 ? score / attend->cap : 0;
        test->score[t] = score;
        if (test->has_bias) test->score[t] += test->x[BIAS][bias_at(test, b, h, position - t, 0)];
        sum += exp(test->score[t]);
    }
    test->right[LSE][row] = sum > 0 ? log(sum) : MOEC_NO_KEY;
    for (long t = first; t < end; t++) test->weight[t] = sum > 0 ? exp(test->score[t]) / sum : 0;
    if (test->is_step && attend->best > 0) keep_best(test->weight, first, end, attend->best);
    const float *adjoint = test->grad[O] + row * values;
    for (long c = 0; c < values; c++) {
        double *o = &test->right[O][row * values + c];
        for (long t = first; t < end; t++)
            *o += test->weight[t] *
                  test->x[V][((b * attend->keys + t) * attend->value_heads + vh) * values + c];
        total += *o * adjoint[c];
        totals += fabs(*o * adjoint[c]);
    }
    test->right_grad[SINK][h] -= exp(test->x[SINK][h]) / sum * total;
    test->terms[SINK][h] += exp(test->x[SINK][h]) / sum * totals;
    for (long t = first; t < end; t++) {
        const long key = ((b * attend->keys + t) * attend->key_heads + kh) * width;
        const long value = ((b * attend->keys + t) * attend->value_heads + vh) * values;
        const double bend = test->bend[t];
        double slope = -total, slopes = totals;
        for (long c = 0; c < values; c++) {
            slope += (double)adjoint[c] * test->x[V][value + c];
            slopes += fabs((double)adjoint[c] * test->x[V][value + c]);
            test->right_grad[V][value + c] += test->weight[t] * adjoint[c];
        }
        const double factor =
            test->weight[t] > 0 ? attend->scale * (1 - bend * bend) * test->weight[t] : 0;
        if (test->has_bias && test->weight[t] > 0) {
            const long at = bias_at(test, b, h, position - t, 1);
            test->right_grad[BIAS][at] += test->weight[t] * slope;
            test->terms[BIAS][at] += test->weight[t] * slopes;
        }
        for (long e = 0; e < width; e++) {
            const double k = factor * test->x[K][key + e], q = factor * test->x[Q][row * width + e];
            test->right_grad[Q][row * width + e] += slope * k;
            test->right_grad[K][key + e] += slope * q;
            test->terms[Q][row * width + e] += slopes * fabs(k);
            test->terms[K][key + e] += slopes * fabs(q);
        }
    }
}

static void check_attention(MoecAttend attend, int is_step) {
    Case test = case_new(attend, is_step);
    for (long b = 0; b < attend.batch; b++)
        for (long s = 0; s < attend.queries; s++)
            for (long h = 0; h < attend.heads; h++) attend_plainly(&test, b, s, h);
    float **x = test.x, **grad = test.grad;
    const float *sink = test.has_sink ? x[SINK] : NULL;
    const float *documents = test.has_documents ? x[DOCUMENTS] : NULL;
    float *words = attend.chosen_words ? words_of(&test) : NULL;
    const float *chosen = words ? words : chosen_of(&test), *bias = bias_of(&test);
    const MoecAttendWork work = {x[Q], x[K], x[V],   sink,   documents, NULL,
                                 NULL, x[O], x[LSE], chosen, bias};
    if (chosen && !is_step)
        moec_attend_chosen(&attend, &work);
    else if (is_step)
        moec_attend_step(&attend, test.position, &work);
    else if (bias)
        moec_attend_biased(&attend, &work);
    else
        moec_attend(&attend, x[Q], x[K], x[V], sink, documents, x[O], x[LSE]);
    assert_close(x[O], test.right[O], test.size[O], 3e-6);
    assert_close(x[LSE], test.right[LSE], test.size[LSE], 3e-6);
    if (is_step) check_types(&test, sink, documents);
    if (is_step && attend.mask == MOEC_MASK_WINDOW) check_ring(&test, sink, documents);
    if (!is_step) {
        const MoecAttendSaved saved = {x[Q], x[K],   x[V],    sink,   documents,
                                       x[O], x[LSE], grad[O], chosen, bias};
        (chosen ? moec_attend_chosen_grad : moec_attend_grad)(&attend, &saved, grad[Q], grad[K],
                                                              grad[V], sink ? grad[SINK] : NULL,
                                                              bias ? grad[BIAS] : NULL);
        for (int i = Q; i <= V; i++)
            assert_sums(grad[i], test.right_grad[i], test.terms[i], test.size[i], 3e-6);
        if (sink)
            assert_sums(grad[SINK], test.right_grad[SINK], test.terms[SINK], test.size[SINK], 3e-6);
        if (bias)
            assert_sums(grad[BIAS], test.right_grad[BIAS], test.terms[BIAS], test.size[BIAS], 3e-6);
    }
    free(words);
    case_free(&test);
}

static void attention_of_all_kinds(void **state) {
    (void)state;
    for (int run = 0; run < 60; run++) {
        /* also larger than one packed block */
        const long wide = run % 10 == 8 ? 600 : 40;
        const long heads = up_to(wide > 40 ? 2 : 9), keys = up_to(run % 6 ? 150 : 700);
        MoecAttend attend = {.batch = up_to(3),
                             .queries = keys,
                             .keys = keys,
                             .heads = heads,
                             .key_heads = up_to(run % 7 ? heads : 2 * heads),
                             .value_heads = up_to(run % 7 ? heads : 2 * heads),
                             .width = up_to(wide),
                             .value_width = up_to(wide),
                             .mask = run % 3,
                             .window = up_to(200),
                             .scale = run % 9 ? 0.5f : -0.5f,
                             .cap = run % 4 ? 0 : 2,
                             .bias_all = run % 2};
        const int is_step = run % 2;
        if (is_step) {
            attend.queries = up_to(run % 4 == 1 ? 3 : 12);
            attend.keys += attend.queries;
            attend.best = run % 5 ? 0 : up_to(30);
        }
        attend.places = attend.keys;
        check_attention(attend, is_step);
    }
}

/* Heads of published models: alone, in groups of eight, one for all, more values than keys, a latent vector for all, and
 * more heads than are treated together. */
static void attention_of_a_step_in_use(void **state) {
    (void)state;
    static const long shapes[][5] = {{8, 8, 8, 64, 64},    {32, 4, 4, 128, 128},
                                     {16, 1, 1, 64, 64},   {32, 4, 16, 64, 64},
                                     {16, 1, 1, 576, 512}, {80, 2, 1, 128, 128}};
    for (int run = 0; run < 12; run++) {
        const long *shape = shapes[run % 6], keys = 400 + up_to(300);
        check_attention(
            (MoecAttend){.batch = 1 + run % 2,
                         .queries = run < 6 ? 1 : up_to(8),
                         .keys = keys,
                         .places = keys,
                         .heads = shape[0],
                         .key_heads = shape[1],
                         .value_heads = shape[2],
                         .width = shape[3],
                         .value_width = shape[4],
                         .mask = run % 5 ? MOEC_MASK_CAUSAL : MOEC_MASK_WINDOW,
                         .window = 300,
                         .scale = 0.125f,
                         .chosen_block = {1, shape[0] / shape[1], run % 4 == 3 ? 64 : 0}},
            1);
    }
}

static void attention_to_chosen_pairs(void **state) {
    (void)state;
    for (int run = 0; run < 80; run++) {
        const long heads = up_to(5), keys = up_to(run % 4 ? 150 : 500);
        MoecAttend attend = {
            .batch = up_to(3),
            .queries = keys,
            .keys = keys,
            .heads = heads,
            .key_heads = up_to(heads),
            .value_heads = up_to(heads),
            .width = up_to(run % 20 == 7 ? 300 : 40),
            .value_width = up_to(run % 20 == 9 ? 300 : 40),
            .mask = run % 3,
            .window = up_to(200),
            .scale = run % 9 ? 0.5f : -0.5f,
            .cap = run % 4 ? 0 : 2,
            .chosen_block = {up_to(run % 5 ? 1 : 40), up_to(heads), up_to(run % 2 ? 70 : 5)},
            .chosen_all = run % 11 == 0,
            .bias_all = run % 3 == 0};
        const int is_step = run % 4 == 1;
        if (is_step) {
            attend.queries = up_to(run % 8 == 1 ? 3 : 12);
            attend.keys += attend.queries;
        } else if (attend.mask == MOEC_MASK_NONE) {
            attend.queries = up_to(300);
        }
        attend.places = attend.keys;
        attend.chosen_words = !is_step && run % 3 != 1;
        check_attention(attend, is_step);
    }
    /* several spans of queries; heads as in use */
    for (int run = 0; run < 3; run++)
        check_attention((MoecAttend){.batch = 1,
                                     .queries = 2309,
                                     .keys = 2309,
                                     .places = 2309,
                                     .heads = 1 + run % 2,
                                     .key_heads = 1,
                                     .value_heads = 1,
                                     .width = run == 1 ? 64 : 128,
                                     .value_width = 64,
                                     .scale = 0.125f,
                                     .chosen_block = {1, 1, run == 1 ? 64 : 1},
                                     .chosen_words = run == 2},
                        0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_all_shapes),     cmocka_unit_test(products_in_batches),
        cmocka_unit_test(grouped_products),           cmocka_unit_test(top_marks_the_largest),
        cmocka_unit_test(packing_sorts_rows),         cmocka_unit_test(attention_of_all_kinds),
        cmocka_unit_test(attention_of_a_step_in_use), cmocka_unit_test(attention_to_chosen_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
