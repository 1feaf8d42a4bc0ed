/* The product kernel of moec that measures the peak without a library, as compiled for this CPU, against plain
 * loops. */
#include "device/device.h"
#include "prelude.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void *block(size_t bytes) {
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(memory);
    return memory;
}

static void fill(void *to, long count, long period, int rounded) {
    for (long i = 0; i < count; i++) {
        const float number = (float)(i % period - period / 2);
        if (rounded)
            moec_store((MoecBf16 *)to + i, number);
        else
            ((float *)to)[i] = number;
    }
}

/* c = a b with small integers: every sum is exact. */
static void check(long m, long n, long k, int rounded) {
    const OwnProduct *own = own_product();
    float *a = block((size_t)(m * k) * 4), *b = block((size_t)(k * n) * 4),
          *c = block((size_t)(m * n) * 4);
    void *scratch = block(own->scratch * (size_t)moec_threads());
    fill(a, m * k, 7, rounded);
    fill(b, k * n, 5, rounded);
    MoecProduct product = plain_product(m, n, k);
    product.rounded = rounded;
    product.a_type = product.b_type = rounded ? MOEC_BF16 : MOEC_F32;
    own->multiply(&product, a, b, c, scratch);
    for (long i = 0; i < m; i++)
        for (long j = 0; j < n; j++) {
            float sum = 0;
            for (long p = 0; p < k; p++)
                sum += (float)(((i * k + p) % 7) - 3) * (float)(((p * n + j) % 5) - 2);
            assert_true(c[i * n + j] == sum);
        }
    free(a), free(b), free(c), free(scratch);
}

static void multiplies(void **state) {
    (void)state;
    for (int rounded = 0; rounded < 2; rounded++) {
        check(5, 7, 3, rounded);
        check(300, 130, 70, rounded);
        check(64, 512, 800, rounded);
    }
}

/* The rows of a product have the bits of products of one row; b contiguous along n or along k. */
static void check_rows(long n, long k, int transposed, MoecType type) {
    const OwnProduct *own = own_product();
    float *a = block((size_t)(8 * k) * 4), *b = block((size_t)(k * n) * 4),
          *c = block((size_t)(8 * n) * 4), *alone = block((size_t)n * 4);
    void *scratch = block(own->scratch * (size_t)moec_threads());
    for (long i = 0; i < 8 * k; i++) a[i] = 1.0f / (float)(i % 19 + 3);
    for (long i = 0; i < k * n; i++) {
        const float number = 1.0f / (float)(i % 23 - 30);
        if (type == MOEC_BF16)
            moec_store((MoecBf16 *)(void *)b + i, number);
        else
            b[i] = number;
    }
    MoecProduct product = plain_product(1, n, k);
    product.b_type = type;
    if (transposed) product.b_k = 1, product.b_n = k;
    const long most = own->most_rows(&product);
    assert_int_equal(most, 8);
    for (product.m = 2; product.m <= most; product.m++) {
        own->multiply_rows(&product, a, b, c, scratch);
        for (long i = 0; i < product.m; i++) {
            MoecProduct one = product;
            one.m = 1;
            own->multiply(&one, a + i * k, b, alone, scratch);
            assert_memory_equal(c + i * n, alone, (size_t)n * 4);
        }
    }
    free(a), free(b), free(c), free(alone), free(scratch);
}

static void multiplies_rows(void **state) {
    (void)state;
    for (int transposed = 0; transposed < 2; transposed++)
        for (MoecType type = MOEC_F32; type <= MOEC_BF16; type++) {
            check_rows(33, 21, transposed, type);
            check_rows(300, 700, transposed, type); /* cut along the depth for one row, too */
        }
    const MoecProduct square = plain_product(2, 8, 8);
    assert_int_equal(own_product()->most_rows(&square), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(multiplies),
                                       cmocka_unit_test(multiplies_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
