/* train: moec train. Reads the options, and prints the plan, the progress and the result of a run
 * (training/run.h). */
#include "tools/command/line/commands.h"

#include "abi/json_make.h"
#include "abi/quantity.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/files.h"
#include "base/message.h"
#include "device/cuda/cuda.h"
#include "model/call.h"
#include "tools/experiment/experiment.h"
#include "training/run.h"
#include "training/spec.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The progress line. */
typedef struct Progress {
    double ceiling;    /* GFLOP/s of products; 0: not measured yet */
    double shown_time; /* when the line was shown last, and the steps done by then */
    long shown_step;
} Progress;

/* The memory of this process. Rows of other processes use a part of the activations. */
static void print_memory(const TrainRun *run, size_t program) {
    const Model *model = run->model;
    const MoecTable *table = model->table;
    const double trained = (double)trained_bytes(table), arena = (double)model->arena_bytes,
                 whole = (double)moment_bytes(table) * table->update->state_count,
                 others =
                     (double)(model_bytes(model) - table->weight_bytes) - trained - whole - arena;
    const double weights = run_weight_bytes(run) + trained,
                 moments = whole / (run->sharded ? mesh_size(run->mesh) : 1),
                 lent = (double)(run->train->bytes + run->measure->bytes),
                 all = weights + moments + arena + others + lent + (double)program;
    const QuantityScale scale = quantity_line(all, 3);
    const char *most = run->divided > 1 ? "at most " : "";
    fprintf(stderr,
            "memory %s%s: weights and gradients %s, optimizer %s, activations %s%s, inputs and "
            "outputs %s, program %s\n",
            most, quantity(all, "B").text, quantity_in(weights, scale).text,
            quantity_in(moments, scale).text, most, quantity_in(arena, scale).text,
            quantity_in(lent, scale).text, quantity_in((double)program, scale).text);
}

static void print_run_plan(const TrainRun *run, size_t program) {
    const Model *model = run->model;
    if (message_is_quiet()) return;
    fprintf(stderr,
            "%s: %s parameters; %s training tokens, %" PRIu64
            " validation sequences; program %s in %s\n",
            model->table->model, quantity_count((double)model_elements(model)).text,
            quantity_count((double)run->train_tokens).text, run->held_windows,
            model->cached ? "loaded from the cache" : "compiled",
            quantity_seconds(model->compile_seconds).text);
    print_memory(run, program);
    char experts[80] = "";
    if (run->divided > 1) snprintf(experts, sizeof experts, ", experts over %d", run->divided);
    if (run->stages.sharing > 1)
        snprintf(experts + strlen(experts), sizeof experts - strlen(experts),
                 ", sequences of a micro-batch over %d", run->stages.sharing);
    if (run->mesh)
        fprintf(stderr, "%d processes on %d host%s%s; reduction %s, %" PRIu64 " lane%s\n",
                mesh_size(run->mesh), mesh_hosts(run->mesh), mesh_hosts(run->mesh) == 1 ? "" : "s",
                experts, run->settings.fast ? "fast" : "ordered", run->place.lanes,
                run->place.lanes == 1 ? "" : "s");
    if (*model->engine->startup) fprintf(stderr, "%s\n", model->engine->startup);
}

/* Measured at the first progress line, so that the first step starts early. Its memory does not
 * count for the run. */
static void take_ceiling(Progress *progress, const Model *model) {
    progress->ceiling = ceiling_products_quick(model->table->round != NULL);
    memory_reset_peak();
}

/* "  val 1.456 bits/byte"; of examples the loss. */
static void format_validation(char *text, size_t size, const TrainRun *run) {
    const bool examples = run->examples;
    if (!isfinite(run->validation)) return;
    snprintf(text, size, "  val %.3f%s", run->validation / (examples ? 1 : log(2)),
             examples     ? ""
             : run->bytes ? " bits/byte"
                          : " bits/token");
}

static bool show_step(void *context, const TrainRun *run, const StepResult *result,
                      bool evaluated) {
    Progress *progress = context;
    if (!evaluated && !progress_due()) return interrupt_signal() != 0;
    const Settings *settings = &run->settings;
    double now = seconds_now();
    if (!run->model->device->apart && !run->mesh && progress->ceiling == 0)
        take_ceiling(progress, run->model);
    const TrainStage *stage = stages_at((TrainStages *)&run->stages, run->place.step - 1);
    double parts = (double)stage->settings.accumulate;
    double steps = (double)(run->place.step - progress->shown_step);
    double pace = steps > 0 ? (now - progress->shown_time) / steps : 0; /* seconds of a step */
    double tokens = stage_tokens(&run->stages, stage);
    double share =
        pace > 0 ? stage->train->graph->product_flops * parts / pace / (progress->ceiling * 1e9)
                 : 0;
    char validation[48] = "", peak[64] = "";
    if (progress->ceiling > 0)
        snprintf(peak, sizeof peak, "  %s of peak", quantity_percent(share).text);
    format_validation(validation, sizeof validation, run);
    progress_show(evaluated,
                  "step %ld/%ld  loss %.3f%s  grad %.3g  lr %.1e  %s tokens/s  %s%s  %s  ETA %s",
                  run->place.step, settings->steps, result->loss, validation, result->norm,
                  result->rate, quantity_grouped(pace > 0 ? tokens / pace : 0, 0).text,
                  settings->precision, peak, quantity((double)memory_resident(), "B").text,
                  quantity_whole_seconds(pace * (double)(settings->steps - run->place.step)).text);
    progress->shown_time = seconds_now();
    progress->shown_step = run->place.step;
    return interrupt_signal() != 0;
}

/* Prints the path of the checkpoint and the next command: resume, or use the model. */
static void report_written(const TrainRun *run) {
    const char *out = run->options.out;
    AUTO_FREE char *path = path_join(out, "last.safetensors");
    if (run->place.step < run->settings.steps)
        written_message(path, "the same command with --resume");
    else if (run->examples)
        written_message(path, "moec eval %s --data FILE", out);
    else
        written_message(path, "moec generate %s --prompt TEXT", out);
}

/* The result of --json: the last losses and the duration of all steps come from the log. */
static void print_train_json(const TrainRun *run, const char *status) {
    const char *out = run->options.out,
               *bits = run->bytes ? "val_bits_per_byte" : "val_bits_per_token";
    AUTO(History) history = {0};
    bool logged = history_open(&history, out, false) && history.rows;
    json_t *result =
        json_make("{s:s, s:s, s:I, s:I}", "model", run->model->table->model, "status", status,
                  "step", (json_int_t)run->place.step, "steps", (json_int_t)run->settings.steps);
    const char *const names[] = {"loss", "val_loss", run->examples ? NULL : bits};
    for (int i = 0; i < 3 && names[i]; i++)
        json_object_set_new(result, names[i],
                            json_number(logged ? history_last(&history, names[i]) : NAN));
    json_object_set_new(result, "best_val_loss", json_number(run->place.best));
    json_object_set_new(result, "train_seconds",
                        json_real(logged ? history_total(&history, "seconds") : 0));
    json_object_set_new(result, "peak_memory_bytes", json_integer((json_int_t)memory_peak()));
    json_result_written(out, result);
}

/* Prints the result of a run and returns the exit code. */
static int report_end(const TrainRun *run, RunEnd end, bool json) {
    const long until = run->options.until < run->settings.steps ? run->options.until : 0;
    const bool unfinished = run->place.step < run->settings.steps;
    progress_clear();
    if (end == RUN_FAILED && (!json || !run->diverged)) return EXIT_INPUT;
    if (json)
        print_train_json(run, end == RUN_FAILED        ? "diverged"
                              : end == RUN_COMPLETE    ? "complete"
                              : end == RUN_INITIALIZED ? "initialized"
                              : unfinished             ? "stopped"
                                                       : "done");
    else if (end == RUN_COMPLETE)
        printf(
            "%s is complete: it is at step %ld, and %s is %ld; --resume --steps N continues it\n",
            run->options.out, run->place.step, until ? "--stop-after" : "train.steps",
            until ? until : run->settings.steps);
    else if (end == RUN_INITIALIZED)
        printf("initialized; no step was run\n");
    else
        printf("%s at step %ld; peak memory %s\n", unfinished ? "stopped" : "done", run->place.step,
               quantity((double)memory_peak(), "B").text);
    if (end == RUN_FAILED) return EXIT_INPUT;
    if (end == RUN_COMPLETE) return 0;
    report_written(run);
    return run->signal ? 128 + run->signal : 0;
}

static int train(Device *device, MoecCompiler *compiler, RunOptions *options, bool json) {
    Progress progress = {0};
    TrainRun run;
    int code = EXIT_INPUT;
    options->on_phase = progress_phase;
    options->on_step = show_step;
    options->context = &progress;
    if (run_open(&run, device, compiler, options)) {
        memory_reset_peak();
        size_t program =
            products_prepare(run.model->engine->products) + memory_of_threads(run.model->table);
        program += memory_resident();
        if (run_start(&run)) {
            print_run_plan(&run, program);
            progress.shown_time = seconds_now();
            progress.shown_step = run.place.step;
            interrupt_watch();
            code = report_end(&run, run_train(&run), json);
        }
    }
    run_close(&run);
    return code;
}

static int open_and_train(const char *operand, const char *device_name, const TextList *sets,
                          RunOptions *options, bool json) {
    const ProcessGroup *launch = options->launch;
    progress_phase("compilation");
    AUTO(Device) *device = launch->size > 1 && strcmp(device_name, "cuda") == 0
                               ? cuda_open_local(launch->local_rank, launch->local_size)
                               : device_open(device_name);
    MoecCompiler *compiler = device ? spec_open(operand, sets) : NULL;
    int code = train(device, compiler, options, json);
    progress_phase(NULL);
    return code;
}

/* -1 to continue, otherwise the exit code after a message. */
static int checked_flags(const Command *command, const RunOptions *options) {
    if (!options->data || !options->out)
        return arguments_wrong(command, NULL, "moec train requires %s",
                               options->data  ? "--out"
                               : options->out ? "--data"
                                              : "--data and --out");
    if (!options->until)
        return arguments_wrong(command,
                               "--stop-after 1 stops after the first step; --steps 0 writes the "
                               "initial weights only",
                               "--stop-after expects a step from 1, got 0");
    if (options->missing && !options->from)
        return arguments_wrong(command, "add --init-from RUN, or omit --init-missing",
                               "--init-missing requires --init-from RUN");
    return -1;
}

int command_train(const Command *command, int argc, char **argv) {
    const char *operand, *device = "cpu";
    bool json = false, times = false;
    TextList sets = {0};
    const ProcessGroup launch = launch_read();
    mesh_hold_messages(&launch); /* of wrong arguments and of processes without progress lines */
    RunOptions options = {.steps = -1, .seed = -1, .until = -1, .command = argv, .launch = &launch};
    const Option table[] = {
        {OPTION_GROUP, "data and output", NULL, NULL, NULL},
        {OPTION_TEXT, "--data", "DATA", &options.data,
         "training data: text, tokens (moec tokenize, .npy, uint16:PATH, uint32:PATH), a directory "
         "or a quoted pattern of them; examples (safetensors); a mixture: PATH=WEIGHT,PATH=WEIGHT"},
        {OPTION_TEXT, "--val-data", "DATA", &options.validation,
         "validation data (default: the end of --data)"},
        {OPTION_TEXT, "--tokenizer", "FILE", &options.tokenizer,
         "tokenizer.json for text; kept in the checkpoints (default: tokens are bytes)"},
        {OPTION_TEXT, "--out", "RUN", &options.out,
         "run directory: last.safetensors, best.safetensors, log.jsonl, run.json"},
        {OPTION_FLAG, "--tensorboard", NULL, &options.tensorboard,
         "log for TensorBoard in addition to log.jsonl"},
        {OPTION_GROUP, "training", NULL, NULL, NULL},
        {OPTION_TEXT, "--mesh", "AXES", &options.mesh,
         "processes that share the run, data=4, and divide the experts, data=4,expert=2 (default: "
         "all that mpirun or srun started)"},
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
        {OPTION_LIST, "--watch", "NAME=LIMIT", &options.watched,
         "stop at a step in which an absolute value of the tensor exceeds the limit; names as in "
         "moec inspect, gradient:WEIGHT, loss, grad_norm, losses and probes of the log; "
         "repeatable"},
        {OPTION_TEXT, "--init-from", "RUN", &options.from,
         "run or checkpoint with the initial weights (fine-tuning)"},
        {OPTION_FLAG, "--init-missing", NULL, &options.missing,
         "with --init-from: random initialization of parameters that are missing there"},
        DEVICE_OPTION(&device),
        {OPTION_FLAG, "--json", NULL, &json, "result as JSON: steps, last losses, duration"},
        {OPTION_FLAG, "--no-cache", NULL, &options.no_cache,
         "compilation without the cache of compiled programs"},
        TIME_OPTION(&times),
        SET_OPTION(&sets),
    };
    int code = arguments_read(command, OPTIONS(table), argc, argv, &operand);
    if (code >= 0) return code;
    code = checked_flags(command, &options);
    if (code >= 0) return code;
    if (options.until < 0) options.until = 0;
    if (times) options.on_compiled = pass_times_print;
    return open_and_train(operand, device, &sets, &options, json);
}
