/* bench_train: speed of optimizer steps as a percentage of the peak of matrix products. */
#include "tools/command/bench/bench.h"
#include "base/clock.h"
#include "base/message.h"
#include "model/call.h"
#include "training/step.h"

#include <math.h>
#include <stdlib.h>

enum { TRAIN_SECONDS = 8, WARM_STEPS = 2, MIN_ROUNDS = 5, MAX_ROUNDS = 100, MAX_STEPS = 1000 };

static const double ROUND_SECONDS = 0.5;

/* Steps, and products right before and after them: on a shared machine both drift. */
typedef struct Times {
    double each[MAX_STEPS], mean; /* seconds of the steps */
    double ceiling[MAX_ROUNDS];   /* GFLOP/s of the round */
    double share[MAX_ROUNDS];     /* fraction of the peak that the products of a step reach */
    long steps, rounds;
} Times;

bool bench_step(Stepper *stepper, long step) {
    StepResult result;
    return step_run(stepper, step, (uint64_t)(step * stepper->train->graph->batch), &result) &&
           (isfinite(result.loss) ||
            error_message("lower --lr", "no speed is reported: the loss is not a finite number"));
}

/* The steps of a round; mean: the seconds of one. */
static bool time_round(const Bench *bench, Stepper *stepper, Times *times, double *mean) {
    const double patience = bench->quick ? 0 : ROUND_SECONDS;
    const long first = times->steps;
    double total = 0;
    do {
        const double began = seconds_now();
        if (!bench_step(stepper, WARM_STEPS + times->steps)) return false;
        total += times->each[times->steps++] = seconds_now() - began;
    } while (total < patience && times->steps < MAX_STEPS);
    *mean = total / (double)(times->steps - first);
    return true;
}

/* gflop: of the products of a step. */
static bool time_steps(const Bench *bench, Stepper *stepper, double gflop, Times *times) {
    const double patience = bench->quick ? 0 : TRAIN_SECONDS;
    AUTO(DeviceMultiplying) multiplying = device_multiplying_open(bench->on, bench->rounded);
    double total = 0, mean = 0, before = device_multiplying_pass(&multiplying);
    bool good = true;
    for (long step = 0; step < WARM_STEPS && good; step++) good = bench_step(stepper, step);
    while (good && times->rounds < MAX_ROUNDS && times->steps < MAX_STEPS &&
           (times->rounds < MIN_ROUNDS || total < patience)) {
        const long first = times->steps;
        good = time_round(bench, stepper, times, &mean);
        const double after = device_multiplying_pass(&multiplying), ceiling = (before + after) / 2;
        times->ceiling[times->rounds] = ceiling;
        times->share[times->rounds++] = gflop / mean / ceiling;
        total += mean * (double)(times->steps - first);
        before = after;
    }
    times->mean = times->steps ? total / (double)times->steps : 0;
    return good;
}

static bool work_step(void *data) {
    StepResult result;
    return step_run(data, 0, 0, &result);
}

static double product_flops(const Stepper *stepper) {
    return stepper->train->graph->product_flops * (double)stepper->settings.accumulate;
}

static void tell_training(const Bench *bench, const Stepper *stepper, Times *times) {
    const Call *call = stepper->train;
    double parts = (double)stepper->settings.accumulate, flops = product_flops(stepper),
           all = call->graph->flops * parts; /* with those of attention's scores */
    double tokens = (double)(call->graph->batch * call->graph->context) * parts,
           middle = median(times->each, (size_t)times->steps), /* which sorts them */
        ceiling = median(times->ceiling, (size_t)times->rounds),
           share = median(times->share, (size_t)times->rounds);
    bench_tell(bench, "tokens_per_second", tokens / times->mean);
    bench_tell(bench, "best_tokens_per_second", tokens / times->each[0]);
    bench_tell(bench, "median_tokens_per_second", tokens / middle);
    bench_tell(bench, "steps", (double)times->steps);
    bench_tell(bench, "step_seconds", middle);
    bench_tell(bench, "step_gflop", all / 1e9);
    bench_tell(bench, "step_product_gflop", flops / 1e9);
    bench_tell(bench, "product_gflops", flops / times->mean / 1e9);
    bench_tell(bench, "ceiling_gflops", ceiling);
    bench_tell(bench, "floor_tokens_per_second", tokens * ceiling * 1e9 / flops);
    bench_tell(bench, "share_of_floor", share);
    bench_tell(bench, "share_of_ceiling", share * all / flops);
}

bool bench_training(const Bench *bench) {
    const GraphShape shapes[] = {{.graph = MOEC_TRAIN}, {.graph = MOEC_UPDATE}};
    MoecCompiler *compiler = bench_open(bench);
    AUTO(Model) *model = compiler ? model_open(bench->on, compiler, shapes, 2, true) : NULL;
    moec_close(compiler);
    AUTO(Call) *call = model ? call_open(model, model_graph(model, MOEC_GRAPH_TRAIN), NULL) : NULL;
    AUTO(Data) *data = NULL;
    /* The differentiated value: the loss, or its total with the auxiliary terms. */
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
        Times times = {.steps = 0};
        good = step_prepare(&stepper) &&
               time_steps(bench, &stepper, product_flops(&stepper) / 1e9, &times);
        if (good && *model->engine->startup)
            bench_tell_text(bench, "startup", model->engine->startup);
        if (good) tell_training(bench, &stepper, &times);
        good = good && bench_kernels(bench, model->engine, work_step, &stepper);
        step_release(&stepper);
    }
    return good;
}
