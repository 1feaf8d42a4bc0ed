/* inspect: moec inspect: tensors of one forward pass by their names in the spec. The
 * compiler adds the chosen tensors to the outputs of the forward program, which runs on a device or
 * in the reference interpreter. */
#include "inspect.h"

#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"
#include "model/interpreted.h"
#include "tools/command/internal.h"
#include "tools/command/line/commands.h"
#include "training/checkpoint.h"
#include "training/spec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Mark of names of gradients: "gradient:block.0.ffn.h". */
static const char gradient_mark[] = "gradient:";

typedef struct InspectOptions {
    const char *operand, *prompt, *data, *device, *out, *svg;
    long seed;
    bool values, json;
    TextList sets, show;
} InspectOptions;

typedef struct Inspection {
    const InspectOptions *options;
    MoecCompiler *compiler;
    Safetensors *file; /* of a run; NULL: initial weights */
    Tokenizer *tokenizer;
    Device *device; /* NULL: the interpreter */
    PromptList prompts;
    GraphShape shape;
    const MoecSpecTensor *tensors;
    int tensor_count;
    TextList caches, others;          /* of --show */
    SelectedNames selections, graded; /* graded: whose gradients are shown */
    Model *model;
    int32_t *windows;           /* [batch, context + 1] */
    MoecCompiler *cached_names; /* or NULL */
    ShownList shown;
} Inspection;

/* ---- inputs ---- */

static bool open_inspected(Inspection *inspection) {
    const InspectOptions *options = inspection->options;
    const bool is_run = spec_is_run(options->operand);
    inspection->compiler = spec_open(options->operand, &options->sets);
    if (!inspection->compiler) return false;
    if (!is_run) return true;
    inspection->file = checkpoint_open(options->operand);
    return inspection->file && checkpoint_tokenizer(inspection->file, &inspection->tokenizer);
}

/* The sizes of the spec, or one sequence with the tokens of the prompt. */
static bool choose_shape(Inspection *inspection) {
    const InspectOptions *options = inspection->options;
    const Writing writing = inspection->tokenizer ? WRITING_TEXT : WRITING_BYTES;
    inspection->shape = (GraphShape){.graph = inspection->graded.count ? MOEC_TRAIN : MOEC_FORWARD};
    if (!options->prompt) return true;
    if (!prompts_read(&inspection->prompts, options->prompt, NULL) ||
        !prompts_encode(&inspection->prompts, writing, inspection->tokenizer))
        return false;
    inspection->shape.batch = 1;
    inspection->shape.context =
        prompts_length(&inspection->prompts) - (inspection->graded.count > 0);
    return inspection->shape.context > 0 ||
           error_message("use a longer prompt", inspection->graded.count
                                                    ? "gradients require a prompt of two tokens"
                                                    : "the prompt has no tokens");
}

/* The target of the last token of a prompt is unknown: the token itself. With gradients the last
 * token is only a target. */
static bool set_prompt(Inspection *inspection, Call *call) {
    const TokenList *tokens = &inspection->prompts.items[0].tokens;
    const MoecTensor *foreign = call_foreign_input(call);
    if (foreign)
        return error_message("use --data with a file of examples", "the input '%s' is not a token",
                             foreign->name);
    if (!prompts_fit(&inspection->prompts, inspection->tokenizer ? WRITING_TEXT : WRITING_BYTES,
                     call_vocabulary(call)))
        return false;
    const size_t count = (size_t)tokens->count;
    int32_t *window = memory_new(sizeof *window * (count + 1));
    memcpy(window, tokens->items, sizeof *window * count);
    window[count] = window[count - 1]; /* not read with gradients */
    call_set_windows(call, window);
    inspection->windows = window;
    return true;
}

/* The first samples of the data. */
static bool set_data(Inspection *inspection, Call *call) {
    const char *path = inspection->options->data;
    AUTO(Data) *data = texts_open(path, inspection->tokenizer, call);
    if (!data) return false;
    const uint64_t length = (uint64_t)call_context(call) + 1,
                   stride = data->record ? data->record : length - 1,
                   batch = (uint64_t)call->graph->batch, needed = (batch - 1) * stride + length;
    int32_t *windows = memory_new(sizeof *windows * (size_t)(batch * length));
    bool good = data->count + (data->record > 0) >= needed ||
                error_message("use more data, or -b 1 and a shorter context: -c N",
                              "%s has %" PRIu64 " tokens, but the batch needs %" PRIu64, path,
                              data->count, needed);
    for (uint64_t b = 0; b < batch && good; b++)
        good = data_read(data, b * stride, (size_t)length, windows + b * length);
    if (good) call_set_windows(call, windows);
    inspection->windows = windows;
    return good;
}

/* ---- the forward pass ---- */

static bool open_inspected_model(Inspection *inspection) {
    inspection->model =
        inspection->device
            ? model_open(inspection->device, inspection->compiler, &inspection->shape, 1, true)
            : model_describe(inspection->compiler, &inspection->shape);
    if (!inspection->model) return false;
    model_initialise(inspection->model, (uint64_t)inspection->options->seed);
    if (inspection->file) return model_read(inspection->model, inspection->file, false);
    return !inspection->device || model_put(inspection->model);
}

static bool get_interpreted(MoecInterpreter *interpreter, const char *name, float *to,
                            size_t count) {
    AUTO_FREE double *wide = memory_new(sizeof *wide * (count + 1));
    const bool good = moec_interpreter_get(interpreter, name, wide, count);
    for (size_t i = 0; i < count; i++) to[i] = (float)wide[i];
    return good;
}

/* The same outputs as on a device, computed by the interpreter. */
static bool run_interpreted(const Inspection *inspection, Call *call) {
    const GraphShape *shape = &inspection->shape;
    AUTO(MoecInterpreter) *interpreter = interpreted_open(
        inspection->compiler,
        moec_define(inspection->compiler, shape->graph, shape->batch, shape->context, 0),
        call->model, call->model->layer_states);
    if (!interpreter) return reports_good(inspection->compiler) && false;
    interpreted_set_inputs(interpreter, call);
    const char *problem = moec_interpreter_run(interpreter, (uint64_t)inspection->options->seed,
                                               inspection->graded.count > 0);
    bool good = !problem || error_message(NULL, "%s", problem);
    int count;
    PublicTensor *outputs = public_tensors(call->graph->outputs, call->graph->output_count, &count);
    for (int i = 0; i < count && good; i++) {
        const PublicTensor *one = &outputs[i];
        const int slot = (int)(one->tensor - call->graph->outputs);
        float *to = call->outputs[slot] + (one->offset - one->tensor->offset) / sizeof(float);
        AUTO_FREE char *name = memory_format("output:%s", one->name);
        good = get_interpreted(interpreter, name, to, one->count);
    }
    public_free(outputs, count);
    for (int i = 0; good && inspection->graded.count && i < call->model->parameter_count; i++) {
        const PublicTensor *one = &call->model->parameters[i];
        AUTO_FREE char *name = memory_format("%s%s", gradient_mark, one->name);
        good = get_interpreted(interpreter, name,
                               call->model->gradients + one->offset / sizeof(float), one->count);
    }
    return good;
}

static bool run_device_call(const Inspection *inspection, Call *call) {
    bool good = call_run(call, (uint64_t)inspection->options->seed, inspection->graded.count > 0);
    for (int i = 0; good && i < call->graph->output_count; i++) good = call_get(call, i) != NULL;
    return good && (!inspection->graded.count || model_get_gradients(call->model));
}

/* ---- the chosen tensors ---- */

static const MoecSpecTensor *equation_of(const Inspection *inspection, const char *name) {
    for (int i = 0; i < inspection->tensor_count; i++)
        if (has_public_name(inspection->tensors[i].name, name)) return &inspection->tensors[i];
    return NULL;
}

/* Outputs of the model are tensors of the spec, too. */
static bool is_shown(const ShownList *list, const char *name) {
    for (int i = 0; i < list->count; i++)
        if (!strcmp(list->items[i].name, name)) return true;
    return false;
}

static bool show_tensor(Inspection *inspection, const PublicTensor *tensor, const float *values) {
    const size_t mark = sizeof gradient_mark - 1;
    const bool graded = !strncmp(tensor->name, gradient_mark, mark);
    const SelectedName *selection = graded ? selection_of(&inspection->graded, tensor->name + mark)
                                           : selection_of(&inspection->selections, tensor->name);
    if (!selection || is_shown(&inspection->shown, tensor->name)) return true;
    if (!shown_add(&inspection->shown, selection, tensor, values)) return false;
    const MoecSpecTensor *equation = equation_of(inspection, tensor->name + (graded ? mark : 0));
    ShownTensor *shown = &inspection->shown.items[inspection->shown.count - 1];
    if (equation) shown->file = equation->file, shown->line = equation->line;
    return true;
}

/* Weights of attention exist in its kernel alone. */
static bool every_gradient_shown(const Inspection *inspection) {
    for (int i = 0; i < inspection->graded.count; i++) {
        bool found = false;
        for (int j = 0; j < inspection->shown.count && !found; j++) {
            const char *name = inspection->shown.items[j].name;
            found = !strncmp(name, gradient_mark, sizeof gradient_mark - 1) &&
                    selection_of(&inspection->graded, name + sizeof gradient_mark - 1) ==
                        &inspection->graded.items[i];
        }
        if (!found)
            return error_message("show the gradient of the result of the attention",
                                 "the program does not compute the gradient of '%s'",
                                 inspection->graded.items[i].name);
    }
    return true;
}

static bool show_all(Inspection *inspection, const Call *call) {
    const Model *model = inspection->model;
    bool good = true;
    int count;
    PublicTensor *outputs = public_tensors(call->graph->outputs, call->graph->output_count, &count);
    for (int i = 0; i < model->parameter_count && good; i++)
        good = show_tensor(inspection, &model->parameters[i],
                           model->weights + model->parameters[i].offset / sizeof(float));
    for (int i = 0; i < count && good; i++) {
        const PublicTensor *one = &outputs[i];
        const float *values = call->outputs[one->tensor - call->graph->outputs];
        good = show_tensor(inspection, one,
                           values + (one->offset - one->tensor->offset) / sizeof(float));
    }
    public_free(outputs, count);
    for (int i = 0; i < model->parameter_count && good && inspection->graded.count; i++) {
        PublicTensor one = model->parameters[i];
        AUTO_FREE char *name = memory_format("%s%s", gradient_mark, one.name);
        one.name = name;
        good = show_tensor(inspection, &one, model->gradients + one.offset / sizeof(float));
    }
    return good && every_gradient_shown(inspection);
}

static DecodedInput decoded_input(const Inspection *inspection) {
    return (DecodedInput){.operand = inspection->options->operand,
                          .sets = &inspection->options->sets,
                          .file = inspection->file,
                          .device = inspection->device,
                          .seed = (uint64_t)inspection->options->seed,
                          .windows = inspection->windows};
}

/* The caches after decoding the inputs of the call. */
static bool show_caches(Inspection *inspection, const Call *call) {
    DecodedInput input = decoded_input(inspection);
    input.batch = call->graph->batch;
    input.context = call_context(call);
    return cached_show(&input, &inspection->caches, &inspection->shown, &inspection->cached_names);
}

static bool run_inspected(Inspection *inspection) {
    if (!open_inspected_model(inspection)) return false;
    AUTO(Call) *call = call_open(inspection->model, &inspection->model->table->graphs[0], NULL);
    bool good = call && (inspection->options->prompt ? set_prompt(inspection, call)
                                                     : set_data(inspection, call));
    if (good) call_set_scalar(call, MOEC_SCALAR_LOSS_SCALE, 1);
    if (good && (inspection->others.count || inspection->graded.count))
        good = (inspection->device ? run_device_call : run_interpreted)(inspection, call) &&
               show_all(inspection, call);
    return good && (!inspection->caches.count || show_caches(inspection, call));
}

/* ---- the command ---- */

/* Distributes the names. */
static void read_shown_names(Inspection *inspection) {
    const TextList *show = &inspection->options->show;
    TextList gradients = {0};
    for (int i = 0; i < show->count; i++) {
        const char *name = show->items[i];
        const size_t mark = sizeof cached_mark - 1, graded = sizeof gradient_mark - 1;
        if (!strncmp(name, cached_mark, mark))
            inspection->caches.items[inspection->caches.count++] = name + mark;
        else if (!strncmp(name, gradient_mark, graded))
            gradients.items[gradients.count++] = name + graded;
        else
            inspection->others.items[inspection->others.count++] = name;
    }
    inspection->selections = selections_read(&inspection->others, '[');
    inspection->graded = selections_read(&gradients, '[');
    inspection->graded.prefix = gradient_mark;
}

/* Chooses the tensors before the program is compiled with them. */
static bool choose_tensors(Inspection *inspection) {
    AUTO(Model) *weights = model_describe(inspection->compiler, &inspection->shape);
    return weights &&
           selections_observe(&inspection->selections, inspection->compiler, inspection->tensors,
                              inspection->tensor_count, weights) &&
           selections_observe(&inspection->graded, inspection->compiler, inspection->tensors,
                              inspection->tensor_count, weights);
}

static void list_names(const Inspection *inspection) {
    for (int i = 0; i < inspection->tensor_count; i++) {
        const MoecSpecTensor *tensor = &inspection->tensors[i];
        if (tensor->part) continue;
        printf("%s[%s]", tensor->name, tensor->axes);
        if (tensor->file) printf("  %s:%d", tensor->file, tensor->line);
        puts("");
    }
    const DecodedInput input = decoded_input(inspection);
    cached_list(&input);
}

static bool write_shown(const Inspection *inspection) {
    const InspectOptions *options = inspection->options;
    const ShownList *shown = &inspection->shown;
    if (options->json)
        json_result_print(shown_json(shown, options->values));
    else
        shown_print(shown, options->values);
    bool good = !options->out || npz_write(options->out, shown);
    if (good && options->out) written_message(options->out, NULL);
    good = good && (!options->svg || heat_map_write(options->svg, shown));
    if (good && options->svg) written_message(options->svg, NULL);
    return good;
}

static bool inspect(const InspectOptions *options) {
    Inspection inspection = {.options = options};
    read_shown_names(&inspection);
    bool good = open_inspected(&inspection) && choose_shape(&inspection);
    if (good) {
        inspection.tensors = moec_spec_tensors(inspection.compiler, inspection.shape.batch,
                                               inspection.shape.context, &inspection.tensor_count);
        good = reports_good(inspection.compiler);
    }
    if (good && !options->show.count) {
        list_names(&inspection);
    } else if (good) {
        const bool interpreted = !strcmp(options->device, "reference");
        inspection.device = interpreted ? NULL : device_open(options->device);
        good = (interpreted || inspection.device) && choose_tensors(&inspection) &&
               run_inspected(&inspection) && write_shown(&inspection);
    }
    shown_free(&inspection.shown);
    selections_free(&inspection.selections);
    selections_free(&inspection.graded);
    prompts_free(&inspection.prompts);
    free(inspection.windows);
    moec_close(inspection.cached_names);
    model_close(inspection.model);
    moec_close(inspection.compiler);
    tokenizer_close(inspection.tokenizer);
    safetensors_close(inspection.file);
    device_close(inspection.device);
    return good;
}

int command_inspect(const Command *command, int argc, char **argv) {
    InspectOptions options = {.device = "cpu", .seed = 1};
    const Option table[] = {
        {OPTION_LIST, "--show", "NAME", &options.show,
         "tensor, with * for any text and a slice: 'block.*.attention.q[0,:,2:5]'; cache:NAME: "
         "state of decoding after the last token; gradient:NAME: gradient of the loss; repeatable; "
         "without it the names are listed"},
        {OPTION_TEXT, "--prompt", "TEXT", &options.prompt, "input: one text, - for stdin"},
        {OPTION_TEXT, "--data", "DATA", &options.data,
         "input: the first batch of the data; see moec train"},
        {OPTION_FLAG, "--values", NULL, &options.values, "values as well as statistics"},
        {OPTION_TEXT, "--out", "FILE", &options.out, "NPZ file with the tensors"},
        {OPTION_TEXT, "--svg", "FILE", &options.svg,
         "picture of the last two dimensions of each tensor, such as attention weights; bars of "
         "one dimension, such as expert loads"},
        {OPTION_TEXT, "--device", "DEVICE", &options.device,
         "cpu (default), cuda, cuda:N, or reference: interpreter in double precision"},
        {OPTION_COUNT, "--seed", "N", &options.seed,
         "seed of the initial weights of a spec (default 1)"},
        {OPTION_FLAG, "--json", NULL, &options.json, "result as JSON"},
        SET_OPTION(&options.sets),
    };
    int code = arguments_read(command, OPTIONS(table), argc, argv, &options.operand);
    if (code >= 0) return code;
    if (options.show.count && !options.prompt == !options.data)
        return arguments_wrong(command, "add --prompt TEXT or --data DATA",
                               "moec inspect requires either --prompt or --data");
    return inspect(&options) ? 0 : EXIT_INPUT;
}
