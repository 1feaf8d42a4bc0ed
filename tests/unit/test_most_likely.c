/* The kernel that finds the most likely tokens, on the simulated device, against the host. BUILD is the folder of
 * libmoec_sim.so. */
#include "base/memory.h"
#include "data/random.h"
#include "device/device.h"
#include "model/generate/sample.h"
#include "model/pick.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROWS = 8 };

static int open_device(void **state) {
    char path[1024];
    const char *build = getenv("BUILD");
    snprintf(path, sizeof path, "%s/libmoec_sim.so", build ? build : "build");
    setenv("MOEC_CUDA", path, 0);
    return (*state = device_open("cuda")) == NULL;
}

static int close_device(void **state) {
    device_close(*state);
    return 0;
}

/* Few different values, so that the largest occurs several times. Then rows with zeros of both signs, NaN, and infinities. */
static void fill(float *logits, long width) {
    for (long i = 0; i < ROWS * width; i++) logits[i] = (float)(random_bits(3, (uint64_t)i) % 37) - 18.5f;
    for (long i = 0; i < width; i++) {
        logits[1 * width + i] = i % 2 ? 0.0f : -0.0f;
        logits[4 * width + i] = -INFINITY;
        logits[5 * width + i] = i == width - 1 ? -3.0f : -INFINITY;
        logits[6 * width + i] = -1e30f * (float)(i + 1);
    }
    logits[2 * width + width / 2] = NAN;
    logits[3 * width + width - 1] = INFINITY;
}

static void check_width(Device *device, long width) {
    const size_t bytes = sizeof(float) * (size_t)(ROWS * width);
    float *logits = memory_new(bytes), *there = device->kind->allocate(device, bytes);
    int32_t tokens[ROWS], *tokens_there = device->kind->allocate(device, sizeof tokens);
    void *arguments[] = {&there, &width, &tokens_there};
    fill(logits, width);
    assert_true(device->kind->put(device, there, logits, bytes));
    assert_true(device->kind->launch(device, &(const DeviceKernel){.text = "#include \"fixed.cuh\"\n",
                                                                    .title = "fixed.cu",
                                                                    .name = "moec_most_likely",
                                                                    .blocks = ROWS,
                                                                    .threads = 1024,
                                                                    .arguments = arguments}));
    assert_true(device->kind->get(device, tokens, tokens_there, sizeof tokens));
    for (int row = 0; row < ROWS; row++) {
        const float *own = logits + row * width;
        assert_int_equal(tokens[row], sample_possible(own, width) ? pick_most_likely(own, width) : -1);
    }
    assert_int_equal(tokens[2], -1), assert_int_equal(tokens[3], -1), assert_int_equal(tokens[4], -1);
    device->kind->release(device, there, bytes);
    device->kind->release(device, tokens_there, sizeof tokens);
    free(logits);
}

static void finds_the_first_of_the_largest(void **state) {
    static const long widths[] = {1, 2, 3, 251, 256, 4097, 5000};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) check_width(*state, widths[i]);
}

static void greedy_samplings_are_recognized(void **state) {
    (void)state;
    const TokenBias bias = {3, 1.0f};
    const bool allowed[4] = {true};
    Sampling sampling = {.repetition = 1};
    assert_true(sample_is_greedy(&sampling));
    sampling.temperature = 0.5;
    assert_false(sample_is_greedy(&sampling));
    const Sampling adjusted[] = {{.repetition = 1.1},
                                 {.repetition = 1, .presence = 1},
                                 {.repetition = 1, .frequency = 1},
                                 {.repetition = 1, .biases = &bias, .bias_count = 1},
                                 {.repetition = 1, .allowed = allowed}};
    for (size_t i = 0; i < sizeof adjusted / sizeof *adjusted; i++) assert_false(sample_is_greedy(&adjusted[i]));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(finds_the_first_of_the_largest, open_device, close_device),
                                       cmocka_unit_test(greedy_samplings_are_recognized)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
