/* Training runs of libmoec. */
#include "library/library.h"

#include "base/message.h"
#include "training/run.h"

static bool on_step(void *context, const TrainRun *run, const StepResult *result, bool evaluated) {
    const MoecTraining *training = context;
    const MoecProgress progress = {.step = run->place.step,
                                   .steps = run->settings.steps,
                                   .loss = result->loss,
                                   .grad_norm = result->norm,
                                   .lr = result->rate,
                                   .val_loss = run->validation,
                                   .evaluated = evaluated};
    return training->on_step && training->on_step(training->context, &progress) != 0;
}

static bool check_count(const char *name, long value, const char *zero) {
    return value >= 0 ||
           error_message(NULL, "%s is %ld: expected 1 or more, or 0 for %s", name, value, zero);
}

static bool check_training(const MoecTraining *training) {
    if (!library_given(training, "training") || !library_given(training->data, "data") ||
        !library_given(training->out, "out"))
        return false;
    if (training->init_missing && !training->init_from)
        return error_message("set init_from to a run directory", "init_missing requires init_from");
    if (training->seed > INT64_MAX)
        return error_message(NULL, "seed is %llu: expected a number below 2^63",
                             (unsigned long long)training->seed);
    if (!(training->diverged_above >= 0) || !isfinite(training->diverged_above))
        return error_message(NULL, "diverged_above is %g: expected a finite number, 0 or more",
                             training->diverged_above);
    return check_count("steps", training->steps, "train.steps") &&
           check_count("stop_after", training->stop_after, "none");
}

static bool train(const Request *request) {
    const MoecTraining *training = request->training;
    TextList sets;
    if (!check_training(training) || !library_sets(training->sets, training->set_count, &sets))
        return false;
    AUTO(Device) *device = device_open(training->device ? training->device : "cpu");
    MoecCompiler *compiler = device ? library_spec(request->text, training->spec, &sets) : NULL;
    bool good = false;
    if (compiler) {
        const RunOptions options = {
            .data = training->data,
            .out = training->out,
            .validation = training->val_data,
            .tokenizer = training->tokenizer,
            .from = training->init_from,
            .missing = training->init_missing,
            .steps = training->steps ? training->steps : -1,
            .seed = training->seed ? (long)training->seed : -1,
            .until = training->stop_after,
            .limit = training->diverged_above,
            .resume = training->resume,
            .tensorboard = training->tensorboard,
            .on_step = on_step,
            .context = (void *)(uintptr_t)training,
        };
        TrainRun run;
        good = run_open(&run, device, compiler, &options) && run_start(&run) &&
               run_train(&run) != RUN_FAILED;
        run_close(&run);
    }
    return good;
}

int moec_train(const char *path, const MoecTraining *training) {
    return library_run(train, &(Request){.text = path, .training = training});
}
