/* Products that share a parallel region: the same bits as one after the other, for any number of threads. */
#include "kernels.h"

#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MOST = MOEC_SHARED_CALLS, MOST_THREADS = 3 };

static const MoecRun run_alone = {0};

static float *numbers(long count) {
    float *x = malloc((size_t)count * sizeof *x);
    assert_non_null(x);
    for (long i = 0; i < count; i++) x[i] = (float)(2 * drand48() - 1);
    return x;
}

/* f32 or bf16 in the memory of f32. */
static void *copy_of(const float *x, long count) {
    float *copy = malloc((size_t)count * sizeof *copy);
    assert_non_null(copy);
    return memcpy(copy, x, (size_t)count * sizeof *copy);
}

/* The operands of several products, which share a. */
typedef struct Shared {
    int count;
    float *a, *b[MOST], *before[MOST];
    void *alone[MOST], *c[MOST];
    long results[MOST];
} Shared;

static void shared_add(Shared *shared, long weights, long results) {
    const int i = shared->count++;
    shared->b[i] = numbers(weights);
    shared->before[i] = numbers(results);
    shared->alone[i] = copy_of(shared->before[i], results);
    shared->c[i] = copy_of(shared->before[i], results);
    shared->results[i] = results;
}

static void shared_reset(Shared *shared) {
    for (int i = 0; i < shared->count; i++)
        memcpy(shared->c[i], shared->before[i], (size_t)shared->results[i] * sizeof(float));
}

static void shared_compare(const Shared *shared) {
    for (int i = 0; i < shared->count; i++)
        assert_memory_equal(shared->c[i], shared->alone[i],
                            (size_t)shared->results[i] * sizeof(float));
}

static void shared_free(Shared *shared) {
    for (int i = 0; i < shared->count; i++)
        free(shared->b[i]), free(shared->before[i]), free(shared->alone[i]), free(shared->c[i]);
    free(shared->a);
}

static void check_products(const MoecProduct *products, int count) {
    Shared shared = {.a = numbers(products->m * products->k)};
    MoecProductCall calls[MOST];
    for (int i = 0; i < count; i++) {
        const MoecProduct *product = &products[i];
        shared_add(&shared, product->n * product->k, product->m * product->n);
        calls[i] = (MoecProductCall){i, product, shared.a, shared.b[i], shared.c[i]};
        moec_product(&run_alone, i, product, shared.a, shared.b[i], shared.alone[i]);
    }
    const int threads = omp_get_max_threads();
    for (int number = 1; number <= MOST_THREADS; number++) {
        shared_reset(&shared);
        omp_set_num_threads(number);
        moec_shared_products(&run_alone, calls, count);
        shared_compare(&shared);
    }
    omp_set_num_threads(threads);
    shared_free(&shared);
}

static MoecProduct product_of(long m, long n, long k, int form) {
    return (MoecProduct){.m = m,
                         .n = n,
                         .k = k,
                         .a_m = k,
                         .a_k = 1,
                         .b_k = form & 1 ? 1 : n,
                         .b_n = form & 1 ? k : 1,
                         .c_m = n,
                         .batch = {1, 1},
                         .accumulate = form >> 1 & 1,
                         .c_type = form & 4 ? MOEC_BF16 : MOEC_F32};
}

/* Partial sums of the widest do not fit the scratch memory of a thread together. */
static void dense_products(void **state) {
    (void)state;
    const long n[] = {16, 33, 130, 700, 3500}, k[] = {17, 100, 256};
    for (int run = 0; run < 60; run++) {
        MoecProduct products[MOST];
        const long m = 1 + lrand48() % 4, depth = k[run % 3];
        const int count = 1 + (int)(lrand48() % MOST);
        for (int i = 0; i < count; i++)
            products[i] = product_of(m, n[lrand48() % 5], depth, (int)(lrand48() % 8));
        check_products(products, count);
    }
    const MoecProduct wide[] = {product_of(4, 3500, 64, 0), product_of(4, 3500, 64, 4),
                                product_of(4, 130, 64, 5), product_of(4, 3500, 64, 2)};
    check_products(wide, MOST);
}

static void grouped_products(void **state) {
    (void)state;
    for (int run = 0; run < 40; run++) {
        const long groups = 5, rows = 4 + lrand48() % 9, k = 1 + lrand48() % 300;
        const int count = 1 + (int)(lrand48() % MOST);
        const int32_t group[] = {0, 2, 2, 3, 3, (int32_t)rows};
        const MoecRows packed = {group, NULL, NULL};
        Shared shared = {.a = numbers(rows * k)};
        MoecGrouped grouped[MOST];
        MoecGroupedCall calls[MOST];
        for (int i = 0; i < count; i++) {
            const long n = run % 8 ? 1 + lrand48() % 400 : 1200;
            const int form = run % 8 ? (int)(lrand48() % 8) : 0;
            shared_add(&shared, groups * n * k, rows * n);
            grouped[i] = (MoecGrouped){.kind = MOEC_ROWS_BY_WEIGHT,
                                       .groups = groups,
                                       .n = n,
                                       .k = k,
                                       .a_row = k,
                                       .b_group = n * k,
                                       .b_k = form & 1 ? 1 : n,
                                       .b_n = form & 1 ? k : 1,
                                       .c_row = n,
                                       .accumulate = form >> 1 & 1,
                                       .c_type = form & 4 ? MOEC_BF16 : MOEC_F32};
            calls[i] = (MoecGroupedCall){&grouped[i], &packed, shared.a, shared.b[i], shared.c[i]};
            moec_grouped_product(&grouped[i], &packed, shared.a, shared.b[i], shared.alone[i]);
        }
        const int threads = omp_get_max_threads();
        for (int number = 1; number <= MOST_THREADS; number++) {
            shared_reset(&shared);
            omp_set_num_threads(number);
            moec_shared_grouped(calls, count);
            shared_compare(&shared);
        }
        omp_set_num_threads(threads);
        shared_free(&shared);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(dense_products),
                                       cmocka_unit_test(grouped_products)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
