/* forward: moec forward: runs one batch of tokens and writes tensors: "logits", "loss", "total"
 * (the loss with auxiliary terms, which is differentiated), each auxiliary term by its name,
 * "gradient:NAME".
 *
 * The token file is text or has the format of llm.c: batch * (context length + 1) tokens, one
 * sequence after the other. The context length is --context-length or that of the spec, at most the
 * length of the file. The batch size follows from the length of the file.
 */
#include "abi/json_make.h"
#include "tools/command/line/commands.h"
#include "base/files.h"
#include "base/message.h"
#include "data/data.h"
#include "model/interpreted.h"
#include "base/memory.h"
#include "training/spec.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct ForwardOptions {
    const char *operand, *weights, *tokens, *want, *out, *device;
    long context, seed;
    Device *on; /* NULL: the interpreter */
    bool logits, loss, total, aux, gradients, json;
    TextList sets;
} ForwardOptions;

/* Tensors of the output file; values are owned. */
typedef struct Results {
    TensorEntry *entries;
    int count;
    json_t *notes;
} Results;

typedef struct TokenBatch {
    long batch, context;
    int32_t *tokens; /* [batch, context + 1] */
} TokenBatch;

static bool read_batch(const ForwardOptions *options, long context, TokenBatch *batch) {
    AUTO(Data) *data = data_open(options->tokens, 0);
    if (!data) return false;
    bool good =
        data->count >= 2 || error_message("use at least two tokens",
                                          "%s: a single token has no next token", options->tokens);
    if (good) {
        batch->context = (uint64_t)context + 1 > data->count ? (long)data->count - 1 : context;
        batch->batch = (long)(data->count / (uint64_t)(batch->context + 1));
        size_t count = (size_t)(batch->batch * (batch->context + 1));
        batch->tokens = memory_new(sizeof(int32_t) * count);
        good = data_read(data, 0, count, batch->tokens);
    }
    return good;
}

/* Adds a result; the caller fills in its values. */
static float *add_result(Results *results, char *name, int rank, const long *shape,
                         const char *axes) {
    results->entries =
        memory_grow(results->entries, sizeof(TensorEntry) * (size_t)(results->count + 1));
    TensorEntry *entry = &results->entries[results->count++];
    *entry =
        (TensorEntry){.name = name, .number = NUMBER_F32, .rank = rank, .bytes = sizeof(float)};
    for (int i = 0; i < rank; i++) {
        entry->shape[i] = shape[i];
        entry->bytes *= (size_t)shape[i];
    }
    float *values = memory_new(entry->bytes);
    entry->data = values;
    AUTO_FREE char *key = memory_format("axes:%s", name);
    json_object_set_new(results->notes, key, json_text(axes));
    return values;
}

static void release_results(Results *results) {
    for (int i = 0; i < results->count; i++) {
        free(results->entries[i].name);
        free((void *)(uintptr_t)results->entries[i].data);
    }
    free(results->entries);
    json_decref(results->notes);
}

static void take_output(const Call *call, int slot, const char *name, Results *results) {
    const MoecTensor *output = &call->graph->outputs[slot];
    memcpy(
        add_result(results, memory_format("%s", name), output->rank, output->shape, output->axes),
        call->outputs[slot], sizeof(float) * tensor_count(output));
}

/* The slot of the loss with its auxiliary terms. Named outputs come first, then the loss, these
 * terms and, where there are any, their total, then probes (abi.h). */
static int total_slot(const Call *call) {
    int loss = call_output(call, "loss"), total = call_output(call, "total");
    return total > loss + 1 ? total : loss;
}

static void take_outputs(const ForwardOptions *options, const Call *call, Results *results) {
    const Model *model = call->model;
    const int loss = call_output(call, "loss"), total = total_slot(call),
              logits = call_output(call, "logits");
    if (options->logits && logits >= 0) take_output(call, logits, "logits", results);
    if (options->loss && loss >= 0) take_output(call, loss, "loss", results);
    for (int i = loss + 1; options->aux && i < total; i++)
        take_output(call, i, call->graph->outputs[i].name, results);
    if (options->total && total >= 0) take_output(call, total, "total", results);
    for (int i = 0;
         call->graph->kind == MOEC_GRAPH_TRAIN && options->gradients && i < model->parameter_count;
         i++) {
        const PublicTensor *one = &model->parameters[i];
        memcpy(add_result(results, memory_format("gradient:%s", one->name), one->rank, one->shape,
                          one->axes),
               model->gradients + one->offset / sizeof(float), sizeof(float) * one->count);
    }
}

/* Prints the first value that is not finite if the loss, the logits or a gradient is not. */
static void print_output_fault(const ForwardOptions *options, MoecCompiler *compiler,
                               const Call *call, const float *states, const Results *results,
                               int first) {
    for (int i = first; i < results->count; i++) {
        const TensorEntry *entry = &results->entries[i];
        const float *values = entry->data;
        for (size_t j = 0; j < entry->bytes / sizeof *values; j++) {
            if (isfinite(values[j])) continue;
            note_message("%s has values that are not finite", entry->name);
            fault_print(compiler, call, states, (uint64_t)options->seed, true);
            return;
        }
    }
}

static bool run_hosted(const ForwardOptions *options, MoecCompiler *compiler, Call *call,
                       Results *results) {
    const Model *model = call->model;
    const size_t bytes = model->table->state_bytes;
    const int first = results->count;
    AUTO_FREE float *states = memory_new(bytes + 1);
    memcpy(states, model->layer_states, bytes);
    bool good = call_run(call, (uint64_t)options->seed, true);
    for (int i = 0; good && i < call->graph->output_count; i++) good = call_get(call, i) != NULL;
    if (good && call->graph->kind == MOEC_GRAPH_TRAIN) good = model_get_gradients(call->model);
    if (good) {
        take_outputs(options, call, results);
        print_output_fault(options, compiler, call, states, results, first);
    }
    return good;
}

/* Fills `to` with a result of the interpreter. */
static bool get_values(MoecInterpreter *interpreter, const char *name, float *to, size_t count) {
    bool gradient = strncmp(name, "gradient:", 9) == 0;
    AUTO_FREE char *result = memory_format("%s%s", gradient ? "" : "output:", name);
    AUTO_FREE double *wide = memory_new(sizeof *wide * (count + 1));
    bool good = moec_interpreter_get(interpreter, result, wide, count);
    for (size_t i = 0; i < count; i++) to[i] = (float)wide[i];
    return good || error_message(NULL, "the interpreter has no tensor %s", name);
}

/* The same tensors as run_hosted, computed by the interpreter. */
static bool run_defined(const ForwardOptions *options, MoecCompiler *compiler, Call *call,
                        const TokenBatch *batch, Results *results) {
    MoecGraph graph = call->graph->kind == MOEC_GRAPH_TRAIN ? MOEC_TRAIN : MOEC_FORWARD;
    MoecInterpreter *interpreter =
        interpreted_open(compiler, moec_define(compiler, graph, batch->batch, batch->context, 0),
                         call->model, call->model->layer_states);
    if (!interpreter)
        return reports_good(compiler) &&
               error_message("use --device cpu", "the interpreter does not support this program");
    interpreted_set_inputs(interpreter, call);
    const char *problem = moec_interpreter_run(interpreter, (uint64_t)options->seed, true);
    bool good = !problem || error_message(NULL, "%s", problem);
    int first = results->count;
    if (good) take_outputs(options, call, results);
    for (int i = first; i < results->count && good; i++) {
        const TensorEntry *entry = &results->entries[i];
        bool total = strcmp(entry->name, "total") == 0;
        good = get_values(interpreter,
                          total ? call->graph->outputs[total_slot(call)].name : entry->name,
                          (float *)(uintptr_t)entry->data, entry->bytes / sizeof(float));
    }
    moec_interpreter_free(interpreter);
    return good;
}

/* Checks that the program reads tokens only and that the file has tokens of its vocabulary. */
static bool check_inputs(const ForwardOptions *options, const Call *call) {
    const MoecTensor *foreign = call_foreign_input(call);
    if (foreign)
        return error_message("moec forward provides token inputs only",
                             "the input '%s' is not a token", foreign->name);
    Data *data = data_open(options->tokens, call_vocabulary(call));
    data_close(data);
    return data != NULL;
}

static bool run_loaded(const ForwardOptions *options, MoecCompiler *compiler, Model *model,
                       const TokenBatch *batch, Results *results) {
    AUTO(Call) *call = call_open(model, &model->table->graphs[0], NULL);
    bool good = call && check_inputs(options, call);
    if (good) {
        call_set_scalar(call, MOEC_SCALAR_LOSS_SCALE, 1);
        call_set_windows(call, batch->tokens);
        good = options->on ? run_hosted(options, compiler, call, results)
                           : run_defined(options, compiler, call, batch, results);
    }
    return good;
}

/* One graph on the batch. */
static bool forward_graph(const ForwardOptions *options, MoecCompiler *compiler, MoecGraph graph,
                          long context, Results *results) {
    TokenBatch batch = {0};
    AUTO(Safetensors) *file = safetensors_open(options->weights);
    bool good = file && read_batch(options, context, &batch);
    const GraphShape shape = {.graph = graph, .batch = batch.batch, .context = batch.context};
    AUTO(Model) *model = !good         ? NULL
                         : options->on ? model_open(options->on, compiler, &shape, 1, true)
                                       : model_describe(compiler, &shape);
    good = model != NULL;
    if (good) {
        model_initialise(model, 0);
        good =
            model_read(model, file, false) && run_loaded(options, compiler, model, &batch, results);
    }
    free(batch.tokens);
    return good;
}

/* Scalars with their values, other tensors with their shapes. */
static void print_forward_json(const ForwardOptions *options, const MoecCompiler *compiler,
                               const Results *results) {
    json_t *tensors = json_array();
    for (int i = 0; i < results->count; i++) {
        const TensorEntry *entry = &results->entries[i];
        json_t *tensor = json_make("{s:s, s:o}", "name", entry->name, "shape",
                                   json_integers(entry->shape, entry->rank));
        if (!entry->rank)
            json_object_set_new(tensor, "value", json_number(*(const float *)entry->data));
        json_array_append_new(tensors, tensor);
    }
    json_result_written(options->out,
                        json_make("{s:s, s:o}", "model", moec_model(compiler), "tensors", tensors));
}

static bool run_outputs(const ForwardOptions *options) {
    AUTO(MoecCompiler) *compiler = spec_open(options->operand, &options->sets);
    if (!compiler) return false;
    long context = options->context
                       ? options->context
                       : (long)moec_option_number(compiler, "train.context_length", 256);
    Results results = {.notes = json_object()};
    ForwardOptions forward = *options, training = *options;
    training.logits = false;
    if (options->gradients) forward.loss = forward.total = forward.aux = false;
    bool good = true;
    if (forward.logits || forward.loss || forward.total || forward.aux)
        good = forward_graph(&forward, compiler, MOEC_FORWARD, context, &results);
    if (good && options->gradients)
        good = forward_graph(&training, compiler, MOEC_TRAIN, context, &results);
    if (good && !results.count)
        good = error_message("request another of logits, loss, total, aux, grads",
                             "the model has none of the requested outputs");
    if (good) good = safetensors_write(options->out, results.entries, results.count, results.notes);
    if (good) written_message(options->out, "moec tensors %s", options->out);
    if (good && options->json) print_forward_json(options, compiler, &results);
    release_results(&results);
    return good;
}

/* "logits,loss,grads" */
static bool read_wants(ForwardOptions *options) {
    const struct {
        const char *word;
        bool *wanted;
    } words[] = {{"logits", &options->logits},
                 {"loss", &options->loss},
                 {"total", &options->total},
                 {"aux", &options->aux},
                 {"grads", &options->gradients}};
    enum { COUNT = sizeof words / sizeof *words };
    char *copy = memory_format("%s", options->want), *rest = NULL;
    bool good = true, any = false;
    for (char *word = strtok_r(copy, ",", &rest); word && good; word = strtok_r(NULL, ",", &rest)) {
        int i = 0;
        while (i < COUNT && strcmp(word, words[i].word) != 0) i++;
        good = any = i < COUNT;
        if (good) *words[i].wanted = true;
    }
    free(copy);
    return good && any;
}

int command_forward(const Command *command, int argc, char **argv) {
    ForwardOptions options = {.device = "cpu", .seed = 1};
    const Option table[] = {
        {OPTION_TEXT, "--weights", "FILE", &options.weights,
         "safetensors file, as moec init writes"},
        {OPTION_TEXT, "--input", "FILE", &options.tokens,
         "batch * (context length + 1) tokens: text or token file, - for stdin"},
        {OPTION_TEXT, "--outputs", "LIST", &options.want,
         "comma-separated list of logits, loss, total (loss with auxiliary terms), aux (auxiliary "
         "terms), grads"},
        {OPTION_TEXT, "--out", "FILE", &options.out,
         "safetensors file with logits, loss, total, terms, gradient:NAME; - for stdout"},
        {OPTION_TEXT, "--device", "DEVICE", &options.device,
         "cpu (default), cuda, cuda:N, or reference: interpreter in double precision"},
        {OPTION_COUNT, "--context-length", "N", &options.context,
         "positions per sequence (default train.context_length)"},
        {OPTION_COUNT, "--seed", "N", &options.seed, "seed of dropout (default 1)"},
        {OPTION_FLAG, "--json", NULL, &options.json, "result as JSON, with the values of scalars"},
        SET_OPTION(&options.sets),
    };
    int code = arguments_read(command, OPTIONS(table), argc, argv, &options.operand);
    if (code >= 0) return code;
    if (!options.weights || !options.tokens || !options.want || !options.out)
        return arguments_wrong(command, NULL,
                               "moec forward requires --weights, --input, --outputs and --out");
    if ((code = json_result_check(command, options.json, options.out)) >= 0) return code;
    if (!read_wants(&options))
        return arguments_wrong(command, "for example --outputs logits,loss",
                               "--outputs expects logits, loss, total, aux or grads, got '%s'",
                               options.want);
    bool defined = strcmp(options.device, "reference") == 0;
    if (!defined && strcmp(options.device, "cpu") != 0 && strncmp(options.device, "cuda", 4) != 0)
        return arguments_wrong(command, "use cpu, cuda, cuda:N or reference", "unknown device '%s'",
                               options.device);
    options.on = defined ? NULL : device_open(options.device);
    bool good = (defined || options.on) && run_outputs(&options);
    device_close(options.on);
    return good ? 0 : EXIT_INPUT;
}
