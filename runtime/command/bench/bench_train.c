/* bench_train: optimizer steps, beside the matrix products that they cannot do without. */
#include "command/bench/bench.h"
#include "base/median.h"
#include "base/message.h"
#include "training/measure.h"
#include "base/seconds.h"
#include "command/spec.h"
#include "training/step.h"

#include <math.h>
#include <stdlib.h>

enum { TRAIN_SECONDS = 8, WARM_STEPS = 2, MIN_STEPS = 5, MAX_STEPS = 200 };

/* Seconds of a step. The least, because others use the machine, too. */
typedef struct Times {
    double best, mean, median;
    long steps;
} Times;

bool bench_step(Stepper *stepper, long step) {
    StepResult result;
    return step_run(stepper, step, (uint64_t)(step * stepper->train->graph->batch), &result) &&
           (isfinite(result.loss) ||
            error_message(NULL, "no speed is told: the loss is not a finite number"));
}

static bool time_steps(const Bench *bench, Stepper *stepper, Times *times) {
    double each[MAX_STEPS], total = 0, patience = bench->quick ? 0 : TRAIN_SECONDS;
    long steps = 0;
    for (long step = 0; steps < MIN_STEPS || (total < patience && steps < MAX_STEPS); step++) {
        double began = seconds_now();
        if (!bench_step(stepper, step)) return false;
        if (step < WARM_STEPS) continue;
        each[steps] = seconds_now() - began;
        total += each[steps++];
    }
    double middle = median(each, (size_t)steps); /* which sorts them */
    *times = (Times){each[0], total / (double)steps, middle, steps};
    return true;
}

static bool work_step(void *data) {
    StepResult result;
    return step_run(data, 0, 0, &result);
}

static void tell_training(const Bench *bench, const Stepper *stepper, const Times *times,
                          double ceiling) {
    const Call *call = stepper->train;
    double parts = (double)stepper->settings.accumulate, flops = call->graph->product_flops * parts,
           all = call->graph->flops * parts; /* with those of attention's scores */
    double tokens = (double)(call->graph->batch * call_context(call)) * parts,
           floor = flops / (ceiling * 1e9), best = times->best, mean = times->mean;
    bench_tell(bench, "tokens_per_second", tokens / mean);
    bench_tell(bench, "best_tokens_per_second", tokens / best);
    bench_tell(bench, "median_tokens_per_second", tokens / times->median);
    bench_tell(bench, "steps", (double)times->steps);
    bench_tell(bench, "step_seconds", times->median);
    bench_tell(bench, "step_gflop", all / 1e9);
    bench_tell(bench, "step_product_gflop", flops / 1e9);
    bench_tell(bench, "product_gflops", flops / mean / 1e9);
    bench_tell(bench, "ceiling_gflops", ceiling);
    bench_tell(bench, "floor_tokens_per_second", tokens / floor);
    bench_tell(bench, "share_of_floor", floor / mean);
    bench_tell(bench, "best_share_of_floor", floor / best);
    bench_tell(bench, "share_of_ceiling", all / (ceiling * 1e9) / mean);
}

static double products_ceiling(const Bench *bench) {
    return bench->on->kind->ceiling_products(bench->on, bench->rounded);
}

bool bench_training(const Bench *bench) {
    const GraphShape shapes[] = {{.graph = MOEC_TRAIN}, {.graph = MOEC_UPDATE}};
    MoecCompiler *compiler = bench_open(bench);
    Model *model = compiler ? model_open(bench->on, compiler, shapes, 2, true) : NULL;
    moec_close(compiler);
    Call *call = model ? call_open(model, model_graph(model, MOEC_GRAPH_TRAIN), NULL) : NULL;
    Data *data = NULL;
    /* What is differentiated: with auxiliary terms that is their total with the loss. */
    int loss = call ? call_output(call, "total") : -1;
    if (call && loss < 0) loss = call_output(call, "loss");
    bool good = loss >= 0 || (call && error_message("end the model in `loss = ...`",
                                                    "no steps to measure: the model has no loss"));
    if (good) {
        model_initialise(model, 1);
        data = bench_data(call_vocabulary(call));
        good = data && bench_gradient(bench, call, loss);
    }
    if (good) {
        Stepper stepper = {.train = call,
                           .data = data,
                           .order = {1, data->count, call_context(call), data->record},
                           .settings = bench->settings};
        double before = products_ceiling(bench);
        Times times;
        good = step_prepare(&stepper) && time_steps(bench, &stepper, &times);
        double after = products_ceiling(bench);
        if (good && *model->engine->startup)
            bench_tell_text(bench, "startup", model->engine->startup);
        if (good) tell_training(bench, &stepper, &times, before > after ? before : after);
        good = good && bench_kernels(bench, model->engine, work_step, &stepper);
        step_release(&stepper);
    }
    data_close(data);
    call_close(call);
    model_close(model);
    return good;
}
