/* bench_train: optimizer steps, beside the matrix products that they cannot do without. */
#include "bench.h"
#include "complain.h"
#include "measure.h"
#include "seconds.h"
#include "spec.h"
#include "step.h"

#include <math.h>

enum { TRAIN_SECONDS = 8, WARM_STEPS = 2 };

bool bench_step(Stepper *stepper, long step) {
    StepResult result;
    return step_run(stepper, step, (uint64_t)(step * stepper->train->graph->batch), &result) &&
           (isfinite(result.loss) ||
            complain(NULL, "no speed is told: the loss is not a finite number"));
}

/* Seconds of a step: the least of several, because others use the machine, too, and the mean. */
static bool time_steps(Stepper *stepper, double *best, double *mean) {
    double total = 0;
    long steps = 0;
    *best = INFINITY;
    for (long step = 0; step < WARM_STEPS || (total < TRAIN_SECONDS && steps < 200); step++) {
        double began = seconds_now();
        if (!bench_step(stepper, step)) return false;
        if (step < WARM_STEPS) continue;
        double seconds = seconds_now() - began;
        *best = seconds < *best ? seconds : *best;
        total += seconds;
        steps++;
    }
    *mean = total / (double)steps;
    return true;
}

static void tell_training(const Bench *bench, const Stepper *stepper, double best, double mean,
                          double ceiling) {
    const Call *call = stepper->train;
    double parts = (double)stepper->settings.accumulate, flops = call->graph->product_flops * parts;
    double tokens = (double)(call->graph->batch * call_context(call)) * parts,
           floor = flops / (ceiling * 1e9);
    bench_tell(bench, "tokens_per_second", tokens / mean);
    bench_tell(bench, "best_tokens_per_second", tokens / best);
    bench_tell(bench, "product_gflops", flops / mean / 1e9);
    bench_tell(bench, "ceiling_gflops", ceiling);
    bench_tell(bench, "floor_tokens_per_second", tokens / floor);
    bench_tell(bench, "share_of_floor", floor / mean);
    bench_tell(bench, "best_share_of_floor", floor / best);
}

static double products_ceiling(const Bench *bench) {
    return bench->on->kind->ceiling_products(bench->on, bench->rounded);
}

bool bench_training(const Bench *bench) {
    const Wish wishes[] = {{.graph = MOEC_TRAIN}, {.graph = MOEC_UPDATE}};
    MoecCompiler *compiler = spec_open(bench->operand, &bench->sets);
    Model *model = compiler ? model_open_on(bench->on, compiler, wishes, 2, true) : NULL;
    moec_close(compiler);
    Call *call = model ? call_open(model, model_graph(model, MOEC_GRAPH_TRAIN), NULL) : NULL;
    Data *data = NULL;
    /* What is differentiated: with auxiliary terms that is their total with the loss. */
    int loss = call ? call_output(call, "total") : -1;
    if (call && loss < 0) loss = call_output(call, "loss");
    bool good = loss >= 0 || (call && complain("end the model in `loss = ...`",
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
        step_prepare(&stepper);
        double before = products_ceiling(bench), best = 0, mean = 0;
        good = time_steps(&stepper, &best, &mean);
        double after = products_ceiling(bench);
        if (good && *model->engine->ledger) bench_tell_text(bench, "ledger", model->engine->ledger);
        if (good) tell_training(bench, &stepper, best, mean, before > after ? before : after);
        step_release(&stepper);
    }
    data_close(data);
    call_close(call);
    model_close(model);
    return good;
}
