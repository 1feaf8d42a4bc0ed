/* flow_sample: moec sample: samples from a trained flow-matching model.
 *
 * With `draws = none` (stdlib/diffusion.moe) such a model reads "image", "time" and "label" and
 * returns "velocity" with the shape of the image. Sampling starts from noise at time 1 and uses
 * Euler steps to time 0: image -= velocity / steps.
 */
#include "abi/json_make.h"
#include "training/checkpoint.h"
#include "tools/command/line/commands.h"
#include "base/files.h"
#include "base/message.h"
#include "model/call.h"
#include "base/memory.h"
#include "data/random.h"
#include "training/spec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct SampleOptions {
    const char *operand, *out, *device;
    Device *on;
    long count, steps, seed;
    bool json;
    TextList sets;
} SampleOptions;

/* The inputs and the output of the forward graph, by name. */
typedef struct Drawing {
    Call *call;
    const MoecTensor *image;
    float *seen, *time;
    int32_t *label;
    const float *velocity;
    int slot; /* of the velocity */
    size_t numbers, times;
    long classes;
} Drawing;

static bool find_parts(Drawing *drawing, Call *call) {
    *drawing = (Drawing){.call = call};
    for (int i = 0; i < call->graph->input_count; i++) {
        const MoecTensor *input = &call->graph->inputs[i];
        if (!strcmp(input->name, "image")) {
            drawing->image = input;
            drawing->seen = call->inputs[i];
            drawing->numbers = tensor_count(input);
        } else if (!strcmp(input->name, "time")) {
            drawing->time = call->inputs[i];
            drawing->times = tensor_count(input);
        } else if (!strcmp(input->name, "label")) {
            drawing->label = call->inputs[i];
            drawing->classes = input->vocabulary ? input->vocabulary : 1;
        }
    }
    int slot = drawing->slot = call_output(call, "velocity");
    bool fits = slot >= 0 && drawing->image && drawing->time && drawing->label &&
                tensor_count(&call->graph->outputs[slot]) == drawing->numbers;
    if (fits) drawing->velocity = call->outputs[slot];
    return fits || error_message("train a model of stdlib/diffusion.moe",
                                 "the model does not have the inputs image, time and label and the "
                                 "output velocity");
}

static bool draw(const Drawing *drawing, const SampleOptions *options) {
    long batch = drawing->call->graph->batch;
    for (long b = 0; b < batch; b++) drawing->label[b] = (int32_t)(b % drawing->classes);
    for (size_t i = 0; i < drawing->numbers; i++)
        drawing->seen[i] = (float)random_normal((uint64_t)options->seed, i);
    for (long step = 0; step < options->steps; step++) {
        double time = 1 - (double)step / (double)options->steps;
        for (size_t i = 0; i < drawing->times; i++) drawing->time[i] = (float)time;
        if (!call_run(drawing->call, 0, false) || !call_get(drawing->call, drawing->slot))
            return false;
        for (size_t i = 0; i < drawing->numbers; i++)
            drawing->seen[i] -= drawing->velocity[i] / (float)options->steps;
    }
    return true;
}

static bool write_drawing(const Drawing *drawing, const SampleOptions *options) {
    size_t batch = (size_t)drawing->call->graph->batch;
    float *labels = memory_new(sizeof *labels * batch);
    for (size_t b = 0; b < batch; b++) labels[b] = (float)drawing->label[b];
    for (size_t i = 0; i < drawing->numbers; i++)
        if (!isfinite(drawing->seen[i])) {
            free(labels);
            return model_tell_nonsense(drawing->call->model, "a sampled value is");
        }
    TensorEntry entries[] = {
        {.name = "image",
         .rank = drawing->image->rank,
         .bytes = sizeof(float) * drawing->numbers,
         .data = drawing->seen},
        {.name = "label",
         .rank = 1,
         .shape = {(long)batch},
         .bytes = sizeof(float) * batch,
         .data = labels},
    };
    memcpy(entries[0].shape, drawing->image->shape, sizeof(long) * (size_t)drawing->image->rank);
    json_t *notes = json_object();
    bool good = safetensors_write(options->out, entries, 2, notes);
    if (good) written_message(options->out, NULL);
    if (good && options->json)
        json_result_written(options->out, json_make("{s:s, s:I, s:I, s:I}", "model",
                                                    drawing->call->model->table->model, "samples",
                                                    (json_int_t)batch, "sampler_steps",
                                                    (json_int_t)options->steps, "seed",
                                                    (json_int_t)options->seed));
    json_decref(notes);
    free(labels);
    return good;
}

static bool draw_samples(SampleOptions *options) {
    TextList *sets = &options->sets;
    Safetensors *file = checkpoint_open(options->operand);
    MoecCompiler *trained = file ? checkpoint_spec(file, sets->items, sets->count) : NULL;
    sets->items[sets->count++] = SPEC_DRAWS;
    MoecCompiler *compiler =
        trained && spec_draws(trained) ? checkpoint_spec(file, sets->items, sets->count) : NULL;
    moec_close(trained);
    const GraphShape shape = {.graph = MOEC_FORWARD, .batch = options->count};
    Model *model = compiler ? model_open(options->on, compiler, &shape, 1, true) : NULL;
    moec_close(compiler);
    Call *call = model && model_read(model, file, false)
                     ? call_open(model, &model->table->graphs[0], NULL)
                     : NULL;
    Drawing drawing;
    bool good = call && find_parts(&drawing, call);
    good = good && draw(&drawing, options) && write_drawing(&drawing, options);
    call_close(call);
    model_close(model);
    safetensors_close(file);
    return good;
}

int command_sample(const Command *command, int argc, char **argv) {
    SampleOptions options = {.device = "cpu", .count = 16, .steps = 50, .seed = 1};
    const Option table[] = {
        {OPTION_TEXT, "--out", "FILE", &options.out,
         "safetensors file with the tensors image and label, - for stdout"},
        {OPTION_COUNT, "--count", "N", &options.count,
         "number of samples, classes in turn (default 16)"},
        {OPTION_COUNT, "--steps", "N", &options.steps,
         "Euler steps from noise to data (default 50)"},
        {OPTION_COUNT, "--seed", "N", &options.seed, "seed of the noise (default 1)"},
        {OPTION_FLAG, "--json", NULL, &options.json, "result as JSON"},
        DEVICE_OPTION(&options.device),
        SET_OPTION(&options.sets),
        {.kind = OPTION_END},
    };
    int code = arguments_read(command, table, argc, argv, &options.operand);
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
