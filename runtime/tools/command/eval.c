/* eval: moec eval: the loss of a trained model on data, or its accuracy on questions. */
#include "abi/json_make.h"
#include "training/checkpoint.h"
#include "training/evaluation.h"
#include "tools/command/line/commands.h"
#include "training/spec.h"
#include "base/message.h"
#include "model/call.h"
#include "base/clock.h"
#include "base/memory.h"
#include "tokenizer/tokenizer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { READ_TOKENS = 1 << 16 };

/* The share of the text in tokens 1 .. scored, whose losses count: the tokens after the last whole
 * sequence and the first token have none. */
static double scored_share(const Data *data, uint64_t scored, const size_t *ends, long known) {
    AUTO_FREE int32_t *tokens = memory_new(sizeof *tokens * READ_TOKENS);
    double all = 0, counted = 0;
    bool good = true;
    for (uint64_t at = 0; at < data->count && good; at += READ_TOKENS) {
        uint64_t left = data->count - at;
        size_t count = left < READ_TOKENS ? (size_t)left : READ_TOKENS;
        good = data_read(data, at, count, tokens);
        for (size_t i = 0; i < count && good; i++) {
            int32_t token = tokens[i];
            if (token >= known) continue;
            double length = (double)(ends[token] - (token ? ends[token - 1] : 0));
            all += length;
            if (at + i >= 1 && at + i <= scored) counted += length;
        }
    }
    return good && all > 0 ? counted / all : (double)scored / (double)data->count;
}

/* The bytes of the tokens whose losses count; without a tokenizer, those of as many average tokens
 * of the file. 0 = unknown. */
static double scored_bytes(const Data *data, uint64_t scored, const Tokenizer *tokenizer) {
    double share = (double)scored / (double)data->count;
    if (tokenizer && data->text_bytes) {
        const long known = tokenizer_size(tokenizer);
        AUTO_FREE size_t *ends = memory_new(sizeof *ends * (size_t)known);
        AUTO(Text) bytes = {0};
        if (tokenizer_bytes(tokenizer, &bytes, ends))
            share = scored_share(data, scored, ends, known);
    }
    return share * (double)data->text_bytes;
}

/* Form of the report. */
typedef struct Telling {
    bool json;
    long step;      /* of the weights */
    Probes *probes; /* or NULL */
} Telling;

/* bytes: of the text of the tokens; 0 = unknown. */
static void print_evaluation(const Data *data, const Evaluation *found, double bytes,
                             double seconds, const Telling *telling) {
    bool apart = data->record > 0; /* examples: the loss has no bits per token */
    uint64_t count = apart ? data->count / data->record : found->tokens;
    const char *what = apart ? "examples" : "tokens";
    double bits = found->nats / log(2);
    double bits_per_byte = bytes > 0 ? bits * (double)found->tokens / bytes : 0;
    if (telling->json) {
        json_t *object = json_make("{s:f}", "loss", found->nats);
        if (!apart)
            json_object_set_new(object, data->bytes ? "bits_per_byte" : "bits_per_token",
                                json_number(bits));
        if (bytes > 0) json_object_set_new(object, "bits_per_byte", json_number(bits_per_byte));
        if (!apart) json_object_set_new(object, "perplexity", json_number(exp(found->nats)));
        json_object_set_new(object, what, json_integer((json_int_t)count));
        json_object_set_new(object, "seconds", json_real(seconds));
        json_object_set_new(object, "step", json_integer((json_int_t)telling->step));
        const char *wrong; /* it is null in the output */
        if (telling->probes)
            json_object_set_new(object, "probes", probes_json(telling->probes, &wrong));
        json_result_print(object);
        return;
    }
    char unit[80] = "";
    if (bytes > 0)
        snprintf(unit, sizeof unit, "  %.4f bits/token, %.4f bits/byte", bits, bits_per_byte);
    else if (!apart)
        snprintf(unit, sizeof unit, "  %.4f %s", bits, data->bytes ? "bits/byte" : "bits/token");
    printf("loss %.4f%s", found->nats, unit);
    if (!apart) printf(", perplexity %.5g", exp(found->nats));
    printf("  on %" PRIu64 " %s, weights of step %ld\n", count, what, telling->step);
    if (telling->probes) probes_print(telling->probes);
}

/* Adjacent sequences of tokens share one token, examples none. */
static Samples samples_of(const Data *data, uint64_t context) {
    const uint64_t stride = data->record ? data->record : context;
    return (Samples){.stride = stride,
                     .count = data->count ? (data->count - !data->record) / stride : 0};
}

/* decoder: NULL, or the decoder for evaluation token by token; `call` is its step. */
static bool measure_file(MoecCompiler *compiler, Call *call, Decoder *decoder, const char *path,
                         Data *data, const Tokenizer *tokenizer, const Telling *telling) {
    const uint64_t context = (uint64_t)(decoder ? decoder->length : call_context(call));
    const Samples samples = samples_of(data, context);
    Evaluation found;
    double began = seconds_now();
    bool good = data->count > context ||
                error_message("use more data or a shorter context: -c N",
                              "%s has %" PRIu64 " tokens, but one sequence needs %" PRIu64, path,
                              data->count, context + 1);
    if (good && decoder)
        good = measure_decoded(decoder, data, samples.count, &found);
    else if (good)
        good = measure_loss(call, data, &samples, telling->probes, NULL, &found);
    if (good && !(found.weight > 0))
        good = error_message("use data with a target whose weight is not 0",
                             "the weights of all targets in %s are 0", path);
    double seconds = seconds_now() - began;
    if (good)
        print_evaluation(data, &found, scored_bytes(data, found.tokens, tokenizer), seconds,
                         telling);
    if (good && !isfinite(found.nats)) {
        good = model_tell_nonsense(call->model, "the loss is");
        if (!decoder) measure_print_fault(call, data, &samples, &found, compiler);
    }
    return good;
}

typedef struct EvalOptions {
    const char *operand, *path, *choices, *device;
    bool json, probes, decoding;
    TextList sets;
} EvalOptions;

/* batch: sequences per call; 0 = train.batch_size. */
static Call *open_measure(Device *device, MoecCompiler *compiler, long batch, Model **model) {
    const GraphShape shape = {.graph = MOEC_MEASURE, .batch = batch};
    *model = model_open(device, compiler, &shape, 1, true);
    return *model ? call_open(*model, model_graph(*model, MOEC_GRAPH_MEASURE), NULL) : NULL;
}

static bool measure_data(const EvalOptions *options, Safetensors *file, MoecCompiler *compiler,
                         Device *device, const Tokenizer *tokenizer) {
    Model *model;
    if (options->probes) moec_probe(compiler);
    Call *call = open_measure(device, compiler, 0, &model);
    Data *data = call ? texts_open(options->path, tokenizer, call) : NULL;
    const long windows = data ? (long)samples_of(data, (uint64_t)call_context(call)).count : 0;
    /* Less data than a batch, which would be padded. */
    if (windows && windows < call->graph->batch && call_output(call, "nats") >= 0) {
        call_close(call);
        model_close(model);
        call = open_measure(device, compiler, windows, &model);
    }
    bool good = call && data && model_read(model, file, false);
    Telling telling = {.json = options->json, .step = checkpoint_step(file)};
    if (good && options->probes) telling.probes = probes_open(call);
    if (good) good = measure_file(compiler, call, NULL, options->path, data, tokenizer, &telling);
    data_close(data);
    probes_close(telling.probes);
    call_close(call);
    model_close(model);
    return good;
}

static bool measure_decoding(const EvalOptions *options, Safetensors *file, MoecCompiler *compiler,
                             Device *device, const Tokenizer *tokenizer) {
    const long rows = (long)moec_option_number(compiler, "train.batch_size", 1);
    const long context = (long)moec_option_number(compiler, "train.context_length", 256);
    AUTO(Model) *model =
        spec_generates(compiler) ? decoder_model(device, compiler, rows, context) : NULL;
    bool good = model && model_read(model, file, false);
    AUTO(Decoder) *decoder = good ? decoder_over(model, context) : NULL;
    const Telling telling = {.json = options->json, .step = decoder ? checkpoint_step(file) : 0};
    AUTO(Data) *data = decoder ? texts_open(options->path, tokenizer, decoder->step) : NULL;
    return data &&
           measure_file(compiler, decoder->step, decoder, options->path, data, tokenizer, &telling);
}

static void tell_accuracy(const Accuracy *accuracy, double seconds, bool json, long step) {
    double all = (double)accuracy->questions, right = (double)accuracy->right / all;
    double by_length = (double)accuracy->right_by_length / all;
    if (!json) {
        printf("accuracy %.4f, by length %.4f  on %ld questions, weights of step %ld\n", right,
               by_length, accuracy->questions, step);
        return;
    }
    json_t *object = json_make("{s:f, s:f, s:I, s:f, s:I}", "accuracy", right, "accuracy_by_length",
                               by_length, "questions", (json_int_t)accuracy->questions, "seconds",
                               seconds, "step", (json_int_t)step);
    json_result_print(object);
}

/* Whole blocks of prompt tokens within the context; the whole context if it changes the values. */
static long cache_positions(MoecCompiler *compiler, long length) {
    const long context = (long)moec_option_number(compiler, "train.context_length", 256);
    const long places = (length + PREFILL_TOKENS - 1) / PREFILL_TOKENS * PREFILL_TOKENS;
    if (length > context) return length;
    return places < context && !moec_reads_length(compiler) ? places : context;
}

static bool measure_choices(const EvalOptions *options, Safetensors *file, MoecCompiler *compiler,
                            Device *device, const Tokenizer *tokenizer) {
    const long rows = 16;
    Questions *questions = questions_read(options->choices, tokenizer);
    long length = questions ? questions_length(questions) : 0;
    const long places = cache_positions(compiler, length);
    bool good = questions && spec_generates(compiler) && spec_length_fits(compiler, length);
    Model *model = good ? decoder_model(device, compiler, rows, places) : NULL;
    good = model && model_read(model, file, false);
    Decoder *decoder = good ? decoder_over(model, places) : NULL;
    Accuracy accuracy;
    double began = seconds_now();
    good = decoder && questions_measure(questions, decoder, &accuracy);
    if (good) tell_accuracy(&accuracy, seconds_now() - began, options->json, checkpoint_step(file));
    decoder_close(decoder);
    model_close(model);
    questions_free(questions);
    return good;
}

static bool evaluate_run(const EvalOptions *options) {
    AUTO(Safetensors) *file = checkpoint_open(options->operand);
    AUTO(MoecCompiler) *compiler =
        file ? checkpoint_spec(file, options->sets.items, options->sets.count) : NULL;
    AUTO(Device) *device = compiler ? device_open(options->device) : NULL;
    AUTO(Tokenizer) *tokenizer = NULL;
    bool good = device && checkpoint_tokenizer(file, &tokenizer);
    if (good)
        good = (options->choices    ? measure_choices
                : options->decoding ? measure_decoding
                                    : measure_data)(options, file, compiler, device, tokenizer);
    return good;
}

int command_eval(const Command *command, int argc, char **argv) {
    EvalOptions options = {.device = "cpu"};
    const Option table[] = {
        {OPTION_TEXT, "--data", "DATA", &options.path, "evaluation data; see moec train"},
        {OPTION_TEXT, "--multiple-choice", "FILE", &options.choices,
         "questions, a JSON object per line, - for stdin: {\"context\": \"Water is\", \"choices\": "
         "[\" wet\", \" dry\"], \"answer\": 0}"},
        {OPTION_FLAG, "--probes", NULL, &options.probes,
         "per-layer probes: attention sinks, gate scores, maximum activations, expert load"},
        {OPTION_FLAG, "--incremental", NULL, &options.decoding,
         "evaluation token by token, as in generation, including its approximations"},
        {OPTION_FLAG, "--json", NULL, &options.json, "result as JSON"},
        DEVICE_OPTION(&options.device),
        SET_OPTION(&options.sets),
    };
    int code = arguments_read(command, OPTIONS(table), argc, argv, &options.operand);
    if (code >= 0) return code;
    if (!options.path == !options.choices)
        return arguments_wrong(command, NULL,
                               "moec eval requires either --data or --multiple-choice");
    if (options.probes + options.decoding + !!options.choices > 1)
        return arguments_wrong(command, "use one of them",
                               "--probes, --incremental and --multiple-choice exclude each other");
    return evaluate_run(&options) ? 0 : EXIT_INPUT;
}
