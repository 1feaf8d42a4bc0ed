#include "step.h"

#include "examples.h"
#include "memory.h"
#include "random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 16, SCALAR_LIMIT = 32 };

void step_prepare(Stepper *stepper) {
    const MoecGraphEntry *graph = stepper->train->graph;
    long context = stepper->order.context;
    stepper->windows = memory_new(sizeof(int32_t) * (size_t)(graph->batch * (context + 1)));
    stepper->outputs = memory_new(sizeof(double) * (size_t)(graph->output_count + 1));
}

void step_release(Stepper *stepper) {
    free(stepper->windows);
    free(stepper->outputs);
}

/* Padding between tensors stays zero, so blocks are summed whole: in chunks of fixed length,
 * whatever the threads. */
static double square_sum(const float *values, size_t count) {
    long chunks = (long)((count + CHUNK - 1) / CHUNK);
    double *sums = memory_new(sizeof *sums * (size_t)(chunks + 1)), total = 0;
#pragma omp parallel for schedule(static)
    for (long chunk = 0; chunk < chunks; chunk++) {
        size_t start = (size_t)chunk * CHUNK, end = start + CHUNK < count ? start + CHUNK : count;
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (size_t i = start; i < end; i++) sum += (double)values[i] * (double)values[i];
        sums[chunk] = sum;
    }
    for (long chunk = 0; chunk < chunks; chunk++) total += sums[chunk];
    free(sums);
    return total;
}

static void clear_gradients(const Model *model) {
    size_t count = model->table->weight_bytes / sizeof(float);
    long chunks = (long)((count + CHUNK - 1) / CHUNK);
#pragma omp parallel for schedule(static)
    for (long chunk = 0; chunk < chunks; chunk++) {
        size_t start = (size_t)chunk * CHUNK;
        memset(model->gradients + start, 0,
               sizeof(float) * (start + CHUNK < count ? CHUNK : count - start));
    }
}

static uint64_t window_start(const Stepper *stepper, uint64_t sample) {
    bool apart = stepper->data->record > 0;
    return apart ? examples_start(&stepper->order, stepper->data->record, sample)
                 : order_start(&stepper->order, sample);
}

static bool read_windows(Stepper *stepper, uint64_t position) {
    long context = stepper->order.context;
    for (long b = 0; b < stepper->train->graph->batch; b++) {
        uint64_t start = stepper->first + window_start(stepper, position + (uint64_t)b);
        if (!data_read(stepper->data, start, (size_t)(context + 1),
                       stepper->windows + b * (context + 1)))
            return false;
    }
    return true;
}

/* The values that an update program asks for by name. */
static double scalar_value(const char *name, const Stepper *stepper, const StepResult *result,
                           long step, double factor) {
    if (strcmp(name, "lr") == 0) return result->rate;
    if (strcmp(name, "step") == 0) return (double)step + 1;
    if (strcmp(name, "steps") == 0) return (double)stepper->settings.steps;
    return strcmp(name, "clip") == 0 ? factor : 0;
}

static void update_all(const Stepper *stepper, const StepResult *result, long step, double factor) {
    const Model *model = stepper->train->model;
    const MoecUpdate *update = model->table->update;
    float scalars[SCALAR_LIMIT] = {0};
    int matrix = -1;
    for (int i = 0; i < update->scalar_count && i < SCALAR_LIMIT; i++) {
        scalars[i] = (float)scalar_value(update->scalar_names[i], stepper, result, step, factor);
        if (strcmp(update->scalar_names[i], "matrix") == 0) matrix = i;
    }
    float **moments = memory_new(sizeof *moments * (size_t)(update->state_count + 1));
    for (int i = 0; i < model->table->parameter_count; i++) {
        const MoecTensor *tensor = &model->table->parameters[i];
        size_t offset = tensor->offset / sizeof(float);
        for (int j = 0; j < update->state_count; j++) moments[j] = model->moments[j] + offset;
        if (matrix >= 0) scalars[matrix] = (float)tensor->matrix;
        update->run(model->weights + offset, model->gradients + offset, moments,
                    (long)tensor_count(tensor), scalars);
    }
    free(moments);
}

bool step_run(Stepper *stepper, long step, uint64_t position, StepResult *result) {
    Call *call = stepper->train;
    const Model *model = call->model;
    const MoecGraphEntry *graph = call->graph;
    const Settings *settings = &stepper->settings;
    long parts = settings->accumulate;
    clear_gradients(model);
    memset(stepper->outputs, 0, sizeof(double) * (size_t)graph->output_count);
    call_set_scalar(call, "loss_scale", 1.0 / (double)parts);
    call_set_scalar(call, "step", (double)step);
    call_set_scalar(call, "steps", (double)settings->steps);
    for (long part = 0; part < parts; part++) {
        if (!read_windows(stepper, position + (uint64_t)(part * graph->batch))) return false;
        call_set_windows(call, stepper->windows);
        call_run(call, random_bits(stepper->seed, (uint64_t)(step * parts + part)),
                 part == parts - 1);
        for (int i = 0; i < graph->output_count; i++)
            if (tensor_count(&graph->outputs[i]) == 1)
                stepper->outputs[i] += (double)call->outputs[i][0] / (double)parts;
    }
    int loss = call_output(call, "loss");
    /* A graph that cannot scale its loss gives the sum over the micro-batches; the factor makes it
     * the mean. */
    double mean = call_has_input(call, "loss_scale") ? 1 : 1.0 / (double)parts;
    result->loss = loss >= 0 ? stepper->outputs[loss] : NAN;
    result->norm =
        mean * sqrt(square_sum(model->gradients, model->table->weight_bytes / sizeof(float)));
    result->rate =
        settings->rate * model->table->update->rate((double)step, (double)settings->steps);
    if (!isfinite(result->loss) || !isfinite(result->norm)) return true;
    double clip =
        settings->clip > 0 && result->norm > settings->clip ? settings->clip / result->norm : 1;
    update_all(stepper, result, step, mean * clip);
    return true;
}
