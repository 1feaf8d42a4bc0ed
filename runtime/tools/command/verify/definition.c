/* definition: the reference side of `moec verify`: weights and inputs for both sides, and
 * interpreters of the current graph, exact, rounded and with noise. */
#include "verify.h"

#include "base/message.h"
#include "model/interpreted.h"
#include "base/memory.h"
#include "data/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double exact_noise = 0x1p-22, rounded_noise = 0x1p-9;

/* ---- the same numbers on both sides ---- */

/* Parameters and states that begin as constants are spread a little: at 0 or 1 much stays unseen.
 */
static void spread(const PublicTensor *tensors, int count, float *block, uint64_t seed) {
    for (int i = 0; i < count; i++) {
        if (tensors[i].tensor->init != MOEC_INIT_CONSTANT) continue;
        uint64_t own = random_seed_for(seed, tensors[i].name);
        float *values = block + tensors[i].offset / sizeof(float);
        for (size_t j = 0; j < tensors[i].count; j++)
            values[j] += (float)(0.2 * random_uniform(own, j) - 0.1);
    }
}

bool verify_set_weights(Comparison *comparison) {
    Model *model = comparison->model;
    model_initialise(model, comparison->seed);
    spread(model->parameters, model->parameter_count, model->weights, comparison->seed);
    spread(model->states, model->state_count, model->layer_states, comparison->seed);
    const size_t bytes = (size_t)model->table->state_bytes;
    comparison->states = memory_grow(comparison->states, bytes + 1);
    memcpy(comparison->states, model->layer_states, bytes);
    return model_put(model);
}

void verify_set_inputs(const Comparison *comparison, Call *call) {
    long batch = call->graph->batch, context = comparison->context,
         vocabulary = call_vocabulary(call);
    for (int i = 0; i < call->graph->input_count; i++) {
        const MoecTensor *input = &call->graph->inputs[i];
        if (input->input == MOEC_INPUT_SCALAR) continue;
        bool next = input->input == MOEC_INPUT_NEXT;
        uint64_t seed = random_seed_for(comparison->seed, next ? "tokens" : input->name);
        if (input->input == MOEC_INPUT_TOKEN) seed = random_seed_for(comparison->seed, "tokens");
        long most = input->vocabulary ? input->vocabulary : vocabulary ? vocabulary : 8;
        size_t count = tensor_count(input), each = count / (size_t)batch;
        for (size_t j = 0; j < count; j++) {
            size_t place = input->input == MOEC_INPUT_CLASS
                               ? j
                               : j / each * (size_t)(context + 1) + j % each + next;
            if (strchr(input->name, '.')) /* "image.given" */
                ((float *)call->inputs[i])[j] = (float)(random_bits(seed, j) % 2);
            else if (input->input == MOEC_INPUT_REAL)
                ((float *)call->inputs[i])[j] = (float)(2 * random_uniform(seed, j) - 1);
            else
                ((int32_t *)call->inputs[i])[j] =
                    (int32_t)(random_bits(seed, place) % (uint64_t)most);
        }
    }
    call_set_scalar(call, MOEC_SCALAR_LOSS_SCALE, 1);
}

void verify_observe(const Comparison *comparison, MoecCompiler *compiler) {
    int count;
    const MoecSpecTensor *tensors =
        moec_spec_tensors(compiler, comparison->shape.batch, comparison->context, &count);
    for (int i = 0; i < count; i++) moec_observe_name(compiler, tensors[i].name);
}

/* The program of the current graph as it is defined, or `rounded`: as the device stores its values.
 * Both are compiled once for all interpreters of the graph, in a compiler of their own: together
 * with the programs of the device they could exceed the memory limit of one compiler. */
static MoecProgram *definition_program(Comparison *comparison, bool rounded) {
    if (!comparison->meaning) {
        comparison->meaning = spec_open_quietly(comparison->operand, comparison->sets);
        if (comparison->meaning && comparison->graph == MOEC_TRAIN)
            moec_trains(comparison->meaning);
        if (comparison->meaning && comparison->bisect)
            verify_observe(comparison, comparison->meaning);
    }
    MoecProgram **program = &comparison->programs[rounded];
    if (!comparison->meaning || *program) return *program;
    *program = (rounded ? moec_compile : moec_define)(
        comparison->meaning, comparison->graph, comparison->call->graph->batch, comparison->context,
        comparison->graph == MOEC_DECODE);
    if (*program && rounded)
        moec_lower(comparison->meaning, *program, device_target(comparison->device));
    return *program;
}

/* A new interpreter of that program with the weights and states of the comparison, or NULL. */
static MoecInterpreter *define_program(Comparison *comparison, bool rounded) {
    return interpreted_open(comparison->meaning, definition_program(comparison, rounded),
                            comparison->model, comparison->states);
}

/* ---- the definition, exact and rounded ---- */

static void free_interpreters(Comparison *comparison) {
    moec_interpreter_free(comparison->exact);
    comparison->exact = NULL;
    for (int i = 0; i < WAYS; i++) {
        moec_interpreter_free(comparison->round[i]);
        comparison->round[i] = NULL;
    }
    for (int i = 0; i < NOISES; i++) {
        moec_interpreter_free(comparison->noise[i]);
        comparison->noise[i] = NULL;
    }
}

void verify_end(Comparison *comparison) {
    free_interpreters(comparison);
    moec_close(comparison->meaning);
    comparison->meaning = NULL;
    comparison->programs[false] = comparison->programs[true] = NULL;
}

void verify_begin(Comparison *comparison, MoecGraph graph, const Call *call) {
    if (graph != comparison->graph) verify_end(comparison);
    free_interpreters(comparison);
    comparison->graph = graph, comparison->call = call;
}

/* An interpreter of the graph: number -1 is exact, the others round. */
static MoecInterpreter *begin_definition(Comparison *comparison, int number) {
    MoecInterpreter *interpreter = define_program(comparison, number >= 0 && number < EACH);
    if (!interpreter || number < 0) return interpreter;
    moec_interpreter_rounded(interpreter, number % EACH + 1);
    moec_interpreter_follow(interpreter, comparison->exact);
    return interpreter;
}

static bool run_one(Comparison *comparison, MoecInterpreter **interpreter, int number) {
    if (!*interpreter) *interpreter = begin_definition(comparison, number);
    if (!*interpreter)
        return comparison->meaning && reports_good(comparison->meaning) &&
               error_message("moec check prints the problems of a spec; report this one as a bug",
                             "the interpreter does not support this program");
    interpreted_set_inputs(*interpreter, comparison->call);
    const char *problem = moec_interpreter_run(*interpreter, comparison->seed, true);
    return !problem || error_message(NULL, "%s", problem);
}

bool verify_evaluate(Comparison *comparison, int each) {
    bool good = run_one(comparison, &comparison->exact, -1);
    for (int i = 0; i < WAYS && comparison->rounded && good; i++)
        if (i % EACH < each) good = run_one(comparison, &comparison->round[i], i);
    return good;
}

bool verify_round_all(Comparison *comparison) {
    bool more = false;
    for (int i = 0; i < WAYS && comparison->rounded; i++)
        if (!comparison->round[i]) more |= run_one(comparison, &comparison->round[i], i);
    return more;
}

/* One perturbed run; an existing interpreter continues. */
static bool run_noise(Comparison *comparison, int number) {
    MoecInterpreter **interpreter = &comparison->noise[number];
    if (!*interpreter) {
        *interpreter = define_program(comparison, false);
        if (!*interpreter) return false;
        if (comparison->rounded) moec_interpreter_follow(*interpreter, comparison->exact);
        moec_interpreter_noise(*interpreter, comparison->rounded ? rounded_noise : exact_noise,
                               (uint64_t)number + 1);
    }
    interpreted_set_inputs(*interpreter, comparison->call);
    return moec_interpreter_run(*interpreter, comparison->seed, true) == NULL;
}

void verify_make_noise(Comparison *comparison) {
    for (int i = 0; i < NOISES && !comparison->noise[i]; i++)
        if (!run_noise(comparison, i)) return;
}

void verify_continue_noise(Comparison *comparison) {
    for (int i = 0; i < NOISES; i++)
        if (!run_noise(comparison, i)) return;
}

static const double clear_share = 0.25; /* of the largest deviation by rounding */

/* Comparisons of the definition alone: a compiled program has others, in another order. */
static bool masks_are_clear(const Comparison *comparison) {
    return !comparison->rounded ||
           moec_interpreter_decides_alike(comparison->exact, comparison->round[EACH], clear_share);
}

bool verify_choices_are_clear(const Comparison *comparison) {
    size_t count = 0;
    const double *exact = moec_interpreter_margins(comparison->exact, &count),
                 *round = comparison->rounded
                              ? moec_interpreter_margins(comparison->round[0], &count)
                              : NULL;
    double least = INFINITY, moved = 0;
    for (size_t i = 0; round && i < count; i++) {
        if (!isfinite(exact[i]) && !isfinite(round[i])) continue;
        least = fmin(least, fmin(exact[i], round[i]));
        moved = fmax(moved, fabs(exact[i] - round[i]));
    }
    return least > clear_share * moved && masks_are_clear(comparison) &&
           !moec_interpreter_is_tied(comparison->exact);
}
