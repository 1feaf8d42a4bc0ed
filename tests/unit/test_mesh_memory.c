/* Memory of the temporaries of a process with divided experts. As many rows as are expected arrive. In a micro-batch, the process
 * accesses at most 1.10 times the bytes that are live at the moment that needs most. A few random mixtures need more. */
#include "driver/driver.h"
#include "explain/explain.h"
#include "schedule/kernel.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define LIMIT 1.10

static const Schedule *schedule_of(MoecCompiler *compiler, const char *sizes) {
    assert_true(moec_set_mesh(compiler, sizes, 0));
    moec_divide(compiler, 0);
    Program *local = moec_compile(compiler, MOEC_TRAIN, 0, 0, 0);
    if (!local) fail_msg("%s", moec_reports(compiler));
    return moec_schedule(compiler, local);
}

/* The bytes of the moment that needs most. */
static double most_live(const Schedule *schedule) {
    double most = 0;
    for (int at = 0; at <= last_moment(&schedule->units, 0); at++)
        most = fmax(most, touched_bytes(schedule, at, at));
    return most;
}

/* All bytes that are accessed over the most that are live at once. */
static double ratio_of(const char *path, const char *model, const char *sizes) {
    MoecCompiler *compiler = moec_open(path, model, NULL, 0, NULL);
    if (!compiler) fail_msg("no model %s in %s", model, path);
    const Schedule *schedule = schedule_of(compiler, sizes);
    const double all = touched_bytes(schedule, 0, last_moment(&schedule->units, 0)),
                 live = most_live(schedule);
    printf("%s, %s: %.0f bytes of temporaries, %.3f times those that are live at once\n", model,
           sizes, all, all / live);
    assert_true(live > 0 && all >= live);
    moec_close(compiler);
    return all / live;
}

static void temporaries_need_little_more_than_is_live(void **state) {
    static const char *const models[] = {"mixture",     "mixture_bf16",     "saved",
                                         "nested",      "narrow",           "narrow_saved",
                                         "narrow_bf16", "large_vocabulary", "many_experts",
                                         "one_process", "small_mixture"};
    static const char *const meshes[] = {"data=2,expert=2", "data=4,expert=2", "data=4,expert=4"};
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (size_t k = 0; k < sizeof meshes / sizeof *meshes; k++)
            if (ratio_of("tests/mesh_memory.moe", models[i], meshes[k]) > LIMIT)
                fail_msg("%s, %s: more than %.2f", models[i], meshes[k], LIMIT);
}

/* ---- random mixtures ---- */

enum { MIXTURES = 120, MOST_ABOVE_LIMIT = MIXTURES / 20 };
#define RANDOM_LIMIT 1.20

static long between(long low, long high) {
    return low + lrand48() % (high - low + 1);
}

static void write_mixture(const char *path) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "use decoder\nmodel random = decoder {\n  vocab_size = %ld, dim = %ld, layers = %ld\n", 256 * between(1, 4),
            128 * between(1, 8), between(1, 4));
    fprintf(file, "  attention = { heads = { q = %ld, k = 2 }, head_dim = 128 }\n", 2 * between(1, 4));
    fprintf(file, "  ffn = moe { experts = %ld, top_k = %ld, expert = swiglu { hidden_dim = %ld }%s }\n", 8 * between(1, 8),
            between(1, 4), 128 * between(1, 8), between(1, 3) == 1 ? ", shared_expert = swiglu { hidden_dim = 512 }" : "");
    fprintf(file, "  train = { batch_size = 1, context_length = %ld, gradient_accumulation_steps = 4, precision = %s%s }\n}\n",
            128 * between(1, 8), between(1, 3) == 1 ? "bf16" : "f32", between(1, 3) == 1 ? ", activation_checkpointing = layer" : "");
    fclose(file);
}

static void few_random_mixtures_need_more(void **state) {
    char path[] = "/tmp/moec_mixture_XXXXXX";
    const int descriptor = mkstemp(path);
    int above = 0;
    (void)state;
    assert_true(descriptor >= 0);
    close(descriptor);
    srand48(1);
    for (int i = 0; i < MIXTURES; i++) {
        write_mixture(path);
        const double ratio = ratio_of(path, "random", "data=4,expert=4");
        above += ratio > LIMIT;
        if (ratio > RANDOM_LIMIT) fail_msg("mixture %d: more than %.2f", i, RANDOM_LIMIT);
    }
    remove(path);
    printf("%d of %d random mixtures need more than %.2f\n", above, MIXTURES, LIMIT);
    assert_true(above <= MOST_ABOVE_LIMIT);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(temporaries_need_little_more_than_is_live),
                                       cmocka_unit_test(few_random_mixtures_need_more)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
