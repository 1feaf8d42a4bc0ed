/* draw: generates examples from noise with a flow-matching model. The model computes the velocity
 * from example to noise; steps of Euler's method lead from noise at time 1 to examples at time 0.
 *
 *     ./draw --out drawn.safetensors [--count N] [--steps N] [--seed N] [--weights weights.bin]
 *
 * The file contains "image" and "label" (tensors.h); the classes alternate. */
#include "graph.h"
#include "random.h"
#include "streams.h"
#include "tensors.h"
#include "options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Options {
    const char *out, *weights;
    long count, steps;
    uint64_t seed;
} Options;

typedef struct Drawer {
    Graph graph;
    int image, time, label, velocity; /* slots */
    float *images, *labels;           /* generated examples: [count, ...], [count] */
    Options options;
} Drawer;

static int take_memory(Drawer *drawer, const MoecGraphEntry *entry) {
    size_t count = (size_t)drawer->options.count,
           each = tensor_count(&entry->inputs[drawer->image]) / (size_t)entry->batch;
    if (count > SIZE_MAX / sizeof(float) / each) return 0;
    drawer->images = calloc(count * each, sizeof *drawer->images);
    drawer->labels = calloc(count, sizeof *drawer->labels);
    return graph_open(&drawer->graph, entry, entry->arena_bytes) && drawer->images &&
           drawer->labels;
}

static const char *open_drawer(Drawer *drawer) {
    const MoecGraphEntry *graph = &moec_table.graphs[0];
    drawer->image = slot_find(graph->inputs, graph->input_count, MOEC_INPUT_REAL, "image");
    drawer->time = slot_find(graph->inputs, graph->input_count, MOEC_INPUT_REAL, "time");
    drawer->label = slot_find(graph->inputs, graph->input_count, MOEC_INPUT_CLASS, "label");
    drawer->velocity = slot_of_output(graph, "velocity");
    if (drawer->image < 0 || drawer->time < 0 || drawer->label < 0 || drawer->velocity < 0)
        return "the model must have inputs image, time and label, and output velocity";
    if (!take_memory(drawer, graph)) return "out of memory";
    return graph_read(&drawer->graph, drawer->options.weights) == WEIGHTS_FINE
               ? NULL
               : "cannot read the weights, or they belong to another program";
}

static void close_drawer(Drawer *drawer) {
    graph_close(&drawer->graph);
    free(drawer->images);
    free(drawer->labels);
}

/* Converts noise in `image` to examples, one batch of the graph. */
static void remove_noise(Drawer *drawer, float *image, size_t numbers) {
    const MoecGraphEntry *graph = drawer->graph.entry;
    const float *velocity = drawer->graph.outputs[drawer->velocity];
    float *time = drawer->graph.inputs[drawer->time];
    long steps = drawer->options.steps;
    MoecRun run = graph_memory(&drawer->graph);
    for (long step = 0; step < steps; step++) {
        for (size_t i = 0; i < tensor_count(&graph->inputs[drawer->time]); i++)
            time[i] = (float)(1 - (double)step / (double)steps);
        graph_run(graph, &run);
        for (size_t i = 0; i < numbers; i++) image[i] -= velocity[i] / (float)steps;
    }
}

static void draw(Drawer *drawer) {
    const MoecGraphEntry *graph = drawer->graph.entry;
    const MoecTensor *image = &graph->inputs[drawer->image], *label = &graph->inputs[drawer->label];
    size_t numbers = tensor_count(image), each = numbers / (size_t)graph->batch;
    long classes = label->vocabulary ? label->vocabulary : 1;
    float *seen = drawer->graph.inputs[drawer->image];
    int32_t *kinds = drawer->graph.inputs[drawer->label];
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
    const MoecTensor *image = &drawer->graph.entry->inputs[drawer->image];
    size_t each = tensor_count(image) / (size_t)image->shape[0],
           numbers = (size_t)drawer->options.count * each;
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
