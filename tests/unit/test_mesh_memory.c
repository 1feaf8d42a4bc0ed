/* Memory of the temporaries of a process with divided experts. As many rows as are expected arrive. In a micro-batch, the process
 * accesses at most 1.10 times the bytes that are live at the moment that needs most. */
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

static void check_model(const char *model, const char *sizes) {
    MoecCompiler *compiler = moec_open("tests/mesh_memory.moe", model, NULL, 0, NULL);
    if (!compiler) fail_msg("no model %s", model);
    const Schedule *schedule = schedule_of(compiler, sizes);
    const double all = touched_bytes(schedule, 0, last_moment(&schedule->units, 0)),
                 live = most_live(schedule);
    printf("%s, %s: %.0f bytes of temporaries, %.3f times those that are live at once\n", model,
           sizes, all, all / live);
    if (!(live > 0 && all >= live && all <= LIMIT * live))
        fail_msg("%s, %s: more than %.2f", model, sizes, LIMIT);
    moec_close(compiler);
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
            check_model(models[i], meshes[k]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(temporaries_need_little_more_than_is_live)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
