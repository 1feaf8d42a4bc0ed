/* verify: moec verify: what a device computes beside what the program means, tensor by tensor:
 * every output, every gradient, every state after the step, and decoding token by token against the
 * whole window (against the step's own meaning where that is another: see moec_step_differs).
 *
 * f32 is held to fixed limits. Where products round to bf16 the program is evaluated in double
 * precision with products that round, the choices held equal: its distance to the exact one is the
 * reference, the most of some equally good ways to round, and a device may be twice as far off. Two
 * programs are rounded so: the model's, and the device's, which stores as bf16 what it only ever
 * rounds and rounds a little more by that. Results of many numbers (logits, decoding, all gradients
 * as one) are held to the first. A single gradient can be a difference of large terms, and a single
 * number is one of chance: those are held to the second.
 *
 * Outputs are held to 2e-2 besides, unless rounding alone costs that; gradients are not, because
 * rounding alone can cost more. A choice that rounding could turn over would make such a comparison
 * one of chance, so the first seed is taken whose choices are all clear.
 *
 * What is off all the same is looked at more closely: the exact program runs again with every value
 * a little off. Twice what that moves a tensor by is let pass, and told: it hangs on a tie (of two
 * largest values, of a load at its balance) or on a difference of nearly equal terms, and neither
 * side is right. Anything further off disagrees.
 */
#include "model/call.h"
#include "command/commands.h"
#include "base/message.h"
#include "base/json_number.h"
#include "base/memory.h"
#include "data/random.h"
#include "command/spec.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_BATCH = 2, DEFAULT_CONTEXT = 12, SEEDS = 64, NAME_BYTES = 160 };
/* Ways to round the device's program, then as many to round the model's; numbers that are many. */
enum { EACH = 4, WAYS = 2 * EACH, MANY = 64 };
/* Runs with every value off, by so much: four roundings of f32, one of bf16. */
enum { NOISES = 6 };
static const double exact_noise = 0x1p-22, rounded_noise = 0x1p-9;

typedef struct Options {
    const char *operand, *device;
    long batch, context, seed;
    bool json;
    TextList sets;
} Options;

typedef enum Kind { OUTPUTS, GRADIENTS, STATES, DECODING, KINDS } Kind;

static const char *const kind_names[KINDS] = {"outputs", "gradients", "states", "decoding"};
static const double exact_limits[KINDS] = {1e-5, 1e-4, 1e-5, 1e-5};
/* With rounded products: the most there may be, and one rounding, which is let pass anywhere. */
static const double rounded_limit = 2e-2, rounded_floor = 0x1p-9;

/* The tensor of a kind that comes nearest to its limit. */
typedef struct Worst {
    char name[NAME_BYTES];
    double error, reference, limit;
    int count; /* tensors of this kind */
} Worst;

/* A tensor that is off, and that rounding alone moves as far. */
typedef struct Undecided {
    char name[NAME_BYTES];
    Kind kind;
    double error, moved;
} Undecided;

typedef struct Comparison {
    const Options *options;
    Device *device;
    MoecCompiler *compiler;
    Model *model;
    uint64_t seed;
    long context;
    bool rounded;
    /* of the graph that is being compared; round: NULL in f32 */
    MoecInterpreter *exact, *round[WAYS];
    MoecInterpreter *noise[NOISES]; /* of the same; NULL until something is off */
    MoecGraph graph;
    const Call *call;
    double scale; /* least norm that an error is relative to */
    Worst worst[KINDS];
    Undecided *undecided;
    int undecided_count;
} Comparison;

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

static bool set_weights(Comparison *comparison) {
    Model *model = comparison->model;
    model_initialise(model, comparison->seed);
    spread(model->parameters, model->parameter_count, model->weights, comparison->seed);
    spread(model->states, model->state_count, model->layer_states, comparison->seed);
    return model_put(model);
}

/* Inputs from the seed: windows of tokens, anything else by itself. */
static void set_inputs(const Comparison *comparison, Call *call) {
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
            if (input->input == MOEC_INPUT_REAL)
                ((float *)call->inputs[i])[j] = (float)(2 * random_uniform(seed, j) - 1);
            else
                ((int32_t *)call->inputs[i])[j] =
                    (int32_t)(random_bits(seed, place) % (uint64_t)most);
        }
    }
    call_set_scalar(call, MOEC_SCALAR_LOSS_SCALE, 1);
}

static void give(MoecInterpreter *interpreter, const char *name, const void *values, size_t count,
                 bool integer) {
    double *wide = memory_new(sizeof *wide * (count + 1));
    for (size_t i = 0; i < count; i++)
        wide[i] =
            integer ? (double)((const int32_t *)values)[i] : (double)((const float *)values)[i];
    moec_interpreter_set(interpreter, name, wide, count);
    free(wide);
}

static void give_inputs(MoecInterpreter *interpreter, const Call *call) {
    for (int i = 0; i < call->graph->input_count; i++) {
        const MoecTensor *input = &call->graph->inputs[i];
        char *name = memory_format("%s:%s", input->input == MOEC_INPUT_SCALAR ? "scalar" : "input",
                                   input->name);
        give(interpreter, name, call->inputs[i], tensor_count(input), input->is_int);
        free(name);
    }
}

/* What the program means; `rounded`: with what the machine keeps as bf16 rounded where it is
 * stored.
 */
static MoecInterpreter *define(const Comparison *comparison, MoecGraph graph, const Call *call,
                               bool rounded) {
    MoecProgram *program = (rounded ? moec_compile : moec_define)(
        comparison->compiler, graph, call->graph->batch, comparison->context, graph == MOEC_DECODE);
    if (program && rounded) moec_lower(comparison->compiler, program, comparison->device->apart);
    MoecInterpreter *interpreter =
        program ? moec_interpreter_new(comparison->compiler, program) : NULL;
    if (!interpreter) return NULL;
    const Model *model = comparison->model;
    for (int i = 0; i < model->parameter_count; i++)
        give(interpreter, model->parameters[i].name,
             model->weights + model->parameters[i].offset / sizeof(float),
             model->parameters[i].count, false);
    for (int i = 0; i < model->state_count; i++)
        give(interpreter, model->states[i].name,
             model->layer_states + model->states[i].offset / sizeof(float), model->states[i].count,
             false);
    return interpreter;
}

/* ---- the definition, exact and rounded ---- */

static void forget(Comparison *comparison) {
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

/* An interpreter of a graph: number -1 is exact, the others round. */
static MoecInterpreter *begin(const Comparison *comparison, MoecGraph graph, const Call *call,
                              int number) {
    MoecInterpreter *interpreter = define(comparison, graph, call, number >= 0 && number < EACH);
    if (!interpreter || number < 0) return interpreter;
    moec_interpreter_rounded(interpreter, number % EACH + 1);
    moec_interpreter_follow(interpreter, comparison->exact);
    return interpreter;
}

/* Interpreters `first` to `last` of a graph run once; those that there are go on. */
static bool evaluate(Comparison *comparison, MoecGraph graph, const Call *call, int first,
                     int last) {
    if (!comparison->rounded && last > -1) last = -1;
    for (int i = first; i <= last; i++) {
        MoecInterpreter **interpreter = i < 0 ? &comparison->exact : &comparison->round[i];
        if (!*interpreter) *interpreter = begin(comparison, graph, call, i);
        if (!*interpreter)
            return reports_good(comparison->compiler) &&
                   error_message(NULL, "the interpreter does not take this program");
        give_inputs(*interpreter, call);
        const char *problem = moec_interpreter_run(*interpreter, comparison->seed, true);
        if (problem) return error_message(NULL, "%s", problem);
    }
    return true;
}

/* Runs of the graph at hand with every value off. Choices are free in f32, where a tie may go
 * either way; with rounded products they were clear. */
static void make_noise(Comparison *comparison) {
    for (int i = 0; i < NOISES && !comparison->noise[i]; i++) {
        MoecInterpreter *interpreter =
            define(comparison, comparison->graph, comparison->call, false);
        comparison->noise[i] = interpreter;
        if (!interpreter) return;
        if (comparison->rounded) moec_interpreter_follow(interpreter, comparison->exact);
        moec_interpreter_noise(interpreter, comparison->rounded ? rounded_noise : exact_noise,
                               (uint64_t)i + 1);
        give_inputs(interpreter, comparison->call);
        moec_interpreter_run(interpreter, comparison->seed, true);
    }
}

/* No choice is turned over by rounding, nor comes near to it: a device rounds the same numbers, and
 * its own sums move a choice far less than that. */
static bool choices_are_clear(const Comparison *comparison) {
    size_t count = 0;
    const double *exact = moec_interpreter_margins(comparison->exact, &count),
                 *round = comparison->rounded
                              ? moec_interpreter_margins(comparison->round[0], &count)
                              : NULL;
    double least = INFINITY, moved = 0;
    for (size_t i = 0; round && i < count; i++) {
        if (!isfinite(exact[i])) continue;
        least = fmin(least, fmin(exact[i], round[i]));
        moved = fmax(moved, fabs(exact[i] - round[i]));
    }
    return least > 0.25 * moved;
}

/* ---- judging ---- */

/* What a device gave for the first `count` numbers of tensor `of`, which has `whole`. */
typedef struct Sample {
    const char *name, *of;
    size_t count, whole;
    const float *given;
} Sample;

/* Squares of norms: of the definition, of what rounding alone, noise and the device are off by. */
typedef struct Squares {
    double exact, round[WAYS], noise[NOISES], given;
    bool many; /* so many numbers that no single one decides */
    bool kept; /* of steps whose caches round what they keep */
} Squares;

static double square_of(const double *values, size_t count) {
    double square = 0;
    for (size_t i = 0; i < count; i++) square += values[i] * values[i];
    return square;
}

/* Of what another run of the interpreter is off by. */
static double square_off(MoecInterpreter *interpreter, const Sample *sample, const double *exact) {
    double *other = memory_new(sizeof *other * (sample->whole + 1));
    moec_interpreter_get(interpreter, sample->of, other, sample->whole);
    for (size_t i = 0; i < sample->count; i++) other[i] -= exact[i];
    double square = square_of(other, sample->count);
    free(other);
    return square;
}

/* False when the definition has no such tensor. */
static bool measure(const Comparison *comparison, const Sample *sample, Squares *squares) {
    double *exact = memory_new(sizeof *exact * (sample->whole + 1)),
           *other = memory_new(sizeof *other * (sample->whole + 1));
    bool there = moec_interpreter_get(comparison->exact, sample->of, exact, sample->whole);
    *squares = (Squares){.exact = there ? square_of(exact, sample->count) : 0,
                         .many = sample->count >= MANY};
    for (int way = 0; there && comparison->rounded && way < WAYS; way++)
        squares->round[way] = square_off(comparison->round[way], sample, exact);
    for (int i = 0; there && i < NOISES && comparison->noise[i]; i++)
        squares->noise[i] = square_off(comparison->noise[i], sample, exact);
    for (size_t i = 0; there && i < sample->count; i++)
        other[i] = (double)sample->given[i] - exact[i];
    if (there) squares->given = square_of(other, sample->count);
    free(exact);
    free(other);
    return there;
}

static double most_of(const double *squares, int count) {
    double most = 0;
    for (int i = 0; i < count; i++) most = fmax(most, squares[i]);
    return most;
}

/* A norm beside another. What is no number is infinitely far off; beside nothing, all but nothing
 * is. */
static double share(double square, double scale) {
    double of = sqrt(square) / scale;
    return square == 0 ? 0 : isfinite(of) ? of : INFINITY;
}

/* How a tensor stands: its error, what rounding alone makes of it, what it is held to. */
static Worst verdict(const Comparison *comparison, Kind kind, const Squares *squares) {
    double scale = fmax(sqrt(squares->exact), comparison->scale), limit = exact_limits[kind],
           reference = share(most_of(squares->round, EACH), scale);
    if (squares->many)
        reference = fmin(reference, share(most_of(squares->round + EACH, EACH), scale));
    if (comparison->rounded) {
        limit = fmax(rounded_floor, 2 * reference);
        if (kind != GRADIENTS) limit = fmin(limit, fmax(rounded_limit, reference));
    }
    if (squares->kept) limit = fmax(limit, rounded_floor);
    return (Worst){.error = share(squares->given, scale), .reference = reference, .limit = limit};
}

static double closeness(const Worst *worst) {
    return worst->error == worst->limit ? 1 : worst->error / worst->limit;
}

static void judge_squares(Comparison *comparison, Kind kind, const char *name,
                          const Squares *squares) {
    Worst now = verdict(comparison, kind, squares), *worst = &comparison->worst[kind];
    double scale = fmax(sqrt(squares->exact), comparison->scale),
           moved = share(most_of(squares->noise, NOISES), scale);
    worst->count++;
    if (now.error > now.limit && now.error <= 2 * moved) {
        size_t count = (size_t)++comparison->undecided_count;
        comparison->undecided =
            memory_grow(comparison->undecided, sizeof *comparison->undecided * count);
        Undecided *one = &comparison->undecided[count - 1];
        *one = (Undecided){.kind = kind, .error = now.error, .moved = moved};
        snprintf(one->name, sizeof one->name, "%s", name);
        return;
    }
    if (*worst->name && closeness(&now) <= closeness(worst)) return;
    worst->error = now.error, worst->reference = now.reference, worst->limit = now.limit;
    snprintf(worst->name, sizeof worst->name, "%s", name);
}

static bool is_off(const Comparison *comparison, Kind kind, const Squares *squares) {
    Worst now = verdict(comparison, kind, squares);
    return now.error > now.limit;
}

static void judge(Comparison *comparison, Kind kind, const Sample *sample) {
    Squares squares;
    if (!measure(comparison, sample, &squares)) return;
    if (is_off(comparison, kind, &squares)) {
        make_noise(comparison);
        measure(comparison, sample, &squares);
    }
    judge_squares(comparison, kind, sample->name, &squares);
}

/* ---- graphs ---- */

static bool run_call(const Comparison *comparison, Call *call) {
    bool good = call_run(call, comparison->seed, true);
    for (int i = 0; good && i < call->graph->output_count; i++) good = call_get(call, i) != NULL;
    return good;
}

static void judge_outputs(Comparison *comparison, const Call *call) {
    comparison->scale = 1e-3;
    for (int i = 0; i < call->graph->output_count; i++) {
        const MoecTensor *output = &call->graph->outputs[i];
        size_t count = tensor_count(output);
        char *of = memory_format("output:%s", output->name);
        judge(comparison, OUTPUTS, &(Sample){output->name, of, count, count, call->outputs[i]});
        free(of);
    }
}

/* Every gradient, then all as one; true when one of them is off. */
static bool measure_gradients(Comparison *comparison, Squares *each, Squares *all) {
    const Model *model = comparison->model;
    bool off = false;
    *all = (Squares){.many = true};
    comparison->scale = 0;
    for (int i = 0; i < model->parameter_count; i++) {
        const PublicTensor *one = &model->parameters[i];
        char *name = memory_format("gradient:%s", one->name);
        const Sample sample = {name, name, one->count, one->count,
                               model->gradients + one->offset / sizeof(float)};
        measure(comparison, &sample, &each[i]);
        each[i].many = false;
        comparison->scale = fmax(comparison->scale, 1e-3 * sqrt(each[i].exact));
        all->exact += each[i].exact, all->given += each[i].given;
        for (int way = 0; way < WAYS; way++) all->round[way] += each[i].round[way];
        for (int k = 0; k < NOISES; k++) all->noise[k] += each[i].noise[k];
        free(name);
    }
    for (int i = 0; i < model->parameter_count; i++) off |= is_off(comparison, GRADIENTS, &each[i]);
    return off || is_off(comparison, GRADIENTS, all);
}

/* Single ones can be next to nothing beside the others, and are then held against a share of the
 * largest. */
static void judge_gradients(Comparison *comparison) {
    const Model *model = comparison->model;
    Squares all, *each = memory_new(sizeof *each * (size_t)(model->parameter_count + 1));
    if (measure_gradients(comparison, each, &all)) {
        make_noise(comparison);
        measure_gradients(comparison, each, &all);
    }
    for (int i = 0; i < model->parameter_count; i++)
        judge_squares(comparison, GRADIENTS, model->parameters[i].name, &each[i]);
    judge_squares(comparison, GRADIENTS, "all together", &all);
    free(each);
}

static void judge_states(Comparison *comparison) {
    const Model *model = comparison->model;
    comparison->scale = 1e-3;
    for (int i = 0; i < model->state_count; i++) {
        const PublicTensor *one = &model->states[i];
        judge(comparison, STATES,
              &(Sample){one->name, one->name, one->count, one->count,
                        model->layer_states + one->offset / sizeof(float)});
    }
}

static bool compare_training(Comparison *comparison) {
    Model *model = comparison->model;
    const MoecGraphEntry *graph = model_graph(model, MOEC_GRAPH_TRAIN);
    Call *call = graph ? call_open(model, graph, NULL) : NULL;
    bool good = call != NULL;
    comparison->graph = MOEC_TRAIN, comparison->call = call;
    if (good) set_inputs(comparison, call);
    good = good && evaluate(comparison, MOEC_TRAIN, call, -1, WAYS - 1) &&
           run_call(comparison, call) && model_get_gradients(model) && model_get(model, false);
    if (good) {
        judge_outputs(comparison, call);
        judge_gradients(comparison);
        judge_states(comparison);
    }
    forget(comparison);
    call_close(call);
    return good;
}

static void set_step(Call *call, const int32_t *tokens, long place) {
    call_set_tokens(call, &tokens[place]);
    call_set_scalar(call, MOEC_SCALAR_POSITION, (double)place);
}

/* The same steps in the interpreters, where they mean something else than the whole. */
static bool judge_steps(Comparison *comparison, Call *call, const int32_t *tokens, size_t wide,
                        const float *given) {
    const char *kept = moec_option(comparison->compiler, "train.cache");
    Squares all = {.many = true, .kept = kept && strcmp(kept, "f32")}, one;
    bool good = true;
    forget(comparison);
    for (long i = 0; i < comparison->context && good; i++) {
        set_step(call, tokens, i);
        good = evaluate(comparison, MOEC_DECODE, call, -1, WAYS - 1);
        const Sample sample = {"logits", "logits", wide, wide, given + (size_t)i * wide};
        if (!good || !measure(comparison, &sample, &one)) break;
        all.exact += one.exact, all.given += one.given;
        for (int way = 0; way < WAYS; way++) all.round[way] += one.round[way];
    }
    if (good) judge_squares(comparison, DECODING, "logits, token by token", &all);
    return good;
}

static bool reads_best(const Comparison *comparison) {
    MoecProgram *step = moec_compile(comparison->compiler, MOEC_DECODE, 1, comparison->context, 1);
    return step && moec_step_differs(step);
}

/* The first sequence again, token by token. */
static bool compare_decoding(Comparison *comparison, const Call *whole, const int32_t *tokens) {
    const MoecGraphEntry *graph = model_graph(comparison->model, MOEC_GRAPH_DECODE);
    int slot = call_output(whole, "logits");
    Call *call = graph && slot >= 0 ? call_open(comparison->model, graph, NULL) : NULL;
    if (!call) return !graph || slot < 0;
    const MoecTensor *logits = &whole->graph->outputs[slot];
    size_t wide = (size_t)logits->shape[logits->rank - 1];
    float *given = memory_new(sizeof *given * wide * (size_t)comparison->context);
    bool good = true;
    for (long i = 0; i < comparison->context && good; i++) {
        set_step(call, tokens, i);
        int stepped = call_output(call, "logits");
        good = call_run(call, comparison->seed, false) && call_get(call, stepped);
        if (good) memcpy(given + (size_t)i * wide, call->outputs[stepped], sizeof *given * wide);
    }
    comparison->scale = 0;
    if (good && reads_best(comparison))
        good = judge_steps(comparison, call, tokens, wide, given);
    else if (good)
        judge(comparison, DECODING,
              &(Sample){"logits, token by token", "output:logits",
                        wide * (size_t)comparison->context, tensor_count(logits), given});
    free(given);
    call_close(call);
    return good;
}

/* The token input of a call, [batch, context]; NULL when it reads none. */
static const int32_t *tokens_of(const Call *call) {
    for (int i = 0; i < call->graph->input_count; i++)
        if (call->graph->inputs[i].input == MOEC_INPUT_TOKEN) return call->inputs[i];
    return NULL;
}

/* Leaves weights and states of the first seed whose choices are clear; the forward pass and
 * decoding compared. */
static bool compare_forward(Comparison *comparison) {
    Call *call =
        call_open(comparison->model, model_graph(comparison->model, MOEC_GRAPH_FORWARD), NULL);
    bool good = call != NULL, clear = false;
    comparison->graph = MOEC_FORWARD, comparison->call = call;
    for (int i = 0; i < SEEDS && good && !clear; i++) {
        comparison->seed = (uint64_t)(comparison->options->seed + i);
        good = set_weights(comparison);
        set_inputs(comparison, call);
        forget(comparison);
        good = good && evaluate(comparison, MOEC_FORWARD, call, -1, 0);
        clear = good && choices_are_clear(comparison);
    }
    if (good && !clear)
        good = error_message("choose another --seed, or fewer tokens",
                             "none of %d seeds makes choices that rounding leaves alone", SEEDS);
    good =
        good && evaluate(comparison, MOEC_FORWARD, call, 1, WAYS - 1) && run_call(comparison, call);
    if (good) judge_outputs(comparison, call);
    /* The pass may have moved states. */
    good = good && set_weights(comparison) &&
           (!tokens_of(call) || compare_decoding(comparison, call, tokens_of(call)));
    forget(comparison);
    call_close(call);
    return good && set_weights(comparison);
}

/* ---- the report ---- */

static bool within(const Worst *worst) {
    return !*worst->name || worst->error <= worst->limit;
}

static bool agrees(const Comparison *comparison) {
    bool good = true;
    for (int kind = 0; kind < KINDS; kind++) good = good && within(&comparison->worst[kind]);
    return good;
}

static void print_json(const Comparison *comparison) {
    json_t *report =
        json_pack("{s:s, s:s, s:s, s:I, s:b}", "model", moec_model(comparison->compiler), "device",
                  comparison->device->name, "precision", comparison->rounded ? "bf16" : "f32",
                  "seed", (json_int_t)comparison->seed, "agrees", agrees(comparison));
    for (int kind = 0; kind < KINDS; kind++) {
        const Worst *worst = &comparison->worst[kind];
        if (!*worst->name) continue;
        json_t *row =
            json_pack("{s:i, s:s, s:o, s:o}", "tensors", worst->count, "worst", worst->name,
                      "error", json_number(worst->error), "limit", json_number(worst->limit));
        if (comparison->rounded)
            json_object_set_new(row, "reference", json_number(worst->reference));
        json_object_set_new(report, kind_names[kind], row);
    }
    json_t *undecided = json_array();
    for (int i = 0; i < comparison->undecided_count; i++) {
        const Undecided *one = &comparison->undecided[i];
        json_array_append_new(undecided,
                              json_pack("{s:s, s:s, s:o, s:o}", "of", kind_names[one->kind], "name",
                                        one->name, "error", json_number(one->error), "moved",
                                        json_number(one->moved)));
    }
    if (comparison->undecided_count) json_object_set(report, "undecided", undecided);
    json_decref(undecided);
    json_dumpf(report, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    puts("");
    json_decref(report);
}

/* How many of a kind hang on a tie, and that of them which is furthest off. */
static void print_undecided(const Comparison *comparison, Kind kind) {
    const Undecided *most = NULL;
    int count = 0;
    for (int i = 0; i < comparison->undecided_count; i++) {
        const Undecided *one = &comparison->undecided[i];
        if (one->kind != kind) continue;
        count++;
        if (!most || one->error > most->error) most = one;
    }
    if (!most) return;
    printf("  undecided: %d of the %s, the most %s, off by %.1e where rounding alone moves it by "
           "%.1e\n             (values within rounding of a tie, or terms that cancel)\n",
           count, kind_names[kind], most->name, most->error, most->moved);
}

static void print_text(const Comparison *comparison) {
    printf("%s on %s, %s, seed %llu\n", moec_model(comparison->compiler), comparison->device->name,
           comparison->rounded ? "products of bf16" : "f32", (unsigned long long)comparison->seed);
    for (int kind = 0; kind < KINDS; kind++) {
        const Worst *worst = &comparison->worst[kind];
        if (!*worst->name) continue;
        printf("  %-9s %3d tensors, the worst is off by %.1e of %.1e", kind_names[kind],
               worst->count, worst->error, worst->limit);
        if (comparison->rounded) printf(" (rounding alone %.1e)", worst->reference);
        printf(": %s%s\n", worst->name, within(worst) ? "" : " DISAGREES");
    }
    for (int kind = 0; kind < KINDS; kind++) print_undecided(comparison, (Kind)kind);
}

/* ---- the command ---- */

/* The graphs that this model has: a loss to train, steps to decode. */
static int shapes_of(const Comparison *comparison, GraphShape *shapes) {
    const char *bytes = moec_cost_json(comparison->compiler);
    json_t *cost = json_loads(bytes ? bytes : "{}", 0, NULL);
    bool decodes = json_is_true(json_object_get(json_object_get(cost, "decoding"), "derived"));
    json_decref(cost);
    long batch = comparison->options->batch, context = comparison->context;
    int count = 0;
    shapes[count++] = (GraphShape){.graph = MOEC_FORWARD, .batch = batch, .context = context};
    shapes[count++] = (GraphShape){.graph = MOEC_TRAIN, .batch = batch, .context = context};
    if (decodes)
        shapes[count++] =
            (GraphShape){.graph = MOEC_DECODE, .batch = 1, .context = context, .tokens = 1};
    return count;
}

static bool compare(Comparison *comparison) {
    const Options *options = comparison->options;
    comparison->compiler = spec_open(options->operand, &options->sets);
    if (!comparison->compiler) return false;
    double longest = moec_option_number(comparison->compiler, "train.context", DEFAULT_CONTEXT);
    comparison->context = options->context            ? options->context
                          : longest < DEFAULT_CONTEXT ? (long)longest
                                                      : DEFAULT_CONTEXT;
    comparison->rounded = moec_rounded(comparison->compiler);
    GraphShape shapes[3];
    int count = shapes_of(comparison, shapes);
    comparison->model =
        model_open_on(comparison->device, comparison->compiler, shapes, count, true);
    bool good = comparison->model && compare_forward(comparison) && compare_training(comparison);
    if (good && options->json) print_json(comparison);
    if (good && !options->json) print_text(comparison);
    good = good && agrees(comparison);
    free(comparison->undecided);
    model_close(comparison->model);
    moec_close(comparison->compiler);
    return good;
}

int command_verify(int argc, char **argv) {
    const Command *command = command_row("verify");
    Options options = {.device = "cpu", .batch = DEFAULT_BATCH, .seed = 1};
    const Option table[] = {
        {OPTION_TEXT, "--device", "NAME", &options.device, "cpu (default), cuda or cuda:N"},
        {OPTION_COUNT, "--batch", "N", &options.batch, "sequences (2)"},
        {OPTION_COUNT, "--context", "N", &options.context,
         "tokens of a sequence (12, or train.context when that is less)"},
        {OPTION_COUNT, "--seed", "N", &options.seed, "of weights and inputs (1)"},
        {OPTION_FLAG, "--json", NULL, &options.json, "the figures as JSON"},
        {OPTION_LIST, "--set", "KEY=VALUE", &options.sets,
         "an option of the model, as in the file"},
        {.kind = OPTION_END},
    };
    int code = arguments_read(command, table, argc, argv, &options.operand);
    if (code >= 0) return code;
    if (options.batch < 1)
        return arguments_wrong(command, NULL, "moec verify needs a --batch of at least 1");
    Comparison comparison = {.options = &options, .device = device_open(options.device)};
    bool good = comparison.device && compare(&comparison);
    device_close(comparison.device);
    return good ? 0 : EXIT_INPUT;
}
