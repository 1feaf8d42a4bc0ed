/* parameter_facts: properties of parameters of small specs, derived from their equations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/parameter_facts.h"
#include "moec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The body of a layer, and the expected facts of its parameters, one text per parameter: "path:
 * product matrix; d summed, f kept". */
typedef struct Case {
    const char *body;
    const char *expected[4];
} Case;

static const Case cases[] = {
    {"param w[d,d]\n y[s,j] = sum[d] x[s,d] * w[d,j]", {"w: product matrix; d summed; d kept"}},
    {"param g[d]\n y[s,d] = x[s,d] * g[d]", {"g: scale; d pointwise"}},
    {"param g[d]\n y = x * (1 + g)", {"g: scale; d pointwise"}},
    {"param b[d]\n y = x + b", {"b: shift; d pointwise"}},
    {"axis h = 2\n axis e = 4\n param w[d,h,e], b[h,e], o[h,e,d]\n"
     "q[s,h,e] = (sum[d] x[s,d] * w[d,h,e]) + b[h,e]\n y[s,d] = sum[h,e] q[s,h,e] * o[h,e,d]",
     {"w: product matrix; d summed; h kept; e kept", "b: shift; h pointwise; e pointwise",
      "o: product matrix; h summed; e summed; d kept"}},
    /* Parameters under `stop` are not trained, nor are those of a selection. */
    {"param w[d,d]\n y[s,j] = sum[d] x[s,d] * stop(w[d,j])",
     {"w: product frozen; d summed; d kept"}},
    {"param w[d,d]\n t[s,j] = sum[d] x[s,d] * w[d,j]\n y = x + stop(t)",
     {"w: product frozen; d summed; d kept"}},
    {"param w[d,d]\n y = x", {"w: frozen"}},
    {"axis n = 4\n param router[d,n], v[n,d]\n p[s,n] = sum[d] x[s,d] * router[d,n]\n"
     "c[s,n] = top[n](p[s,n], 2)\n y[s,d] = sum[n in c] x[s,d] * v[n,d]",
     {"router: product frozen; d summed; n kept", "v: product matrix; n summed; d shared"}},
    /* A scale inside a sum is a scale of the product without it; without a product it is the
     * operand. */
    {"param g[d], w[d,d]\n y[s,j] = sum[d] x[s,d] * g[d] * w[d,j]",
     {"g: scale; d pointwise", "w: product matrix; d summed; d kept"}},
    {"param w[d]\n y[s,d] = x[s,d] * (sum[d] x[s,d] * w[d])", {"w: product matrix; d summed"}},
    /* Weights that are computed from parameters only. */
    {"axis r = 2\n param a[d,r], b[r,d]\n w[d,j] = sum[r] a[d,r] * b[r,j]\n"
     "y[s,j] = sum[d] x[s,d] * w[d,j]",
     {"a: product matrix; d summed, kept; r summed", "b: product matrix; r summed; d kept"}},
    {"param v[d,d], g[d]\n n[j] = rsqrt(sum[d] v[d,j] * v[d,j])\n"
     "w[d,j] = v[d,j] * n[j] * g[j]\n y[s,j] = sum[d] x[s,d] * w[d,j]",
     {"v: product other matrix; d summed, pointwise; d kept, pointwise", "g: scale; d pointwise"}},
    /* Lookup by token and by position; the sum is not a lookup. */
    {"param place[s,d]\n y = x + place", {"place: lookup matrix; s looked up; d pointwise"}},
    {"param o[s]\n y[s,d] = x[s,d] + o[s]", {"o: shift; s looked up"}},
    /* An application under an index has separate parameters per index value. */
    {"axis n = 3\n y[s,d] = mean[n] one[n](x)[s,d]",
     {"one.w: product matrix; n kept; d summed; d kept", "one.b: shift; n pointwise; d pointwise",
      "one.g: scale; n pointwise; d pointwise"}},
    /* A convolution along the sequence, per channel; a bias inside a function. */
    {"axis w = 3\n param k[w,d]\n y[s,d] = sum[w] x[s - w,d] * k[w,d]",
     {"k: product matrix; w summed; d shared"}},
    {"axis h = 2\n param b[h,d], v[d]\n t[s,h] = sum[d] v[d] * tanh(x[s,d] + b[h,d])\n"
     "y[s,d] = x[s,d] * (mean[h] t[s,h])",
     {"b: shift; h pointwise; d pointwise", "v: product matrix; d summed"}},
    /* A product in two and in three equations; a scale before a mean or a product stays a scale. */
    {"axis f = 3\n param w[d,f], o[f,d]\n p[s,d,f] = x[s,d] * w[d,f]\n h[s,f] = sum[d] p[s,d,f]\n"
     "q[s,f,d] = h[s,f] * o[f,d]\n r[s,f,d] = 2 * q[s,f,d]\n y[s,d] = sum[f] r[s,f,d]",
     {"w: product scale matrix; d summed, pointwise; f kept, pointwise",
      "o: product scale matrix; f summed, pointwise; d kept, pointwise"}},
    {"param g[d], w[d,d]\n t[s,d] = x[s,d] * g[d]\n u[s,j] = sum[d] t[s,d] * w[d,j]\n"
     "y[s,d] = u[s,d] - (mean[d] t[s,d])",
     {"g: scale; d pointwise", "w: product matrix; d summed; d kept"}},
    /* A selection between values still sums over products. */
    {"param w[d,d]\n y[s,j] = sum[d] where(d < 3, x[s,d] * w[d,j], 0)",
     {"w: product matrix; d summed; d kept"}},
};

static void add_axes(char *text, size_t size, const Tensor *tensor) {
    static const struct {
        unsigned use;
        const char *name;
    } names[] = {{AXIS_SUMMED, "summed"},
                 {AXIS_KEPT, "kept"},
                 {AXIS_SHARED, "shared"},
                 {AXIS_LOOKED_UP, "looked up"},
                 {AXIS_POINTWISE, "pointwise"}};
    for (int i = 0; i < tensor->rank; i++) {
        const char *between = " ";
        if (!tensor->facts->axes[i]) continue;
        snprintf(text + strlen(text), size - strlen(text), "; %s", tensor->axes[i]->name);
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            if (!(tensor->facts->axes[i] & names[k].use)) continue;
            snprintf(text + strlen(text), size - strlen(text), "%s%s", between, names[k].name);
            between = ", ";
        }
    }
}

static void describe(char *text, size_t size, const Tensor *tensor) {
    const ParameterFacts *facts = tensor->facts;
    snprintf(text, size, "%s:%s%s%s%s%s%s%s", tensor->path, facts->product ? " product" : "",
             facts->lookup ? " lookup" : "", facts->scale ? " scale" : "",
             facts->shift ? " shift" : "", facts->other ? " other" : "",
             facts->trained ? "" : " frozen", is_matrix(tensor) ? " matrix" : "");
    add_axes(text, size, tensor);
}

static const Tensor *find_parameter(const Program *program, const char *expected) {
    size_t length = strcspn(expected, ":");
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        if (tensor->role == ROLE_PARAMETER && strlen(tensor->path) == length &&
            !strncmp(tensor->path, expected, length))
            return tensor;
    }
    return NULL;
}

static int check(const Case *each, const char *path) {
    FILE *file = fopen(path, "w");
    int failures = 0;
    assert_non_null(file);
    fprintf(file,
            "layer one(x[s,d]) -> y[s,d] {\n param w[d,d], b[d], g[d]\n"
            " y[s,j] = (sum[d] x[s,d] * w[d,j]) * g[j] + b[j]\n}\n"
            "layer net {\n axis d = 8\n sequence s = 4\n input seen[s]: token\n axis words = 16\n"
            " param table[words,d]\n x[s,d] = table[seen[s],d]\n%s\n output y\n"
            " loss = mean[batch,s,d] y[s,d]^2\n}\nmodel m = net { }\n",
            each->body);
    fclose(file);
    MoecCompiler *compiler = moec_open(path, NULL, NULL, 0, NULL);
    MoecProgram *program = moec_compile(compiler, MOEC_TRAIN, 0, 0, 0);
    if (!program) print_message("%s\n%s\n", each->body, moec_reports(compiler));
    assert_non_null(program);
    for (int i = 0; i < 4 && each->expected[i]; i++) {
        char text[512] = "absent";
        const Tensor *tensor = find_parameter(program, each->expected[i]);
        if (tensor) describe(text, sizeof text, tensor);
        if (!strcmp(text, each->expected[i])) continue;
        print_message("%s\n  expected %s\n  found    %s\n", each->body, each->expected[i], text);
        failures++;
    }
    moec_close(compiler);
    return failures;
}

static void test_facts(void **state) {
    (void)state;
    char path[] = "/tmp/moec_facts_XXXXXX.moe";
    int descriptor = mkstemps(path, 4), failures = 0;
    assert_true(descriptor >= 0);
    close(descriptor);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) failures += check(&cases[i], path);
    unlink(path);
    assert_int_equal(failures, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_facts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
