/* verify: moec verify: what a device computes beside what the program means, tensor by tensor:
 * every output, every gradient, every state after the step, and decoding token by token against the
 * whole window (against the step's own meaning where that is another: see moec_step_differs).
 *
 * f32 is held to fixed limits. Where products round to bf16 the program is evaluated in double
 * precision with products that round, the choices held equal: its distance to the exact one is the
 * reference, the most of some equally good ways to round (as many of them as it takes to let a
 * device pass), and a device may be twice as far off. Two programs are rounded so: the model's, and
 * the device's, which stores as bf16 what it only ever rounds and rounds a little more by that.
 * Results of many numbers (logits, decoding, all gradients as one) are held to the first. A single
 * gradient can be a difference of large terms, and a single number is one of chance: those are held
 * to the second.
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
#include "verify.h"

#include "command/commands.h"
#include "base/memory.h"
#include "base/message.h"
#include "command/spec.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_BATCH = 2, DEFAULT_CONTEXT = 12, SEEDS = 64 };

typedef struct Options {
    const char *operand, *device;
    long batch, context, seed;
    bool json;
    TextList sets;
} Options;

/* ---- graphs ---- */

static bool run_call(const Comparison *comparison, Call *call) {
    bool good = call_run(call, comparison->seed, true);
    for (int i = 0; good && i < call->graph->output_count; i++) good = call_get(call, i) != NULL;
    return good;
}

static bool compare_training(Comparison *comparison) {
    Model *model = comparison->model;
    const MoecGraphEntry *graph = model_graph(model, MOEC_GRAPH_TRAIN);
    Call *call = graph ? call_open(model, graph, NULL) : NULL;
    bool good = call != NULL;
    verify_begin(comparison, MOEC_TRAIN, call);
    if (good) verify_set_inputs(comparison, call);
    good = good && verify_evaluate(comparison, 1) && run_call(comparison, call) &&
           model_get_gradients(model) && model_get(model, false);
    if (good) {
        verify_judge_outputs(comparison, call);
        verify_judge_gradients(comparison);
        verify_judge_states(comparison);
    }
    verify_begin(comparison, comparison->graph, NULL);
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
    verify_begin(comparison, MOEC_DECODE, call);
    for (long i = 0; i < comparison->context && good; i++) {
        set_step(call, tokens, i);
        good = verify_evaluate(comparison, EACH);
        const Sample sample = {"logits", "logits", wide, wide, given + (size_t)i * wide};
        if (!good || !verify_measure(comparison, &sample, &one)) break;
        all.exact += one.exact, all.given += one.given;
        for (int way = 0; way < WAYS; way++) all.round[way] += one.round[way];
    }
    if (good) verify_judge_squares(comparison, DECODING, "logits, token by token", &all);
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
        verify_judge(comparison, DECODING,
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
static bool compare_forward(Comparison *comparison, const Options *options) {
    Call *call =
        call_open(comparison->model, model_graph(comparison->model, MOEC_GRAPH_FORWARD), NULL);
    bool good = call != NULL, clear = false;
    for (int i = 0; i < SEEDS && good && !clear; i++) {
        comparison->seed = (uint64_t)(options->seed + i);
        good = verify_set_weights(comparison);
        verify_set_inputs(comparison, call);
        verify_begin(comparison, MOEC_FORWARD, call);
        good = good && verify_evaluate(comparison, 1);
        clear = good && verify_choices_are_clear(comparison);
    }
    if (good && !clear)
        good = error_message("choose another --seed, or fewer tokens",
                             "none of %d seeds makes choices that rounding leaves alone", SEEDS);
    good = good && run_call(comparison, call);
    if (good) verify_judge_outputs(comparison, call);
    /* The pass may have moved states. */
    good = good && verify_set_weights(comparison) &&
           (!tokens_of(call) || compare_decoding(comparison, call, tokens_of(call)));
    verify_begin(comparison, comparison->graph, NULL);
    call_close(call);
    return good && verify_set_weights(comparison);
}

/* ---- the command ---- */

/* The graphs that this model has: a loss to train, steps to decode. */
static int shapes_of(const Comparison *comparison, long batch, GraphShape *shapes) {
    const char *bytes = moec_cost_json(comparison->compiler);
    json_t *cost = json_loads(bytes ? bytes : "{}", 0, NULL);
    bool decodes = json_is_true(json_object_get(json_object_get(cost, "decoding"), "derived"));
    json_decref(cost);
    const long context = comparison->context;
    int count = 0;
    shapes[count++] = (GraphShape){.graph = MOEC_FORWARD, .batch = batch, .context = context};
    shapes[count++] = (GraphShape){.graph = MOEC_TRAIN, .batch = batch, .context = context};
    if (decodes)
        shapes[count++] =
            (GraphShape){.graph = MOEC_DECODE, .batch = 1, .context = context, .tokens = 1};
    return count;
}

static bool compare(Comparison *comparison, const Options *options) {
    comparison->compiler = spec_open(options->operand, &options->sets);
    if (!comparison->compiler) return false;
    double longest = moec_option_number(comparison->compiler, "train.context", DEFAULT_CONTEXT);
    comparison->context = options->context            ? options->context
                          : longest < DEFAULT_CONTEXT ? (long)longest
                                                      : DEFAULT_CONTEXT;
    comparison->rounded = moec_rounded(comparison->compiler);
    GraphShape shapes[3];
    int count = shapes_of(comparison, options->batch, shapes);
    comparison->model = model_open(comparison->device, comparison->compiler, shapes, count, true);
    bool good =
        comparison->model && compare_forward(comparison, options) && compare_training(comparison);
    if (good) verify_print(comparison, options->json);
    good = good && verify_agrees(comparison);
    free(comparison->undecided);
    free(comparison->states);
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
    Comparison comparison = {.device = device_open(options.device)};
    bool good = comparison.device && compare(&comparison, &options);
    device_close(comparison.device);
    return good ? 0 : EXIT_INPUT;
}
