/* Printing has no effect: two prints of a module are equal, and no byte of the compiler's memory changes. Runs in the root of the
 * project. */
#include "driver/driver.h"
#include "module/lowered.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { PRINTS = 2 };

static void check(const char *file, const char *model, MoecGraph graph, const Target *target, const char *expected) {
    static const char *const sets[] = {"train.precision=bf16"};
    MoecCompiler *compiler = moec_open(file, model, sets, 1, NULL);
    MoecProgram *programs[2] = {moec_compile(compiler, graph, 0, 0, graph == MOEC_DECODE)};
    const int count = graph == MOEC_TRAIN ? 2 : 1;
    const bool device = target->launches;
    if (count == 2) programs[1] = moec_compile(compiler, MOEC_UPDATE, 0, 0, 0);
    const Module *module = lowered_module(compiler, programs, count, target, "names");
    assert_non_null(module);
    const unsigned long long before = arena_hash(compiler->arena);
    Arena *arena = arena_new();
    const char *texts[PRINTS];
    MoecKernels kernels[PRINTS];
    for (int i = 0; i < PRINTS; i++)
        texts[i] = device ? print_cuda(arena, module, &kernels[i]) : print_c(arena, module);
    assert_true(arena_hash(compiler->arena) == before);
    assert_string_equal(texts[0], texts[1]);
    assert_non_null(strstr(device ? kernels[0].text : texts[0], expected));
    if (device) {
        assert_string_equal(kernels[0].text, kernels[1].text);
        assert_int_equal(kernels[0].count, kernels[1].count);
        for (int i = 0; i < kernels[0].count; i++)
            assert_true(kernels[0].pieces[i].end == kernels[1].pieces[i].end);
    }
    arena_free(arena);
    moec_close(compiler);
}

static void test_host(void **state) {
    (void)state;
    check("models/tiny.moe", "tiny_moe", MOEC_TRAIN, &target_processor, "static void run_update(");
    check("models/tiny.moe", "tiny_moe", MOEC_DECODE, &target_processor, "moec_attend_step(");
}

static void test_device(void **state) {
    (void)state;
    check("models/tiny.moe", "tiny_moe", MOEC_TRAIN, &target_device, "[&](long row, long column");
    check("models/tiny.moe", "tiny_moe", MOEC_DECODE, &target_device, "moec_attend_");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
