/* run: models on the OpenCL target, compared with the definition of each model in double precision. Exits with 77 if there is no
 * device. Runs in the root of the project. */
#include "runner.h"

#include "passes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SKIPPED = 77 };

/* A graph twice: compiled for the device, and its definition. */
typedef struct Comparison {
    const char *label;
    Device *device;
    Program *own, *defined;
    Interpreter *eval;
} Comparison;

/* ---- tensors ---- */

static const char *path_of(const Tensor *tensor) {
    if (tensor->role == ROLE_GRADIENT) tensor = tensor->of;
    return tensor->path ? tensor->path : tensor->name;
}

/* The tensor of the compiled program. */
static const Tensor *own_of(const Comparison *comparison, const Tensor *defined) {
    for (int i = 0; i < comparison->own->tensors.count; i++) {
        const Tensor *tensor = comparison->own->tensors.items[i];
        if (tensor->role == defined->role && !strcmp(path_of(tensor), path_of(defined))) return tensor;
    }
    return NULL;
}

/* The value of a real or of an integer, from the interpreter. */
static double value_at(Interpreter *eval, const Tensor *tensor, long i) {
    return tensor->type == TYPE_INT ? (double)interpreter_int(eval, tensor)[i] : interpreter_real(eval, tensor)[i];
}

static void send(const Comparison *comparison, const Tensor *own, const Tensor *tensor) {
    const long count = tensor_elements(tensor);
    float *values = calloc((size_t)count + 1, sizeof *values);
    for (long i = 0; i < count; i++)
        if (tensor->type == TYPE_INT)
            ((int32_t *)(void *)values)[i] = (int32_t)value_at(comparison->eval, tensor, i);
        else
            values[i] = (float)value_at(comparison->eval, tensor, i);
    device_copy(comparison->device, memory_of(comparison->device, own->id), values, (size_t)count * sizeof *values);
    free(values);
}

/* Error of a result relative to its norm. */
static double distance(const Comparison *comparison, const Tensor *own, const Tensor *tensor) {
    const long count = tensor_elements(tensor);
    float *values = calloc((size_t)count + 1, sizeof *values);
    double off = 0, length = 0;
    device_copy(comparison->device, values, memory_of(comparison->device, own->id), (size_t)count * sizeof *values);
    for (long i = 0; i < count; i++) {
        const double wanted = value_at(comparison->eval, tensor, i);
        off += ((double)values[i] - wanted) * ((double)values[i] - wanted);
        length += wanted * wanted;
    }
    free(values);
    return length > 0 ? sqrt(off / length) : sqrt(off);
}

/* ---- runs ---- */

static double random_value(const Tensor *tensor, long position) {
    if (tensor->type == TYPE_INT && tensor->scalar == MOEC_SCALAR_POSITION && !tensor->rank) return (double)position;
    if (tensor->type == TYPE_INT) return (double)(rand() % (tensor->vocabulary ? tensor->vocabulary : 2));
    if (tensor->role == ROLE_INPUT && !tensor->rank) return 1; /* the factor of the loss */
    return (double)(float)((double)rand() / RAND_MAX * 2 - 1) * (tensor->role == ROLE_INPUT ? 1 : 0.25);
}

/* Random values for all inputs, in the first run also for all parameters; on both sides. */
static void fill(const Comparison *comparison, long position) {
    for (int i = 0; i < comparison->defined->tensors.count; i++) {
        const Tensor *tensor = comparison->defined->tensors.items[i];
        if (tensor->role != ROLE_INPUT && (tensor->role != ROLE_PARAMETER || position)) continue;
        for (long j = 0; j < tensor_elements(tensor); j++)
            if (tensor->type == TYPE_INT)
                interpreter_int(comparison->eval, tensor)[j] = (long)random_value(tensor, position);
            else
                interpreter_real(comparison->eval, tensor)[j] = random_value(tensor, position);
        const Tensor *own = own_of(comparison, tensor);
        if (own) send(comparison, own, tensor);
    }
}

/* Compares all tensors of a role. */
static bool compare(const Comparison *comparison, Role role, double limit) {
    int count = 0;
    double worst = 0;
    for (int i = 0; i < comparison->defined->tensors.count; i++) {
        const Tensor *tensor = comparison->defined->tensors.items[i];
        if (tensor->role != role) continue;
        const Tensor *own = own_of(comparison, tensor);
        const double off = own ? distance(comparison, own, tensor) : INFINITY;
        if (!(off <= limit)) printf("%s: %s is off by %.1e\n", comparison->label, path_of(tensor), off);
        worst = off <= worst ? worst : off;
        count++;
    }
    printf("%s: %d %s, off by at most %.1e; %d launches\n", comparison->label, count,
           role == ROLE_GRADIENT ? "gradients" : "outputs", worst, comparison->device->launches);
    return count > 0 && worst <= limit;
}

static bool has_step(const MoecSteps *steps, MoecStepKind kind) {
    bool has = false;
    for (int i = 0; i < steps->step_count; i++) has |= steps->steps[i].kind == kind;
    return has;
}

/* runs: in decoding, the number of steps, each after the caches of the one before. */
static bool run(Device *device, const char *file, const char *model, MoecGraph graph, int runs, double limit) {
    MoecCompiler *compiler = moec_open(file, model, NULL, 0, NULL), *reference = moec_open(file, model, NULL, 0, NULL);
    Comparison comparison = {.label = model, .device = device};
    OpenclProgram made;
    const long tokens = graph == MOEC_DECODE;
    if (moec_failed(compiler)) fprintf(stderr, "%s", moec_reports(compiler));
    if (moec_failed(compiler)) return false;
    moec_unit(compiler)->target = &target_opencl;
    comparison.own = moec_compile(compiler, graph, 0, 0, tokens);
    comparison.defined = moec_define(reference, graph, 0, 0, tokens);
    if (!comparison.own) fprintf(stderr, "%s", moec_reports(compiler));
    if (!comparison.own || !comparison.defined) return false;
    if (!emit_opencl(moec_arena(compiler), moec_schedule(compiler, comparison.own), &made)) return false;
    device_load(device, &made);
    comparison.eval = interpreter_new(comparison.defined);
    bool ok = graph == MOEC_FORWARD || has_step(made.steps, MOEC_STEP_REPEAT);
    for (int i = 0; i < runs; i++) {
        fill(&comparison, i);
        const char *message = interpreter_run(comparison.eval, RUN_SEED, true);
        if (message) puts(message);
        device_run(device);
        ok = ok && !message && compare(&comparison, ROLE_OUTPUT, limit);
    }
    if (graph == MOEC_TRAIN)
        ok = compare(&comparison, ROLE_GRADIENT, limit) && has_step(made.steps, MOEC_STEP_CLEAR) && ok;
    interpreter_free(comparison.eval);
    device_unload(device);
    moec_close(compiler);
    moec_close(reference);
    return ok;
}

int main(void) {
    static const char kernels[] = "tests/opencl/kernels.moe", decoder[] = "tests/opencl/two_layers.moe";
    static const char *const models[] = {"elements", "rows", "small_rows", "everything"};
    Device device = {0};
    bool ok = true;
    if (!find_device(&device)) {
        puts("skipped: no OpenCL device for CPUs with shared virtual memory");
        return SKIPPED;
    }
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        ok = run(&device, kernels, models[i], MOEC_FORWARD, 1, 1e-5) && ok;
    ok = run(&device, decoder, "two_layers", MOEC_FORWARD, 1, 1e-4) && ok;
    ok = run(&device, decoder, "two_layers", MOEC_TRAIN, 1, 1e-4) && ok;
    ok = run(&device, decoder, "two_layers", MOEC_DECODE, 3, 1e-4) && ok;
    return ok ? 0 : 1;
}
