/* layers: every gradient of the models of tests/layers.moe, which use the layers of the standard
 * library, and of tests/ideas.moe and tests/ideas_blocks.moe, against central differences in double precision. Each parameter is moved along one
 * random direction, which covers all of its elements. Runs in the root of the project. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../compiler/calls/call_table.h"
#include "../../compiler/passes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double pseudo_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / 9007199254740992.0 * 2 - 1;
}

static Program *make_program(Arena *arena, Reports *reports, const char *file, const char *model) {
    Unit *unit = resolve(arena, reports, file, NULL, NULL, 0);
    unit->calls = call_table;
    Program *program = reports->errors ? NULL : elaborate(unit, model, GRAPH_TRAIN, 0, 0, NULL);
    if (!program || reports->errors) fail_msg("%s\n%s", model, reports_text(reports, arena));
    return program;
}

static void expect_valid(Program *program, const char *pass) {
    char *problem = well_formed(program->arena, program);
    if (problem)
        fail_msg("after %s: %s\n%s", pass, problem, print_program(program->arena, program));
}

static void fill(Program *program, Interpreter *eval) {
    uint64_t state = 11;
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        long elements = tensor_elements(tensor);
        if (tensor->role == ROLE_INPUT && tensor->type == TYPE_INT)
            for (long k = 0; k < elements; k++)
                interpreter_int(eval, tensor)[k] = (k * 5 + (long)i) % tensor->vocabulary;
        else if (tensor->role == ROLE_INPUT)
            for (long k = 0; k < elements; k++) interpreter_real(eval, tensor)[k] = 1;
        else if (tensor->role == ROLE_PARAMETER || tensor->role == ROLE_STATE)
            for (long k = 0; k < elements; k++)
                interpreter_real(eval, tensor)[k] =
                    (tensor->init.kind == MOEC_INIT_CONSTANT ? tensor->init.a : 0) +
                    0.5 * pseudo_random(&state);
    }
}

static double run_loss(Program *program, Interpreter *eval) {
    const char *problem = interpreter_run(eval, 5, false);
    if (problem) fail_msg("%s", problem);
    return interpreter_real(eval, program->loss)[0];
}

static double loss_along(Program *program, Interpreter *eval, const Tensor *tensor,
                         const double *direction, double step) {
    long elements = tensor_elements(tensor);
    double *weights = interpreter_real(eval, tensor);
    double *before = malloc((size_t)elements * sizeof *before);
    memcpy(before, weights, (size_t)elements * sizeof *before);
    for (long k = 0; k < elements; k++) weights[k] += step * direction[k];
    double loss = run_loss(program, eval);
    memcpy(weights, before, (size_t)elements * sizeof *before);
    free(before);
    return loss;
}

/* The central difference. */
static double slope_along(Program *program, Interpreter *eval, const Tensor *tensor,
                          const double *direction, double step) {
    double above = loss_along(program, eval, tensor, direction, step);
    return (above - loss_along(program, eval, tensor, direction, -step)) / (2 * step);
}

/* `derived` has the gradient of one run. */
static void check_gradient(Program *program, Interpreter *eval, const Tensor *gradient,
                           const double *derived) {
    long elements = tensor_elements(gradient);
    double *direction = malloc((size_t)elements * sizeof *direction);
    uint64_t state = (uint64_t)gradient->id;
    double expected = 0, norm = 0;
    for (long k = 0; k < elements; k++) {
        direction[k] = pseudo_random(&state);
        expected += direction[k] * derived[k];
        norm += derived[k] * derived[k];
    }
    /* The error of the first is of second order in the step, of both together of fourth order. */
    double limit = 1e-6 * (1e-2 + sqrt(norm));
    double measured = slope_along(program, eval, gradient->of, direction, 1e-5);
    if (!(fabs(measured - expected) <= limit))
        measured = (4 * measured - slope_along(program, eval, gradient->of, direction, 2e-5)) / 3;
    free(direction);
    if (!(fabs(measured - expected) <= limit))
        fail_msg("%s: derived %.12g, measured %.12g", gradient->of->path, expected, measured);
}

static int check_gradients(Program *program) {
    Interpreter *eval = interpreter_new(program);
    fill(program, eval);
    int count = 0;
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *gradient = program->tensors.items[i];
        if (gradient->role != ROLE_GRADIENT) continue;
        size_t bytes = (size_t)tensor_elements(gradient) * sizeof(double);
        double *derived = malloc(bytes);
        memset(interpreter_real(eval, gradient), 0, bytes);
        run_loss(program, eval);
        memcpy(derived, interpreter_real(eval, gradient), bytes);
        check_gradient(program, eval, gradient, derived);
        free(derived);
        count++;
    }
    interpreter_free(eval);
    return count;
}

static void check_model(const char *file, const char *model, bool recompute) {
    Arena *arena = arena_new();
    Reports reports = {.arena = arena};
    Program *program = make_program(arena, &reports, file, model);
    expect_valid(program, "elaborate");
    gradient(program, recompute);
    expect_valid(program, "gradient");
    simplify(program);
    expect_valid(program, "simplify");
    int parameters = 0;
    for (int i = 0; i < program->tensors.count; i++)
        parameters += ((Tensor *)program->tensors.items[i])->role == ROLE_PARAMETER;
    assert_int_equal(check_gradients(program), parameters);
    route(program);
    expect_valid(program, "route");
    simplify(program);
    expect_valid(program, "simplify");
    assert_int_equal(check_gradients(program), parameters);
    arena_free(arena);
}

/* A used file is part of the unit. */
static void check_models(const char *file) {
    Arena *arena = arena_new();
    Reports reports = {.arena = arena};
    const Unit *unit = resolve(arena, &reports, file, NULL, NULL, 0);
    assert_true(unit->models.count > 40);
    for (int i = 0; i < unit->models.count; i++) {
        const char *model = ((const Node *)unit->models.items[i])->name;
        if (!strcmp(model, "dynamic_fine_tuning")) continue; /* its loss has a stop_gradient */
        print_message("%s\n", model);
        check_model(file, model, false);
        check_model(file, model, true);
    }
    arena_free(arena);
}

static void test_layers(void **state) {
    (void)state;
    check_models("tests/layers.moe");
}

static void test_ideas(void **state) {
    (void)state;
    check_models("tests/ideas_blocks.moe");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layers), cmocka_unit_test(test_ideas)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
