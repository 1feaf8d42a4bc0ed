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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(multiplies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
