/* The scalar functions of generated programs against the C library in double precision, and their
 * random numbers. */
#include "ir/ir.h"
#include "kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "loaded_text.h"

typedef struct Scalar {
    const char *name;
    float (*ours)(float);
    double (*right)(double);
    float low, high;
} Scalar;

static double d_sigmoid(double x) {
    return 1 / (1 + exp(-x));
}
static double d_softplus(double x) {
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}
static double d_rsqrt(double x) {
    return 1 / sqrt(x);
}

static void assert_ulps(const char *name, float at, float ours, double right) {
    float size = fabsf((float)right), ulp = nextafterf(size, INFINITY) - size;
    if (!(fabs(ours - right) <= 3 * (double)ulp))
        fail_msg("%s(%.9g) is %.9g, not %.9g", name, at, ours, right);
}

static void scalars_are_exact(void **state) {
    (void)state;
    const Scalar scalars[] = {
        {"exp", moec_exp, exp, -87, 88},        {"log", moec_log, log, 1e-6f, 4},
        {"log", moec_log, log, 1e-42f, 1e-36f}, {"log", moec_log, log, 1, 1e38f},
        {"tanh", moec_tanh, tanh, -10, 10},     {"sigmoid", moec_sigmoid, d_sigmoid, -40, 40},
        {"erf", moec_erf, erf, -5, 5},          {"softplus", moec_softplus, d_softplus, -40, 40},
        {"sin", moec_sin, sin, -6000, 6000},    {"cos", moec_cos, cos, -6000, 6000},
        {"atan", moec_atan, atan, -60, 60},     {"rsqrt", moec_rsqrt, d_rsqrt, 1e-3f, 100},
    };
    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++) {
        const Scalar *scalar = &scalars[i];
        for (int run = 0; run < 20000; run++) {
            float x = scalar->low + (scalar->high - scalar->low) * (float)drand48();
            assert_ulps(scalar->name, x, scalar->ours(x), scalar->right(x));
        }
    }
    for (int run = 0; run < 20000; run++) {
        float a = 1e-3f + 50 * (float)drand48(), b = 20 * (float)drand48() - 10;
        assert_ulps("pow", a, moec_pow(a, b), pow(a, b));
    }
}

/* ---- every function of op.def with one argument, against its definition there ---- */

static bool is_measured(const OpRow *row) {
    return row->arity == 1 && row->kind == OP_KIND_VALUE && strncmp(row->c, "moec_", 5) == 0;
}

static void *load_functions(Arena *arena) {
    Text text = {.arena = arena};
    text_add(&text, "#include \"prelude.h\"\n");
    for (int op = 0; op < OP_COUNT; op++) {
        const OpRow *row = &op_table[op];
        const char *argument = strstr(row->c, "$0");
        if (!is_measured(row)) continue;
        assert_true(argument && !strchr(argument + 1, '$'));
        text_add(&text, "float op_%d(float x);\n", op);
        text_add(&text, "float op_%d(float x) { return %.*sx%s; }\n", op, (int)(argument - row->c),
                 row->c, argument + 2);
    }
    return load_text(text.text, "-O2", 0);
}

static void table_is_exact(void **state) {
    (void)state;
    Arena *arena = arena_new();
    void *library = load_functions(arena);
    int measured = 0;
    for (int op = 0; op < OP_COUNT; op++) {
        if (!is_measured(&op_table[op])) continue;
        float (*ours)(float);
        *(void **)&ours = dlsym(library, arena_format(arena, "op_%d", op));
        assert_non_null(ours);
        measured++;
        for (int run = 0; run < 20000; run++) {
            const float x = (run % 2 ? 1.0f : 40.0f) * (float)(2 * drand48() - 1);
            const double right = op_value((OpCode)op, x, 0, 0);
            if (isfinite(right)) assert_ulps(op_table[op].text, x, ours(x), right);
        }
    }
    assert_true(measured >= 10);
    dlclose(library);
    arena_free(arena);
}

/* ---- small formats, from the values of their codes ---- */

typedef struct SmallFormat {
    OpCode op;
    int digits, bias, codes; /* codes: of numbers that are not negative */
} SmallFormat;

/* A code is exponent and digits; the lowest exponent has no leading one. */
static double value_of_code(const SmallFormat *format, int code) {
    const int steps = 1 << format->digits, exponent = code / steps, digits = code % steps;
    return exponent ? ldexp(steps + digits, exponent - format->bias - format->digits)
                    : ldexp(digits, 1 - format->bias - format->digits);
}

static void formats_round_to_codes(void **state) {
    (void)state;
    const SmallFormat formats[] = {{OP_E4M3, 3, 7, 127}, {OP_E5M2, 2, 15, 124}, {OP_E2M1, 1, 1, 8}};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const SmallFormat *format = &formats[i];
        for (int code = 0; code < format->codes; code++) {
            const double value = value_of_code(format, code),
                         next = value_of_code(format, code + 1), tie = (value + next) / 2;
            const bool last = code + 1 == format->codes;
            assert_true(op_value(format->op, value, 0, 0) == value);
            assert_true(op_value(format->op, -value, 0, 0) == -value);
            assert_true(op_value(format->op, nextafter(tie, 0), 0, 0) == value);
            assert_true(op_value(format->op, tie, 0, 0) == (code % 2 && !last ? next : value));
            assert_true(op_value(format->op, nextafter(tie, next), 0, 0) == (last ? value : next));
        }
        assert_true(isnan(op_value(format->op, NAN, 0, 0)));
        assert_true(op_value(format->op, -INFINITY, 0, 0) ==
                    -value_of_code(format, format->codes - 1));
    }
    assert_true(op_value(OP_E8M0, 0, 0, 0) == 0x1p-126 && op_value(OP_E8M0, -7.9, 0, 0) == 4);
}

/* The C text computes the same bits, for floats of all exponents. */
static void formats_are_exact(void **state) {
    (void)state;
    Arena *arena = arena_new();
    void *library = load_functions(arena);
    const OpCode ops[] = {OP_E4M3, OP_E5M2, OP_E2M1, OP_E8M0};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        float (*ours)(float);
        *(void **)&ours = dlsym(library, arena_format(arena, "op_%d", (int)ops[i]));
        assert_non_null(ours);
        for (uint64_t bits = 0; bits < 1ull << 32; bits += 4097) {
            const float x = moec_from_bits((uint32_t)bits), rounded = ours(x);
            const double right = op_value(ops[i], (double)x, 0, 0);
            if (isinf(x) && ops[i] == OP_E8M0) continue;
            if (!(isnan(right) ? isnan(rounded) : (double)rounded == right))
                fail_msg("%s(%.9g) is %.9g, not %.9g", op_table[ops[i]].text, (double)x,
                         (double)rounded, right);
        }
    }
    dlclose(library);
    arena_free(arena);
}

static void scalars_at_the_edge(void **state) {
    (void)state;
    assert_true(moec_exp(-INFINITY) == 0 && moec_exp(INFINITY) == INFINITY &&
                moec_exp(100) == INFINITY);
    assert_true(moec_log(0) == -INFINITY && moec_log(INFINITY) == INFINITY && isnan(moec_log(-1)));
    assert_true(moec_tanh(INFINITY) == 1 && moec_tanh(-INFINITY) == -1 &&
                moec_sigmoid(-INFINITY) == 0);
    assert_true(signbit(moec_tanh(-0.0f)) && moec_tanh(9.1f) == 1 && moec_tanh(1e-30f) == 1e-30f);
    assert_true(moec_erf(INFINITY) == 1 && moec_erf(-9) == -1 && moec_softplus(1e30f) == 1e30f);
    assert_true(isnan(moec_exp(NAN)) && isnan(moec_tanh(NAN)) && isnan(moec_erf(NAN)) &&
                isnan(moec_log(NAN)));
    assert_true(moec_pow(-2, 3) == -8 && moec_pow(-2, 2) == 4 && isnan(moec_pow(-2, 0.5f)));
    assert_true(moec_pow(0, 2) == 0 && moec_pow(0, 0) == 1 && moec_pow(0, -1) == INFINITY);
    assert_true(moec_mod(-1, 4) == 3 && moec_mod(5, 4) == 1 && moec_floor(-1.5f) == -2);
    assert_true(moec_sign(-3) == -1 && moec_sign(0) == 0 && moec_where(0, 1, 2) == 2);
    assert_true(moec_and(2, 0) == 0 && moec_or(2, 0) == 1 && moec_not(0) == 1);
}

static void normals_are_normal(void **state) {
    (void)state;
    double mean = 0, square = 0;
    const int count = 100000;
    for (int i = 0; i < count; i++) {
        double x = moec_normal(7, 3, (uint64_t)i);
        mean += x / count;
        square += x * x / count;
    }
    assert_true(fabs(mean) < 0.01 && fabs(square - 1) < 0.02);
    assert_true(moec_uniform(7, 3, 5) == moec_uniform(7, 3, 5) &&
                moec_uniform(7, 3, 5) != moec_uniform(8, 3, 5));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars_are_exact),      cmocka_unit_test(table_is_exact),
        cmocka_unit_test(formats_round_to_codes), cmocka_unit_test(formats_are_exact),
        cmocka_unit_test(scalars_at_the_edge),    cmocka_unit_test(normals_are_normal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
