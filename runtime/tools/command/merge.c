/* merge: moec merge: a run of the same model without layers that are applied to its parameters
 * (`apply`): it stores the results of these layers. */
#include "abi/json_make.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"
#include "model/call.h"
#include "tools/command/line/commands.h"
#include "training/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Merging {
    const char *run, *out;
    bool json;
    Safetensors *file;
    MoecCompiler *tuned, *plain; /* with and without the layers */
    Model *model;                /* of `plain`, with the weights to write */
    int merged;                  /* tensors that a layer was applied to */
} Merging;

static bool open_specs(Merging *merging) {
    merging->file = checkpoint_open(merging->run);
    merging->tuned = merging->file ? checkpoint_spec(merging->file, NULL, 0) : NULL;
    if (!merging->tuned) return false;
    const char *setting = moec_without_layers(merging->tuned);
    if (!setting)
        return error_message("moec merge is for models with 'apply' in their parameters, see "
                             "examples/fine_tune.moe",
                             "%s has no layers to merge into its parameters", merging->run);
    merging->plain = checkpoint_spec(merging->file, &setting, 1);
    return merging->plain != NULL;
}

/* Reads tensors of a model, which are among those of the run. */
static bool read_tensors(const Safetensors *file, const PublicTensor *tensors, int count,
                         float *block) {
    for (int i = 0; i < count; i++) {
        const PublicTensor *one = &tensors[i];
        const TensorEntry *entry = safetensors_find(file, one->name);
        if (!entry)
            return error_message("use a checkpoint of moec train or moec import",
                                 "%s has no tensor %s", file->path, one->name);
        if (!safetensors_floats(file, entry, block + one->offset / sizeof(float), one->count))
            return false;
    }
    return true;
}

static bool read_weights(const Safetensors *file, const Model *model) {
    return read_tensors(file, model->parameters, model->parameter_count, model->weights) &&
           read_tensors(file, model->states, model->state_count, model->layer_states);
}

static const PublicTensor *parameter_named(const Model *model, const char *name) {
    for (int i = 0; i < model->parameter_count; i++)
        if (!strcmp(model->parameters[i].name, name)) return &model->parameters[i];
    return NULL;
}

/* Copies an output, which has the name and the shape of a parameter, to its values. */
static bool take_result(Merging *merging, Call *call, int slot) {
    const MoecTensor *output = &call->graph->outputs[slot];
    const float *values = call_get(call, slot);
    int count;
    PublicTensor *results = public_tensors(output, 1, &count);
    bool good = values != NULL;
    for (int i = 0; i < count && good; i++) {
        const PublicTensor *one = &results[i], *to = parameter_named(merging->model, one->name);
        good = to && to->count == one->count;
        if (!good) break;
        memcpy(merging->model->weights + to->offset / sizeof(float),
               values + (one->offset - output->offset) / sizeof(float), sizeof(float) * one->count);
        merging->merged++;
    }
    public_free(results, count);
    return good;
}

/* Evaluates the layers with the weights of the run. */
static bool merge_weights(Merging *merging) {
    const GraphShape shape = {.graph = MOEC_FORWARD};
    moec_observe_applied(merging->tuned);
    AUTO(Model) *tuned = model_open(device_cpu(), merging->tuned, &shape, 1, true);
    bool good = tuned && read_weights(merging->file, tuned) && model_put(tuned);
    AUTO(Call) *call = good ? call_open(tuned, &tuned->table->graphs[0], NULL) : NULL;
    good = call && call_run(call, 0, false);
    for (int i = 0; good && i < call->graph->output_count; i++)
        good = take_result(merging, call, i);
    return good;
}

static bool write_merged(const Merging *merging, const char *path) {
    const Companions companions = {.tokenizer = safetensors_note(merging->file, "tokenizer"),
                                   .files = safetensors_files(merging->file)};
    TrainState place = {0};
    bool made = false;
    const bool good = checkpoint_place(merging->file, &place) &&
                      folder_make_new(merging->out, &made) &&
                      (checkpoint_write(path, merging->model, moec_bundle(merging->plain),
                                        &companions, &place, false) ||
                       folder_abandon(merging->out, made));
    json_decref(companions.files);
    return good;
}

static void report_merging(const Merging *merging, const char *path) {
    const char *model = moec_model(merging->plain);
    if (!merging->json)
        printf("%s: model '%s', %d of %d tensors merged\n", path, model, merging->merged,
               merging->model->parameter_count);
    written_message(path, "moec generate %s --prompt TEXT", merging->out);
    if (merging->json)
        json_result_written(path,
                            json_make("{s:s, s:i}", "model", model, "tensors", merging->merged));
}

int command_merge(const Command *command, int argc, char **argv) {
    const GraphShape shape = {.graph = MOEC_FORWARD};
    Merging merging = {0};
    const Option table[] = {
        {OPTION_TEXT, "--out", "RUN", &merging.out, "run directory to create"},
        {OPTION_FLAG, "--json", NULL, &merging.json, "result as JSON"},
    };
    int code = arguments_read(command, OPTIONS(table), argc, argv, &merging.run);
    if (code >= 0) return code;
    if (!merging.out) return arguments_wrong(command, NULL, "moec merge requires --out");
    AUTO_FREE char *path = path_join(merging.out, "last.safetensors");
    bool good = (!checkpoint_within(merging.out) ||
                 error_message("choose another --out", "%s already contains a run", merging.out)) &&
                open_specs(&merging);
    if (good) merging.model = model_describe(merging.plain, &shape);
    good = merging.model && read_weights(merging.file, merging.model) && merge_weights(&merging) &&
           write_merged(&merging, path);
    if (good) report_merging(&merging, path);
    model_close(merging.model);
    if (merging.plain) moec_close(merging.plain);
    if (merging.tuned) moec_close(merging.tuned);
    safetensors_close(merging.file);
    return good ? 0 : EXIT_INPUT;
}
