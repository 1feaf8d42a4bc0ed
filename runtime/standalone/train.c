/* train: trains the model of this folder on data: see data.h.
 *
 *     ./train --data FILE [--steps N] [--seed N] [--weights weights.bin] [--out trained.bin]
 *
 * training.h contains the training options of the spec: SETTING_RATE, SETTING_CLIP, SETTING_STEPS,
 * SETTING_ACCUMULATE, SETTING_SEED. */
#include "data.h"
#include "graph.h"
#include "random.h"
#include "streams.h"
#include "training.h"
#include "options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Options {
    const char *data, *weights, *out;
    long steps;
    uint64_t seed;
} Options;

typedef struct Trainer {
    Graph graph;
    const MoecGraphEntry *whole; /* MOEC_GRAPH_STEP, or NULL */
    const MoecUpdate *update;
    float *gradients;
    float **moments; /* the optimizer's states, each laid out like the weights */
    void **numbers;  /* the inputs of `whole` */
    Data data;
    int loss; /* its slot */
    Options options;
} Trainer;

static int take_memory(Trainer *trainer, const MoecGraphEntry *graph) {
    const MoecGraphEntry *whole = trainer->whole;
    size_t arena_bytes = graph->arena_bytes;
    if (whole && whole->arena_bytes > arena_bytes) arena_bytes = whole->arena_bytes;
    trainer->gradients = block_new(trained_bytes(&moec_table));
    trainer->numbers = whole ? slots_new(whole->inputs, whole->input_count) : NULL;
    trainer->moments = calloc((size_t)trainer->update->state_count + 1, sizeof *trainer->moments);
    int good = graph_open(&trainer->graph, graph, arena_bytes) && trainer->gradients &&
               trainer->moments && (trainer->numbers || !whole);
    for (int i = 0; good && i < trainer->update->state_count; i++) {
        trainer->moments[i] = block_new(moment_bytes(&moec_table));
        good = trainer->moments[i] != NULL;
    }
    return good;
}

static const char *open_trainer(Trainer *trainer) {
    const MoecGraphEntry *graph = graph_entry(MOEC_GRAPH_TRAIN);
    trainer->whole = graph_entry(MOEC_GRAPH_STEP);
    trainer->update = moec_table.update;
    if (!graph || !trainer->update) return "the program has no train graph";
    trainer->loss = slot_of_output(graph, "loss");
    if (trainer->loss < 0) return "the model has no loss";
    if (!take_memory(trainer, graph)) return "out of memory";
    const char *error =
        data_open(&trainer->data, trainer->options.data, graph, trainer->options.seed);
    if (!error && graph_read(&trainer->graph, trainer->options.weights) != WEIGHTS_FINE)
        error = "cannot read the weights, or they belong to another program";
    return error;
}

static void close_trainer(Trainer *trainer) {
    graph_close(&trainer->graph);
    block_free(trainer->gradients);
    for (int i = 0; trainer->moments && i < trainer->update->state_count; i++)
        block_free(trainer->moments[i]);
    free(trainer->moments);
    if (trainer->whole) slots_free(trainer->numbers, trainer->whole->input_count);
    data_close(&trainer->data);
}

/* The numbers of a step. */
typedef struct Given {
    double rate, step, steps;
    const double *clips; /* the factors of the gradients by clip group */
} Given;

static float given_number(const Given *given, MoecScalar kind, int clip_group) {
    switch (kind) {
    case MOEC_SCALAR_RATE:
        return (float)given->rate;
    case MOEC_SCALAR_STEP:
        return (float)given->step;
    case MOEC_SCALAR_STEPS:
        return (float)given->steps;
    case MOEC_SCALAR_CLIP:
        return (float)given->clips[clip_group];
    default:
        return 1;
    }
}

/* Parameters that are not updated element by element. */
static void update_whole(Trainer *trainer, const Given *given) {
    const MoecGraphEntry *whole = trainer->whole;
    MoecRun run = graph_memory(&trainer->graph);
    for (int i = 0; i < whole->input_count; i++)
        *(float *)trainer->numbers[i] =
            given_number(given, whole->inputs[i].scalar, whole->inputs[i].clip_group);
    run.gradients = trainer->gradients;
    run.inputs = (const void *const *)trainer->numbers;
    run.outputs = NULL;
    run.seed =
        random_bits(random_seed_for(trainer->options.seed, "optimizer"), (uint64_t)given->step - 1);
    run.last_micro_batch = 1;
    graph_run(whole, &run);
    weights_round(&moec_table, trainer->graph.weights, trainer->graph.rounded);
}

static void update_all(Trainer *trainer, const Given *given) {
    const MoecUpdate *update = trainer->update;
    const int width = update->scalar_count, count = update->group_count * width;
    float *scalars = calloc((size_t)count + 1, sizeof *scalars);
    for (int i = 0; scalars && i < moec_table.parameter_count; i++) {
        const MoecTensor *one = &moec_table.parameters[i];
        const int first = one->group * width;
        for (int j = 0; j < width && !one->frozen && !one->whole; j++)
            scalars[first + j] = update->own[first + j] *
                                 given_number(given, update->scalars[j].kind, one->clip_group);
    }
    if (scalars)
        update_run(&moec_table, trainer->graph.weights, trainer->gradients, trainer->moments,
                   scalars, trainer->graph.rounded);
    free(scalars);
    if (trainer->whole) update_whole(trainer, given);
}

/* The factors of the gradients by clip group. Group 0, the other parameters, has the limit
 * SETTING_CLIP. NULL without memory. */
static double *clip_factors(const Trainer *trainer, double norm) {
    const int groups = table_clip_groups(&moec_table);
    double *factors = calloc((size_t)groups + 1, sizeof *factors);
    for (int i = 0; i < moec_table.parameter_count && groups && factors; i++) {
        const MoecTensor *one = &moec_table.parameters[i];
        const size_t count = (tensor_count(one) + 3) / 4 * 4; /* padding is zero */
        if (!one->frozen)
            factors[one->clip_group] +=
                block_squares(trainer->gradients + one->offset / sizeof(float), count);
    }
    for (int i = 0; i <= groups && factors; i++) {
        const double own = groups ? sqrt(factors[i]) : norm,
                     limit = table_clip_limit(&moec_table, i, SETTING_CLIP);
        factors[i] = limit > 0 && own > limit ? limit / own : 1;
    }
    return factors;
}

/* One optimizer step; *loss is the mean over its micro-batches. */
static const char *run_step(Trainer *trainer, long step, double *loss) {
    const MoecGraphEntry *graph = trainer->graph.entry;
    long parts = SETTING_ACCUMULATE;
    int scale = slot_of_scalar(graph->inputs, graph->input_count, MOEC_SCALAR_LOSS_SCALE);
    if (scale >= 0) *(float *)trainer->graph.inputs[scale] = 1 / (float)parts;
    *loss = 0;
    for (long part = 0; part < parts; part++) {
        long number = step * parts + part;
        const char *error = data_put(&trainer->data, graph, trainer->graph.inputs,
                                     (uint64_t)(number * graph->batch));
        if (error) return error;
        MoecRun run = graph_memory(&trainer->graph);
        run.gradients = trainer->gradients;
        run.seed = random_bits(trainer->options.seed, (uint64_t)number);
        run.first_micro_batch = part == 0;
        run.last_micro_batch = part == parts - 1;
        graph_run(graph, &run);
        *loss += (double)*(float *)trainer->graph.outputs[trainer->loss] / (double)parts;
    }
    double norm =
        sqrt(block_squares(trainer->gradients, trained_bytes(&moec_table) / sizeof(float)));
    if (!isfinite(*loss) || !isfinite(norm))
        return "the loss is no longer finite: use a lower learning rate";
    double *clips = clip_factors(trainer, norm);
    if (!clips) return "out of memory";
    const Given given = {
        .rate = SETTING_RATE * trainer->update->rate((double)step, (double)trainer->options.steps),
        .step = (double)step + 1,
        .steps = (double)trainer->options.steps,
        .clips = clips,
    };
    update_all(trainer, &given);
    free(clips);
    return NULL;
}

/* The weight average of a parameter: its block, and its offset in *offset; NULL if there is
 * none. */
static float *average_of(const Trainer *trainer, const MoecTensor *parameter, size_t *offset) {
    static const char prefix[] = "optimizer.average:";
    const size_t length = sizeof prefix - 1;
    *offset = parameter->offset;
    for (int i = 0; !parameter->whole && i < trainer->update->state_count; i++)
        if (strcmp(trainer->update->state_names[i], "average") == 0) return trainer->moments[i];
    for (int i = 0; parameter->whole && i < moec_table.state_count; i++) {
        const MoecTensor *state = &moec_table.states[i];
        *offset = state->offset;
        if (strncmp(state->name, prefix, length) == 0 &&
            strcmp(state->name + length, parameter->name) == 0 &&
            tensor_count(state) == tensor_count(parameter))
            return trainer->graph.states;
    }
    return NULL;
}

/* Replaces the weights by their averages for the output. */
static void take_averages(Trainer *trainer) {
    for (int i = 0; i < moec_table.parameter_count; i++) {
        const MoecTensor *parameter = &moec_table.parameters[i];
        size_t offset, bytes = tensor_count(parameter) * sizeof(float);
        const float *block = parameter->frozen ? NULL : average_of(trainer, parameter, &offset);
        float *values = block ? malloc(bytes) : NULL;
        if (!values) continue;
        block_get(block, offset, values, bytes);
        block_put(trainer->graph.weights, parameter->offset, values, bytes);
        free(values);
    }
}

static const char *train(Trainer *trainer) {
    for (long step = 0; step < trainer->options.steps; step++) {
        double loss;
        const char *error = run_step(trainer, step, &loss);
        if (error) return error;
        printf("step %ld loss %.6f\n", step + 1, loss);
        fflush(stdout);
    }
    if (!isfinite(block_squares(trainer->graph.weights, moec_table.weight_bytes / sizeof(float))))
        return "the weights are no longer finite: use a lower learning rate";
    if (trainer->options.steps > 0) take_averages(trainer);
    if (weights_write(trainer->options.out, &moec_table, block_get, trainer->graph.weights, NULL,
                      trainer->graph.states) != WEIGHTS_FINE)
        return "cannot write the trained weights";
    return NULL;
}

static int read_options(Options *options, int count, char **arguments) {
    const Option known[] = {
        {.name = "--data", .text = &options->data},
        {.name = "--weights", .text = &options->weights},
        {.name = "--out", .text = &options->out},
        {.name = "--steps", .whole = &options->steps},
        {.name = "--seed", .seed = &options->seed},
    };
    return options_read(known, (int)(sizeof known / sizeof *known), count, arguments) &&
           options->data;
}

int main(int count, char **arguments) {
    streams_hold();
    Trainer trainer = {.options = {.weights = "weights.bin",
                                   .out = "trained.bin",
                                   .steps = SETTING_STEPS,
                                   .seed = SETTING_SEED}};
    if (!read_options(&trainer.options, count, arguments))
        return options_usage("--data FILE [--steps N] [--seed N] [--weights FILE] [--out FILE]\n",
                             count, arguments);
    const char *error = open_trainer(&trainer);
    if (!error) error = train(&trainer);
    if (!error) error = streams_end();
    if (error) fprintf(stderr, "%s: %s\n", arguments[0], error);
    close_trainer(&trainer);
    return error ? 1 : 0;
}
