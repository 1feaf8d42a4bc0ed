/* The verifier of lowered programs: every kind of fault, planted in the module of a real model, is reported. Runs in the root of
 * the project. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "driver.h"
#include "module/lowered.h"

/* A model, lowered up to a pass. */
typedef struct Planted {
    MoecCompiler *compiler;
    Module *module;
    Entry *entry;
} Planted;

static Planted lowered(const char *spec, const char *model, MoecGraph graph, bool device,
                       const char *pass) {
    Planted planted = {.compiler = moec_open(spec, model, NULL, 0, NULL)};
    MoecProgram *program = moec_compile(planted.compiler, graph, 0, 0, graph == MOEC_DECODE);
    assert_non_null(program);
    planted.module = lowered_module(planted.compiler, &program, 1, device, pass);
    assert_non_null(planted.module);
    planted.entry = planted.module->entries.items[0];
    assert_null(module_check(planted.module).what);
    return planted;
}

/* The fault is found, with its equation. */
static void expect(Planted *planted, FaultKind kind) {
    const Fault fault = module_check(planted->module);
    assert_non_null(fault.what);
    assert_string_equal(fault_name(fault.kind), fault_name(kind));
    assert_true(fault.kernel || fault.step);
    assert_non_null(fault_text(planted->module->arena, &fault));
    moec_close(planted->compiler);
}

/* A gradient that several kernels add to is not cleared. */
static void test_clear(void **state) {
    (void)state;
    Planted planted = lowered("models/tiny.moe", "tiny", MOEC_TRAIN, false, "names");
    assert_true(planted.entry->gradients.count > 0);
    planted.entry->gradients.count = 0;
    expect(&planted, FAULT_FLOW);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
