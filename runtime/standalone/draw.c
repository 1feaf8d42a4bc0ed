/* draw: generates examples from noise with a flow-matching model. The model computes the velocity
 * from example to noise; steps of Euler's method lead from noise at time 1 to examples at time 0.
 *
 *     ./draw --out drawn.safetensors [--count N] [--steps N] [--seed N] [--weights weights.bin]
 *
 * The file contains "image" and "label" (tensors.h); the classes alternate. */
#include "blocks.h"
#include "random.h"
#include "streams.h"
#include "tensors.h"
#include "weights.h"
#include "options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const MoecTable moec_table;

typedef struct Options {
    const char *out, *weights;
    long count, steps;
    uint64_t seed;
} Options;

typedef struct Drawer {
    const MoecGraphEntry *graph;
    float *weights, *states;
    void *rounded; /* see weights_round */
    unsigned char *arena;
    void **inputs, **outputs;         /* by slot */
    int image, time, label, velocity; /* slots */
    float *images, *labels;           /* generated examples: [count, ...], [count] */
    Options options;
} Drawer;

static const char *take_memory(Drawer *drawer) {
    const MoecGraphEntry *graph = drawer->graph;
    size_t count = (size_t)drawer->options.count,
           each = block_count(&graph->inputs[drawer->image]) / (size_t)graph->batch;
    if (count > SIZE_MAX / sizeof(float) / each) return "out of memory";
    drawer->weights = block_new(moec_table.weight_bytes);
    drawer->rounded = block_new(moec_table.round ? moec_table.weight_bytes / 2 : 0);
    drawer->states = block_new(moec_table.state_bytes);
    drawer->arena = block_new(graph->arena_bytes);
    drawer->inputs = slots_new(graph->inputs, graph->input_count);
    drawer->outputs = slots_new(graph->outputs, graph->output_count);
    drawer->images = calloc(count * each, sizeof *drawer->images);
    drawer->labels = calloc(count, sizeof *drawer->labels);
    int good = drawer->weights && drawer->rounded && drawer->states && drawer->arena &&
               drawer->inputs && drawer->outputs && drawer->images && drawer->labels;
    return good ? NULL : "out of memory";
}

static const char *open_drawer(Drawer *drawer) {
    const MoecGraphEntry *graph = drawer->graph = &moec_table.graphs[0];
    drawer->image = slot_find(graph->inputs, graph->input_count, MOEC_INPUT_REAL, "image");
    drawer->time = slot_find(graph->inputs, graph->input_count, MOEC_INPUT_REAL, "time");
    drawer->label = slot_find(graph->inputs, graph->input_count, MOEC_INPUT_CLASS, "label");
    drawer->velocity = -1;
    for (int i = 0; i < graph->output_count; i++)
        if (strcmp(graph->outputs[i].name, "velocity") == 0) drawer->velocity = i;
    if (drawer->image < 0 || drawer->time < 0 || drawer->label < 0 || drawer->velocity < 0)
        return "the model must have inputs image, time and label, and output velocity";
    const char *error = take_memory(drawer);
    if (!error && weights_read(drawer->options.weights, &moec_table, block_put, drawer->weights,
                               drawer->states) != WEIGHTS_FINE)
        error = "cannot read the weights, or they belong to another program";
    if (!error) weights_round(&moec_table, drawer->weights, drawer->rounded);
    return error;
}

static void close_drawer(Drawer *drawer) {
    block_free(drawer->weights);
    block_free(drawer->rounded);
    block_free(drawer->states);
    block_free(drawer->arena);
    slots_free(drawer->inputs, drawer->graph->input_count);
    slots_free(drawer->outputs, drawer->graph->output_count);
    free(drawer->images);
    free(drawer->labels);
}

/* Converts noise in `image` to examples, one batch of the graph. */
static void remove_noise(Drawer *drawer, float *image, size_t numbers) {
    const MoecGraphEntry *graph = drawer->graph;
    const float *velocity = drawer->outputs[drawer->velocity];
    float *time = drawer->inputs[drawer->time];
    long steps = drawer->options.steps;
    MoecRun run = {
        .weights = drawer->weights,
        .rounded = drawer->rounded,
        .states = drawer->states,
        .arena = drawer->arena,
        .inputs = (const void *const *)drawer->inputs,
        .outputs = (float *const *)drawer->outputs,
    };
    for (long step = 0; step < steps; step++) {
        for (size_t i = 0; i < block_count(&graph->inputs[drawer->time]); i++)
            time[i] = (float)(1 - (double)step / (double)steps);
        graph_run(graph, &run);
        for (size_t i = 0; i < numbers; i++) image[i] -= velocity[i] / (float)steps;
    }
}

static void draw(Drawer *drawer) {
    const MoecGraphEntry *graph = drawer->graph;
    const MoecTensor *image = &graph->inputs[drawer->image], *label = &graph->inputs[drawer->label];
    size_t numbers = block_count(image), each = numbers / (size_t)graph->batch;
    long classes = label->vocabulary ? label->vocabulary : 1;
    float *seen = drawer->inputs[drawer->image];
    int32_t *kinds = drawer->inputs[drawer->label];
    for (long first = 0; first < drawer->options.count; first += graph->batch) {
        for (long b = 0; b < graph->batch; b++) kinds[b] = (int32_t)((first + b) % classes);
        for (size_t i = 0; i < numbers; i++)
            seen[i] = (float)random_normal(drawer->options.seed, (size_t)first * each + i);
        remove_noise(drawer, seen, numbers);
        long left = drawer->options.count - first, kept = left < graph->batch ? left : graph->batch;
        memcpy(drawer->images + (size_t)first * each, seen, sizeof *seen * each * (size_t)kept);
        for (long b = 0; b < kept; b++) drawer->labels[first + b] = (float)kinds[b];
    }
}

static const char *write_drawings(const Drawer *drawer) {
    const MoecTensor *image = &drawer->graph->inputs[drawer->image];
    size_t numbers = (size_t)drawer->options.count * (block_count(image) / (size_t)image->shape[0]);
    for (size_t i = 0; i < numbers; i++)
        if (!isfinite(drawer->images[i]))
            return "the generated values are not finite: the weights are damaged";
    long shape[MOEC_MAX_RANK];
    memcpy(shape, image->shape, sizeof shape);
    shape[0] = drawer->options.count;
    const WrittenTensor tensors[] = {
        {.name = "image", .rank = image->rank, .shape = shape, .values = drawer->images},
        {.name = "label", .rank = 1, .shape = shape, .values = drawer->labels},
    };
    return tensors_write(drawer->options.out, tensors, 2);
}

static int read_options(Options *options, int count, char **arguments) {
    const Option known[] = {
        {.name = "--out", .text = &options->out},
        {.name = "--weights", .text = &options->weights},
        {.name = "--count", .whole = &options->count},
        {.name = "--steps", .whole = &options->steps},
        {.name = "--seed", .seed = &options->seed},
    };
    return options_read(known, (int)(sizeof known / sizeof *known), count, arguments) &&
           options->out && options->count > 0 && options->steps > 0;
}

int main(int count, char **arguments) {
    streams_hold();
    Drawer drawer = {.options = {.weights = "weights.bin", .count = 16, .steps = 50}};
    if (!read_options(&drawer.options, count, arguments))
        return options_usage("--out FILE [--count N] [--steps N] [--seed N] [--weights FILE]\n",
                             count, arguments);
    const char *error = open_drawer(&drawer);
    if (!error) {
        draw(&drawer);
        error = write_drawings(&drawer);
    }
    if (error) fprintf(stderr, "%s: %s\n", arguments[0], error);
    close_drawer(&drawer);
    return error ? 1 : 0;
}
