/* Bytes of weights per decode step, against a count by hand. Runs in the root of the project. */
#include "moec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static const char spec[] = "use decoder\n"
                           "model m = decoder {\n"
                           "  vocab = 80, dim = 64, layers = 2\n"
                           "  attention = { heads = { q = 4 }, head_dim = 16 }\n"
                           "  ffn = moe { experts = 8, top_k = 2, expert = swiglu { hidden_dim = 32 } }\n"
                           "  train = { batch_size = 2, context_length = 8 }\n"
                           "}\n"
                           "use recurrent\n"
                           "model state = m { attention = retention { heads = 4 } }\n";

enum {
    ROW = 64,
    NORMS = 5 * 64,
    ROUTERS = 2 * 64 * 8,
    ATTENTION = 2 * 4 * 64 * 64,
    PART = 2 * 3 * 64 * 32, /* one expert of eight, in both layers */
    LOGITS = 64 * 80
};

/* A decode step of the model, as compiled for a target language. */
static MoecProgram *open_step(MoecCompiler **compiler, const char *model, const char *set,
                              const char *language, long batch, long tokens) {
    char path[] = "/tmp/moec-test-traffic-XXXXXX.moe";
    int file = mkstemps(path, 4);
    assert_true(file >= 0);
    assert_int_equal(write(file, spec, sizeof spec - 1), (ssize_t)sizeof spec - 1);
    close(file);
    *compiler = moec_open(path, model, &set, 1, NULL);
    unlink(path);
    if (moec_failed(*compiler)) fail_msg("%s", moec_reports(*compiler));
    MoecProgram *step = moec_compile(*compiler, MOEC_DECODE, batch, 0, tokens);
    assert_non_null(step);
    moec_lower(*compiler, step, moec_target(language));
    return step;
}

static double measure(const char *language, long tokens, const char *set) {
    MoecCompiler *compiler;
    MoecProgram *step = open_step(&compiler, "m", set, language, 1, tokens);
    double bytes = moec_weight_traffic(step);
    moec_close(compiler);
    return bytes;
}

static void a_step_reads_what_it_needs(void **state) {
    (void)state;
    const double always = NORMS + ROUTERS + ATTENTION + LOGITS;
    assert_true(measure("c", 1, "train.precision=f32") == 4 * (always + ROW + 2 * PART));
    assert_true(measure("cuda", 1, "train.precision=f32") == 4 * (always + ROW + 2 * PART));
    /* Dispatched rows of more tokens, but no expert more than once. */
    assert_true(measure("c", 3, "train.precision=f32") == 4 * (always + 3 * ROW + 6 * PART));
    assert_true(measure("c", 8, "train.precision=f32") == 4 * (always + 8 * ROW + 8 * PART));
    assert_true(measure("c", 1, "tie_embeddings=true") == 4 * (always + 2 * PART));
}

/* Scores of a selection are exact. */
static void products_that_round_read_halves(void **state) {
    (void)state;
    const double halves = 4 * (NORMS + ROUTERS + ROW) + 2 * (ATTENTION + LOGITS + 2 * PART);
    assert_true(measure("c", 1, "train.precision=bf16") == halves);
    assert_true(measure("cuda", 1, "train.precision=bf16") == halves);
    assert_true(measure("cuda", 1, "tie_embeddings=true") == measure("c", 1, "tie_embeddings=true"));
}

static double cached(const char *model, const char *set, long batch, long positions) {
    MoecCompiler *compiler;
    double bytes = moec_cache_traffic(open_step(&compiler, model, set, "c", batch, 1), positions);
    moec_close(compiler);
    return bytes;
}

/* Keys and values per position; a recurrent state of constant size. */
static void caches_are_read_as_far_as_filled(void **state) {
    (void)state;
    const double position_bytes = 2 * 2 * 64 * 4, states = 2 * 4 * 16 * 32 * 4;
    assert_true(cached("m", "tie_embeddings=true", 1, 5) == 5 * position_bytes);
    assert_true(cached("m", "tie_embeddings=true", 3, 5) == 15 * position_bytes);
    assert_true(cached("m", "inference.kv_cache_dtype=bf16", 1, 5) == 5 * position_bytes / 2);
    assert_true(cached("state", "tie_embeddings=true", 1, 0) == states);
    assert_true(cached("state", "tie_embeddings=true", 2, 7) == 2 * states);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_step_reads_what_it_needs),
                                       cmocka_unit_test(products_that_round_read_halves),
                                       cmocka_unit_test(caches_are_read_as_far_as_filled)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
