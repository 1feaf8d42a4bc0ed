/* The library for other programs: gradients of inputs and weights beside differences, arrays of the
 * caller, texts of specs, what is told when something is wrong. */
#include "library/moec.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char spec[] =
    "use attention\n"
    "use mlp\n"
    "use train\n"
    "layer inside {\n"
    "  option train: layer = train { batch = 2, context = 5 }\n"
    "  option inner: layer = attention\n"
    "  axis d = 8\n"
    "  sequence s = train.context\n"
    "  input x[s, d]: real\n"
    "  input dy[s, d]: real\n"
    "  y[s, d] = x[s, d] + inner(x) + swiglu(x; hidden = 6)\n"
    "  output y\n"
    "  loss = sum[batch, s, d] y[s, d] * dy[s, d]\n"
    "}\n"
    "model inside_one = inside { inner = { heads.q = 2, gate = { at = sdpa, act = sigmoid } } }\n";

static const MoecLoad inside = {.spec = spec,
                                .can = MOEC_CAN_RUN | MOEC_CAN_TRAIN,
                                .seed = 3,
                                .input_gradients = 1,
                                .cotangent = "dy"};

enum { COUNT = 2 * 5 * 8 };

static int find(MoecModel *model, MoecKind kind, const char *name, MoecArray *array) {
    for (int i = 0; i < moec_count(model, kind); i++) {
        assert_int_equal(moec_array(model, kind, i, array), 0);
        if (strcmp(array->name, name) == 0) return i;
    }
    fail_msg("no array '%s'", name);
    return -1;
}

static int size(const MoecArray *array) {
    int count = 1;
    for (int k = 0; k < array->rank; k++) count *= (int)array->shape[k];
    return count;
}

static float *copy_of(MoecModel *model, int gradient) {
    MoecArray array;
    moec_array(model, MOEC_GRADIENT, gradient, &array);
    size_t bytes = sizeof(float) * (size_t)size(&array);
    return memcpy(malloc(bytes), array.data, bytes);
}

/* sum of y * dy for an x, y going to memory of ours. */
static double value(MoecModel *model, float *x, const float *dy) {
    MoecArray array;
    float y[COUNT];
    double sum = 0;
    moec_bind(model, MOEC_RUN_INPUT, find(model, MOEC_RUN_INPUT, "x", &array), x);
    int place = find(model, MOEC_RUN_OUTPUT, "y", &array);
    assert_int_equal(moec_bind(model, MOEC_RUN_OUTPUT, place, y), 0);
    assert_int_equal(moec_run(model, 0), 0);
    moec_bind(model, MOEC_RUN_OUTPUT, place, NULL);
    for (int i = 0; i < COUNT; i++) sum += (double)y[i] * (double)dy[i];
    return sum;
}

/* The derivative along a direction, by differences. */
static double slope(MoecModel *model, float *x, const float *dy, float *at, const float *way,
                    int count) {
    const float small = 1e-2f;
    double sides[2];
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < count; i++) at[i] += (side ? -small : small) * way[i];
        sides[side] = value(model, x, dy);
        for (int i = 0; i < count; i++) at[i] -= (side ? -small : small) * way[i];
    }
    return (sides[0] - sides[1]) / (2 * (double)small);
}

static double along(const float *gradient, const float *way, int count) {
    double sum = 0;
    for (int i = 0; i < count; i++) sum += (double)gradient[i] * (double)way[i];
    return sum;
}

static void fill(float *values, int count, unsigned seed) {
    for (int i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
}

static void test_gradients(void **state) {
    (void)state;
    MoecModel *model;
    MoecArray array;
    float x[COUNT], dy[COUNT], dx[COUNT], way[COUNT];
    if (moec_load(NULL, &inside, &model) != 0) fail_msg("%s", moec_message());
    fill(x, COUNT, 1);
    fill(dy, COUNT, 2);
    moec_bind(model, MOEC_TRAIN_INPUT, find(model, MOEC_TRAIN_INPUT, "x", &array), x);
    moec_bind(model, MOEC_TRAIN_INPUT, find(model, MOEC_TRAIN_INPUT, "dy", &array), dy);
    moec_bind(model, MOEC_TRAIN_OUTPUT, find(model, MOEC_TRAIN_OUTPUT, "gradient:x", &array), dx);
    assert_int_equal(array.rank, 3);
    assert_int_equal(moec_differentiate(model, 0), 0);

    fill(way, COUNT, 4);
    double found = slope(model, x, dy, x, way, COUNT), said = along(dx, way, COUNT);
    assert_true(fabs(found - said) < 2e-2 * (fabs(said) + 1));
    for (int i = 0; i < moec_count(model, MOEC_WEIGHT); i++) {
        MoecArray gradient;
        moec_array(model, MOEC_WEIGHT, i, &array);
        moec_array(model, MOEC_GRADIENT, i, &gradient);
        int count = size(&array);
        float *direction = malloc(sizeof(float) * (size_t)count);
        fill(direction, count, (unsigned)i + 5);
        found = slope(model, x, dy, array.data, direction, count);
        said = along(gradient.data, direction, count);
        if (!(fabs(found - said) < 2e-2 * (fabs(said) + 1)))
            fail_msg("%s: %g by differences, %g derived", array.name, found, said);
        free(direction);
    }
    moec_free(model);
}

/* Two of the same with different inputs, one begun while the other is under way, give what each
 * gives in one call; what lies in a tape before does not matter. */
static void test_parts(void **state) {
    (void)state;
    MoecModel *model;
    MoecArray array;
    float x[2][COUNT], dy[COUNT], dx[COUNT], y[3][COUNT];
    float *gradients[2][32], whole[2][COUNT];
    void *tapes[2];
    if (moec_load(NULL, &inside, &model) != 0) fail_msg("%s", moec_message());
    int place_x = find(model, MOEC_TRAIN_INPUT, "x", &array);
    int place_y = find(model, MOEC_TRAIN_OUTPUT, "y", &array);
    int weights = moec_count(model, MOEC_WEIGHT);
    assert_true(weights > 0 && weights < 32);
    fill(dy, COUNT, 2);
    moec_bind(model, MOEC_TRAIN_INPUT, find(model, MOEC_TRAIN_INPUT, "dy", &array), dy);
    moec_bind(model, MOEC_TRAIN_OUTPUT, find(model, MOEC_TRAIN_OUTPUT, "gradient:x", &array), dx);
    for (int i = 0; i < 2; i++) {
        fill(x[i], COUNT, (unsigned)i + 1);
        moec_bind(model, MOEC_TRAIN_INPUT, place_x, x[i]);
        moec_bind(model, MOEC_TRAIN_OUTPUT, place_y, y[2]);
        assert_int_equal(moec_differentiate(model, 0), 0);
        memcpy(whole[i], dx, sizeof dx);
        for (int j = 0; j < weights; j++) gradients[i][j] = copy_of(model, j);
        double sum = value(model, x[i], dy), said = along(y[2], dy, COUNT);
        assert_true(fabs(sum - said) < 1e-4 * (fabs(sum) + 1));
    }
    for (int i = 0; i < 2; i++) {
        tapes[i] = aligned_alloc(64, moec_tape_bytes(model));
        memset(tapes[i], 0xff, moec_tape_bytes(model));
        moec_bind(model, MOEC_TRAIN_INPUT, place_x, x[i]);
        moec_bind(model, MOEC_TRAIN_OUTPUT, place_y, y[i]);
        assert_int_equal(moec_forward(model, 0, tapes[i]), 0);
    }
    assert_memory_equal(y[1], y[2], sizeof y[1]);
    for (int i = 0; i < 2; i++) {
        moec_bind(model, MOEC_TRAIN_INPUT, place_x, x[i]);
        moec_bind(model, MOEC_TRAIN_OUTPUT, place_y, y[i]);
        assert_int_equal(moec_backward(model, 0, tapes[i]), 0);
        assert_memory_equal(dx, whole[i], sizeof dx);
        for (int j = 0; j < weights; j++) {
            moec_array(model, MOEC_GRADIENT, j, &array);
            assert_memory_equal(array.data, gradients[i][j], sizeof(float) * (size_t)size(&array));
            free(gradients[i][j]);
        }
        free(tapes[i]);
    }
    moec_free(model);
}

/* Experts of which few get most of the tokens, so that the loads of a micro-batch are not those of
 * the step. */
static const char balanced[] =
    "use decoder\n"
    "model balanced = decoder {\n"
    "  vocab = 32, dim = 16, layers = 2, attention.heads.q = 2\n"
    "  ffn = moe { experts = 8, top = 1, expert = swiglu { hidden = 8 }, balance = 1 }\n"
    "  train = { batch = 8, context = 6, lr = 1e-2 }\n"
    "}\n";

enum { WINDOWS = 8, WINDOW = 7 };

/* The loss after some steps on the same windows; the first step is on the gradients of one
 * micro-batch. */
static double trained(const char *const *sets, int count, double *norm) {
    const MoecLoad load = {
        .spec = balanced, .sets = sets, .set_count = count, .can = MOEC_CAN_TRAIN, .seed = 3};
    MoecModel *model;
    MoecArray array;
    int32_t windows[WINDOWS * WINDOW];
    double loss = NAN;
    if (moec_load(NULL, &load, &model) != 0) fail_msg("%s", moec_message());
    for (int i = 0; i < WINDOWS * WINDOW; i++) windows[i] = i * i % 31;
    assert_int_equal(moec_gradients(model, windows, NULL), 0);
    find(model, MOEC_GRADIENT, "block.0.ffn.router", &array);
    *norm = sqrt(along(array.data, array.data, (int)(array.shape[0] * array.shape[1])));
    for (int step = 0; step < 6; step++) assert_int_equal(moec_step(model, windows, &loss), 0);
    moec_free(model);
    return loss;
}

/* A mean over a step is known before it, whoever takes the step. */
static void test_step_mean(void **state) {
    (void)state;
    const char *const sets[] = {"ffn.balance_over=step", "train.batch=2", "train.accumulate=4"};
    double norm, same, other;
    double whole = trained(NULL, 0, &norm), alike = trained(sets, 1, &same);
    double parts = trained(sets, 3, &other), apart = trained(sets + 1, 2, &other);
    assert_true(fabs(norm - same) < 1e-5 * norm);
    assert_true(fabs(whole - alike) < 1e-5);
    assert_true(fabs(whole - parts) < 1e-5);
    assert_true(fabs(whole - apart) > 1e-4);
}

static void test_messages(void **state) {
    (void)state;
    MoecModel *model;
    MoecArray array;
    double loss;
    const int32_t tokens[64] = {0};
    const float *logits;
    assert_int_equal(moec_load("/nowhere/at/all.moe", NULL, &model), 1);
    assert_null(model);
    assert_non_null(strstr(moec_message(), "/nowhere/at/all.moe"));
    assert_int_equal(moec_load(NULL, &(MoecLoad){.spec = "model m = nothing {}"}, &model), 1);
    assert_non_null(strstr(moec_message(), "spec:1:11"));
    assert_int_equal(moec_load(NULL, NULL, &model), 1);

    char *late = strdup(spec), *inner = strstr(late, "+ inner(x)");
    memcpy(inner, "* dy[s, d]", 10);
    MoecLoad split = {.spec = late, .can = MOEC_CAN_TRAIN, .cotangent = "dy"};
    assert_int_equal(moec_load(NULL, &split, &model), 1);
    assert_non_null(strstr(moec_message(), "the output 'y' depends on 'dy'"));
    split = (MoecLoad){.spec = spec, .can = MOEC_CAN_TRAIN, .cotangent = "dz"};
    assert_int_equal(moec_load(NULL, &split, &model), 1);
    assert_non_null(strstr(moec_message(), "training has no input 'dz'"));
    free(late);

    const MoecLoad load = {.spec = spec, .can = MOEC_CAN_RUN};
    assert_int_equal(moec_load(NULL, &load, &model), 0);
    assert_string_equal(moec_message(), "");
    assert_int_equal(moec_loss(model, tokens, &loss), 1);
    assert_non_null(strstr(moec_message(), "'x' is not a token"));
    assert_int_equal(moec_logits(model, tokens, &logits), 1);
    assert_int_equal(moec_step(model, tokens, &loss), 1);
    assert_non_null(strstr(moec_message(), "MOEC_CAN_TRAIN"));
    assert_int_equal(moec_array(model, MOEC_WEIGHT, 999, &array), 1);
    assert_int_equal(moec_array(model, MOEC_TRAIN_INPUT, 0, &array), 1);
    assert_int_equal(moec_bind(model, MOEC_WEIGHT, 0, NULL), 1);
    assert_int_equal(moec_forward(model, 0, NULL), 1);
    assert_non_null(strstr(moec_message(), "without a cotangent"));
    moec_free(model);
    moec_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_step_mean),
        cmocka_unit_test(test_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
