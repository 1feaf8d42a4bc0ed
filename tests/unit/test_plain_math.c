/* The functions of standalone/freestanding/plain_math.h against the C library in extended precision, and whole
 * numbers against its float functions. Prints the largest errors. */
#include "../../runtime/standalone/freestanding/plain_math.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct Function {
    const char *name;
    double (*ours)(double);
    long double (*right)(long double);
    double low, high, ulps; /* the largest error */
} Function;

/* |ours - right| in units of the last digit of right. */
static double error_of(double ours, long double right) {
    const double size = fabs((double)right);
    return (double)(fabsl((long double)ours - right) / (nextafter(size, INFINITY) - size));
}

static void functions_are_exact(void **state) {
    (void)state;
    const Function functions[] = {
        {"sqrt", moec_double_sqrt, sqrtl, 1e-300, 1e300, 1},
        {"sqrt", moec_double_sqrt, sqrtl, 0.5, 8, 1},
        {"exp", moec_double_exp, expl, -700, 700, 2},
        {"log", moec_double_log, logl, 1e-3, 4, 2},
        {"log", moec_double_log, logl, 1, 1e300, 2},
        {"sin", moec_double_sin, sinl, -1e6, 1e6, 3},
        {"cos", moec_double_cos, cosl, -1e6, 1e6, 3},
        {"sin", moec_double_sin, sinl, -4, 4, 2},
        {"tanh", moec_double_tanh, tanhl, -20, 20, 3},
        {"tanh", moec_double_tanh, tanhl, -0.3, 0.3, 3},
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        const Function *function = &functions[i];
        double largest = 0;
        for (int run = 0; run < 200000; run++) {
            const double x = function->low + (function->high - function->low) * drand48();
            const double error = error_of(function->ours(x), function->right(x));
            if (!(error <= function->ulps)) fail_msg("%s(%.17g): %g ulp", function->name, x, error);
            largest = error > largest ? error : largest;
        }
        print_message("%s from %g to %g: %.2f ulp\n", function->name, function->low, function->high,
                      largest);
    }
}

/* Powers as rotary position embeddings have them. */
static void powers_are_exact(void **state) {
    (void)state;
    double largest = 0;
    for (int run = 0; run < 200000; run++) {
        const double a = pow(10, 6 * drand48()), b = 4 * drand48() - 2;
        const long double right = powl(a, b);
        const double error = (double)fabsl((moec_double_pow(a, b) - right) / right);
        if (!(error <= 1e-14)) fail_msg("pow(%.17g, %.17g): %g", a, b, error);
        largest = error > largest ? error : largest;
    }
    print_message("pow: %.2g relative\n", largest);
    assert_true(fabs(moec_double_pow(-2, 3) + 8) < 1e-14 &&
                fabs(moec_double_pow(-2, 2) - 4) < 1e-14);
    assert_true(isnan(moec_double_pow(-2, 0.5)) && moec_double_pow(0, 2) == 0);
    assert_true(moec_double_pow(0, -1) == INFINITY && moec_double_pow(0, 0) == 1);
}

/* All floats of two binades, whose square roots are all mantissas; some others. */
static void roots_are_rounded(void **state) {
    (void)state;
    for (float x = 1; x < 4; x = nextafterf(x, 5))
        if ((float)moec_double_sqrt((double)x) != sqrtf(x)) fail_msg("sqrt(%.9g)", (double)x);
    for (int run = 0; run < 1000000; run++) {
        const uint32_t bits = (uint32_t)mrand48();
        float x;
        memcpy(&x, &bits, sizeof x);
        const float ours = (float)moec_double_sqrt((double)x), floor = moec_plain_floor(x);
        if (ours != sqrtf(x) && x >= 0) fail_msg("sqrt(%.9g)", (double)x);
        if (floor != floorf(x) && x == x) fail_msg("floor(%.9g)", (double)x);
    }
}

static void edges_are_right(void **state) {
    (void)state;
    assert_true(moec_double_exp(-1e4) == 0 && moec_double_exp(1e4) == INFINITY);
    assert_true(isnan(moec_double_exp(NAN)) && moec_double_exp(0) == 1);
    assert_true(moec_double_log(0) == -INFINITY && isnan(moec_double_log(-1)));
    assert_true(moec_double_log(INFINITY) == INFINITY && moec_double_log(1) == 0);
    assert_true(isnan(moec_double_sqrt(-1)) && moec_double_sqrt(INFINITY) == INFINITY);
    assert_true(moec_double_sqrt(0) == 0 && isnan(moec_double_sqrt(NAN)));
    assert_true(moec_double_tanh(100) == 1 && moec_double_tanh(-100) == -1);
    assert_true(moec_double_floor(-1.5) == -2 && moec_double_floor(1e300) == 1e300);
    assert_true(fabs(moec_double_exp(-740) / exp(-740) - 1) < 0.5); /* subnormal */
    assert_true(fabs(moec_double_log(1e-310) / log(1e-310) - 1) < 1e-15);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_are_exact),
        cmocka_unit_test(powers_are_exact),
        cmocka_unit_test(roots_are_rounded),
        cmocka_unit_test(edges_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
