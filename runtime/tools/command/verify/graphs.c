/* graphs: the graphs of a model on both sides: training, forward pass, decoding token by token. */
#include "verify.h"

#include "base/memory.h"
#include "base/message.h"

#include <stdlib.h>
#include <string.h>

enum { SEEDS = 64 };

static bool run_call(const Comparison *comparison, Call *call) {
    bool good = call_run(call, comparison->seed, true);
    for (int i = 0; good && i < call->graph->output_count; i++) good = call_get(call, i) != NULL;
    return good;
}

bool verify_training(Comparison *comparison) {
    Model *model = comparison->model;
    const MoecGraphEntry *graph = model_graph(model, MOEC_GRAPH_TRAIN);
    AUTO(Call) *call = graph ? call_open(model, graph, NULL) : NULL;
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
    verify_end(comparison);
    return good;
}

static void set_step(Call *call, const int32_t *tokens, long place) {
    call_set_tokens(call, &tokens[place], -1);
    call_set_scalar(call, MOEC_SCALAR_POSITION, (double)place);
}

/* Logits of a device, one row per step. */
typedef struct DecodedSteps {
    const int32_t *tokens;
    const float *logits; /* [step, wide] */
    size_t wide;
} DecodedSteps;

/* The same steps in the interpreters, also with perturbed values. */
static bool measure_steps(Comparison *comparison, Call *call, const DecodedSteps *steps, bool noise,
                          Squares *all) {
    const char *kept = moec_option(comparison->compiler, "inference.kv_cache_dtype");
    Squares one;
    *all = (Squares){.many = true, .kept = kept && strcmp(kept, "f32")};
    verify_begin(comparison, MOEC_DECODE, call);
    for (long i = 0; i < comparison->context; i++) {
        set_step(call, steps->tokens, i);
        if (!verify_evaluate(comparison, EACH)) return false;
        if (noise) verify_continue_noise(comparison);
        const Sample sample = {"logits", "logits", steps->wide, steps->wide,
                               steps->logits + (size_t)i * steps->wide};
        if (!verify_measure(comparison, &sample, &one))
            return error_message(NULL, "the definition of a decoding step has no logits");
        all->exact += one.exact, all->given += one.given;
        for (int way = 0; way < WAYS; way++) all->round[way] += one.round[way];
        for (int k = 0; k < NOISES; k++) all->noise[k] += one.noise[k];
    }
    return true;
}

/* Compares steps that have another definition than the whole sequence. */
static bool judge_steps(Comparison *comparison, Call *call, const DecodedSteps *steps) {
    Squares all;
    bool good = measure_steps(comparison, call, steps, false, &all);
    if (good && verify_is_off(comparison, DECODING, &all))
        good = measure_steps(comparison, call, steps, true, &all);
    if (good) verify_judge_squares(comparison, DECODING, "logits, token by token", &all);
    return good;
}

/* Smaller weights belong to products, and a step has other products than the whole sequence. */
static bool step_differs(const Comparison *comparison) {
    if (comparison->smaller_weights) return true;
    MoecProgram *step = moec_compile(comparison->compiler, MOEC_DECODE, 1, comparison->context, 1);
    return step && moec_step_differs(step);
}

/* The first sequence again, token by token. */
static bool compare_decoding(Comparison *comparison, const Call *whole, const int32_t *tokens) {
    const MoecGraphEntry *graph = model_graph(comparison->model, MOEC_GRAPH_DECODE);
    int slot = call_output(whole, "logits");
    AUTO(Call) *call = graph && slot >= 0 ? call_open(comparison->model, graph, NULL) : NULL;
    if (!call) return !graph || slot < 0;
    const MoecTensor *logits = &whole->graph->outputs[slot];
    size_t wide = (size_t)logits->shape[logits->rank - 1];
    AUTO_FREE float *given = memory_new(sizeof *given * wide * (size_t)comparison->context);
    bool good = true;
    for (long i = 0; i < comparison->context && good; i++) {
        set_step(call, tokens, i);
        int stepped = call_output(call, "logits");
        good = call_run(call, comparison->seed, false) && call_get(call, stepped);
        if (good) memcpy(given + (size_t)i * wide, call->outputs[stepped], sizeof *given * wide);
    }
    comparison->scale = 0;
    if (good && step_differs(comparison))
        good = judge_steps(comparison, call, &(DecodedSteps){tokens, given, wide});
    else if (good)
        verify_judge(comparison, DECODING,
                     &(Sample){"logits, token by token", "output:logits",
                               wide * (size_t)comparison->context, tensor_count(logits), given});
    return good;
}

/* The token input of a call, [batch, context]; NULL when it reads none. */
static const int32_t *tokens_of(const Call *call) {
    for (int i = 0; i < call->graph->input_count; i++)
        if (call->graph->inputs[i].input == MOEC_INPUT_TOKEN) return call->inputs[i];
    return NULL;
}

/* Of fewer tokens fewer selections are made, all of which have to be clear. */
static bool selections_unclear(const Comparison *comparison) {
    const long batch = comparison->shape.batch, context = comparison->context;
    AUTO_FREE char *help = memory_format("try another --seed, or fewer tokens: -b 1 -c %ld",
                                         batch > 1 && context <= 12 ? context
                                         : context > 24             ? 12
                                                                    : (context + 1) / 2);
    error_message(help,
                  "with each of %d seeds, some selection depends on rounding at batch %ld, "
                  "context %ld",
                  SEEDS, batch, context);
    return false;
}

/* The first refinement and a later one; elements that are given keep their values. */
bool verify_refinement(Comparison *comparison) {
    enum { REFINEMENTS = 2 };
    const MoecGraphEntry *graph = model_graph(comparison->model, MOEC_GRAPH_REFINE);
    AUTO(Call) *call = graph ? call_open(comparison->model, graph, NULL) : NULL;
    bool good = !graph || call;
    for (int step = 0; call && good && step < REFINEMENTS; step++) {
        verify_begin(comparison, MOEC_REFINE, call);
        verify_set_inputs(comparison, call);
        call_set_scalar(call, MOEC_SCALAR_SCHEDULE_STEP, step);
        call_set_scalar(call, MOEC_SCALAR_SCHEDULE_STEPS, REFINEMENTS + 1);
        call_set_scalar(call, MOEC_SCALAR_TEMPERATURE, 1);
        good = verify_evaluate(comparison, 1) && run_call(comparison, call);
        if (good) verify_judge_outputs(comparison, call);
    }
    verify_end(comparison);
    return good;
}

bool verify_forward(Comparison *comparison, long seed) {
    AUTO(Call) *call =
        call_open(comparison->model, model_graph(comparison->model, MOEC_GRAPH_FORWARD), NULL);
    bool good = call != NULL, clear = false;
    for (int i = 0; i < SEEDS && good && !clear; i++) {
        comparison->seed = (uint64_t)(seed + i);
        good = verify_set_weights(comparison);
        verify_set_inputs(comparison, call);
        verify_begin(comparison, MOEC_FORWARD, call);
        good = good && verify_evaluate(comparison, 1);
        clear = good && verify_choices_are_clear(comparison);
    }
    if (good && !clear) good = selections_unclear(comparison);
    good = good && run_call(comparison, call);
    if (good) verify_judge_outputs(comparison, call);
    /* The pass may have moved states. */
    good = good && verify_set_weights(comparison) &&
           (!tokens_of(call) || compare_decoding(comparison, call, tokens_of(call)));
    verify_end(comparison);
    return good && verify_set_weights(comparison);
}
