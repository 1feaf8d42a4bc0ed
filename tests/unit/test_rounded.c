/* Kernels with bf16 operands against plain loops in double precision: products of all shapes and
 * forms, dispatched rows, attention. The operands are exact in bf16; only sums and bf16 results are
 * rounded. Compiled for this CPU, as programs are. */
#include "kernels.h"
#include "device/device.h"

#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* An array of numbers from 0 to 1 as stored, and their values. */
typedef struct Numbers {
    long count;
    MoecType type;
    void *stored;
    double *exact;
} Numbers;

static Numbers numbers(long count, MoecType type, double least) {
    Numbers made = {count, type, malloc((size_t)count * 4 + 4),
                    malloc(((size_t)count + 1) * sizeof *made.exact)};
    assert_non_null(made.stored);
    assert_non_null(made.exact);
    for (long i = 0; i < count; i++) {
        MoecBf16 x = moec_bf16((float)(least + (1 - least) * drand48()));
        if (type == MOEC_BF16)
            ((MoecBf16 *)made.stored)[i] = x;
        else
            ((float *)made.stored)[i] = moec_load(x);
        made.exact[i] = (double)moec_load(x);
    }
    return made;
}

static void drop(Numbers *of) {
    free(of->stored);
    free(of->exact);
}

/* Norm of the difference over the norm of the expected values. */
static double distance(const Numbers *made) {
    double error = 0, norm = 1e-30;
    for (long i = 0; i < made->count; i++) {
        double off =
            (double)moec_value(moec_at(made->stored, i, made->type), made->type) - made->exact[i];
        error += off * off;
        norm += made->exact[i] * made->exact[i];
    }
    return sqrt(error / norm);
}

static void assert_close(const Numbers *made, const char *what) {
    double limit = made->type == MOEC_BF16 ? 0x1p-8 : 3e-6, off = distance(made);
    if (!(off <= limit)) fail_msg("%s: relative error %g", what, off);
}

static MoecType type_by(int bit) {
    return bit & 1 ? MOEC_BF16 : MOEC_F32;
}

static long up_to(long most) {
    return 1 + lrand48() % most;
}

/* ---- one number ---- */

static void numbers_round_to_the_nearest(void **state) {
    (void)state;
    assert_int_equal(moec_bf16(1.0f).bits, 0x3F80);
    assert_int_equal(moec_bf16(1.00390625f).bits, 0x3F80); /* halfway: rounds to even */
    assert_int_equal(moec_bf16(1.01171875f).bits, 0x3F82);
    assert_int_equal(moec_bf16(1.00390637f).bits, 0x3F81);
    assert_int_equal(moec_bf16(3.4e38f).bits, 0x7F80);
    assert_int_equal(moec_bf16(-INFINITY).bits, 0xFF80);
    assert_true(isnan(moec_load(moec_bf16(NAN))));
    assert_true(isnan(moec_load(moec_bf16(moec_from_bits(0x7F800001u)))));
}

/* ---- products ---- */

static void multiply_plainly(const MoecProduct *product, const double *a, const double *b,
                             double *c) {
    for (long i = 0; i < product->m; i++)
        for (long j = 0; j < product->n; j++) {
            double sum = product->accumulate ? c[i * product->c_m + j] : 0;
            for (long p = 0; p < product->k; p++)
                sum +=
                    a[i * product->a_m + p * product->a_k] * b[p * product->b_k + j * product->b_n];
            c[i * product->c_m + j] = sum;
        }
}

/* The same bits for any number of threads; before: the initial c. */
static void check_threads(const MoecProduct *product, const Numbers *a, const Numbers *b,
                          const Numbers *c, const void *before) {
    const size_t bytes = (size_t)c->count * (c->type == MOEC_BF16 ? 2 : 4);
    const int threads = omp_get_max_threads();
    void *other = malloc(bytes);
    assert_non_null(other);
    for (int number = 1; number <= 3; number++) {
        memcpy(other, before, bytes);
        omp_set_num_threads(number);
        moec_multiply(product, a->stored, b->stored, other);
        assert_memory_equal(other, c->stored, bytes);
    }
    omp_set_num_threads(threads);
    free(other);
}

/* With our kernel and, if it exists and supports the product, the library. */
static void check_product(const MoecProduct *product) {
    const long m = product->m, n = product->n, k = product->k;
    Numbers a = numbers(m * k, product->a_type, 0), b = numbers(n * k, product->b_type, 0),
            c = numbers(m * n, product->c_type, 0);
    void *lent = malloc((size_t)(m * n) * 4);
    memcpy(lent, c.stored, (size_t)(m * n) * (c.type == MOEC_BF16 ? 2 : 4));
    multiply_plainly(product, a.exact, b.exact, c.exact);
    moec_multiply(product, a.stored, b.stored, c.stored);
    assert_close(&c, "our product");
    if (m > 8) check_threads(product, &a, &b, &c, lent);
    const MoecTable table = {.products = product, .product_count = 1};
    Products *products = products_new(&table);
    if (products && products_run(products, 0, a.stored, b.stored, lent, NULL) == 0) {
        void *ours = c.stored;
        c.stored = lent;
        assert_close(&c, "the library's product");
        c.stored = ours;
    }
    products_free(products);
    free(lent);
    drop(&a), drop(&b), drop(&c);
}

static void products_of_all_shapes(void **state) {
    (void)state;
    const long m[] = {1, 3, 7, 15, 33, 260}, n[] = {1, 31, 33, 300}, k[] = {1, 2, 17, 33, 130, 901};
    for (size_t i = 0; i < sizeof m / sizeof *m; i++)
        for (size_t j = 0; j < sizeof n / sizeof *n; j++)
            for (size_t p = 0; p < sizeof k / sizeof *k; p++)
                for (int form = (int)(i + j + p) % 3; form < 64; form += 3) {
                    MoecProduct product = {.m = m[i],
                                           .n = n[j],
                                           .k = k[p],
                                           .a_m = k[p],
                                           .a_k = 1,
                                           .b_k = n[j],
                                           .b_n = 1,
                                           .c_m = n[j],
                                           .batch = {1, 1},
                                           .rounded = 1};
                    if (form & 1) product.a_m = 1, product.a_k = m[i];
                    if (form & 2) product.b_k = 1, product.b_n = k[p];
                    product.accumulate = form >> 2 & 1;
                    product.a_type = type_by(form >> 3);
                    product.b_type = type_by(form >> 4);
                    product.c_type = type_by(form >> 5);
                    check_product(&product);
                }
}

/* ---- dispatched rows ---- */

typedef struct Packed {
    long groups, rows, tokens;
    int *group, *gather;
} Packed;

static Packed some_rows(void) {
    Packed packed = {.groups = up_to(6), .rows = up_to(300)};
    packed.tokens = 2 * packed.rows;
    packed.group = calloc((size_t)packed.groups + 1, sizeof *packed.group);
    packed.gather = calloc((size_t)packed.rows, sizeof *packed.gather);
    for (long g = 1; g < packed.groups; g++) {
        long end = packed.group[g - 1] + lrand48() % (2 * packed.rows / packed.groups + 1);
        packed.group[g] = (int)(end < packed.rows ? end : packed.rows);
    }
    packed.group[packed.groups] = (int)packed.rows;
    for (long r = 0; r < packed.rows; r++) packed.gather[r] = (int)(lrand48() % packed.tokens);
    return packed;
}

static void check_rows_by_weight(const Packed *packed, long n, long k, int form) {
    Numbers a = numbers(packed->tokens * k, MOEC_BF16, 0),
            b = numbers(packed->groups * n * k, MOEC_BF16, 0),
            c = numbers(packed->rows * n, type_by(form), 0);
    MoecGrouped grouped = {.kind = MOEC_ROWS_BY_WEIGHT,
                           .groups = packed->groups,
                           .n = n,
                           .k = k,
                           .a_row = k,
                           .b_group = n * k,
                           .b_k = form & 2 ? 1 : n,
                           .b_n = form & 2 ? k : 1,
                           .c_row = n,
                           .accumulate = form >> 2 & 1,
                           .rounded = 1,
                           .a_type = MOEC_BF16,
                           .b_type = MOEC_BF16,
                           .c_type = type_by(form)};
    for (long g = 0; g < packed->groups; g++)
        for (long r = packed->group[g]; r < packed->group[g + 1]; r++)
            for (long j = 0; j < n; j++) {
                double sum = grouped.accumulate ? c.exact[r * n + j] : 0;
                for (long p = 0; p < k; p++)
                    sum += a.exact[packed->gather[r] * k + p] *
                           b.exact[g * n * k + p * grouped.b_k + j * grouped.b_n];
                c.exact[r * n + j] = sum;
            }
    const MoecRows rows = {packed->group, packed->gather, NULL};
    moec_grouped_product(&grouped, &rows, a.stored, b.stored, c.stored);
    assert_close(&c, "rows by weight");
    drop(&a), drop(&b), drop(&c);
}

static void check_rows_by_rows(const Packed *packed, long n, long k) {
    Numbers a = numbers(packed->tokens * k, MOEC_BF16, 0),
            b = numbers(packed->rows * n, MOEC_BF16, 0),
            c = numbers(packed->groups * n * k, MOEC_F32, 0);
    const MoecGrouped grouped = {.kind = MOEC_ROWS_BY_ROWS,
                                 .groups = packed->groups,
                                 .n = n,
                                 .k = k,
                                 .a_row = k,
                                 .b_group = n * k,
                                 .b_k = n,
                                 .b_n = 1,
                                 .c_row = n,
                                 .accumulate = 1,
                                 .rounded = 1,
                                 .a_type = MOEC_BF16,
                                 .b_type = MOEC_BF16};
    for (long g = 0; g < packed->groups; g++)
        for (long r = packed->group[g]; r < packed->group[g + 1]; r++)
            for (long p = 0; p < k; p++)
                for (long j = 0; j < n; j++)
                    c.exact[(g * k + p) * n + j] +=
                        a.exact[packed->gather[r] * k + p] * b.exact[r * n + j];
    const MoecRows rows = {packed->group, packed->gather, NULL};
    moec_grouped_product(&grouped, &rows, a.stored, b.stored, c.stored);
    assert_close(&c, "rows by rows");
    drop(&a), drop(&b), drop(&c);
}

static void packed_rows(void **state) {
    (void)state;
    for (int run = 0; run < 40; run++) {
        Packed packed = some_rows();
        const long n = up_to(run % 7 ? 60 : 300), k = up_to(90);
        check_rows_by_weight(&packed, n, k, run);
        check_rows_by_rows(&packed, n, k);
        free(packed.group), free(packed.gather);
    }
}

/* ---- attention ---- */

enum { Q, K, V, SLOPE, READ, OUT = READ, DQ, DK, DV, TENSORS };

/* The results of attention, forward and backward, from its inputs: OUT .. TENSORS-1. */
static void attend(const MoecAttend *attend, const Numbers x[TENSORS], const float *documents,
                   float *lse) {
    moec_attend(attend, x[Q].stored, x[K].stored, x[V].stored, NULL, documents, x[OUT].stored, lse);
    const MoecAttendSaved saved = {x[Q].stored,   x[K].stored, x[V].stored,     NULL, documents,
                                   x[OUT].stored, lse,         x[SLOPE].stored, NULL, NULL};
    moec_attend_grad(attend, &saved, x[DQ].stored, x[DK].stored, x[DV].stored, NULL, NULL);
}

/* Weights and the gradients of scores are rounded if products may be: compared with f32
 * products. */
static void check_attention(MoecAttend form, int with_documents) {
    const long queries = form.queries * form.heads, keys = form.keys * form.key_heads;
    const long counts[TENSORS] = {
        [Q] = queries * form.width,         [K] = keys * form.width,
        [V] = keys * form.value_width,      [SLOPE] = queries * form.value_width,
        [OUT] = queries * form.value_width, [DQ] = queries * form.width,
        [DK] = keys * form.width,           [DV] = keys * form.value_width};
    Numbers x[TENSORS];
    float *documents = calloc((size_t)form.keys, sizeof *documents),
          *lse = calloc((size_t)queries, sizeof *lse);
    for (long i = 1; i < form.keys; i++)
        documents[i] = documents[i - 1] + (float)(lrand48() % 40 == 0);
    for (int i = 0; i < TENSORS; i++) x[i] = numbers(counts[i], i > OUT ? MOEC_F32 : MOEC_BF16, -1);
    form.rounded = 0;
    attend(&form, x, with_documents ? documents : NULL, lse);
    for (int i = OUT; i < TENSORS; i++)
        for (long j = 0; j < counts[i]; j++)
            x[i].exact[j] = (double)moec_value(moec_at(x[i].stored, j, x[i].type), x[i].type);
    form.rounded = 1;
    attend(&form, x, with_documents ? documents : NULL, lse);
    for (int i = OUT; i < TENSORS; i++) {
        const double off = distance(&x[i]);
        if (!(off <= 0x1p-7)) fail_msg("attention, tensor %d: relative error %g", i, off);
    }
    for (int i = 0; i < TENSORS; i++) drop(&x[i]);
    free(documents);
    free(lse);
}

static void attention_of_all_shapes(void **state) {
    (void)state;
    const int masks[] = {MOEC_MASK_NONE, MOEC_MASK_CAUSAL, MOEC_MASK_WINDOW};
    for (int run = 0; run < 36; run++) {
        const long positions = up_to(run % 4 ? 150 : 400), heads = up_to(2);
        check_attention((MoecAttend){.batch = 1,
                                     .queries = positions,
                                     .keys = positions,
                                     .places = positions,
                                     .heads = 2 * heads,
                                     .key_heads = heads,
                                     .value_heads = heads,
                                     .width = 2 * up_to(40),
                                     .value_width = run % 3 ? 64 : up_to(40),
                                     .mask = masks[run % 3],
                                     .window = up_to(200),
                                     .scale = 0.2f,
                                     .q_type = MOEC_BF16,
                                     .k_type = MOEC_BF16,
                                     .v_type = MOEC_BF16,
                                     .o_type = MOEC_BF16,
                                     .grad_type = MOEC_BF16},
                        run % 2);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_round_to_the_nearest), cmocka_unit_test(products_of_all_shapes),
        cmocka_unit_test(packed_rows), cmocka_unit_test(attention_of_all_shapes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
