/* model_meaning: the interpretation of a random model in double precision, and comparisons with it. Values are compared within
 * limits or within the effect of noise, derivatives with differences of the loss. Every function is static. */
#ifndef MODEL_MEANING_H
#define MODEL_MEANING_H

#include "random_spec.h"

#include "../../runtime/model/call.h"
#include "../../runtime/base/memory.h"
#include "../../runtime/model/model.h"
#include "../../compiler/moec.h"

#include <math.h>
#include <stdlib.h>

enum { PARTS = 2, NOISES = 6 };

static const double result_limit = 1e-5, gradient_limit = 1e-4, noise = 4 * 0x1p-24;
/* A result that is tiny compared with its group is compared with this fraction of the largest one. Example: the gradient of a
 * key bias is 0 and consists of rounding errors of its terms. */
static const double least_share = 1e-3;
/* A few samples of noise do not reach its maximum effect. */
static const double beyond_samples = 2;
/* Noise with a larger effect than this has changed a maximum selection: the result is undecided. So is a selection of positions
 * with equal values. */
static const double undecided_limit = 1e-2;

/* ---- one model ---- */

/* An interpreted program in double precision, exact and with noise. */
typedef struct Meaning {
    MoecProgram *program;
    MoecInterpreter *exact, *noisy[NOISES];
    int parts;
    double largest; /* norm of the results of one group: gradients */
} Meaning;

typedef struct Trial {
    const Spec *spec;
    MoecCompiler *compiler;
    Device *device;
    Model *model;
    int32_t *windows; /* [part, batch, context + 1] */
    char problem[256];
    double
        amplified; /* largest error above its limit within the noise, relative to the norm or to the largest gradient */
    int undecided;
} Trial;

static int fail(Trial *trial, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int fail(Trial *trial, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(trial->problem, sizeof trial->problem, format, arguments);
    va_end(arguments);
    return 0;
}

static size_t window_tokens(const Spec *spec) {
    return (size_t)(spec->batch * (spec->context + 1));
}

/* ---- interpretation ---- */

/* A direction in the space of all parameters, by the index of an element in its block. */
static double direction(size_t index) {
    Random random = {index + 77};
    return spread(&random);
}

/* `moved`: distance along the direction. */
static void set_moved(MoecInterpreter *eval, const PublicTensor *tensors, int count,
                      const float *block, double moved) {
    for (int i = 0; i < count; i++) {
        double *wide = memory_new(sizeof *wide * (tensors[i].count + 1));
        for (size_t j = 0, at = tensors[i].offset / sizeof(float); j < tensors[i].count; j++)
            wide[j] = (double)block[at + j] + (moved != 0 ? moved * direction(at + j) : 0);
        moec_interpreter_set(eval, tensors[i].name, wide, tensors[i].count);
        free(wide);
    }
}

static void set_all(MoecInterpreter *eval, const PublicTensor *tensors, int count,
                    const float *block) {
    set_moved(eval, tensors, count, block, 0);
}

static void set_tokens(const Trial *trial, MoecInterpreter *eval, int part) {
    size_t context = (size_t)trial->spec->context, count = (size_t)trial->spec->batch * context;
    const int32_t *windows = trial->windows + (size_t)part * window_tokens(trial->spec);
    double *tokens = memory_new(sizeof *tokens * count),
           *targets = memory_new(sizeof *targets * count);
    for (size_t i = 0; i < count; i++) {
        size_t index = i / context * (context + 1) + i % context;
        tokens[i] = windows[index];
        targets[i] = windows[index + 1];
    }
    moec_interpreter_set(eval, "tokens", tokens, count);
    moec_interpreter_set(eval, "targets", targets, count);
    free(tokens);
    free(targets);
}

/* Inputs other than tokens: numbers in -1 .. 1, class labels. */
static double input_value(const MoecTensor *input, int part, size_t index) {
    Random random = {(uint64_t)part * 1000003 + index};
    draw(&random);
    if (input->is_int) return (double)between(&random, 0, input->vocabulary - 1);
    return (double)(float)spread(&random);
}

/* 0: the tokens of the sequences, 1: their targets; -1: other inputs. */
static int window_part(const MoecTensor *input) {
    return !strcmp(input->name, "tokens") ? 0 : !strcmp(input->name, "targets") ? 1 : -1;
}

/* Numbers, class labels and further texts. */
static int is_example(const MoecTensor *input) {
    return input->input != MOEC_INPUT_SCALAR && window_part(input) < 0;
}

static void set_examples(MoecInterpreter *eval, const MoecGraphEntry *graph, int part) {
    for (int i = 0; i < graph->input_count; i++) {
        const MoecTensor *input = &graph->inputs[i];
        size_t count = tensor_count(input);
        if (!is_example(input)) continue;
        double *values = memory_new(sizeof *values * count);
        for (size_t j = 0; j < count; j++) values[j] = input_value(input, part, j);
        moec_interpreter_set(eval, input->name, values, count);
        free(values);
    }
}

/* tokens or targets [batch, context] of the sequences [batch, context + 1]. */
static void set_window(const Trial *trial, int32_t *to, int part, int ahead) {
    const long context = trial->spec->context;
    const int32_t *windows = trial->windows + (size_t)part * window_tokens(trial->spec);
    for (long i = 0; i < trial->spec->batch * context; i++)
        to[i] = windows[i / context * (context + 1) + i % context + ahead];
}

static void set_call(const Trial *trial, Call *call, int part) {
    for (int i = 0; i < call->graph->input_count; i++) {
        const MoecTensor *input = &call->graph->inputs[i];
        if (window_part(input) >= 0) set_window(trial, call->inputs[i], part, window_part(input));
        if (!is_example(input)) continue;
        for (size_t j = 0; j < tensor_count(input); j++)
            if (input->is_int)
                ((int32_t *)call->inputs[i])[j] = (int32_t)input_value(input, part, j);
            else
                ((float *)call->inputs[i])[j] = (float)input_value(input, part, j);
    }
}

/* Runs all micro-batches; the last one of a step updates states. seed 0: without noise. `moved`: distance of the parameters
 * along the direction. */
static MoecInterpreter *run_moved(Trial *trial, const Meaning *meaning, uint64_t seed,
                                  double moved) {
    MoecInterpreter *eval = moec_interpreter_new(trial->compiler, meaning->program);
    double scale = 1.0 / meaning->parts;
    const Model *model = trial->model;
    set_moved(eval, model->parameters, model->parameter_count, model->weights, moved);
    set_all(eval, model->states, model->state_count, model->layer_states);
    moec_interpreter_set(eval, "loss_scale", &scale, 1);
    moec_interpreter_noise(eval, seed ? noise : 0, seed);
    for (int part = 0; part < meaning->parts; part++) {
        set_examples(eval, trial->model->table->graphs, part);
        if (!trial->spec->images) set_tokens(trial, eval, part);
        const char *problem = moec_interpreter_run(eval, (uint64_t)part, part == PARTS - 1);
        if (problem) fail(trial, "%s", problem);
    }
    return eval;
}

static MoecInterpreter *run_meaning(Trial *trial, const Meaning *meaning, uint64_t seed) {
    return run_moved(trial, meaning, seed, 0);
}

static int define(Trial *trial, Meaning *meaning, MoecGraph graph) {
    *meaning = (Meaning){.parts = graph == MOEC_TRAIN ? PARTS : 1};
    meaning->program = moec_define(trial->compiler, graph, 0, 0, 0);
    if (!meaning->program)
        return fail(trial, "the interpreter rejects it: %s", moec_reports(trial->compiler));
    meaning->exact = run_meaning(trial, meaning, 0);
    return 1;
}

static void forget(Meaning *meaning) {
    moec_interpreter_free(meaning->exact);
    for (int i = 0; i < NOISES; i++) moec_interpreter_free(meaning->noisy[i]);
}

/* ---- comparison ---- */

/* A result of a program: `count` numbers from `start` of the `total` with that name. */
typedef struct Result {
    const char *name;
    size_t total, start, count;
} Result;

static double *values_of(MoecInterpreter *eval, const Result *result) {
    double *values = memory_new(sizeof *values * (result->total + 1));
    if (moec_interpreter_get(eval, result->name, values, result->total)) return values;
    free(values);
    return NULL;
}

static double norm_of(const double *values, const Result *result) {
    double squares = 0;
    for (size_t i = 0; i < result->count; i++)
        squares += values[result->start + i] * values[result->start + i];
    return sqrt(squares);
}

static double distance(const double *a, const double *b, const Result *result) {
    double squares = 0;
    for (size_t i = result->start; i < result->start + result->count; i++)
        squares += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(squares);
}

/* Effect of noise on the result, as a distance. */
static double amplified(Trial *trial, Meaning *meaning, const Result *result,
                        const double *expected) {
    double most = 0;
    for (int i = 0; i < NOISES; i++) {
        if (!meaning->noisy[i]) meaning->noisy[i] = run_meaning(trial, meaning, (uint64_t)i + 1);
        double *values = values_of(meaning->noisy[i], result),
               moved = distance(values, expected, result);
        if (!(moved <= most)) most = moved;
        free(values);
    }
    return most;
}

/* A program may lack the result: the gradient of a weight that no statement reads. */
static int compare(Trial *trial, Meaning *meaning, Result result, const float *actual,
                   double limit) {
    double *expected = values_of(meaning->exact, &result);
    if (!expected) return 1;
    double *wide = memory_new(sizeof *wide * (result.total + 1));
    for (size_t i = 0; i < result.count; i++) wide[result.start + i] = (double)actual[i];
    double error = distance(wide, expected, &result), norm = norm_of(expected, &result),
           allowed = limit * fmax(norm, least_share * meaning->largest);
    int ok = error <= allowed;
    if (!ok && isfinite(error)) {
        double moved = amplified(trial, meaning, &result, expected);
        double scale = norm > meaning->largest ? norm : meaning->largest;
        int undecided = !(moved <= undecided_limit * scale) || moec_interpreter_is_tied(meaning->exact);
        ok = undecided || error <= allowed + beyond_samples * moved;
        trial->undecided |= undecided;
        if (ok && !undecided && error > trial->amplified * scale)
            trial->amplified = error / scale;
        if (!ok)
            fail(trial, "%s is off by %.2e of %.3e; noise moves it by %.2e", result.name, error,
                 norm, moved);
    } else if (!ok)
        fail(trial, "%s is not finite", result.name);
    free(wide);
    free(expected);
    return ok;
}

static double largest_norm(const Meaning *meaning, const char *prefix, const PublicTensor *tensors,
                           int count) {
    double largest = 0;
    for (int i = 0; i < count; i++) {
        char *name = memory_format("%s%s", prefix, tensors[i].name);
        Result result = {name, tensors[i].count, 0, tensors[i].count};
        double *values = values_of(meaning->exact, &result),
               norm = values ? norm_of(values, &result) : 0;
        if (norm > largest) largest = norm;
        free(values);
        free(name);
    }
    return largest;
}

static int compare_all(Trial *trial, Meaning *meaning, const char *prefix,
                       const PublicTensor *tensors, int count, const float *block, double limit) {
    int ok = 1;
    meaning->largest = largest_norm(meaning, prefix, tensors, count);
    for (int i = 0; i < count && ok; i++) {
        char *name = memory_format("%s%s", prefix, tensors[i].name);
        Result result = {name, tensors[i].count, 0, tensors[i].count};
        ok = compare(trial, meaning, result, block + tensors[i].offset / sizeof(float), limit);
        free(name);
    }
    return ok;
}

static int compare_outputs(Trial *trial, Meaning *meaning, Call *call) {
    int ok = 1;
    for (int i = 0; i < call->graph->output_count && ok; i++) {
        const MoecTensor *output = &call->graph->outputs[i];
        size_t count = tensor_count(output);
        ok = compare(trial, meaning, (Result){output->name, count, 0, count}, call_get(call, i),
                       result_limit);
    }
    return ok;
}

/* ---- derivatives ---- */

static double number_in(MoecInterpreter *eval, const char *name) {
    double value = 0;
    moec_interpreter_get(eval, name, &value, 1);
    return value;
}

/* The loss with all auxiliary losses, of the last micro-batch. */
static double whole_loss(const Spec *spec, MoecInterpreter *eval) {
    double sum = number_in(eval, "loss");
    for (const char *at = spec->text; (at = strstr(at, "  aux ")); at++) {
        char name[32] = "";
        sscanf(at, "  aux %31s", name);
        sum += number_in(eval, name);
    }
    return sum;
}

/* The slope of the loss along the direction by differences, in one micro-batch. */
static double slope_of(Trial *trial, const Meaning *training, double step) {
    double loss[2];
    for (int side = 0; side < 2; side++) {
        MoecInterpreter *eval = run_moved(trial, training, 0, side ? step : -step);
        loss[side] = whole_loss(trial->spec, eval);
        moec_interpreter_free(eval);
    }
    return (loss[1] - loss[0]) / (2 * step);
}

/* The derived gradient against differences of the loss, both in double precision. A comparison with the interpreter cannot find
 * a wrong derivation, because both sides run it. A step across a discontinuity of a maximum or a selection is repeated with a
 * smaller size. */
static int check_derivation(Trial *trial) {
    static const double steps[] = {1e-6, 1e-7, 3e-8}, limit = 1e-4;
    if (!trial->spec->differentiable) return 1;
    Meaning training = {.parts = 1, .program = moec_define(trial->compiler, MOEC_TRAIN, 0, 0, 0)};
    MoecInterpreter *eval = run_meaning(trial, &training, 0);
    double derived = 0, size = 1e-4, slope = 0;
    for (int i = 0; i < trial->model->parameter_count; i++) {
        const PublicTensor *parameter = &trial->model->parameters[i];
        char *name = memory_format("gradient:%s", parameter->name);
        double *values = values_of(eval, &(Result){name, parameter->count, 0, parameter->count});
        for (size_t j = 0; values && j < parameter->count; j++) {
            const double term = values[j] * direction(parameter->offset / sizeof(float) + j);
            derived += term;
            size += term * term;
        }
        free(values);
        free(name);
    }
    moec_interpreter_free(eval);
    int ok = 0;
    for (int i = 0; i < 3 && !ok; i++) {
        slope = slope_of(trial, &training, steps[i]);
        ok = fabs(slope - derived) <= limit * sqrt(size);
    }
    return ok ||
           fail(trial, "the slope of the loss is %.9e, its derivative %.9e", slope, derived);
}

#endif
