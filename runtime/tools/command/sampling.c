/* sampling: moec sample: samples of a model that refines real inputs, such as an image from noise
 * (stdlib/diffusion.moe). Other inputs are class labels; the samples have the classes in turn.
 */
#include "abi/json_make.h"
#include "abi/refined_inputs.h"
#include "tools/command/internal.h"
#include "training/checkpoint.h"
#include "tools/command/line/commands.h"
#include "base/files.h"
#include "base/message.h"
#include "base/memory.h"
#include "data/random.h"
#include "model/call.h"
#include "training/spec.h"

#include <stdlib.h>
#include <string.h>

typedef struct SampleOptions {
    const char *operand, *out, *device;
    Device *on;
    long count, steps, seed;
    bool json;
    TextList sets;
} SampleOptions;

/* The samples: refined inputs and class labels, as tensors of the written file. */
typedef struct DrawnSamples {
    Call *call;
    TensorEntry tensors[REFINED_MOST]; /* data: memory of its own */
    int slots[REFINED_MOST], count;    /* of the inputs */
} DrawnSamples;

static bool is_refined(const MoecGraphEntry *graph, int slot) {
    for (int i = 0; i < graph->output_count; i++)
        if (refined_input(graph, i) == slot) return true;
    return false;
}

static void add_sampled(DrawnSamples *samples, int slot, long count) {
    const MoecTensor *input = &samples->call->graph->inputs[slot];
    TensorEntry *tensor = &samples->tensors[samples->count];
    const size_t each = tensor_count(input) / (size_t)input->shape[0];
    samples->slots[samples->count++] = slot;
    *tensor = (TensorEntry){.name = (char *)(uintptr_t)input->name, .rank = input->rank};
    memcpy(tensor->shape, input->shape, sizeof(long) * (size_t)input->rank);
    tensor->shape[0] = count;
    tensor->bytes = sizeof(float) * each * (size_t)count;
    tensor->data = memory_new(tensor->bytes);
}

bool sample_inputs_fit(const MoecGraphEntry *graph) {
    int written = 0;
    for (int i = 0; i < graph->input_count; i++) {
        const MoecTensor *input = &graph->inputs[i];
        const bool refined = is_refined(graph, i), label = input->input == MOEC_INPUT_CLASS,
                   given = strchr(input->name, '.'); /* "image.given" */
        if (refined && input->is_int)
            return error_message("use moec generate", "the model refines the tokens '%s'",
                                 input->name);
        if (!refined && !label && !given && input->input != MOEC_INPUT_SCALAR)
            return error_message("samples have refined inputs and class labels",
                                 "the model needs the input '%s'", input->name);
        written += refined || label;
    }
    return written <= REFINED_MOST ||
           error_message("reduce their number",
                         "the model has %d refined inputs and labels, the maximum is %d", written,
                         REFINED_MOST);
}

/* Memory of the written tensors: first the refined inputs, then the labels. */
static void take_samples(DrawnSamples *samples, long count) {
    const MoecGraphEntry *graph = samples->call->graph;
    for (int i = 0; i < graph->output_count; i++)
        add_sampled(samples, refined_input(graph, i), count);
    for (int i = 0; i < graph->input_count; i++)
        if (graph->inputs[i].input == MOEC_INPUT_CLASS) add_sampled(samples, i, count);
}

/* The samples from `first` on, one run of the program. */
static bool draw(DrawnSamples *samples, const SampleOptions *options, long first) {
    Call *call = samples->call;
    const long batch = call->graph->batch, left = options->count - first;
    const size_t kept = (size_t)(left < batch ? left : batch);
    for (int i = 0; i < samples->count; i++) {
        const MoecTensor *input = &call->graph->inputs[samples->slots[i]];
        int32_t *labels = call->inputs[samples->slots[i]];
        for (long b = 0; input->is_int && b < batch; b++)
            labels[b] = (int32_t)((first + b) % (input->vocabulary ? input->vocabulary : 1));
    }
    const Refinement refinement = {.steps = options->steps,
                                   .seed = random_bits((uint64_t)options->seed, (uint64_t)first),
                                   .temperature = 1};
    if (!refine_call(call, &refinement)) return false;
    for (int i = 0; i < samples->count; i++) {
        const MoecTensor *input = &call->graph->inputs[samples->slots[i]];
        const size_t each = tensor_count(input) / (size_t)batch;
        float *to = (float *)(uintptr_t)samples->tensors[i].data + (size_t)first * each;
        const int32_t *labels = call->inputs[samples->slots[i]];
        const float *values = call->inputs[samples->slots[i]];
        for (size_t k = 0; k < kept * each; k++)
            to[k] = input->is_int ? (float)labels[k] : values[k];
    }
    return true;
}

static bool write_samples(const DrawnSamples *samples, const SampleOptions *options) {
    json_auto_t *notes = json_object();
    bool good = safetensors_write(options->out, samples->tensors, samples->count, notes);
    if (good) written_message(options->out, NULL);
    if (good && options->json)
        json_result_written(options->out, json_make("{s:s, s:I, s:I, s:I}", "model",
                                                    samples->call->model->table->model, "samples",
                                                    (json_int_t)options->count, "sampler_steps",
                                                    (json_int_t)options->steps, "seed",
                                                    (json_int_t)options->seed));
    return good;
}

static bool draw_samples(const SampleOptions *options) {
    AUTO(Safetensors) *file = checkpoint_open(options->operand);
    MoecCompiler *compiler =
        file ? checkpoint_spec(file, options->sets.items, options->sets.count) : NULL;
    const long batch = options->count < REFINED_AT_ONCE ? options->count : REFINED_AT_ONCE;
    AUTO(Model) *model = compiler && spec_refines(compiler)
                             ? refining_model(options->on, compiler, file, batch, 0)
                             : NULL;
    moec_close(compiler);
    DrawnSamples samples = {.call =
                                model ? call_open(model, &model->table->graphs[0], NULL) : NULL};
    bool good = samples.call && sample_inputs_fit(samples.call->graph);
    if (good) take_samples(&samples, options->count);
    for (long first = 0; good && first < options->count; first += batch)
        good = draw(&samples, options, first);
    good = good && write_samples(&samples, options);
    for (int i = 0; i < samples.count; i++) free((void *)(uintptr_t)samples.tensors[i].data);
    call_close(samples.call);
    return good;
}

int command_sample(const Command *command, int argc, char **argv) {
    SampleOptions options = {.device = "cpu", .count = 16, .steps = 50, .seed = 1};
    const Option table[] = {
        {OPTION_TEXT, "--out", "FILE", &options.out,
         "safetensors file with the refined inputs and the labels, - for stdout"},
        {OPTION_COUNT, "--count", "N", &options.count,
         "number of samples, classes in turn (default 16)"},
        {OPTION_COUNT, "--steps", "N", &options.steps,
         "number of refinements from noise to data (default 50)"},
        {OPTION_COUNT, "--seed", "N", &options.seed, "seed of the random numbers (default 1)"},
        {OPTION_FLAG, "--json", NULL, &options.json, "result as JSON"},
        DEVICE_OPTION(&options.device),
        SET_OPTION(&options.sets),
    };
    int code = arguments_read(command, OPTIONS(table), argc, argv, &options.operand);
    if (code >= 0) return code;
    if (!options.out || options.count < 1 || options.steps < 1)
        return arguments_wrong(
            command, NULL, "moec sample requires --out; --count and --steps must be at least 1");
    if ((code = json_result_check(command, options.json, options.out)) >= 0) return code;
    options.on = device_open(options.device);
    bool good = options.on && draw_samples(&options);
    device_close(options.on);
    return good ? 0 : EXIT_INPUT;
}
