#include "training/step.h"

#include "base/memory.h"
#include "data/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double **sums_of(const MoecGraphEntry *graph) {
    double **sums = memory_new(sizeof *sums * (size_t)(graph->output_count + 1));
    for (int i = 0; i < graph->output_count; i++)
        sums[i] = memory_new(sizeof **sums * (tensor_count(&graph->outputs[i]) + 1));
    return sums;
}

static void sums_free(double **sums, const MoecGraphEntry *graph) {
    for (int i = 0; sums && i < graph->output_count; i++) free(sums[i]);
    free(sums);
}

static void sums_clear(double *const *sums, const MoecGraphEntry *graph) {
    for (int i = 0; i < graph->output_count; i++)
        memset(sums[i], 0, sizeof **sums * tensor_count(&graph->outputs[i]));
}

bool step_prepare(Stepper *stepper) {
    const MoecGraphEntry *graph = stepper->train->graph;
    Model *model = stepper->train->model;
    const MoecGraphEntry *gather = model_graph(model, MOEC_GRAPH_GATHER);
    long context = stepper->order.context;
    stepper->windows = memory_new(sizeof(int32_t) * (size_t)(graph->batch * (context + 1)));
    const MoecGraphEntry *whole = model_graph(model, MOEC_GRAPH_STEP);
    stepper->probes = probes_open(stepper->train);
    if (whole && !(stepper->whole = call_open(model, whole, NULL))) return false;
    if (!gather) return true;
    stepper->gather = call_open(model, gather, NULL);
    stepper->sums = sums_of(gather);
    return stepper->gather != NULL;
}

void step_release(Stepper *stepper) {
    free(stepper->windows);
    probes_close(stepper->probes);
    if (stepper->gather) sums_free(stepper->sums, stepper->gather->graph);
    call_close(stepper->gather);
    call_close(stepper->whole);
}

/* Reads the samples of micro-batch `part` of the step whose samples start at `position`. */
static bool set_windows(Stepper *stepper, uint64_t position, long part) {
    long length = stepper->order.context + 1, batch = stepper->train->graph->batch;
    const int32_t *windows = stepper->windows;
    if (stepper->given) windows = stepper->given + part * batch * length;
    for (long b = 0; b < batch && !stepper->given; b++) {
        uint64_t start = order_start(&stepper->order, position + (uint64_t)(part * batch + b));
        if (!data_read(stepper->data, start, (size_t)length, stepper->windows + b * length))
            return false;
    }
    call_set_windows(stepper->train, windows);
    return true;
}

/* Value of a scalar input of the optimizer. */
static double scalar_value(MoecScalar kind, const Stepper *stepper, const StepResult *result,
                           long step, double factor) {
    switch (kind) {
    case MOEC_SCALAR_RATE:
        return result->rate;
    case MOEC_SCALAR_STEP:
        return (double)step + 1;
    case MOEC_SCALAR_STEPS:
        return (double)stepper->settings.steps;
    case MOEC_SCALAR_CLIP:
        return factor;
    default:
        return 1;
    }
}

/* Updates the parameters that are updated as matrices, then the bf16 copies of all weights. */
static bool update_whole(const Stepper *stepper, const StepResult *result, long step,
                         double factor) {
    static const MoecScalar kinds[] = {MOEC_SCALAR_RATE, MOEC_SCALAR_STEP, MOEC_SCALAR_STEPS,
                                       MOEC_SCALAR_CLIP};
    const Model *model = stepper->train->model;
    Call *call = stepper->whole;
    if (!model_graph(model, MOEC_GRAPH_STEP)) return true;
    if (!call) return false;
    for (int i = 0; i < 4; i++)
        call_set_scalar(call, kinds[i], scalar_value(kinds[i], stepper, result, step, factor));
    return call_run(call, stepper->seed, true) && model_round(model);
}

static bool update_all(const Stepper *stepper, const StepResult *result, long step, double factor) {
    const Model *model = stepper->train->model;
    const MoecUpdate *update = model->table->update;
    float *scalars = memory_new(sizeof *scalars * (size_t)(update->scalar_count + 1));
    for (int i = 0; i < update->scalar_count; i++)
        scalars[i] = (float)scalar_value(update->scalars[i].kind, stepper, result, step, factor);
    const BlockUpdate given = {
        .weights = model->there.weights,
        .gradients = model->there.gradients,
        .moments = model->there.moments,
        .rounded = model->there.rounded,
        .scalars = scalars,
    };
    bool good = model->device->kind->update(model->engine, &given);
    free(scalars);
    return good && update_whole(stepper, result, step, factor);
}

/* Seed of the random numbers of a micro-batch. */
static uint64_t seed_of(const Stepper *stepper, long step, long part) {
    return random_bits(stepper->seed, (uint64_t)(step * stepper->settings.accumulate + part));
}

static bool train_part(Stepper *stepper, long step, long part) {
    Call *call = stepper->train;
    long parts = stepper->settings.accumulate;
    int loss = call_output(call, "loss");
    call->begins = part == 0;
    if (!call_run(call, seed_of(stepper, step, part), part == parts - 1) || !call_get_numbers(call))
        return false;
    stepper->loss += loss >= 0 ? (double)*call->outputs[loss] / (double)parts : (double)NAN;
    return probes_add(stepper->probes);
}

/* ---- states that are means over all micro-batches, computed before the step trains on them
 * ---- */

static bool put_means(const Stepper *stepper, long parts) {
    const MoecGraphEntry *gather = stepper->gather->graph;
    Model *model = stepper->train->model;
    const MoecTable *table = model->table;
    bool good = true;
    for (int i = 0; i < gather->output_count; i++) {
        const MoecTensor *output = &gather->outputs[i];
        for (int j = 0; j < table->state_count && good; j++) {
            if (strcmp(table->states[j].name, output->name) != 0) continue;
            const size_t count = tensor_count(output),
                         first = table->states[j].offset / sizeof(float);
            for (size_t k = 0; k < count; k++)
                model->layer_states[first + k] = (float)(stepper->sums[i][k] / (double)parts);
            good = model->device->kind->put(model->device, model->there.layer_states + first,
                                            model->layer_states + first, count * sizeof(float));
        }
    }
    return good;
}

static bool gather_part(Stepper *stepper, uint64_t seed) {
    Call *gather = stepper->gather;
    call_share_inputs(gather, stepper->train);
    if (!call_run(gather, seed, false)) return false;
    for (int i = 0; i < gather->graph->output_count; i++) {
        const float *values = call_get(gather, i);
        for (size_t k = 0; values && k < tensor_count(&gather->graph->outputs[i]); k++)
            stepper->sums[i][k] += (double)values[k];
        if (!values) return false;
    }
    return true;
}

bool step_gather(Stepper *stepper, uint64_t seed) {
    if (!stepper->gather) return true;
    sums_clear(stepper->sums, stepper->gather->graph);
    return gather_part(stepper, seed) && put_means(stepper, 1);
}

static bool gather_parts(Stepper *stepper, long step, uint64_t position) {
    const long parts = stepper->settings.accumulate;
    if (!stepper->gather) return true;
    sums_clear(stepper->sums, stepper->gather->graph);
    for (long part = 0; part < parts; part++)
        if (!set_windows(stepper, position, part) ||
            !gather_part(stepper, seed_of(stepper, step, part)))
            return false;
    return put_means(stepper, parts);
}

/* ---- optimizer step ---- */

static void begin(Stepper *stepper) {
    Call *call = stepper->train;
    stepper->loss = 0;
    probes_clear(stepper->probes);
    call_set_scalar(call, MOEC_SCALAR_LOSS_SCALE, 1.0 / (double)stepper->settings.accumulate);
}

static bool end(Stepper *stepper, long step, StepResult *result) {
    Call *call = stepper->train;
    const Model *model = call->model;
    const Settings *settings = &stepper->settings;
    /* Without loss scaling the gradient is a sum over the micro-batches; this factor converts it to
     * the mean. */
    double mean =
        call_has_scalar(call, MOEC_SCALAR_LOSS_SCALE) ? 1 : 1.0 / (double)settings->accumulate;
    result->loss = stepper->loss;
    double squares; /* padding between tensors stays zero, so the whole block is summed */
    if (!model->device->kind->square_sum(model->engine, model->there.gradients,
                                         trained_bytes(model->table) / sizeof(float), &squares))
        return false;
    result->norm = mean * sqrt(squares);
    result->rate =
        settings->rate * model->table->update->rate((double)step, (double)settings->steps);
    if (!isfinite(result->loss) || !isfinite(result->norm)) return true;
    double clip =
        settings->clip > 0 && result->norm > settings->clip ? settings->clip / result->norm : 1;
    return update_all(stepper, result, step, mean * clip);
}

bool step_run(Stepper *stepper, long step, uint64_t position, StepResult *result) {
    begin(stepper);
    if (!gather_parts(stepper, step, position)) return false;
    for (long part = 0; part < stepper->settings.accumulate; part++)
        if (!set_windows(stepper, position, part) || !train_part(stepper, step, part)) return false;
    return end(stepper, step, result);
}
