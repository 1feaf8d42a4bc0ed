/* train: moec train. */
#include "abi/json_make.h"
#include "abi/quantity.h"
#include "training/account.h"
#include "training/checkpoint.h"
#include "training/differences.h"
#include "tools/command/line/commands.h"
#include "tools/command/line/json_result.h"
#include "tools/experiment/history.h"
#include "base/message.h"
#include "model/examples.h"
#include "training/measure.h"
#include "base/interrupt.h"
#include "base/memory.h"
#include "base/progress.h"
#include "training/record.h"
#include "base/clock.h"
#include "training/spec.h"
#include "training/step.h"
#include "training/texts.h"
#include "base/json_number.h"
#include "device/ceiling.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Options {
    const char *operand, *data, *validation, *out, *device, *tokenizer, *from;
    long steps, seed; /* -1: of the spec */
    long until;       /* 0: to the last step */
    double limit;     /* of the loss; 0: none */
    bool resume, no_cache, tensorboard, missing, json;
    char **command;
    TextList sets;
} Options;

typedef struct Training {
    const Options *options;
    char *bundle;
    Settings settings;
    Device *device;
    Model *model;
    Call *train, *measure;
    Tokenizer *tokenizer; /* NULL: texts are bytes */
    json_t *files;        /* that travel with the weights, or NULL */
    Data *data, *other;   /* other: of --val-data */
    uint64_t train_tokens, held_start, held_stride, held_windows;
    Place place;
    long saved; /* step of the checkpoint on the disk, -1: none */
    Stepper stepper;
    Record record;
    double ceiling;  /* GFLOP/s of products */
    double bits;     /* validation, per byte or token, of examples the loss; NaN before it */
    bool probe_told; /* that one is no finite number */
    bool diverged;
    double shown_time; /* when the progress line was shown last, and the steps done by then */
    long shown_step;
} Training;

static bool build(Training *training) {
    const Options *options = training->options;
    progress_phase("compilation");
    training->device = device_open(options->device);
    if (!training->device) return false;
    MoecCompiler *compiler = spec_open(options->operand, &options->sets);
    if (!compiler) return false;
    training->settings = settings_of(compiler);
    if (options->steps >= 0) training->settings.steps = options->steps;
    if (options->seed >= 0) training->settings.seed = options->seed;
    const GraphShape shapes[] = {
        {.graph = MOEC_TRAIN}, {.graph = MOEC_MEASURE}, {.graph = MOEC_UPDATE}};
    training->bundle = memory_format("%s", moec_bundle(compiler));
    training->model = model_open(training->device, compiler, shapes, 3, !options->no_cache);
    moec_close(compiler);
    if (!training->model) return false;
    const MoecGraphEntry *train = model_graph(training->model, MOEC_GRAPH_TRAIN);
    const MoecGraphEntry *measure = model_graph(training->model, MOEC_GRAPH_MEASURE);
    if (!train || !measure || !training->model->table->update)
        return error_message("end the model in `loss = ...`",
                             "this model cannot be trained: it has no loss or no optimizer");
    training->train = call_open(training->model, train, NULL);
    training->measure = training->train ? call_open(training->model, measure, NULL) : NULL;
    return training->measure != NULL;
}

/* Without --val-data, the end of the data is validation data. */
static void hold_out(Training *training, uint64_t window) {
    uint64_t windows = order_held_out(training->data->count, window);
    training->held_windows = windows;
    bool apart = training->data->record; /* examples share nothing, windows of tokens one token */
    training->held_stride = apart ? window : window - 1;
    uint64_t held = windows ? windows * training->held_stride + !apart : 0;
    training->train_tokens = training->data->count - held;
    training->held_start = training->train_tokens;
}

/* With --val-data: sequences at equal distances in that data. */
static bool spread_out(Training *training, uint64_t window) {
    uint64_t count = training->other->count;
    if (count < window)
        return error_message("use more data or a shorter context: -c N",
                             "%s has %" PRIu64 " tokens, but one training sequence needs %" PRIu64,
                             training->options->validation, count, window);
    size_t record = training->other->record;
    uint64_t windows = record ? count / record : (count - 1) / (window - 1);
    training->held_windows = windows < ORDER_HELD_OUT ? windows : ORDER_HELD_OUT;
    training->held_stride =
        training->held_windows > 1 ? (count - window) / (training->held_windows - 1) : 0;
    if (record) training->held_stride -= training->held_stride % record;
    training->held_start = 0;
    training->train_tokens = training->data->count;
    return true;
}

/* Opens the tokenizer of the command line, of the resumed run, or of --init-from, and the files of
 * that run. */
static bool open_tokenizer(Training *training) {
    const Options *options = training->options;
    char *last = path_join(options->out, "last.safetensors");
    bool begun = options->resume && file_exists(last);
    Safetensors *file = begun           ? safetensors_open(last)
                        : options->from ? checkpoint_open(options->from)
                                        : NULL;
    bool good = file || (!begun && !options->from);
    if (file) training->files = checkpoint_files(file);
    if (good && options->tokenizer)
        good = (training->tokenizer = tokenizer_open(options->tokenizer)) != NULL;
    else if (file)
        good = checkpoint_tokenizer(file, &training->tokenizer);
    safetensors_close(file);
    free(last);
    return good;
}

static bool open_data(Training *training) {
    const Options *options = training->options;
    progress_phase("reading the data");
    uint64_t window = (uint64_t)call_context(training->train) + 1;
    if (!open_tokenizer(training)) return false;
    training->data = texts_open(options->data, training->tokenizer, training->train);
    if (!training->data) return false;
    if (options->validation) {
        training->other = texts_open(options->validation, training->tokenizer, training->train);
        if (!training->other || !spread_out(training, window)) return false;
    } else {
        hold_out(training, window);
    }
    return training->train_tokens >= window ||
           error_message("use more data or a shorter context: -c N",
                         "%s has %" PRIu64 " tokens, but one training sequence needs %" PRIu64,
                         options->data, training->data->count, window);
}

/* Restores the state from the checkpoint of the run. */
static bool resume(Training *training, const char *path) {
    Safetensors *file = safetensors_open(path);
    if (!file) return false;
    bool good = checkpoint_place(file, &training->place);
    if (good) differences_tell(safetensors_note(file, "spec"), training->bundle);
    good = good && model_read(training->model, file, true);
    if (good && training->options->seed >= 0 &&
        (uint64_t)training->options->seed != training->place.seed)
        good = error_message("omit --seed", "the run began with seed %" PRIu64 ", not %ld",
                             training->place.seed, training->options->seed);
    if (good && training->place.tokens != training->data->count)
        note_message("the data has changed since the last run: %" PRIu64 " tokens, not %" PRIu64,
                     training->data->count, training->place.tokens);
    const char *kept = safetensors_note(file, "tokenizer");
    size_t length;
    if (good && kept && strcmp(kept, tokenizer_json(training->tokenizer, &length)) != 0)
        note_message("the tokenizer has changed since the start of the run");
    training->place.tokens = training->data->count;
    training->saved = training->place.step;
    safetensors_close(file);
    return good;
}

static bool write_run_info(const Training *training) {
    const Options *options = training->options;
    double sequences =
        (double)training->train->graph->batch * (double)training->settings.accumulate;
    Account account = {
        .command = options->command,
        .model = training->model->table->model,
        .spec = training->bundle,
        .device = training->device->name,
        .data = options->data,
        .validation = options->validation,
        .tokenizer = options->tokenizer,
        .seed = training->place.seed,
        .data_tokens = training->data->count,
        .step = training->place.step,
        .steps = training->settings.steps,
        .tokens_per_step =
            sequences * (training->data->record ? 1 : (double)call_context(training->train)),
        .text = training->data->bytes,
    };
    return account_write(options->out, &account);
}

/* Initial weights, or those of another run. */
static bool begin(Training *training) {
    const Options *options = training->options;
    model_initialise(training->model, training->place.seed);
    if (!options->from) return true;
    Safetensors *file = checkpoint_open(options->from);
    bool good = file && model_begin(training->model, file, options->missing);
    safetensors_close(file);
    return good;
}

static bool start(Training *training) {
    const Options *options = training->options;
    char *last = path_join(options->out, "last.safetensors"),
         *log = path_join(options->out, "log.jsonl");
    bool begun = file_exists(last), good = true;
    training->saved = -1;
    if (!options->resume && (begun || file_exists(log)))
        good = error_message("add --resume to continue it, or choose another --out",
                             "%s already contains a run", options->out);
    training->place = (Place){.seed = (uint64_t)training->settings.seed,
                              .best = INFINITY,
                              .tokens = training->data->count};
    if (good && begun)
        good = resume(training, last);
    else
        good = good && begin(training);
    good = good && folder_make(options->out);
    good = good && record_open(&training->record, log, training->place.step) &&
           write_run_info(training);
    if (good && options->tensorboard)
        good = record_events(&training->record, options->out, training->place.step);
    free(last);
    free(log);
    return good;
}

static void print_plan(const Training *training, size_t program) {
    const Model *model = training->model;
    double trained = (double)trained_bytes(model->table),
           weights = (double)model->table->weight_bytes + trained,
           moments = (double)moment_bytes(model->table) * model->table->update->state_count;
    double lent = (double)(training->train->bytes + training->measure->bytes);
    if (message_is_quiet()) return;
    QuantityScale scale = quantity_line((double)model_bytes(model) + lent + (double)program, 3);
    fprintf(stderr,
            "%s: %s parameters; %s training tokens, %" PRIu64
            " validation sequences; program %s in %s\n",
            model->table->model, quantity_count((double)model_elements(model)).text,
            quantity_count((double)training->train_tokens).text, training->held_windows,
            model->module->cached ? "loaded from the cache" : "compiled",
            quantity_seconds(model->module->compile_seconds).text);
    fprintf(stderr,
            "memory %s: weights and gradients %s, optimizer %s, activations %s, inputs and outputs "
            "%s, program %s\n",
            quantity((double)model_bytes(model) + lent + (double)program, "B").text,
            quantity_in(weights, scale).text, quantity_in(moments, scale).text,
            quantity_in((double)model->arena_bytes, scale).text, quantity_in(lent, scale).text,
            quantity_in((double)program, scale).text);
    if (*model->engine->startup) fprintf(stderr, "%s\n", model->engine->startup);
}

static bool prepare_steps(Training *training) {
    training->stepper = (Stepper){
        .train = training->train,
        .data = training->data,
        .order = {.seed = training->place.seed,
                  .count = training->train_tokens,
                  .context = call_context(training->train),
                  .record = training->data->record},
        .settings = training->settings,
        .seed = training->place.seed,
    };
    training->shown_time = seconds_now();
    training->shown_step = training->place.step;
    training->bits = NAN;
    return step_prepare(&training->stepper);
}

/* Measured at the first progress line, so that the first step starts early. Its memory does not
 * count for the run. */
static void take_ceiling(Training *training) {
    training->ceiling = ceiling_products_quick(training->model->table->round != NULL);
    memory_reset_peak();
}

static void show(Training *training, const StepResult *result, bool keep) {
    if (!keep && !progress_due()) return;
    const Settings *settings = &training->settings;
    const MoecGraphEntry *graph = training->train->graph;
    double now = seconds_now();
    if (!training->device->apart && training->ceiling == 0) take_ceiling(training);
    double parts = (double)settings->accumulate;
    double steps = (double)(training->place.step - training->shown_step);
    double pace = steps > 0 ? (now - training->shown_time) / steps : 0; /* seconds of a step */
    double tokens = (double)(graph->batch * call_context(training->train)) * parts;
    double share = pace > 0 ? graph->product_flops * parts / pace / (training->ceiling * 1e9) : 0;
    char bits[48] = "", peak[64] = "";
    if (training->ceiling > 0)
        snprintf(peak, sizeof peak, "  %s of peak", quantity_percent(share).text);
    if (isfinite(training->bits))
        snprintf(bits, sizeof bits, "  val %.3f%s", training->bits,
                 training->data->record  ? ""
                 : training->data->bytes ? " bits/byte"
                                         : " bits/token");
    progress_show(
        keep, "step %ld/%ld  loss %.3f%s  grad %.3g  lr %.1e  %s tokens/s  %s%s  %s  ETA %s",
        training->place.step, settings->steps, result->loss, bits, result->norm, result->rate,
        quantity_grouped(pace > 0 ? tokens / pace : 0, 0).text,
        training->model->table->round ? "bf16" : "f32", peak,
        quantity((double)memory_resident(), "B").text,
        quantity_whole_seconds(pace * (double)(settings->steps - training->place.step)).text);
    training->shown_time = seconds_now();
    training->shown_step = training->place.step;
}

/* Values of the probes; the first one that is not finite causes a note. */
static json_t *measured_json(Training *training, const Probes *probes) {
    const char *wrong;
    json_t *measured = probes_json(probes, &wrong);
    if (wrong && !training->probe_told)
        note_message("step %ld: %s is not a finite number; it is null in the log",
                     training->place.step, wrong);
    training->probe_told |= wrong != NULL;
    return measured;
}

static bool log_step(Training *training, const StepResult *result, double seconds) {
    json_t *line = json_make("{s:I, s:f, s:f, s:o, s:f}", "step", (json_int_t)training->place.step,
                             "loss", result->loss, "grad_norm", result->norm, "lr",
                             json_number(result->rate), "seconds", seconds);
    json_t *measured = measured_json(training, training->stepper.probes);
    json_object_update(line, measured);
    json_decref(measured);
    return record_write(&training->record, line);
}

static bool save(Training *training, const char *name, bool optimizer) {
    progress_phase("writing the checkpoint");
    char *path = path_join(training->options->out, name);
    size_t length;
    const Companions companions = {
        .tokenizer = training->tokenizer ? tokenizer_json(training->tokenizer, &length) : NULL,
        .files = training->files};
    bool good = checkpoint_write(path, training->model, training->bundle, &companions,
                                 &training->place, optimizer);
    free(path);
    if (good && optimizer) training->saved = training->place.step;
    return good;
}

/* Adds the probes on validation data to the log line: "val_first_token". */
static void log_measured(json_t *line, json_t *measured) {
    const char *name;
    json_t *value;
    json_object_foreach(measured, name, value) {
        char *held = memory_format("val_%s", name);
        json_object_set(line, held, value);
        free(held);
    }
    json_decref(measured);
}

/* Evaluates on validation data, logs the result, and saves the weights if they are the best so
 * far. */
static bool measure(Training *training) {
    Evaluation found;
    Probes *probes = probes_open(training->measure);
    bool good = measure_loss(training->measure, training->other ? training->other : training->data,
                             training->held_start, training->held_stride, training->held_windows,
                             probes, &found);
    json_t *measured = good ? measured_json(training, probes) : NULL;
    probes_close(probes);
    if (!good) return false;
    training->bits = found.nats / (training->data->record ? 1 : log(2)); /* examples: the loss */
    json_t *line = json_make("{s:I, s:o}", "step", (json_int_t)training->place.step, "val_loss",
                             json_number(found.nats));
    if (!training->data->record)
        json_object_set_new(line,
                            training->data->bytes ? "val_bits_per_byte" : "val_bits_per_token",
                            json_number(training->bits));
    log_measured(line, measured);
    if (!record_write(&training->record, line)) return false;
    if (!isfinite(found.nats))
        note_message("step %ld: the validation loss is not a finite number", training->place.step);
    if (!(found.nats < training->place.best)) return true;
    training->place.best = found.nats;
    return save(training, "best.safetensors", false);
}

static bool validate(Training *training) {
    if (!training->held_windows) return true;
    progress_phase("evaluation");
    return model_take_averages(training->model) && measure(training) &&
           model_give_averages(training->model);
}

/* Reports the last checkpoint; returns false. */
static bool report_kept_checkpoint(const Training *training) {
    if (training->saved >= 0)
        note_message("the checkpoint of step %ld is kept in %s", training->saved,
                     training->options->out);
    return false;
}

static bool stop_diverged(Training *training, long step, const char *what, const char *why) {
    record_write(&training->record,
                 json_make("{s:I, s:s}", "step", (json_int_t)step, "diverged", what));
    error_message("lower --lr, set train.grad_clip, or use a longer warmup",
                  "step %ld: %s%s; training has stopped", step, what, why);
    training->diverged = true;
    return report_kept_checkpoint(training);
}

static bool stop_for_nonsense(Training *training, long step, const char *what) {
    return stop_diverged(training, step, what, " is not a finite number");
}

static bool stop_above_limit(Training *training, double loss) {
    char text[96];
    snprintf(text, sizeof text, " is %.4g, more than %g", loss, training->options->limit);
    return stop_diverged(training, training->place.step, "the loss", text);
}

/* The step after which this call stops. */
static long last_step(const Training *training) {
    long steps = training->settings.steps, until = training->options->until;
    return until > 0 && until < steps ? until : steps;
}

/* A checkpoint with values that are not finite must not replace a good one. */
static bool is_finite(Training *training) {
    bool finite;
    return model_finite(training->model, &finite) &&
           (finite || stop_for_nonsense(training, training->place.step,
                                        "a weight or a state of the optimizer"));
}

static bool due(long every, long step, long steps) {
    return step == steps || (every > 0 && step % every == 0);
}

/* One step with logging, evaluation and checkpoints; false to stop. */
static bool one_step(Training *training) {
    const Settings *settings = &training->settings;
    StepResult result;
    double began = seconds_now();
    progress_phase("training step");
    if (!step_run(&training->stepper, training->place.step, training->place.position, &result))
        return false;
    if (!isfinite(result.loss) || !isfinite(result.norm))
        return stop_for_nonsense(training, training->place.step + 1,
                                 isfinite(result.loss) ? "the norm of the gradient" : "the loss");
    training->place.step++;
    training->place.position += (uint64_t)(training->train->graph->batch * settings->accumulate);
    bool evaluates = due(settings->evaluate, training->place.step, last_step(training));
    if (!log_step(training, &result, seconds_now() - began)) return false;
    if (training->options->limit > 0 && result.loss > training->options->limit)
        return stop_above_limit(training, result.loss);
    if (evaluates && !(is_finite(training) && validate(training))) return false;
    show(training, &result, evaluates);
    bool saves =
        due(settings->checkpoint, training->place.step, last_step(training)) || interrupt_signal();
    if (!saves) return true;
    return is_finite(training) &&
           (save(training, "last.safetensors", true) || report_kept_checkpoint(training));
}

/* Whether the checkpoints of the run can be used; false after a message. */
static bool read_back(const Training *training) {
    static const char *const names[] = {"last.safetensors", "best.safetensors"};
    bool good = true;
    for (int i = 0; i < 2 && good; i++) {
        char *path = path_join(training->options->out, names[i]);
        good = (i && !file_exists(path)) || checkpoint_readable(path);
        free(path);
    }
    return good;
}

/* Prints the path of the checkpoint and the next command: resume, or use the model. */
static void report_written(const Training *training) {
    const char *out = training->options->out;
    char *path = path_join(out, "last.safetensors");
    if (training->place.step < training->settings.steps)
        written_message(path, "the same command with --resume");
    else if (training->data->record)
        written_message(path, "moec eval %s --data FILE", out);
    else
        written_message(path, "moec generate %s --prompt TEXT", out);
    free(path);
}

/* The result of --json: the last losses and the duration of all steps come from the log. */
static void print_json(const Training *training, const char *status) {
    const Data *data = training->data;
    const char *out = training->options->out,
               *bits = data->bytes ? "val_bits_per_byte" : "val_bits_per_token";
    History history = {0};
    bool logged = history_open(&history, out, false) && history.rows;
    json_t *result = json_make("{s:s, s:s, s:I, s:I}", "model", training->model->table->model,
                               "status", status, "step", (json_int_t)training->place.step, "steps",
                               (json_int_t)training->settings.steps);
    const char *const names[] = {"loss", "val_loss", data->record ? NULL : bits};
    for (int i = 0; i < 3 && names[i]; i++)
        json_object_set_new(result, names[i],
                            json_number(logged ? history_last(&history, names[i]) : NAN));
    json_object_set_new(result, "best_val_loss", json_number(training->place.best));
    json_object_set_new(result, "train_seconds",
                        json_real(logged ? history_sum(&history, "seconds") : 0));
    json_object_set_new(result, "peak_memory_bytes", json_integer((json_int_t)memory_peak()));
    json_result_written(out, result);
    history_free(&history);
}

/* Prints the end of the run; returns the exit code. */
static int report_end(const Training *training, const char *status) {
    const char *out = training->options->out;
    const long step = training->place.step;
    bool complete = !strcmp(status, "complete");
    if (training->options->json)
        print_json(training, status);
    else if (complete)
        printf(
            "%s is complete: it is at step %ld, and %s is %ld; --resume --steps N continues it\n",
            out, step,
            last_step(training) < training->settings.steps ? "--stop-after" : "train.steps",
            last_step(training));
    else if (!strcmp(status, "initialized"))
        printf("initialized; no step was run\n");
    else
        printf("%s at step %ld; peak memory %s\n", status, step,
               quantity((double)memory_peak(), "B").text);
    if (!complete) report_written(training);
    return interrupt_signal() ? 128 + interrupt_signal() : 0;
}

/* Writes the initial weights; no step is run. */
static int save_start(Training *training) {
    if (!save(training, "last.safetensors", true) || !read_back(training)) return EXIT_INPUT;
    return report_end(training, "initialized");
}

static int loop(Training *training) {
    long steps = last_step(training);
    if (steps == 0 && training->saved < 0) return save_start(training);
    if (training->place.step >= steps) return report_end(training, "complete");
    interrupt_watch();
    bool good = true;
    while (good && training->place.step < steps && !interrupt_signal()) good = one_step(training);
    progress_clear();
    if (training->diverged && training->options->json) print_json(training, "diverged");
    if (!good || !read_back(training)) return EXIT_INPUT;
    return report_end(training,
                      training->place.step < training->settings.steps ? "stopped" : "done");
}

static void release(Training *training) {
    progress_phase(NULL);
    step_release(&training->stepper);
    record_close(&training->record);
    data_close(training->data);
    data_close(training->other);
    tokenizer_close(training->tokenizer);
    json_decref(training->files);
    call_close(training->train);
    call_close(training->measure);
    model_close(training->model);
    device_close(training->device);
    free(training->bundle);
}

static int train(const Options *options) {
    Training training = {.options = options};
    bool good = build(&training) && open_data(&training);
    if (good) {
        memory_reset_peak();
        size_t program = products_prepare(training.model->engine->products) +
                         memory_of_threads(training.model->table);
        program += memory_resident();
        good = start(&training);
        if (good) {
            print_plan(&training, program);
            good = prepare_steps(&training);
        }
    }
    int code = good ? loop(&training) : EXIT_INPUT;
    release(&training);
    return code;
}

int command_train(int argc, char **argv) {
    const Command *command = command_row("train");
    Options options = {.device = "cpu", .steps = -1, .seed = -1, .command = argv};
    const Option table[] = {
        {OPTION_GROUP, "data and output", NULL, NULL, NULL},
        {OPTION_TEXT, "--data", "DATA", &options.data,
         "training data: text, tokens (moec tokenize, .npy, uint16:PATH, uint32:PATH), a directory "
         "or a quoted pattern of them; examples (safetensors)"},
        {OPTION_TEXT, "--val-data", "DATA", &options.validation,
         "validation data (default: the end of --data)"},
        {OPTION_TEXT, "--tokenizer", "FILE", &options.tokenizer,
         "tokenizer.json for text; kept in the checkpoints (default: tokens are bytes)"},
        {OPTION_TEXT, "--out", "RUN", &options.out,
         "run directory: last.safetensors, best.safetensors, log.jsonl, run.json"},
        {OPTION_FLAG, "--tensorboard", NULL, &options.tensorboard,
         "log for TensorBoard in addition to log.jsonl"},
        {OPTION_GROUP, "training", NULL, NULL, NULL},
        {OPTION_COUNT, "--steps", "N", &options.steps,
         "total number of optimizer steps (train.steps); 0 = write the initial weights only"},
        {OPTION_COUNT, "--seed", "N", &options.seed,
         "seed of weights, data order and dropout (default train.seed, which is 1)"},
        {OPTION_FLAG, "--resume", NULL, &options.resume,
         "resume from last.safetensors of --out; start from scratch if the file is missing"},
        {OPTION_COUNT, "--stop-after", "N", &options.until,
         "step to stop after, as after an interrupt; --resume continues"},
        {OPTION_NUMBER, "--diverged-above", "LOSS", &options.limit,
         "loss above which the run has diverged"},
        {OPTION_TEXT, "--init-from", "RUN", &options.from,
         "run or checkpoint with the initial weights (fine-tuning)"},
        {OPTION_FLAG, "--init-missing", NULL, &options.missing,
         "with --init-from: random initialization of parameters that are missing there"},
        DEVICE_OPTION(&options.device),
        {OPTION_FLAG, "--json", NULL, &options.json,
         "result as JSON: steps, last losses, duration"},
        {OPTION_FLAG, "--no-cache", NULL, &options.no_cache,
         "compilation without the cache of compiled programs"},
        SET_OPTION(&options.sets),
        {.kind = OPTION_END},
    };
    int code = arguments_read(command, table, argc, argv, &options.operand);
    if (code >= 0) return code;
    if (!options.data || !options.out)
        return arguments_wrong(command, NULL, "moec train requires %s",
                               options.data  ? "--out"
                               : options.out ? "--data"
                                             : "--data and --out");
    if (options.missing && !options.from)
        return arguments_wrong(command, NULL, "--init-missing requires --init-from RUN");
    return train(&options);
}
