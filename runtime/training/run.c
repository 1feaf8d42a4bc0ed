#include "training/run.h"

#include "abi/json_make.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"
#include "data/random.h"
#include "model/call.h"
#include "training/internal.h"
#include "training/evaluation.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void begin_phase(const TrainRun *run, const char *phase) {
    if (run->options.on_phase) run->options.on_phase(phase);
}

/* The device selects the kernels of the resumed run again, and records new ones. */
static void record_choices(const TrainRun *run, Device *device) {
    if (!device->apart) return;
    AUTO_FREE char *last = path_join(run->options.out, "last.safetensors");
    AUTO(Safetensors) *file =
        run->options.resume && file_exists(last) ? safetensors_open(last) : NULL;
    json_t *known = file ? checkpoint_choices(file) : NULL;
    json_decref(device->choices);
    device->choices = known ? known : json_object();
    device->is_resumed = known != NULL;
}

static bool compile_run(TrainRun *run, Device *device, MoecCompiler *compiler) {
    GraphShape shapes[TRAIN_SHAPES + 2] = {{.graph = MOEC_MEASURE}, {.graph = MOEC_UPDATE}};
    run->settings = settings_of(compiler);
    if (run->options.steps >= 0) run->settings.steps = run->options.steps;
    if (run->options.seed >= 0) run->settings.seed = run->options.seed;
    run->bundle = memory_format("%s", moec_bundle(compiler));
    const bool watches = run->options.watched.count > 0;
    const bool staged = stages_read(&run->stages, compiler, &run->settings);
    const int count = stages_shapes(&run->stages, shapes, 2);
    if (watches) run->limits = limits_open(&run->options.watched, compiler);
    record_choices(run, device);
    if (staged && (run->limits || !watches) && processes_check(run, device, compiler))
        run->model = model_open(device, compiler, shapes, count, !run->options.no_cache);
    if (run->options.on_compiled) run->options.on_compiled(compiler);
    moec_close(compiler);
    if (!run->model) return false;
    const MoecGraphEntry *train = model_graph(run->model, MOEC_GRAPH_TRAIN);
    const MoecGraphEntry *measure = model_graph(run->model, MOEC_GRAPH_MEASURE);
    if (!train || !measure || !run->model->table->update)
        return error_message("end the model in `loss = ...`",
                             "this model cannot be trained: it has no loss or no optimizer");
    if (!stages_open(&run->stages, run->model)) return false;
    run->train = run->stages.all[run->stages.count - 1].train;
    run->measure = call_open(run->model, measure, NULL);
    return run->measure != NULL;
}

static bool report_short(const char *path, uint64_t count, uint64_t window) {
    return error_message("use more data or a shorter context: -c N",
                         "%s has %" PRIu64 " tokens, but one training sequence needs %" PRIu64,
                         path, count, window);
}

/* The end of each source is validation data; a part of a mixture has its share of the windows. */
static bool hold_out(TrainRun *run, uint64_t window) {
    Mixture *mixture = &run->mixture;
    run->held_windows = run->train_tokens = 0;
    for (int i = 0; i < mixture->count; i++) {
        DataSource *source = &mixture->sources[i];
        Samples *samples = &run->held[i];
        const uint64_t count = source->data->count;
        const bool apart = source->data->record; /* windows of tokens share one token */
        uint64_t windows = order_held_out(count, window),
                 share = (uint64_t)ceil(source->share * ORDER_HELD_OUT);
        if (windows > share) windows = share;
        samples->count = windows;
        samples->stride = apart ? window : window - 1;
        samples->start = count - (windows ? windows * samples->stride + !apart : 0);
        source->order.count = samples->start;
        run->held_windows += windows;
        run->train_tokens += samples->start;
        if (samples->start < window) return report_short(source->path, count, window);
    }
    return true;
}

/* Sequences at equal distances in the validation data of its own. */
static bool spread_out(TrainRun *run, uint64_t window) {
    Samples *samples = &run->held[0];
    const uint64_t count = run->other->count;
    if (count < window) return report_short(run->options.validation, count, window);
    const size_t record = run->other->record;
    const uint64_t windows = record ? count / record : (count - 1) / (window - 1);
    samples->count = windows < ORDER_HELD_OUT ? windows : ORDER_HELD_OUT;
    samples->stride = samples->count > 1 ? (count - window) / (samples->count - 1) : 0;
    if (record) samples->stride -= samples->stride % record;
    run->held_windows = samples->count;
    run->train_tokens = mixture_tokens(&run->mixture);
    for (int i = 0; i < run->mixture.count; i++) {
        DataSource *source = &run->mixture.sources[i];
        source->order.count = source->data->count;
        if (source->data->count < window)
            return report_short(source->path, source->data->count, window);
    }
    return true;
}

/* Opens the tokenizer of the options, of the resumed run, or of the run with the initial weights,
 * and the files of that run. */
static bool open_run_tokenizer(TrainRun *run) {
    const RunOptions *options = &run->options;
    AUTO_FREE char *last = path_join(options->out, "last.safetensors");
    bool begun = options->resume && file_exists(last);
    AUTO(Safetensors) *file = begun           ? safetensors_open(last)
                              : options->from ? checkpoint_open(options->from)
                                              : NULL;
    bool good = file || (!begun && !options->from);
    if (file) run->files = safetensors_files(file);
    if (good && options->tokenizer)
        good = (run->tokenizer = tokenizer_open(options->tokenizer)) != NULL;
    else if (file)
        good = checkpoint_tokenizer(file, &run->tokenizer);
    return good;
}

static bool open_sources(TrainRun *run) {
    Mixture *mixture = &run->mixture;
    if (!mixture_read(mixture, run->options.data)) return false;
    for (int i = 0; i < mixture->count; i++) {
        DataSource *source = &mixture->sources[i];
        source->data = texts_open(source->path, run->tokenizer, run->train);
        if (!source->data) return false;
        if (source->data->files && !run->files) run->files = json_object();
        if (source->data->files) json_object_update_missing(run->files, source->data->files);
        source->order =
            (Order){.context = call_context(run->train), .record = source->data->record};
    }
    run->bytes = mixture_is_bytes(mixture);
    run->examples = mixture->sources[0].data->record;
    return true;
}

static bool open_data(TrainRun *run) {
    const RunOptions *options = &run->options;
    begin_phase(run, "reading the data");
    uint64_t window = (uint64_t)call_context(run->train) + 1;
    if (!open_run_tokenizer(run)) return false;
    if (!open_sources(run)) return false;
    if (!options->validation) return hold_out(run, window);
    run->other = texts_open(options->validation, run->tokenizer, run->train);
    return run->other && spread_out(run, window);
}

/* Restores the state from the checkpoint of the run. */
static bool resume(TrainRun *run, const char *path) {
    AUTO(Safetensors) *file = safetensors_open(path);
    if (!file) return false;
    const char *type = safetensors_quantized(file);
    bool good =
        !type || error_message("resume the run that moec quantize read, or start a new run with "
                               "--init-from and another --out",
                               "%s cannot be resumed: its weights are %s, without optimizer states",
                               run->options.out, type);
    good = good && checkpoint_place(file, &run->place);
    if (good) differences_tell(safetensors_note(file, "spec"), run->bundle);
    good = good && model_read(run->model, file, true);
    if (good && run->options.seed >= 0 && (uint64_t)run->options.seed != run->place.seed)
        good = error_message("omit the seed", "the run began with seed %" PRIu64 ", not %ld",
                             run->place.seed, run->options.seed);
    const uint64_t tokens = mixture_tokens(&run->mixture);
    if (good && run->place.tokens != tokens)
        note_message("the data has changed since the last run: %" PRIu64 " tokens, not %" PRIu64,
                     tokens, run->place.tokens);
    const char *kept = safetensors_note(file, "tokenizer");
    size_t length;
    if (good && kept && strcmp(kept, tokenizer_json(run->tokenizer, &length)) != 0)
        note_message("the tokenizer has changed since the start of the run");
    run->place.tokens = tokens;
    run->saved = run->place.step;
    return good;
}

static bool write_run_info(const TrainRun *run) {
    const RunOptions *options = &run->options;
    Account account = {
        .command = options->command,
        .model = run->model->table->model,
        .spec = run->bundle,
        .device = run->model->device->name,
        .data = options->data,
        .validation = options->validation,
        .tokenizer = options->tokenizer,
        .seed = run->place.seed,
        .data_tokens = mixture_tokens(&run->mixture),
        .step = run->place.step,
        .steps = run->settings.steps,
        .tokens_per_step = stages_tokens_per_step(&run->stages, run->settings.steps),
        .text = run->bytes,
    };
    return account_write(options->out, &account);
}

/* Initial weights, or those of another run. */
static bool begin_run(TrainRun *run) {
    const RunOptions *options = &run->options;
    if (!options->from) {
        model_initialise(run->model, run->place.seed);
        return true;
    }
    AUTO(Safetensors) *file = checkpoint_open(options->from);
    return file && model_begin(run->model, file, options->missing, run->place.seed);
}

/* Values of the probes; the first one that is not finite causes a note. */
static json_t *measured_json(TrainRun *run, const Probes *probes) {
    const char *wrong;
    json_t *measured = probes_json(probes, &wrong);
    if (wrong && !run->probe_told)
        note_message("step %ld: %s is not a finite number; it is null in the log", run->place.step,
                     wrong);
    run->probe_told |= wrong != NULL;
    return measured;
}

/* Process 0 writes the log. Releases the line. */
static bool log_line(TrainRun *run, json_t *line) {
    if (mesh_rank(run->mesh) == 0) return record_write(&run->record, line);
    json_decref(line);
    return true;
}

static bool log_step(TrainRun *run, const TrainStage *stage, const StepResult *result,
                     double seconds) {
    json_t *line =
        json_make("{s:I, s:f, s:f, s:f, s:f}", "step", (json_int_t)run->place.step, "loss",
                  result->loss, "grad_norm", result->norm, "lr", result->rate, "seconds", seconds);
    if (run->stages.count > 1) {
        json_object_set_new(line, "stage_sequences",
                            json_integer(stage_sequences(&run->stages, stage)));
        json_object_set_new(line, "stage_context_length", json_integer(call_context(stage->train)));
    }
    json_auto_t *measured = measured_json(run, stage->stepper.probes);
    json_object_update(line, measured);
    return log_line(run, line);
}

/* Process 0 writes the checkpoint. */
static bool save_checkpoint(TrainRun *run, const char *name, bool optimizer) {
    bool good = true;
    begin_phase(run, "writing the checkpoint");
    processes_collect(run, optimizer);
    if (mesh_rank(run->mesh) == 0) {
        AUTO_FREE char *path = path_join(run->options.out, name);
        size_t length;
        const Companions companions = {
            .tokenizer = run->tokenizer ? tokenizer_json(run->tokenizer, &length) : NULL,
            .files = run->files};
        mesh_set_busy(run->mesh, "writing the checkpoint");
        good = checkpoint_write(path, run->model, run->bundle, &companions, &run->place, optimizer);
        mesh_set_busy(run->mesh, NULL);
    }
    processes_drop(run);
    if (good && optimizer) run->saved = run->place.step;
    return good;
}

/* Adds the probes on validation data to the log line: "val_first_token". */
static void log_measured(json_t *line, json_t *measured) {
    const char *name;
    json_t *value;
    json_object_foreach(measured, name, value) {
        AUTO_FREE char *held = memory_format("val_%s", name);
        json_object_set(line, held, value);
    }
    json_decref(measured);
}

/* ---- the first value that is not finite ---- */

static const char search[] = "search for the first value that is not finite";

/* The compiler of the run, to close with end_search. */
static MoecCompiler *begin_search(TrainRun *run) {
    begin_phase(run, search);
    processes_complete(run);
    mesh_set_busy(run->mesh, search);
    return moec_open_bundle(run->bundle, strlen(run->bundle), NULL, 0);
}

/* The processes wait for the one that has the value: the first one to end would stop them. */
static void end_search(TrainRun *run, MoecCompiler *compiler) {
    moec_close(compiler);
    mesh_set_busy(run->mesh, NULL);
    mesh_largest(run->mesh, search, 0);
}

static const Data *held_data(const TrainRun *run, int part) {
    return run->other ? run->other : run->mixture.sources[part].data;
}

static void print_validation_fault(TrainRun *run, int part, const Evaluation *found) {
    note_message("step %ld: the validation loss is not a finite number", run->place.step);
    MoecCompiler *compiler = begin_search(run);
    measure_print_fault(run->measure, held_data(run, part), &run->held[part], found, compiler);
    end_search(run, compiler);
}

/* The losses of the parts of a mixture, weighted with their shares. */
typedef struct HeldLoss {
    Evaluation found[MIXTURE_LIMIT];
    double nats;
    int wrong; /* the first part whose loss is not finite; -1: none */
} HeldLoss;

static bool measure_parts(TrainRun *run, Probes *probes, HeldLoss *loss) {
    const int count = run->other ? 1 : run->mixture.count;
    double shares = 0;
    *loss = (HeldLoss){.wrong = -1};
    for (int i = 0; i < count; i++) {
        Evaluation *found = &loss->found[i];
        if (!run->held[i].count) continue;
        if (!measure_loss(run->measure, held_data(run, i), &run->held[i], probes, run->mesh, found))
            return false;
        const double share = count == 1 ? 1 : run->mixture.sources[i].share;
        shares += share;
        loss->nats += share * found->nats;
        if (!isfinite(found->nats) && loss->wrong < 0) loss->wrong = i;
    }
    if (count > 1) loss->nats /= shares;
    return true;
}

/* "val_loss.source": the loss of each part, null for one that is too short for validation data. */
static void log_parts(const TrainRun *run, const HeldLoss *loss, json_t *line) {
    json_t *parts = run->other || run->mixture.count == 1 ? NULL : json_array();
    for (int i = 0; parts && i < run->mixture.count; i++)
        json_array_append_new(parts, json_number(run->held[i].count ? loss->found[i].nats : NAN));
    if (parts) json_object_set_new(line, "val_loss.source", parts);
}

/* Evaluates on validation data, logs the result, and saves the weights if they are the best so far.
 * An evaluation only because of a stop leaves no trace after a resume. */
static bool measure_validation(TrainRun *run, bool only_stop) {
    HeldLoss loss;
    Probes *probes = probes_open(run->measure);
    bool good = measure_parts(run, probes, &loss);
    json_t *measured = good ? measured_json(run, probes) : NULL;
    probes_close(probes);
    if (!good) return false;
    run->validation = loss.nats;
    json_t *line =
        json_make("{s:I, s:f}", "step", (json_int_t)run->place.step, "val_loss", loss.nats);
    if (!run->examples)
        json_object_set_new(line, run->bytes ? "val_bits_per_byte" : "val_bits_per_token",
                            json_number(loss.nats / log(2)));
    log_parts(run, &loss, line);
    log_measured(line, measured);
    if (only_stop) json_object_set_new(line, "stopped", json_true());
    if (!log_line(run, line)) return false;
    if (loss.wrong >= 0) print_validation_fault(run, loss.wrong, &loss.found[loss.wrong]);
    if (only_stop || !(loss.nats < run->place.best)) return true;
    run->place.best = loss.nats;
    return save_checkpoint(run, "best.safetensors", false);
}

static bool validate(TrainRun *run, bool only_stop) {
    if (!run->held_windows) return true;
    begin_phase(run, "evaluation");
    processes_average(run);
    processes_drop_rows(run);
    const bool good = model_take_averages(run->model) && measure_validation(run, only_stop) &&
                      model_give_averages(run->model);
    processes_drop(run);
    processes_drop_rows(run);
    return good;
}

/* Prints a note about the last checkpoint; returns false. */
static bool report_kept_checkpoint(const TrainRun *run) {
    if (run->saved >= 0)
        note_message("the checkpoint of step %ld is kept in %s", run->saved, run->options.out);
    return false;
}

static bool stop_diverged(TrainRun *run, long step, const char *what, const char *why) {
    run->diverged = true;
    log_line(run, json_make("{s:I, s:s}", "step", (json_int_t)step, "diverged", what));
    error_message("lower train.lr, set train.grad_clip, or use a longer warmup",
                  "step %ld: %s%s; training has stopped", step, what, why);
    return report_kept_checkpoint(run);
}

static bool stop_for_nonsense(TrainRun *run, long step, const char *what) {
    return stop_diverged(run, step, what, " is not a finite number");
}

static bool stop_at_step(TrainRun *run, TrainStage *stage, const char *what) {
    stop_for_nonsense(run, run->place.step + 1, what);
    MoecCompiler *compiler = begin_search(run);
    step_print_fault(&stage->stepper, compiler, run->place.step,
                     stage_sample(&run->stages, stage, run->place.position));
    end_search(run, compiler);
    return false;
}

static bool stop_above_limit(TrainRun *run, double loss) {
    char text[96];
    snprintf(text, sizeof text, " is %.4g, more than %g", loss, run->options.limit);
    return stop_diverged(run, run->place.step, "the loss", text);
}

/* The step after which this call stops. */
static long last_step(const TrainRun *run) {
    long steps = run->settings.steps, until = run->options.until;
    return until > 0 && until < steps ? until : steps;
}

/* A checkpoint with values that are not finite must not replace a good one. */
static bool is_finite(TrainRun *run) {
    bool finite;
    return model_finite(run->model, &finite) &&
           (!mesh_largest(run->mesh, "check of the weights", !finite) ||
            stop_for_nonsense(run, run->place.step, "a weight or a state of the optimizer"));
}

static bool due(long every, long step, long steps) {
    return step == steps || (every > 0 && step % every == 0);
}

/* All processes stop if one does. */
static void stop_together(TrainRun *run, bool stop) {
    const int agreed =
        mesh_largest(run->mesh, "request to stop", stop ? 1 + interrupt_signal() : 0);
    run->stopped = agreed > 0;
    run->signal = agreed > 1 ? agreed - 1 : 0;
}

/* Stops with a checkpoint of the state before the step. */
static bool stop_at_limit(TrainRun *run, const TrainStage *stage) {
    const WatchedTensors *limits = run->limits;
    const Model *model = run->model;
    if (!limits->exceeded)
        return error_message("see its message", "another process has stopped at a watched tensor");
    log_line(run, json_make("{s:I, s:s, s:f}", "step", (json_int_t)run->place.step + 1, "watched",
                            limits->element, "value", limits->value));
    error_message(limits->equation
                      ? "moec inspect RUN --data DATA --show NAME prints tensors and weights"
                      : "moec log RUN prints the steps before",
                  "step %ld: %s is %.6g, the limit is %g; training has stopped",
                  run->place.step + 1, limits->element, limits->value, limits->limit);
    if (limits->equation && limits->equation->file)
        note_message("%s in %s:%d",
                     limits->equation->reads ? "the weight is first read" : "its equation is",
                     limits->equation->file, limits->equation->line);
    const float *states = stage->stepper.states;
    if (states && !model->device->kind->put(model->device, model->there.layer_states, states,
                                            model->table->state_bytes))
        return false;
    if (run->saved != run->place.step) save_checkpoint(run, "last.safetensors", true);
    return report_kept_checkpoint(run);
}

static bool exceeds_limit(const TrainRun *run) {
    return run->limits && mesh_largest(run->mesh, "watched tensors", run->limits->exceeded);
}

/* One step with logging, evaluation and checkpoints; false to stop. */
static bool one_step(TrainRun *run) {
    const Settings *settings = &run->settings;
    TrainStage *stage = stages_at(&run->stages, run->place.step);
    StepResult result;
    double began = seconds_now();
    begin_phase(run, "training step");
    mesh_set_step(run->mesh, run->place.step + 1);
    if (!step_run(&stage->stepper, run->place.step,
                  stage_sample(&run->stages, stage, run->place.position), &result))
        return false;
    if (exceeds_limit(run)) return stop_at_limit(run, stage);
    if (!isfinite(result.loss) || !isfinite(result.norm))
        return stop_at_step(run, stage,
                            isfinite(result.loss) ? "the norm of the gradient" : "the loss");
    run->place.step++;
    run->place.position = stage_after(&run->stages, stage, run->place.position);
    const bool scheduled = due(settings->evaluate, run->place.step, settings->steps);
    const bool evaluates = scheduled || run->place.step == last_step(run);
    if (!log_step(run, stage, &result, seconds_now() - began)) return false;
    if (run->options.limit > 0 && result.loss > run->options.limit)
        return stop_above_limit(run, result.loss);
    if (evaluates && !(is_finite(run) && validate(run, !scheduled))) return false;
    if (run->options.on_step)
        stop_together(run, run->options.on_step(run->options.context, run, &result, evaluates));
    if (!run->stopped && !due(settings->checkpoint, run->place.step, last_step(run))) return true;
    return is_finite(run) &&
           (save_checkpoint(run, "last.safetensors", true) || report_kept_checkpoint(run));
}

/* Whether the checkpoints of the run can be used; false after a message. */
static bool read_back(const TrainRun *run) {
    static const char *const names[] = {"last.safetensors", "best.safetensors"};
    bool good = true;
    if (mesh_rank(run->mesh)) return true;
    for (int i = 0; i < 2 && good; i++) {
        AUTO_FREE char *path = path_join(run->options.out, names[i]);
        good = (i && !file_exists(path)) || checkpoint_readable(path);
    }
    return good;
}

/* ---- for callers ---- */

bool run_open(TrainRun *run, Device *device, MoecCompiler *compiler, const RunOptions *options) {
    *run = (TrainRun){.options = *options, .saved = -1, .validation = NAN};
    const bool good = compiler && compile_run(run, device, compiler) && open_data(run);
    if (!options->launch || options->launch->size == 1) return good;
    begin_phase(run, "waiting for the other processes");
    return processes_join(run, device, good);
}

/* The lanes of the spec, of the resumed run, or as many as processes. */
static uint64_t lanes_of(const TrainRun *run, bool begun) {
    if (run->settings.fast) return 1;
    if (run->settings.lanes) return (uint64_t)run->settings.lanes;
    if (begun) return run->place.lanes ? run->place.lanes : 1;
    return (uint64_t)(mesh_size(run->mesh) / mesh_sharing(run->mesh));
}

/* Process 0: the files of the run. */
static bool open_files(TrainRun *run) {
    const RunOptions *options = &run->options;
    AUTO_FREE char *last = path_join(options->out, "last.safetensors"),
                   *log = path_join(options->out, "log.jsonl");
    bool begun = file_exists(last), good = true;
    if (!options->resume && (begun || file_exists(log)))
        good = error_message(
            "add --resume (in the API: resume = true), or choose another output directory",
            "%s already contains a run", options->out);
    if (good && begun)
        good = resume(run, last);
    else
        good = good && begin_run(run);
    if (good) run->place.lanes = lanes_of(run, begun);
    good = good && folder_make(options->out);
    good = good && record_open(&run->record, log, run->place.step) && write_run_info(run);
    if (good && options->tensorboard)
        good = record_events(&run->record, options->out, run->place.step);
    return good;
}

bool run_start(TrainRun *run) {
    run->place = (TrainState){.seed = (uint64_t)run->settings.seed,
                              .best = INFINITY,
                              .tokens = mixture_tokens(&run->mixture)};
    return (mesh_rank(run->mesh) != 0 || open_files(run)) && processes_share(run);
}

static RunEnd run_steps(TrainRun *run) {
    long steps = last_step(run);
    const Stepper usual = {
        .mixture = &run->mixture,
        .limits = run->limits,
        .seed = run->place.seed,
        .gradient_sum = {.mesh = run->mesh,
                         .lanes = (long)run->place.lanes,
                         .sharded = run->sharded,
                         .needed = run->parts,
                         .needed_count = run->part_count},
    };
    run->mixture.seed = run->place.seed;
    for (int i = 0; i < run->mixture.count; i++)
        run->mixture.sources[i].order.seed =
            i ? random_bits(run->place.seed ^ 0x736F75726365u, (uint64_t)i) : run->place.seed;
    if (!stages_prepare(&run->stages, &usual)) return RUN_FAILED;
    if (steps == 0 && run->saved < 0)
        return save_checkpoint(run, "last.safetensors", true) && read_back(run) ? RUN_INITIALIZED
                                                                                : RUN_FAILED;
    if (run->place.step >= steps) return RUN_COMPLETE;
    const long first = run->place.step + 1;
    while (run->place.step < steps && !run->stopped) {
        if (!one_step(run)) return RUN_FAILED;
        if (run->place.step == first) processes_settle(run);
    }
    return read_back(run) ? RUN_TRAINED : RUN_FAILED;
}

RunEnd run_train(TrainRun *run) {
    RunEnd end = run_steps(run);
    run->succeeded = end != RUN_FAILED;
    return end;
}

void run_close(TrainRun *run) {
    begin_phase(run, NULL);
    mesh_exchanges_end(run->mesh);
    mesh_end(run->mesh, run->succeeded);
    stages_close(&run->stages);
    record_close(&run->record);
    mixture_close(&run->mixture);
    data_close(run->other);
    tokenizer_close(run->tokenizer);
    json_decref(run->files);
    call_close(run->measure);
    model_close(run->model);
    limits_close(run->limits);
    free(run->parts);
    free(run->bundle);
}
