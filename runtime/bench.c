/* bench: moec bench: how fast a model is, beside what the machine can do. Speeds are told only
 * after the program has given what the definition gives. */
#include "commands.h"
#include "complain.h"
#include "decoder.h"
#include "measure.h"
#include "memory.h"
#include "random.h"
#include "seconds.h"
#include "settings.h"
#include "spec.h"
#include "step.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TRAIN_SECONDS = 8, DECODE_SECONDS = 10, DECODE_ROUNDS = 10, WARM_STEPS = 2 };

typedef struct Options {
    const char *operand, *graph, *device;
    Device *on;
    bool rounded; /* products of bf16 */
    bool json;
    TextList sets;
} Options;

/* One line of the report and one member of the JSON object. */
static void tell(json_t *object, const char *name, double value) {
    json_object_set_new(object, name, json_real(value));
}

/* Seconds from the spec to the end of the first step, with a program that is compiled or loaded. */
typedef struct Start {
    double seconds, compile;
} Start;

static void fill_windows(Call *call, uint64_t seed) {
    long context = call_context(call), batch = call->graph->batch,
         vocabulary = call_vocabulary(call);
    long count = batch * (context + 1);
    int32_t *tokens = memory_new(sizeof *tokens * (size_t)count);
    for (long i = 0; i < count; i++)
        tokens[i] =
            (int32_t)(random_bits(seed, (uint64_t)i) % (uint64_t)(vocabulary ? vocabulary : 256));
    call_set_windows(call, tokens);
    free(tokens);
}

/* The derivative of the loss along its own gradient, from two more losses, has to be the square of
 * the gradient's norm. */
static bool check_gradient(Call *call, int loss) {
    Model *model = call->model;
    size_t count = model->table->weight_bytes / sizeof(float);
    float *kept = memory_map(model->table->weight_bytes);
    if (!kept) return complain(NULL, "no memory for the check");
    memcpy(kept, model->weights, model->table->weight_bytes);
    model->device->kind->zero(model->device, model->there.gradients, model->table->weight_bytes);
    if (!call_run(call, 1, false) || !model_get_gradients(model)) return false;
    double square = 0, sides[2];
    for (size_t i = 0; i < count; i++)
        square += (double)model->gradients[i] * (double)model->gradients[i];
    float *direction = memory_map(model->table->weight_bytes);
    if (direction) memcpy(direction, model->gradients, model->table->weight_bytes);
    double length = 1e-2 / sqrt(square); /* of the step, relative to the gradient */
    for (int side = 0; side < 2 && direction; side++) {
        for (size_t i = 0; i < count; i++)
            model->weights[i] = kept[i] + (float)((side ? -length : length) * (double)direction[i]);
        if (!model_put(model) || !call_run(call, 1, false) || !call_get(call, loss)) return false;
        sides[side] = (double)call->outputs[loss][0];
    }
    memcpy(model->weights, kept, model->table->weight_bytes);
    model_put(model);
    memory_unmap(kept, model->table->weight_bytes);
    memory_unmap(direction, model->table->weight_bytes);
    double slope = direction ? (sides[0] - sides[1]) / (2 * length) : NAN;
    /* A choice that changes within the step makes the loss jump: routed models are exact to a third
     * only. */
    if (fabs(slope - square) <= 0.33 * square) return true;
    return complain(
        "moec run --device eval tells which tensor is wrong",
        "no speed is told: the loss changes by %g along its gradient, whose norm says %g", slope,
        square);
}

/* A model of the wished graphs with fresh weights and the time that took, up to the end of its
 * first run. */
static Model *open_timed(const Options *options, const Wish *wishes, int count, bool keep,
                         Start *start) {
    double began = seconds_now();
    MoecCompiler *compiler = spec_open(options->operand, &options->sets);
    Model *model = compiler ? model_open_on(options->on, compiler, wishes, count, keep) : NULL;
    moec_close(compiler);
    if (model) {
        model_initialise(model, 1);
        start->compile = model->module->compile_seconds;
    }
    start->seconds = seconds_now() - began;
    return model;
}

static bool train_step(Stepper *stepper, long step) {
    StepResult result;
    return step_run(stepper, step, (uint64_t)(step * stepper->train->graph->batch), &result) &&
           (isfinite(result.loss) ||
            complain(NULL, "no speed is told: the loss is not a finite number"));
}

/* A file of random bytes below the vocabulary, as data of the measured steps. */
static Data *random_data(long vocabulary) {
    char path[] = "/tmp/moec-bench-XXXXXX";
    int descriptor = mkstemp(path);
    if (descriptor < 0) return NULL;
    unsigned char bytes[1 << 16];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(random_bits(7, i) %
                                   (uint64_t)(vocabulary && vocabulary < 256 ? vocabulary : 256));
    FILE *file = fdopen(descriptor, "wb");
    bool good = file && fwrite(bytes, 1, sizeof bytes, file) == sizeof bytes;
    good = file && fclose(file) == 0 && good;
    Data *data = good ? data_open(path, vocabulary) : NULL;
    remove(path);
    return data;
}

/* Spec to the end of the first step; keep false: compiled anew. */
static bool first_step(const Options *options, Settings settings, bool keep, Start *start) {
    const Wish wishes[] = {{.graph = MOEC_TRAIN}, {.graph = MOEC_UPDATE}};
    double began = seconds_now();
    Model *model = open_timed(options, wishes, 2, keep, start);
    Call *call = model ? call_open(model, model_graph(model, MOEC_GRAPH_TRAIN), NULL) : NULL;
    Data *data = call ? random_data(call_vocabulary(call)) : NULL;
    bool good = data != NULL;
    if (good) {
        Stepper stepper = {.train = call,
                           .data = data,
                           .order = {1, data->count, call_context(call), data->record},
                           .settings = settings};
        step_prepare(&stepper);
        good = train_step(&stepper, 0);
        step_release(&stepper);
    }
    start->seconds = seconds_now() - began;
    data_close(data);
    call_close(call);
    model_close(model);
    return good;
}

/* Seconds of a step: the least of several, because others use the machine, too, and the mean. */
static bool time_steps(Stepper *stepper, double *best, double *mean) {
    double total = 0;
    long steps = 0;
    *best = INFINITY;
    for (long step = 0; step < WARM_STEPS || (total < TRAIN_SECONDS && steps < 200); step++) {
        double began = seconds_now();
        if (!train_step(stepper, step)) return false;
        if (step < WARM_STEPS) continue;
        double seconds = seconds_now() - began;
        *best = seconds < *best ? seconds : *best;
        total += seconds;
        steps++;
    }
    *mean = total / (double)steps;
    return true;
}

static void tell_training(const Stepper *stepper, double best, double mean, double ceiling,
                          json_t *report) {
    const Call *call = stepper->train;
    double parts = (double)stepper->settings.accumulate, flops = call->graph->product_flops * parts;
    double tokens = (double)(call->graph->batch * call_context(call)) * parts,
           floor = flops / (ceiling * 1e9);
    tell(report, "tokens_per_second", tokens / mean);
    tell(report, "best_tokens_per_second", tokens / best);
    tell(report, "product_gflops", flops / mean / 1e9);
    tell(report, "ceiling_gflops", ceiling);
    tell(report, "floor_tokens_per_second", tokens / floor);
    tell(report, "share_of_floor", floor / mean);
    tell(report, "best_share_of_floor", floor / best);
}

static double products_ceiling(const Options *options) {
    return options->on->kind->ceiling_products(options->on, options->rounded);
}

static bool measure_training(const Options *options, Settings settings, json_t *report) {
    const Wish wishes[] = {{.graph = MOEC_TRAIN}, {.graph = MOEC_UPDATE}};
    Start warm;
    Model *model = open_timed(options, wishes, 2, true, &warm);
    Call *call = model ? call_open(model, model_graph(model, MOEC_GRAPH_TRAIN), NULL) : NULL;
    Data *data = NULL;
    /* What is differentiated: with auxiliary terms that is their total with the loss. */
    int loss = call ? call_output(call, "total") : -1;
    if (call && loss < 0) loss = call_output(call, "loss");
    bool good = loss >= 0;
    if (good) {
        call_set_scalar(call, "loss_scale", 1);
        fill_windows(call, 3);
        data = random_data(call_vocabulary(call));
        good = data && check_gradient(call, loss);
    }
    if (good) {
        Stepper stepper = {.train = call,
                           .data = data,
                           .order = {1, data->count, call_context(call), data->record},
                           .settings = settings};
        step_prepare(&stepper);
        double before = products_ceiling(options), best = 0, mean = 0;
        good = time_steps(&stepper, &best, &mean);
        double after = products_ceiling(options);
        if (good && *model->engine->ledger)
            json_object_set_new(report, "ledger", json_string(model->engine->ledger));
        if (good) tell_training(&stepper, best, mean, before > after ? before : after, report);
        step_release(&stepper);
    }
    data_close(data);
    call_close(call);
    model_close(model);
    return good;
}

static bool bench_training(const Options *options, Settings settings, json_t *report) {
    Start cold, warm;
    if (!first_step(options, settings, false, &cold) ||
        !measure_training(options, settings, report) || !first_step(options, settings, true, &warm))
        return false;
    tell(report, "first_step_cold_seconds", cold.seconds);
    tell(report, "compile_cold_seconds", cold.compile);
    tell(report, "first_step_warm_seconds", warm.seconds);
    return true;
}

/* Step by step with caches has to give what the whole window gives at once. */
static bool check_decoder(const Options *options, Decoder *decoder) {
    MoecCompiler *compiler = spec_open(options->operand, &options->sets);
    const Wish wish = {.graph = MOEC_FORWARD, .batch = 1, .context = 8};
    Model *model = compiler ? model_open_on(options->on, compiler, &wish, 1, true) : NULL;
    moec_close(compiler);
    Call *call = model ? call_open(model, &model->table->graphs[0], NULL) : NULL;
    int slot = call ? call_output(call, "logits") : -1;
    bool good = slot >= 0;
    double error = 0, scale = 0, tolerance = options->rounded ? 2e-2 : 1e-4;
    if (good) {
        long vocabulary = decoder_vocabulary(decoder);
        int32_t tokens[9];
        for (int i = 0; i < 9; i++)
            tokens[i] = (int32_t)(random_bits(5, (uint64_t)i) % (uint64_t)vocabulary);
        model_initialise(model, 1);
        call_set_windows(call, tokens);
        good = call_run(call, 0, false) && call_get(call, slot);
        for (int i = 0; good && i < 8; i++) {
            const float *stepped = decoder_feed(decoder, &tokens[i], 1);
            const float *whole = call->outputs[slot] + i * vocabulary;
            good = stepped != NULL;
            if (!good) break;
            for (long j = 0; j < vocabulary; j++) {
                error += pow((double)stepped[j] - (double)whole[j], 2);
                scale += pow((double)whole[j], 2);
            }
        }
        good = good &&
               (error <= tolerance * tolerance * scale ||
                complain(NULL, "no speed is told: decoding differs from the full forward by %g",
                         sqrt(error / scale)));
    }
    call_close(call);
    model_close(model);
    return good;
}

/* Bytes that one token has to read: every weight that is not looked up, chosen ones by their share,
 * and half the caches. */
static double touched_bytes(const Options *options, const Decoder *decoder) {
    MoecCompiler *compiler = spec_open(options->operand, &options->sets);
    json_t *cost = compiler ? json_loads(moec_cost_json(compiler), 0, NULL) : NULL;
    json_t *params = json_object_get(cost, "params");
    json_t *active =
        params ? json_object_get(params, "active") : json_object_get(cost, "params.active");
    json_t *embedding =
        params ? json_object_get(params, "embedding") : json_object_get(cost, "params.embedding");
    double total = 0, looked_up = 0;
    for (int i = 0; i < decoder->model->parameter_count; i++)
        total += (double)decoder->model->parameters[i].count;
    /* An embedding that is also the output's matrix is read whole. */
    long vocabulary = decoder_vocabulary(decoder);
    int of_vocabulary = 0;
    for (int i = 0; i < decoder->model->parameter_count; i++)
        for (int j = 0; j < decoder->model->parameters[i].rank; j++)
            of_vocabulary += decoder->model->parameters[i].shape[j] == vocabulary;
    if (of_vocabulary > 1) looked_up = json_number_value(embedding);
    double weights = active ? json_number_value(active) : total;
    json_decref(cost);
    moec_close(compiler);
    return 4 * (weights - looked_up);
}

/* Speed and ceiling of one round, taken one right after the other: on a shared machine both drift. */
typedef struct Round {
    double speed, touched, ceiling; /* tokens a second, bytes a token, GB a second */
} Round;

static double round_share(const Round *round) {
    return round->speed * round->touched / 1e9 / round->ceiling;
}

static int by_share(const void *a, const void *b) {
    double one = round_share(a), other = round_share(b);
    return (one > other) - (one < other);
}

static bool decode_round(const Options *options, Decoder *decoder, double weights, Round *round) {
    round->ceiling = options->on->kind->ceiling_read(options->on);
    double began = seconds_now(), cache = 0;
    long tokens = 0;
    while (seconds_now() - began < DECODE_SECONDS / DECODE_ROUNDS) {
        if (decoder->position == decoder->length) decoder->position = 0;
        int32_t token =
            (int32_t)(random_bits(9, (uint64_t)tokens) % (uint64_t)decoder_vocabulary(decoder));
        if (!decoder_feed(decoder, &token, 1)) return false;
        cache += (double)decoder->position / (double)decoder->length *
                 (double)decoder->step->graph->cache_bytes;
        tokens++;
    }
    round->speed = (double)tokens / (seconds_now() - began);
    round->touched = weights + cache / (double)tokens;
    return true;
}

static bool bench_decoding(const Options *options, json_t *report) {
    MoecCompiler *compiler = spec_open(options->operand, &options->sets);
    Decoder *decoder = compiler ? decoder_open_on(options->on, compiler, 0, 0) : NULL;
    moec_close(compiler);
    bool good = decoder != NULL;
    if (good) {
        model_initialise(decoder->model, 1);
        good = check_decoder(options, decoder);
    }
    Round rounds[DECODE_ROUNDS];
    double weights = good ? touched_bytes(options, decoder) : 0;
    for (int i = 0; i < DECODE_ROUNDS && good; i++)
        good = decode_round(options, decoder, weights, &rounds[i]);
    if (good) {
        qsort(rounds, DECODE_ROUNDS, sizeof rounds[0], by_share);
        const Round *median = &rounds[DECODE_ROUNDS / 2], *best = &rounds[DECODE_ROUNDS - 1];
        tell(report, "tokens_per_second", median->speed);
        tell(report, "bytes_per_token", median->touched);
        tell(report, "read_gbytes_per_second", median->speed * median->touched / 1e9);
        tell(report, "ceiling_gbytes_per_second", median->ceiling);
        tell(report, "share_of_bandwidth", round_share(median));
        tell(report, "best_share_of_bandwidth", round_share(best));
    }
    decoder_close(decoder);
    return good;
}

static void print_report(const Options *options, const json_t *report) {
    const char *key;
    json_t *value;
    if (options->json) {
        json_dumpf(report, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
        puts("");
        return;
    }
    json_object_foreach((json_t *)(uintptr_t)report, key, value) {
        if (json_is_string(value))
            printf("%-26s %s\n", key, json_string_value(value));
        else
            printf("%-26s %.4g\n", key, json_number_value(value));
    }
}

int command_bench(int argc, char **argv) {
    const Command *command = command_row("bench");
    Options options = {.graph = "train", .device = "cpu"};
    const Option table[] = {
        {OPTION_TEXT, "--graph", "NAME", &options.graph,
         "train (default): steps; decode: one token after the other"},
        {OPTION_TEXT, "--device", "NAME", &options.device, "cpu (default), cuda or cuda:N"},
        {OPTION_FLAG, "--json", NULL, &options.json, "the figures as JSON"},
        {OPTION_LIST, "--set", "KEY=VALUE", &options.sets,
         "an option of the model, as in the file"},
        {.kind = OPTION_END},
    };
    int code = arguments_read(command, table, argc, argv, &options.operand);
    if (code >= 0) return code;
    bool trains = strcmp(options.graph, "train") == 0;
    if (!trains && strcmp(options.graph, "decode") != 0)
        return arguments_wrong(command, "train or decode", "there is no graph '%s'", options.graph);
    MoecCompiler *compiler = spec_open(options.operand, &options.sets);
    if (!compiler) return EXIT_INPUT;
    Settings settings = settings_of(compiler);
    const char *precision = moec_option(compiler, "train.precision");
    json_t *report = json_pack("{s:s, s:s}", "model", moec_model(compiler), "graph", options.graph);
    options.on = device_open(options.device);
    options.rounded =
        options.on && options.on->apart && precision && strcmp(precision, "bf16") == 0;
    moec_close(compiler);
    if (!options.on) {
        json_decref(report);
        return EXIT_INPUT;
    }
    json_object_set_new(report, "device", json_string(options.on->name));
    bool good =
        trains ? bench_training(&options, settings, report) : bench_decoding(&options, report);
    if (good) print_report(&options, report);
    json_decref(report);
    device_close(options.on);
    return good ? 0 : EXIT_INPUT;
}
