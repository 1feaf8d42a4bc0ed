/* draw: samples of a model that refines real inputs, such as an image from noise. Each step
 * replaces them by the outputs of the program with the same names.
 *
 *     ./draw --out drawn.safetensors [--count N] [--steps N] [--seed N] [--weights weights.bin]
 *
 * The file contains the refined inputs and the class labels (tensors.h); the classes alternate. */
#include "graph.h"
#include "random.h"
#include "refined_inputs.h"
#include "streams.h"
#include "tensors.h"
#include "options.h"

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
    int slots[REFINED_MOST], tensor_count; /* of the inputs that are written */
    float *values[REFINED_MOST];           /* [count, ...] */
    Options options;
} Drawer;

static size_t elements_of_one(const MoecTensor *input) {
    return tensor_count(input) / (size_t)input->shape[0];
}

/* Memory for the samples: refined inputs first, then labels. */
static int take_memory(Drawer *drawer, const MoecGraphEntry *entry) {
    const size_t count = (size_t)drawer->options.count;
    for (int i = 0; i < entry->output_count; i++)
        drawer->slots[drawer->tensor_count++] = refined_input(entry, i);
    for (int i = 0; i < entry->input_count; i++)
        if (entry->inputs[i].input == MOEC_INPUT_CLASS) drawer->slots[drawer->tensor_count++] = i;
    for (int i = 0; i < drawer->tensor_count; i++) {
        const size_t each = elements_of_one(&entry->inputs[drawer->slots[i]]);
        if (count > SIZE_MAX / sizeof(float) / each) return 0;
        drawer->values[i] = calloc(count * each, sizeof(float));
        if (!drawer->values[i]) return 0;
    }
    return graph_open(&drawer->graph, entry, entry->arena_bytes);
}

static const char *open_drawer(Drawer *drawer) {
    if (!take_memory(drawer, &moec_table.graphs[0])) return "out of memory";
    return graph_read(&drawer->graph, drawer->options.weights) == WEIGHTS_FINE
               ? NULL
               : "cannot read the weights, or they belong to another program";
}

static void close_drawer(Drawer *drawer) {
    graph_close(&drawer->graph);
    for (int i = 0; i < drawer->tensor_count; i++) free(drawer->values[i]);
}

static void set_scalar(Drawer *drawer, MoecScalar kind, double value) {
    const MoecGraphEntry *graph = drawer->graph.entry;
    const int slot = slot_of_scalar(graph->inputs, graph->input_count, kind);
    if (slot >= 0) *(float *)drawer->graph.inputs[slot] = (float)value;
}

/* All steps of one batch of the graph; returns 0 if a value is not finite. */
static int refine_batch(Drawer *drawer, uint64_t seed) {
    const Graph *graph = &drawer->graph;
    MoecRun run = graph_memory(graph);
    set_scalar(drawer, MOEC_SCALAR_SCHEDULE_STEPS, (double)drawer->options.steps);
    set_scalar(drawer, MOEC_SCALAR_TEMPERATURE, 1);
    for (long step = 0; step < drawer->options.steps; step++) {
        set_scalar(drawer, MOEC_SCALAR_SCHEDULE_STEP, (double)step);
        run.seed = random_bits(seed, (uint64_t)step);
        graph_run(graph->entry, &run);
        if (!refine_inputs(graph->entry, graph->inputs, (float *const *)graph->outputs)) return 0;
    }
    return 1;
}

/* Copies the first samples of the batch to the others, from sample `first` on. */
static void keep(Drawer *drawer, long first, size_t kept) {
    for (int i = 0; i < drawer->tensor_count; i++) {
        const int slot = drawer->slots[i];
        const MoecTensor *input = &drawer->graph.entry->inputs[slot];
        const size_t each = elements_of_one(input);
        float *to = drawer->values[i] + (size_t)first * each;
        const float *real = drawer->graph.inputs[slot];
        const int32_t *whole = drawer->graph.inputs[slot];
        for (size_t k = 0; k < kept * each; k++) to[k] = input->is_int ? (float)whole[k] : real[k];
    }
}

static int draw(Drawer *drawer) {
    const MoecGraphEntry *graph = drawer->graph.entry;
    for (long first = 0; first < drawer->options.count; first += graph->batch) {
        for (int i = 0; i < drawer->tensor_count; i++) {
            const MoecTensor *input = &graph->inputs[drawer->slots[i]];
            int32_t *labels = drawer->graph.inputs[drawer->slots[i]];
            const long classes = input->vocabulary ? input->vocabulary : 1;
            for (long b = 0; input->input == MOEC_INPUT_CLASS && b < graph->batch; b++)
                labels[b] = (int32_t)((first + b) % classes);
        }
        if (!refine_batch(drawer, random_bits(drawer->options.seed, (uint64_t)first))) return 0;
        const long left = drawer->options.count - first;
        keep(drawer, first, (size_t)(left < graph->batch ? left : graph->batch));
    }
    return 1;
}

static const char *write_drawings(const Drawer *drawer) {
    long shapes[REFINED_MOST][MOEC_MAX_RANK];
    WrittenTensor tensors[REFINED_MOST];
    for (int i = 0; i < drawer->tensor_count; i++) {
        const MoecTensor *input = &drawer->graph.entry->inputs[drawer->slots[i]];
        memcpy(shapes[i], input->shape, sizeof shapes[i]);
        shapes[i][0] = drawer->options.count;
        tensors[i] = (WrittenTensor){.name = input->name,
                                     .rank = input->rank,
                                     .shape = shapes[i],
                                     .values = drawer->values[i]};
    }
    return tensors_write(drawer->options.out, tensors, drawer->tensor_count);
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
    if (!error && !draw(&drawer))
        error = "the generated values are not finite: the weights are damaged";
    if (!error) error = write_drawings(&drawer);
    if (error) fprintf(stderr, "%s: %s\n", arguments[0], error);
    close_drawer(&drawer);
    return error ? 1 : 0;
}
