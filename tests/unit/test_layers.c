/* layers: every gradient of models made of the layers of the standard library, against central
 * differences in double precision. Each parameter is moved along one random direction, which sees
 * all of its elements at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../compiler/passes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SMALL "vocab = 7, dim = 6, layers = 2, train = { batch = 2, context = 5 }, "
#define HEADS "attention = { heads = { q = 4, k = 1, v = 2 }, head_dim = 4, value_dim = 3"
#define MIXTURE "ffn = moe { experts = 3, expert = swiglu { hidden = 5 }"

static const char *const models[] = {
    SMALL "attention = { heads = { q = 2 }, head_dim = 4 }, ffn = swiglu { hidden = 7 }",
    SMALL HEADS " }, ffn = mlp { hidden = 5, act = gelu, bias = true }, tied = true",
    SMALL HEADS ", qk_norm = true, out_norm = true }, sandwich = true, cap = 3, ffn = mlp { hidden "
                "= 5, act = relu2 }",
    SMALL HEADS ", sink = true, cap = 2 }, ffn = mlp { hidden = 5, act = gelu_tanh }",
    SMALL HEADS ", mask = window, window = 2, bias = true }, ffn = mlp { hidden = 5, act = relu }",
    SMALL HEADS " }, separator = 3, ffn = mlp { hidden = 5, act = relu }",
    SMALL HEADS
    ", mask = none, rotary = rotary { dim = 2 } }, ffn = mlp { hidden = 5, act = ns_sigmoid }",
    SMALL HEADS ", rotary = none }, positions = learned, norm = layer_norm, ffn = mlp { hidden = "
                "5, act = tanh }",
    SMALL HEADS ", gate = { at = sdpa } }, norm = layer_norm { bias = false }",
    SMALL HEADS ", gate = { at = v, per = head } }",
    SMALL HEADS ", gate = { at = k, per = shared, act = silu } }",
    SMALL HEADS ", gate = { at = q, mode = add } }",
    SMALL HEADS ", key_dim = 2, rotate = kept, gate = { at = k, after = norm }, qk_norm = true }",
    SMALL HEADS ", key_dim = 2, widen = { hidden = 3, per = head } }",
    SMALL HEADS ", gate = { at = sdpa, per = shared, average = logits } }",
    SMALL HEADS ", gate = { at = out, reads = itself } }",
    SMALL HEADS
    ", gate = [{ at = sdpa, reads = nothing }, { at = v, per = shared, act = identity }] }",
    SMALL HEADS " }, " MIXTURE " }",
    SMALL HEADS " }, " MIXTURE ", weights = renormalised, balance = 0.3, z = 0.1 }",
    SMALL HEADS " }, " MIXTURE
                ", score = sigmoid, shared = swiglu { hidden = 3 }, top = 1, steer = 0.1 }",
    SMALL HEADS " }, " MIXTURE ", choice = expert }",
    SMALL HEADS " }, ffn = moe { experts = 6, top = 2, groups = 2, weights = grouped, expert = "
                "swiglu { hidden = 5 } }",
    SMALL HEADS " }, ffn = moe { experts = 3, top = 1, balance = 0.2, "
                "expert = lore_mlp { hidden = 5, lores = 4, top = 2, rank = 2 } }",
};

static double pseudo_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / 9007199254740992.0 * 2 - 1;
}

static Program *make_program(Arena *arena, Reports *reports, const char *model) {
    const char *text = arena_format(arena, "use decoder\nmodel small = decoder { %s }\n", model);
    Source *source = arena_alloc(arena, sizeof *source);
    *source = (Source){"small.moe", text, strlen(text)};
    const Source *sources[] = {source};
    Unit *unit = resolve_sources(arena, reports, sources, 1, NULL, 0);
    Program *program = reports->errors ? NULL : elaborate(unit, "small", GRAPH_TRAIN, 0, 0, NULL);
    if (!program || reports->errors) fail_msg("%s\n%s", model, reports_text(reports, arena));
    return program;
}

static void expect_valid(Program *program, const char *pass) {
    char *problem = verify(program->arena, program);
    if (problem)
        fail_msg("after %s: %s\n%s", pass, problem, print_program(program->arena, program));
}

static void fill(Program *program, Eval *eval) {
    uint64_t state = 11;
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        long elements = tensor_elements(tensor);
        if (tensor->role == ROLE_INPUT && tensor->type == TYPE_INT)
            for (long k = 0; k < elements; k++)
                eval_int(eval, tensor)[k] = (k * 5 + (long)i) % tensor->vocabulary;
        else if (tensor->role == ROLE_INPUT)
            for (long k = 0; k < elements; k++) eval_real(eval, tensor)[k] = 1;
        else if (tensor->role == ROLE_PARAMETER || tensor->role == ROLE_STATE)
            for (long k = 0; k < elements; k++)
                eval_real(eval, tensor)[k] =
                    (tensor->init.kind == INIT_CONSTANT ? tensor->init.a : 0) +
                    0.5 * pseudo_random(&state);
    }
}

static double run_loss(Program *program, Eval *eval) {
    const char *problem = eval_run(eval, 5, false);
    if (problem) fail_msg("%s", problem);
    return eval_real(eval, program->loss)[0];
}

static double loss_along(Program *program, Eval *eval, const Tensor *tensor,
                         const double *direction, double step) {
    long elements = tensor_elements(tensor);
    double *weights = eval_real(eval, tensor);
    double *before = malloc((size_t)elements * sizeof *before);
    memcpy(before, weights, (size_t)elements * sizeof *before);
    for (long k = 0; k < elements; k++) weights[k] += step * direction[k];
    double loss = run_loss(program, eval);
    memcpy(weights, before, (size_t)elements * sizeof *before);
    free(before);
    return loss;
}

/* `derived` holds the gradient of one run. */
static void check_gradient(Program *program, Eval *eval, const Tensor *gradient,
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
    double step = 1e-5, above = loss_along(program, eval, gradient->of, direction, step);
    double measured =
        (above - loss_along(program, eval, gradient->of, direction, -step)) / (2 * step);
    free(direction);
    if (!(fabs(measured - expected) <= 1e-6 * (1e-2 + sqrt(norm))))
        fail_msg("%s: derived %.12g, measured %.12g", gradient->of->path, expected, measured);
}

static int check_gradients(Program *program) {
    Eval *eval = eval_new(program);
    fill(program, eval);
    int count = 0;
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *gradient = program->tensors.items[i];
        if (gradient->role != ROLE_GRADIENT) continue;
        size_t bytes = (size_t)tensor_elements(gradient) * sizeof(double);
        double *derived = malloc(bytes);
        memset(eval_real(eval, gradient), 0, bytes);
        run_loss(program, eval);
        memcpy(derived, eval_real(eval, gradient), bytes);
        check_gradient(program, eval, gradient, derived);
        free(derived);
        count++;
    }
    eval_free(eval);
    return count;
}

static void check_model(const char *model, bool recompute) {
    Arena *arena = arena_new();
    Reports reports = {.arena = arena};
    Program *program = make_program(arena, &reports, model);
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

static void test_layers(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        print_message("%s\n", models[i]);
        check_model(models[i], false);
        check_model(models[i], true);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
