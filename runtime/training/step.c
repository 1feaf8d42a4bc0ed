#include "training/step.h"

#include "base/memory.h"
#include "base/message.h"
#include "data/random.h"
#include "model/interpreted.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Elements of all outputs. */
static size_t width_of(const MoecGraphEntry *graph) {
    size_t width = 0;
    for (int i = 0; i < graph->output_count; i++) width += tensor_count(&graph->outputs[i]);
    return width;
}

static size_t row_width(const Stepper *stepper) {
    return 1 + stepper->probes->width;
}

bool step_prepare(Stepper *stepper) {
    const MoecGraphEntry *graph = stepper->train->graph;
    Model *model = stepper->train->model;
    const MoecGraphEntry *gather =
        model_graph_of_shape(model, MOEC_GRAPH_GATHER, graph->batch, graph->context);
    GradientSum *sum = &stepper->gradient_sum;
    const size_t rows =
        sum->mesh ? (size_t)(stepper->settings.accumulate * mesh_sharing(sum->mesh)) : 1;
    long context = stepper->order.context;
    sum->parts = stepper->settings.accumulate;
    sum->fast = stepper->settings.fast;
    if (!sum->lanes) sum->lanes = stepper->settings.lanes;
    if (!gradient_sum_prepare(sum, model)) return false;
    stepper->windows = memory_new(sizeof(int32_t) * (size_t)(graph->batch * (context + 1)));
    const MoecGraphEntry *whole = model_graph(model, MOEC_GRAPH_STEP);
    stepper->probes = probes_open(stepper->train);
    stepper->rows = memory_new(sizeof(double) * rows * row_width(stepper));
    if (model->table->state_bytes) stepper->states = memory_new(model->table->state_bytes);
    if (whole && !(stepper->whole = call_open(model, whole, NULL))) return false;
    if (!gather) return true;
    stepper->gather = call_open(model, gather, NULL);
    stepper->sums = memory_new(sizeof(double) * width_of(gather));
    stepper->means = memory_new(sizeof(double) * rows * width_of(gather));
    return stepper->gather != NULL;
}

void step_release(Stepper *stepper) {
    free(stepper->windows);
    if (stepper->train) gradient_sum_release(&stepper->gradient_sum, stepper->train->model);
    probes_close(stepper->probes);
    free(stepper->rows);
    free(stepper->sums);
    free(stepper->means);
    free(stepper->states);
    call_close(stepper->gather);
    call_close(stepper->whole);
}

static bool read_sample(const Stepper *stepper, uint64_t number, size_t length, int32_t *tokens) {
    const uint64_t pieces = stepper->pieces ? stepper->pieces : 1;
    if (!stepper->mixture)
        return data_read(stepper->data, order_start(&stepper->order, number), length, tokens);
    return mixture_sample(stepper->mixture, number / pieces, number % pieces * (length - 1), length,
                          tokens);
}

/* Reads the samples of micro-batch `part` of the step whose samples start at `position`. */
static bool set_windows(Stepper *stepper, uint64_t position, long part) {
    const Mesh *mesh = stepper->gradient_sum.mesh;
    const int sharing = mesh_sharing(mesh), process = mesh_rank(mesh) % sharing;
    long length = stepper->order.context + 1, batch = stepper->train->graph->batch,
         first = (part * sharing + process) * batch;
    const int32_t *windows = stepper->windows;
    if (stepper->given) windows = stepper->given + first * length;
    for (long b = 0; b < batch && !stepper->given; b++) {
        if (!read_sample(stepper, position + (uint64_t)(first + b), (size_t)length,
                         stepper->windows + b * length))
            return false;
    }
    call_set_windows(stepper->train, windows);
    return true;
}

/* Value of a scalar input of the optimizer. */
static double scalar_value(MoecScalar kind, const Stepper *stepper, const StepResult *result,
                           long step, const double *clips) {
    switch (kind) {
    case MOEC_SCALAR_RATE:
        return result->rate;
    case MOEC_SCALAR_STEP:
        return (double)step + 1;
    case MOEC_SCALAR_STEPS:
        return (double)stepper->settings.steps;
    case MOEC_SCALAR_CLIP:
        return clips[0];
    default:
        return 1;
    }
}

/* Updates the parameters that are updated as matrices, then the bf16 copies of all weights. */
static bool update_whole(const Stepper *stepper, const StepResult *result, long step,
                         const double *clips) {
    static const MoecScalar kinds[] = {MOEC_SCALAR_RATE, MOEC_SCALAR_STEP, MOEC_SCALAR_STEPS};
    const Model *model = stepper->train->model;
    Call *call = stepper->whole;
    if (!model_graph(model, MOEC_GRAPH_STEP)) return true;
    if (!call) return false;
    for (int i = 0; i < 3; i++)
        call_set_scalar(call, kinds[i], scalar_value(kinds[i], stepper, result, step, clips));
    for (int i = 0; i < call->graph->input_count; i++) {
        const MoecTensor *input = &call->graph->inputs[i];
        if (input->input == MOEC_INPUT_SCALAR && input->scalar == MOEC_SCALAR_CLIP)
            *(float *)call->inputs[i] = (float)clips[input->clip_group];
    }
    const uint64_t seed = random_bits(random_seed_for(stepper->seed, "optimizer"), (uint64_t)step);
    return call_run(call, seed, true) && model_prepare(model);
}

static bool update_all(const Stepper *stepper, const StepResult *result, long step,
                       const double *clips) {
    const Model *model = stepper->train->model;
    const MoecUpdate *update = model->table->update;
    const GradientSum *sum = &stepper->gradient_sum;
    const MeshRange range = gradient_sum_range(sum, model);
    float *scalars = memory_new(sizeof *scalars * (size_t)(update->scalar_count + 1));
    for (int i = 0; i < update->scalar_count; i++)
        scalars[i] = (float)scalar_value(update->scalars[i].kind, stepper, result, step, clips);
    const BlockUpdate given = {
        .weights = model->there.weights,
        .gradients = model->there.gradients,
        .moments = model->there.moments,
        .rounded = model->there.rounded,
        .scalars = scalars,
        .clips = clips,
        .start = range.start,
        .end = range.end,
    };
    bool good = model->device->kind->update(model->engine, &given);
    free(scalars);
    if (sum->sharded) {
        const size_t count = trained_bytes(model->table) / sizeof(float);
        if (sum->needed)
            mesh_gather_parts(sum->mesh, "updated weights", model->there.weights, count,
                              sum->needed, sum->needed_count);
        else
            mesh_gather_ranges(sum->mesh, "updated weights", model->there.weights, count);
        good = good && model_prepare(model);
    }
    good = good && update_whole(stepper, result, step, clips);
    return good && (!model_graph(model, MOEC_GRAPH_PREPARE) || model_prepare(model));
}

/* Seed of the random numbers of a micro-batch. */
static uint64_t seed_of(const Stepper *stepper, long step, long part) {
    return random_bits(stepper->seed, (uint64_t)(step * stepper->settings.most_parts + part));
}

/* Row of the results of a micro-batch: the first of the processes that share it. */
static size_t result_row(const Stepper *stepper, long part) {
    const Mesh *mesh = stepper->gradient_sum.mesh;
    return mesh ? (size_t)(part * mesh_sharing(mesh)) : 0;
}

/* The row that this process sets. */
static size_t own_row(const Stepper *stepper, long part) {
    const Mesh *mesh = stepper->gradient_sum.mesh;
    return result_row(stepper, part) + (size_t)(mesh_rank(mesh) % mesh_sharing(mesh));
}

static void add_row(Stepper *stepper, long part) {
    const double *row = stepper->rows + result_row(stepper, part) * row_width(stepper);
    stepper->loss += row[0] / (double)stepper->settings.accumulate;
    probes_add(stepper->probes, row + 1);
}

static bool train_part(Stepper *stepper, long step, long part) {
    Call *call = stepper->train;
    const int loss = call_output(call, "loss");
    double *row = stepper->rows + own_row(stepper, part) * row_width(stepper);
    call->begins = gradient_sum_begins(&stepper->gradient_sum, part);
    if (!call_run(call, seed_of(stepper, step, part), part == stepper->settings.accumulate - 1) ||
        !call_get_numbers(call))
        return false;
    row[0] = loss >= 0 ? (double)*call->outputs[loss] : (double)NAN;
    if (!isfinite(row[0]) && stepper->wrong < 0) stepper->wrong = part;
    if (stepper->limits && !limits_check(stepper->limits, call)) return false;
    if (!gradient_sum_add(&stepper->gradient_sum, call->model, part) ||
        !probes_read(stepper->probes, row + 1))
        return false;
    if (!stepper->gradient_sum.mesh) add_row(stepper, part);
    return true;
}

/* With a mesh, adds the results of all micro-batches in order. */
static void add_rows(Stepper *stepper) {
    Mesh *mesh = stepper->gradient_sum.mesh;
    long first, count;
    gradient_sum_parts(&stepper->gradient_sum, &first, &count);
    mesh_gather(mesh, "losses", stepper->rows, sizeof(double) * row_width(stepper) * (size_t)count);
    for (long part = 0; mesh && part < stepper->settings.accumulate; part++) add_row(stepper, part);
}

/* ---- states that are means over all micro-batches, computed before the step trains on them
 * ---- */

static bool put_means(const Stepper *stepper, long parts) {
    const MoecGraphEntry *gather = stepper->gather->graph;
    Model *model = stepper->train->model;
    const MoecTable *table = model->table;
    const double *sums = stepper->sums;
    bool good = true;
    for (int i = 0; i < gather->output_count; sums += tensor_count(&gather->outputs[i++])) {
        const MoecTensor *output = &gather->outputs[i];
        for (int j = 0; j < table->state_count && good; j++) {
            if (strcmp(table->states[j].name, output->name) != 0) continue;
            const size_t count = tensor_count(output),
                         first = table->states[j].offset / sizeof(float);
            for (size_t k = 0; k < count; k++)
                model->layer_states[first + k] = (float)(sums[k] / (double)parts);
            good = model->device->kind->put(model->device, model->there.layer_states + first,
                                            model->layer_states + first, count * sizeof(float));
        }
    }
    return good;
}

static void add_means(Stepper *stepper, long part) {
    const size_t width = width_of(stepper->gather->graph);
    const double *means = stepper->means + result_row(stepper, part) * width;
    for (size_t k = 0; k < width; k++) stepper->sums[k] += means[k];
}

static bool gather_part(Stepper *stepper, uint64_t seed, long part) {
    Call *gather = stepper->gather;
    double *means = stepper->means + own_row(stepper, part) * width_of(gather->graph);
    call_share_inputs(gather, stepper->train);
    if (!call_run(gather, seed, false)) return false;
    for (int i = 0; i < gather->graph->output_count; i++) {
        const float *values = call_get(gather, i);
        for (size_t k = 0; values && k < tensor_count(&gather->graph->outputs[i]); k++)
            *means++ = (double)values[k];
        if (!values) return false;
    }
    if (!stepper->gradient_sum.mesh) add_means(stepper, part);
    return true;
}

static void clear_sums(Stepper *stepper) {
    memset(stepper->sums, 0, sizeof(double) * width_of(stepper->gather->graph));
}

bool step_gather(Stepper *stepper, uint64_t seed) {
    if (!stepper->gather) return true;
    clear_sums(stepper);
    return gather_part(stepper, seed, 0) && put_means(stepper, 1);
}

static bool gather_parts(Stepper *stepper, long step, uint64_t position) {
    Mesh *mesh = stepper->gradient_sum.mesh;
    long first, count;
    if (!stepper->gather) return true;
    clear_sums(stepper);
    gradient_sum_parts(&stepper->gradient_sum, &first, &count);
    for (long part = first; part < first + count; part++)
        if (!set_windows(stepper, position, part) ||
            !gather_part(stepper, seed_of(stepper, step, part), part))
            return false;
    mesh_gather(mesh, "means over the step", stepper->means,
                sizeof(double) * width_of(stepper->gather->graph) * (size_t)count);
    for (long part = 0; mesh && part < stepper->settings.accumulate; part++)
        add_means(stepper, part);
    return put_means(stepper, stepper->settings.accumulate);
}

/* ---- optimizer step ---- */

static void begin_step(Stepper *stepper) {
    Call *call = stepper->train;
    const Mesh *mesh = stepper->gradient_sum.mesh;
    const int process = mesh_rank(mesh) % mesh_sharing(mesh);
    call_set_scalar(call, MOEC_SCALAR_PROCESS, process);
    if (stepper->gather) call_set_scalar(stepper->gather, MOEC_SCALAR_PROCESS, process);
    stepper->loss = 0;
    stepper->wrong = -1;
    probes_clear(stepper->probes);
    call_set_scalar(call, MOEC_SCALAR_LOSS_SCALE, 1.0 / (double)stepper->settings.accumulate);
}

/* The last micro-batch updates the states. */
static bool keep_states(const Stepper *stepper) {
    const Model *model = stepper->train->model;
    return !stepper->states ||
           model->device->kind->get(model->device, stepper->states, model->there.layer_states,
                                    model->table->state_bytes);
}

/* The factors of the gradient by clip group, from the sum over the micro-batches; `mean` is the
 * factor of their mean. Group 0, the other parameters, has the limit train.grad_clip. NULL after a
 * device error, which was printed. */
static double *clip_factors(const Stepper *stepper, double norm, double mean) {
    const Model *model = stepper->train->model;
    const MoecTable *table = model->table;
    const int groups = table_clip_groups(table);
    double *factors = memory_new(sizeof *factors * (size_t)(groups + 1));
    bool good = true;
    for (int i = 0; i <= groups; i++) factors[i] = 0;
    for (int i = 0; i < table->parameter_count && groups && good; i++) {
        const MoecTensor *one = &table->parameters[i];
        const size_t count = (tensor_count(one) + 3) / 4 * 4; /* padding is zero */
        double squares = 0;
        if (one->frozen) continue;
        good = device_square_sum(
            model->engine, model->there.gradients + one->offset / sizeof(float), count, &squares);
        factors[one->clip_group] += squares;
    }
    for (int i = 0; i <= groups; i++) {
        const double own = groups ? mean * sqrt(factors[i]) : norm;
        const double limit = table_clip_limit(table, i, stepper->settings.clip);
        factors[i] = limit > 0 && own > limit ? mean * (limit / own) : mean;
    }
    if (good) return factors;
    free(factors);
    return NULL;
}

static bool end_step(Stepper *stepper, long step, StepResult *result) {
    Call *call = stepper->train;
    const Model *model = call->model;
    const Settings *settings = &stepper->settings;
    /* Without loss scaling the gradient is a sum over the micro-batches; this factor converts it to
     * the mean. */
    double mean =
        call_has_scalar(call, MOEC_SCALAR_LOSS_SCALE) ? 1 : 1.0 / (double)settings->accumulate;
    result->loss = stepper->loss;
    double squares; /* padding between tensors stays zero, so the whole block is summed */
    if (!gradient_sum_squares(&stepper->gradient_sum, model, &squares)) return false;
    result->norm = mean * sqrt(squares);
    if (stepper->limits && !limits_check_gradient(stepper->limits, model,
                                                  gradient_sum_range(&stepper->gradient_sum, model),
                                                  mean, result->norm))
        return false;
    result->rate = settings->rate *
                   model->device->kind->rate(model->engine, (double)step, (double)settings->steps);
    const bool exceeded =
        stepper->limits &&
        mesh_largest(stepper->gradient_sum.mesh, "watched tensors", stepper->limits->exceeded);
    if (exceeded || !isfinite(result->loss) || !isfinite(result->norm)) return true;
    AUTO_FREE double *clips = clip_factors(stepper, result->norm, mean);
    return clips && update_all(stepper, result, step, clips);
}

/* Layer states are updated once per step, in the last micro-batch. */
static void share_states(const Stepper *stepper) {
    const Model *model = stepper->train->model;
    Mesh *mesh = stepper->gradient_sum.mesh;
    if (model->table->state_count)
        mesh_broadcast_there(mesh, "layer states", mesh_size(mesh) - 1, model->there.layer_states,
                             model->table->state_bytes);
}

bool step_run(Stepper *stepper, long step, uint64_t position, StepResult *result) {
    long first, count;
    gradient_sum_parts(&stepper->gradient_sum, &first, &count);
    begin_step(stepper);
    if (stepper->limits && !limits_check_weights(stepper->limits, stepper->train->model))
        return false;
    if (!gather_parts(stepper, step, position) || !keep_states(stepper)) return false;
    for (long part = first; part < first + count; part++)
        if (!set_windows(stepper, position, part) || !train_part(stepper, step, part)) return false;
    add_rows(stepper);
    share_states(stepper);
    return gradient_sum_finish(&stepper->gradient_sum, stepper->train->model) &&
           end_step(stepper, step, result);
}

static FaultFound print_part_fault(Stepper *stepper, MoecCompiler *compiler, long step,
                                   uint64_t position, long part) {
    const long parts = stepper->settings.accumulate;
    if (!set_windows(stepper, position, part)) return FAULT_FAILED;
    const FaultFound found = fault_print(compiler, stepper->train, stepper->states,
                                         seed_of(stepper, step, part), part == parts - 1);
    if (found == FAULT_FOUND && parts > 1)
        note_message("it is in micro-batch %ld of %ld", part + 1, parts);
    return found;
}

static void print_own_fault(Stepper *stepper, MoecCompiler *compiler, long step,
                            uint64_t position) {
    FaultFound found = FAULT_NONE;
    long first, count;
    gradient_sum_parts(&stepper->gradient_sum, &first, &count);
    if (stepper->wrong >= 0) first = stepper->wrong, count = 1;
    for (long part = first; part < first + count && found == FAULT_NONE; part++)
        found = print_part_fault(stepper, compiler, step, position, part);
    if (found == FAULT_NONE)
        note_message("the reference interpreter finds only finite values in this step: some value "
                     "is close to the largest f32 number, 3.4e38");
}

/* Process 0 prints the text of process `root`. */
static void print_at_first(Mesh *mesh, int root, char *text, size_t length) {
    mesh_broadcast(mesh, "length of a message", root, &length, sizeof length);
    text = memory_grow(text, length + 1);
    mesh_broadcast(mesh, "message", root, text, length);
    text[length] = 0;
    if (mesh_rank(mesh) == 0) message_reports(text);
    free(text);
}

void step_print_fault(Stepper *stepper, MoecCompiler *compiler, long step, uint64_t position) {
    Mesh *mesh = stepper->gradient_sum.mesh;
    const long parts = stepper->settings.accumulate,
               own = stepper->wrong < 0 ? 0 : parts - stepper->wrong;
    const long most = mesh_largest(mesh, "search for the first value", (int)own);
    const int root = most ? (int)((parts - most) * mesh_size(mesh) / parts) : 0; /* has that part */
    char *text = NULL;
    size_t length = 0;
    if (mesh_rank(mesh) == root) {
        FILE *file = mesh ? open_memstream(&text, &length) : NULL,
             *before = file ? message_to(file) : NULL;
        print_own_fault(stepper, compiler, step, position);
        if (file) message_to(before), fclose(file);
    }
    if (mesh) print_at_first(mesh, root, text, length);
}
