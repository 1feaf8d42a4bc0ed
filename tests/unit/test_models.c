/* Random models: what a compiled model computes against its meaning in double precision.
 *
 * A seed gives a spec (random_spec.h). Compared with the interpreter: every output of the forward and of the training graph,
 * gradients over two micro-batches, states, two steps of the optimizer, and decoding token by token.
 *
 * Limits are those of all models here: 1e-5 of the norm, 1e-4 for gradients. Equations drawn at random may amplify rounding
 * beyond that whoever computes them. So where a limit is passed, the interpreter runs the same program with noise of four
 * roundings on every value that it makes, several times: twice what that does to the result is allowed as well, and counted.
 *
 *     test_models                         40 models from seed 1
 *     test_models recurrences             the same, of recurrences alone
 *     test_models forms                   models that use every statement with affine subscripts
 *     MOEC_MODELS=20000 MOEC_SEED=7 ...   that many, from that seed
 *     MOEC_SHOW=1 MOEC_MODELS=1 ...       prints the spec as well; MOEC_SHOW=only: the spec alone
 *     MOEC_TEXT=FILE MOEC_MODELS=1 ...    that text instead of the one of the seed, to reduce it
 *     MOEC_DEVICE=cuda ...                on that device, with MOEC_CUDA on the simulated one
 */
#include "random_forms.h"

#include "../../runtime/model/call.h"
#include "../../runtime/model/decoder.h"
#include "../../runtime/base/memory.h"
#include "../../runtime/model/model.h"
#include "../../runtime/base/threads.h"
#include "../../compiler/moec.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MODELS_FOR_ALL_FORMS = 500 };
enum { DEFAULT_MODELS = 30, PARTS = 2, NOISES = 6, WORKERS_MOST = 16, ATTEMPTS = 3 };

static const double result_limit = 1e-5, gradient_limit = 1e-4, noise = 4 * 0x1p-24;
/* A result that is next to nothing beside those compared together is held against this share of the largest: the gradient of
 * a key's bias is 0 and leaves nothing but roundings of its terms. */
static const double least_share = 1e-3;
/* A few samples of noise do not find the most that it does. */
static const double beyond_samples = 2;
/* Noise that moves a result further than this has turned a choice of the largest around: nothing can be said then. */
static const double undecided_limit = 1e-2;

/* What the workers found, in memory that they share. */
typedef struct Tally {
    long models, failed, amplified, undecided;
    double worst;           /* error that only amplified rounding explains */
    long forms[FORM_COUNT]; /* models that use each */
} Tally;

/* ---- one model ---- */

/* A program in double precision, as it is and with noise. */
typedef struct Meaning {
    MoecProgram *program;
    MoecInterpreter *exact, *noisy[NOISES];
    int parts;
    double largest; /* norm of the results that are compared together, gradients */
} Meaning;

typedef struct Trial {
    const Spec *spec;
    MoecCompiler *compiler;
    Device *device;
    Model *model;
    int32_t *windows; /* [part, batch, context + 1] */
    char problem[256];
    double
        amplified; /* largest error beyond its limit that noise explains, of the norm or of the largest gradient's */
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

/* ---- the meaning ---- */

/* A direction in the space of all parameters, by the index of a number in their block. */
static double direction(size_t index) {
    Random random = {index + 77};
    return spread(&random);
}

/* `moved`: by so much along the direction. */
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
        size_t place = i / context * (context + 1) + i % context;
        tokens[i] = windows[place];
        targets[i] = windows[place + 1];
    }
    moec_interpreter_set(eval, "tokens", tokens, count);
    moec_interpreter_set(eval, "targets", targets, count);
    free(tokens);
    free(targets);
}

/* What a model reads beside tokens: numbers in -1 .. 1, classes. */
static double input_value(const MoecTensor *input, int part, size_t place) {
    Random random = {(uint64_t)part * 1000003 + place};
    draw(&random);
    if (input->is_int) return (double)between(&random, 0, input->vocabulary - 1);
    return (double)(float)spread(&random);
}

/* 0: its tokens, 1: the ones after, of the windows; -1: no part of them. */
static int window_part(const MoecTensor *input) {
    return !strcmp(input->name, "tokens") ? 0 : !strcmp(input->name, "targets") ? 1 : -1;
}

/* Numbers, classes and further texts. */
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

/* tokens or targets [batch, context] of the windows [batch, context + 1]. */
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

/* A run over all micro-batches, of which the last one of a step moves states; seed 0: without noise. `moved`: with parameters
 * so far along the direction. */
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
        return fail(trial, "it has no meaning: %s", moec_reports(trial->compiler));
    meaning->exact = run_meaning(trial, meaning, 0);
    return 1;
}

static void forget(Meaning *meaning) {
    moec_interpreter_free(meaning->exact);
    for (int i = 0; i < NOISES; i++) moec_interpreter_free(meaning->noisy[i]);
}

/* ---- comparison ---- */

/* A result of a program: `count` numbers from `start` of the `total` under that name. */
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

/* How far noise carries the result, as a distance. */
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

/* A program may not have the result at all, the gradient of a weight that nothing reads. */
static int compare(Trial *trial, Meaning *meaning, Result result, const float *actual,
                   double limit) {
    double *expected = values_of(meaning->exact, &result);
    if (!expected) return 1;
    double *wide = memory_new(sizeof *wide * (result.total + 1));
    for (size_t i = 0; i < result.count; i++) wide[result.start + i] = (double)actual[i];
    double error = distance(wide, expected, &result), norm = norm_of(expected, &result),
           allowed = limit * fmax(norm, least_share * meaning->largest);
    int good = error <= allowed;
    if (!good && isfinite(error)) {
        double moved = amplified(trial, meaning, &result, expected);
        double scale = norm > meaning->largest ? norm : meaning->largest;
        int undecided = !(moved <= undecided_limit * scale);
        good = undecided || error <= allowed + beyond_samples * moved;
        trial->undecided |= undecided;
        if (good && !undecided && error > trial->amplified * scale)
            trial->amplified = error / scale;
        if (!good)
            fail(trial, "%s is off by %.2e of %.3e; noise moves it by %.2e", result.name, error,
                 norm, moved);
    } else if (!good)
        fail(trial, "%s is not finite", result.name);
    free(wide);
    free(expected);
    return good;
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
    int good = 1;
    meaning->largest = largest_norm(meaning, prefix, tensors, count);
    for (int i = 0; i < count && good; i++) {
        char *name = memory_format("%s%s", prefix, tensors[i].name);
        Result result = {name, tensors[i].count, 0, tensors[i].count};
        good = compare(trial, meaning, result, block + tensors[i].offset / sizeof(float), limit);
        free(name);
    }
    return good;
}

static int compare_outputs(Trial *trial, Meaning *meaning, Call *call) {
    int good = 1;
    for (int i = 0; i < call->graph->output_count && good; i++) {
        const MoecTensor *output = &call->graph->outputs[i];
        size_t count = tensor_count(output);
        good = compare(trial, meaning, (Result){output->name, count, 0, count}, call_get(call, i),
                       result_limit);
    }
    return good;
}

/* ---- derivatives ---- */

static double number_in(MoecInterpreter *eval, const char *name) {
    double value = 0;
    moec_interpreter_get(eval, name, &value, 1);
    return value;
}

/* The loss and all that is added to it, of the last micro-batch. */
static double whole_loss(const Spec *spec, MoecInterpreter *eval) {
    double sum = number_in(eval, "loss");
    for (const char *at = spec->text; (at = strstr(at, "  aux ")); at++) {
        char name[32] = "";
        sscanf(at, "  aux %31s", name);
        sum += number_in(eval, name);
    }
    return sum;
}

/* The loss's slope along the direction by differences, in one micro-batch. */
static double slope_of(Trial *trial, const Meaning *training, double step) {
    double loss[2];
    for (int side = 0; side < 2; side++) {
        MoecInterpreter *eval = run_moved(trial, training, 0, side ? step : -step);
        loss[side] = whole_loss(trial->spec, eval);
        moec_interpreter_free(eval);
    }
    return (loss[1] - loss[0]) / (2 * step);
}

/* The derived gradient against differences of the loss, both in double precision: the interpreter cannot show a wrong
 * derivation, since both sides run it. A step that crosses an edge of a largest value or a choice is taken again, smaller. */
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
    int good = 0;
    for (int i = 0; i < 3 && !good; i++) {
        slope = slope_of(trial, &training, steps[i]);
        good = fabs(slope - derived) <= limit * sqrt(size);
    }
    return good ||
           fail(trial, "the slope of the loss is %.9e, its derivative %.9e", slope, derived);
}

/* ---- graphs ---- */

static float *copy_of(const float *block, size_t bytes) {
    float *copy = memory_new(bytes + sizeof *copy);
    if (bytes) memcpy(copy, block, bytes);
    return copy;
}

static Call *open_call(const Trial *trial, MoecGraphKind kind) {
    return call_open(trial->model, model_graph(trial->model, kind), NULL);
}

static int check_forward(Trial *trial, Meaning *forward) {
    Call *call = open_call(trial, MOEC_GRAPH_FORWARD);
    set_call(trial, call, 0);
    call_run(call, 0, false);
    int good = compare_outputs(trial, forward, call);
    call_close(call);
    return good;
}

/* Weights and states stay as they are for what follows. */
static int check_training(Trial *trial) {
    Meaning training;
    if (!define(trial, &training, MOEC_TRAIN)) return 0;
    Model *model = trial->model;
    float *states = copy_of(model->layer_states, model->table->state_bytes);
    Call *call = open_call(trial, MOEC_GRAPH_TRAIN);
    call_set_scalar(call, MOEC_SCALAR_LOSS_SCALE, 1.0 / PARTS);
    for (int part = 0; part < PARTS; part++) {
        set_call(trial, call, part);
        call_run(call, (uint64_t)part, part == PARTS - 1);
    }
    model_get_gradients(model);
    model_get(model, false);
    int good = compare_outputs(trial, &training, call) &&
               compare_all(trial, &training, "gradient:", model->parameters, model->parameter_count,
                           model->gradients, gradient_limit) &&
               compare_all(trial, &training, "", model->states, model->state_count,
                           model->layer_states, result_limit);
    if (model->table->state_bytes) memcpy(model->layer_states, states, model->table->state_bytes);
    model_put(model);
    free(states);
    call_close(call);
    forget(&training);
    return good;
}

/* Those of layers: a program that decodes has none of an optimizer's. */
static void copy_states(Model *to, const Model *from) {
    for (int i = 0; i < to->state_count; i++)
        for (int j = 0; j < from->state_count; j++) {
            const PublicTensor *mine = &to->states[i], *theirs = &from->states[j];
            if (!strcmp(mine->name, theirs->name))
                memcpy((char *)to->layer_states + mine->offset,
                       (const char *)from->layer_states + theirs->offset,
                       mine->count * sizeof(float));
        }
}

/* The first sequence of the batch, token by token; the first ones at once where there are enough of them. */
static int check_decoding(Trial *trial, Meaning *forward) {
    const Spec *spec = trial->spec;
    Decoder *decoder =
        decoder_open(trial->device, trial->compiler, 1, spec->context, spec->context);
    if (!decoder) return fail(trial, "no decoder: %s", moec_reports(trial->compiler));
    const Model *model = trial->model;
    memcpy(decoder->model->weights, model->weights, model->table->weight_bytes);
    copy_states(decoder->model, model);
    model_put(decoder->model);
    size_t wide = (size_t)spec->vocabulary, total = (size_t)(spec->batch * spec->context) * wide;
    int good = 1;
    long fed = 0, part = spec->context >= PREFILL_TOKENS ? PREFILL_TOKENS : 1;
    for (; fed < spec->context && good; part = 1) {
        const float *logits = decoder_feed(decoder, trial->windows + fed, part);
        fed += part;
        Result result = {"logits", total, (size_t)(fed - 1) * wide, wide};
        good = compare(trial, forward, result, logits, result_limit);
    }
    if (!good) {
        char *told = memory_format("decoding: %s", trial->problem);
        fail(trial, "%s", told);
        free(told);
    }
    decoder_close(decoder);
    return good;
}

/* ---- the optimizer ---- */

enum { STATES_MOST = 4 };

/* What one element of a parameter is after the steps so far. */
typedef struct Element {
    double weight, state[STATES_MOST];
} Element;

static double scalar_value(MoecScalar kind, long step) {
    if (kind == MOEC_SCALAR_RATE) return 0.01;
    if (kind == MOEC_SCALAR_CLIP) return 0.7;
    if (kind == MOEC_SCALAR_STEP) return (double)step;
    return kind == MOEC_SCALAR_STEPS ? 100 : 1;
}

static void update_element(MoecInterpreter *eval, const MoecUpdate *update,
                           const PublicTensor *parameter, long step, double gradient,
                           Element *element) {
    const float *own = update->own + parameter->tensor->group * update->scalar_count;
    for (int i = 0; i < update->scalar_count; i++) {
        double value = scalar_value(update->scalars[i].kind, step) * (double)own[i];
        moec_interpreter_set(eval, update->scalars[i].name, &value, 1);
    }
    moec_interpreter_set(eval, "grad", &gradient, 1);
    moec_interpreter_set(eval, "weight", &element->weight, 1);
    for (int i = 0; i < update->state_count; i++)
        moec_interpreter_set(eval, update->state_names[i], &element->state[i], 1);
    moec_interpreter_run(eval, 0, true);
    moec_interpreter_get(eval, "weight", &element->weight, 1);
    for (int i = 0; i < update->state_count; i++)
        moec_interpreter_get(eval, update->state_names[i], &element->state[i], 1);
}

static int compare_update(Trial *trial, MoecInterpreter *eval, const PublicTensor *parameter,
                          const float *before, long steps) {
    const Model *model = trial->model;
    const MoecUpdate *update = model->table->update;
    size_t first = parameter->offset / sizeof(float);
    double squares = 0, norm = 0;
    for (size_t i = first; i < first + parameter->count; i++) {
        Element element = {.weight = (double)before[i]};
        for (long step = 1; step <= steps && !parameter->tensor->frozen; step++)
            update_element(eval, update, parameter, step, (double)model->gradients[i], &element);
        double off = (double)model->weights[i] - element.weight;
        squares += off * off;
        /* A step may lead next to zero: what it starts from is rounded, too. */
        norm += element.weight * element.weight + (double)before[i] * (double)before[i];
    }
    if (sqrt(squares) <= result_limit * sqrt(norm)) return 1;
    return fail(trial, "%s is off by %.2e of %.3e after %ld steps", parameter->name, sqrt(squares),
                sqrt(norm), steps);
}

/* Some steps with the gradients at hand. */
static int check_update(Trial *trial) {
    Model *model = trial->model;
    const MoecUpdate *update = model->table->update;
    const long steps = 2;
    if (update->state_count > STATES_MOST)
        return fail(trial, "the optimizer has more states than this test has room for");
    float *before = copy_of(model->weights, model->table->weight_bytes), scalars[16] = {0};
    for (long step = 1; step <= steps; step++) {
        for (int i = 0; i < update->scalar_count; i++)
            scalars[i] = (float)scalar_value(update->scalars[i].kind, step);
        const ModelMemory *there = &model->there;
        const BlockUpdate given = {.weights = there->weights,
                                   .gradients = there->gradients,
                                   .moments = there->moments,
                                   .scalars = scalars};
        model->device->kind->update(model->engine, &given);
    }
    model_get(model, false);
    MoecInterpreter *eval =
        moec_interpreter_new(trial->compiler, moec_compile(trial->compiler, MOEC_UPDATE, 0, 0, 0));
    int good = 1;
    for (int i = 0; i < model->parameter_count && good; i++)
        good = model->parameters[i].tensor->whole ||
               compare_update(trial, eval, &model->parameters[i], before, steps);
    memcpy(model->weights, before, model->table->weight_bytes);
    model_put(model);
    free(before);
    moec_interpreter_free(eval);
    return good;
}

static int compare_whole(Trial *trial, MoecInterpreter *eval, const PublicTensor *parameter) {
    double *expected = memory_new(sizeof *expected * (parameter->count + 1)), squares = 0, norm = 0;
    moec_interpreter_get(eval, parameter->name, expected, parameter->count);
    const float *actual = trial->model->weights + parameter->offset / sizeof(float);
    for (size_t i = 0; i < parameter->count; i++) {
        const double off = (double)actual[i] - expected[i];
        squares += off * off;
        norm += expected[i] * expected[i];
    }
    free(expected);
    if (sqrt(squares) <= result_limit * sqrt(norm)) return 1;
    return fail(trial, "%s is off by %.2e of %.3e after two steps", parameter->name, sqrt(squares),
                sqrt(norm));
}

/* What is updated as a whole, by the other program of the step, with the same gradients. */
static int check_whole(Trial *trial) {
    Model *model = trial->model;
    const MoecGraphEntry *graph = model_graph(model, MOEC_GRAPH_STEP);
    Call *call = graph ? call_open(model, graph, NULL) : NULL;
    if (!call) return !graph || fail(trial, "the step of whole parameters does not begin");
    float *before = copy_of(model->weights, model->table->weight_bytes);
    MoecInterpreter *eval =
        moec_interpreter_new(trial->compiler, moec_compile(trial->compiler, MOEC_STEP, 0, 0, 0));
    set_all(eval, model->parameters, model->parameter_count, model->weights);
    set_all(eval, model->states, model->state_count, model->layer_states);
    for (int i = 0; i < model->parameter_count; i++) {
        char *name = memory_format("gradient:%s", model->parameters[i].name);
        PublicTensor gradient = model->parameters[i];
        gradient.name = name;
        set_all(eval, &gradient, 1, model->gradients);
        free(name);
    }
    for (long step = 1; step <= 2; step++) {
        for (int i = 0; i < graph->input_count; i++) {
            const double value = scalar_value(graph->inputs[i].scalar, step);
            call_set_scalar(call, graph->inputs[i].scalar, value);
            moec_interpreter_set(eval, graph->inputs[i].name, &value, 1);
        }
        call_run(call, 0, true);
        moec_interpreter_run(eval, 0, true);
    }
    model_get(model, false);
    int good = 1;
    for (int i = 0; i < model->parameter_count && good; i++)
        if (model->parameters[i].tensor->whole)
            good = compare_whole(trial, eval, &model->parameters[i]);
    memcpy(model->weights, before, model->table->weight_bytes);
    model_put(model);
    free(before);
    call_close(call);
    moec_interpreter_free(eval);
    return good;
}

/* ---- trials ---- */

/* No weight stays zero or one: what a spec says of the start would hide where it goes. */
static void shake(Model *model, Random *random) {
    for (int i = 0; i < model->parameter_count; i++)
        for (size_t j = 0; j < model->parameters[i].count; j++)
            model->weights[model->parameters[i].offset / sizeof(float) + j] +=
                (float)(0.2 * spread(random));
}

static int check_model(Trial *trial, Random *random) {
    const GraphShape shapes[] = {
        {.graph = MOEC_FORWARD}, {.graph = MOEC_TRAIN}, {.graph = MOEC_UPDATE}};
    trial->model = model_open(trial->device, trial->compiler, shapes, 3, true);
    if (!trial->model) return fail(trial, "it does not compile: %s", moec_reports(trial->compiler));
    model_initialise(trial->model, draw(random));
    shake(trial->model, random);
    model_put(trial->model);
    Meaning forward;
    int good = define(trial, &forward, MOEC_FORWARD) && check_forward(trial, &forward) &&
               check_training(trial) && check_derivation(trial) && check_update(trial) &&
               check_whole(trial) && (!trial->spec->causal || check_decoding(trial, &forward));
    forget(&forward);
    model_close(trial->model);
    return good;
}

static int write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    return file && fputs(text, file) >= 0 && fclose(file) == 0;
}

/* Another text of the same sizes. */
static void read_text(Spec *spec, const char *path) {
    FILE *file = fopen(path, "r");
    spec->length = file ? fread(spec->text, 1, SPEC_BYTES - 1, file) : 0;
    spec->text[spec->length] = 0;
    if (file) fclose(file);
}

/* With tokens for which rounding may turn a choice around nothing is shown: then others are tried. */
static void (*make)(Spec *spec, uint64_t seed) = make_spec;

static int run_trial(Device *device, uint64_t seed, const char *folder, char *problem, size_t size,
                     Tally *tally) {
    Spec *spec = memory_new(sizeof *spec);
    make(spec, seed);
    const char *other = getenv("MOEC_TEXT");
    if (other) read_text(spec, other);
    forms_count(spec->text, tally->forms);
    char *path = memory_format("%s/random_%d.moe", folder, (int)getpid());
    int good = write_file(path, spec->text), undecided = 1;
    const char *show = getenv("MOEC_SHOW");
    if (show) printf("%s", spec->text);
    if (show && !strcmp(show, "only")) fflush(stdout), _exit(0);
    for (int attempt = 0; attempt < ATTEMPTS && good && undecided; attempt++) {
        Trial trial = {
            .spec = spec, .device = device, .compiler = moec_open(path, NULL, NULL, 0, NULL)};
        size_t count = PARTS * window_tokens(spec);
        trial.windows = memory_new(sizeof *trial.windows * count);
        for (size_t i = 0; i < count; i++)
            trial.windows[i] = (int32_t)between(&spec->random, 0, spec->vocabulary - 1);
        good = moec_failed(trial.compiler) ? fail(&trial, "%s", moec_reports(trial.compiler))
                                           : check_model(&trial, &spec->random);
        undecided = trial.undecided;
        if (!undecided && trial.amplified > 0) {
            tally->amplified++;
            if (trial.amplified > tally->worst) tally->worst = trial.amplified;
        }
        snprintf(problem, size, "%s", trial.problem);
        free(trial.windows);
        moec_close(trial.compiler);
    }
    tally->models++;
    tally->undecided += good && undecided;
    unlink(path);
    free(path);
    free(spec);
    return good;
}

static uint64_t present_seed;

/* The compiler gives up on a program that a pass broke: say which spec did it. */
static void tell_seed(int signal_number) {
    printf("seed %llu: stopped by signal %d\n", (unsigned long long)present_seed, signal_number);
    fflush(stdout);
    _exit(1);
}

static void run_shard(uint64_t first, long count, long worker, long workers, const char *folder,
                      Tally *tally) {
    signal(SIGABRT, tell_seed);
    signal(SIGSEGV, tell_seed);
    Device *device = device_open(getenv("MOEC_DEVICE") ? getenv("MOEC_DEVICE") : "cpu");
    if (!device) exit(1);
    for (long i = worker; i < count; i += workers) {
        char problem[256] = "";
        uint64_t seed = present_seed = first + (uint64_t)i;
        if (run_trial(device, seed, folder, problem, sizeof problem, tally)) continue;
        tally->failed++;
        printf("seed %llu: %s\n", (unsigned long long)seed, problem);
        fflush(stdout);
    }
    device_close(device);
}

static long number_from(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

static Tally total_of(const Tally *tallies, long workers) {
    Tally total = {0};
    for (long i = 0; i < workers; i++) {
        total.models += tallies[i].models;
        total.failed += tallies[i].failed;
        total.amplified += tallies[i].amplified;
        total.undecided += tallies[i].undecided;
        if (tallies[i].worst > total.worst) total.worst = tallies[i].worst;
        for (int j = 0; j < FORM_COUNT; j++) total.forms[j] += tallies[i].forms[j];
    }
    return total;
}

/* The table of statement forms against the number of models; returns how many forms no model has. */
static long print_forms(const Tally *total) {
    long missing = 0;
    for (int i = 0; i < FORM_COUNT; i++) {
        printf("%6ld  %s\n", total->forms[i], form_table[i].name);
        missing += !total->forms[i];
    }
    return missing;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "recurrences") == 0) make = make_recurrence;
    if (argc > 1 && strcmp(argv[1], "forms") == 0) make = make_forms;
    setenv("OMP_NUM_THREADS", "2", 0);
    threads_wait_briefly(argv);
    long count = number_from("MOEC_MODELS", DEFAULT_MODELS),
         workers = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t first = (uint64_t)number_from("MOEC_SEED", 1);
    char folder[] = "/tmp/moec-models.XXXXXX";
    if (!mkdtemp(folder)) return 1;
    setenv("XDG_CACHE_HOME", folder, 1);
    setenv("MOEC_CFLAGS", "-O0", 0);
    if (workers > WORKERS_MOST) workers = WORKERS_MOST;
    if (workers > count) workers = count;
    Tally *tallies = mmap(NULL, sizeof *tallies * WORKERS_MOST, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (tallies == MAP_FAILED) return 1;
    for (long i = 0; i < workers; i++)
        if (fork() == 0) {
            run_shard(first, count, i, workers, folder, &tallies[i]);
            exit(0);
        }
    int stopped = 0, status;
    while (wait(&status) > 0) stopped += status != 0;
    char *clean = memory_format("rm -rf %s", folder);
    stopped += system(clean) != 0;
    free(clean);
    Tally total = total_of(tallies, workers);
    printf("%ld of %ld models: %ld differ; %ld beyond the limits as their own rounding explains, "
           "by %.1e at most; "
           "%ld undecided\n",
           total.models, count, total.failed, total.amplified, total.worst, total.undecided);
    const long missing =
        make == make_forms && count >= MODELS_FOR_ALL_FORMS ? print_forms(&total) : 0;
    return stopped > 0 || total.failed > 0 || total.models < count || missing > 0;
}
