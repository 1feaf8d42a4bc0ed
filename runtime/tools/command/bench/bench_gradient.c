/* bench_gradient: compares the gradient with differences of the loss before speeds are reported.
 *
 * The weights move along their gradients, every tensor by the same length, so that a small tensor
 * counts as much as a large one:
 *
 *     w(t) = w + t * g / |g|          loss(w(t2)) - loss(w(t1)) = sum of g * (w(t2) - w(t1))
 *
 * over adjacent intervals of t. The loss of a model with selections jumps at a changed selection,
 * and the gradient does not include jumps. Therefore the intervals are short, the median of their
 * slopes is used, and all sequences are equal, which makes selections few. If most intervals have a
 * jump, only a gross error is detected, and the report contains a note; likewise if operands have 4
 * bits or fewer, because the loss then has steps, and the gradient is that of the values before
 * rounding. The intervals are long enough that the rounding of the loss does not matter. The loss
 * of a small model is curved over such lengths: without jumps, the slope is that in the middle of a
 * parabola through all intervals.
 */
#include "tools/command/bench/bench.h"
#include "base/message.h"
#include "base/clock.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INTERVALS = 9, QUORUM = 4, LENGTHS = 3 };

/* Blocks like that of the weights: as they were, as they were last, and the gradients, which every
 * further run adds to. */
typedef struct GradientBlocks {
    float *kept, *before, *gradients;
    double *lengths; /* by tensor: one over the norm of its gradient */
} GradientBlocks;

/* Relative change of the loss in one interval: some hundred times its last digit. Operands of bf16
 * do not represent smaller changes of the weights. */
static const double change = 2e-5, change_rounded = 3e-3, coarse_tolerance = 0.33;

static double tolerance_of(const Bench *bench) {
    return bench->rounded ? 0.05 : bench->routed ? 0.02 : 0.01;
}

/* Computes the lengths; returns the change of the loss per unit of t. */
static double take_lengths(const MoecTable *table, const GradientBlocks *blocks) {
    double slope = 0;
    for (int i = 0; i < table->parameter_count; i++) {
        const MoecTensor *tensor = &table->parameters[i];
        const float *gradient = blocks->gradients + tensor->offset / sizeof(float);
        const size_t count = tensor_count(tensor);
        double square = 0;
#pragma omp parallel for schedule(static) reduction(+ : square)
        for (size_t j = 0; j < count; j++) square += (double)gradient[j] * (double)gradient[j];
        blocks->lengths[i] = square > 0 ? 1 / sqrt(square) : 0;
        slope += sqrt(square);
    }
    return slope;
}

/* Sets the weights at t; returns the predicted change of the loss after rounding. */
static double move_to(const Model *model, const GradientBlocks *blocks, double t) {
    double sum = 0;
    for (int i = 0; i < model->table->parameter_count; i++) {
        const MoecTensor *tensor = &model->table->parameters[i];
        const size_t first = tensor->offset / sizeof(float), end = first + tensor_count(tensor);
        const double way = t * blocks->lengths[i];
#pragma omp parallel for schedule(static) reduction(+ : sum)
        for (size_t j = first; j < end; j++) {
            double gradient = (double)blocks->gradients[j];
            model->weights[j] = (float)((double)blocks->kept[j] + way * gradient);
            sum += gradient * ((double)model->weights[j] - (double)blocks->before[j]);
            blocks->before[j] = model->weights[j];
        }
    }
    return sum;
}

/* Least squares of a + b i + c i^2 with i = 0 in the middle: a. */
static double middle_of_parabola(const double ratios[INTERVALS]) {
    double count = INTERVALS, squares = 0, fourths = 0, sum = 0, weighted = 0;
    for (int i = 0; i < INTERVALS; i++) {
        double square = pow(i - INTERVALS / 2, 2);
        squares += square;
        fourths += square * square;
        sum += ratios[i];
        weighted += square * ratios[i];
    }
    return (fourths * sum - squares * weighted) / (count * fourths - squares * squares);
}

/* Per interval: change of the loss relative to the prediction. */
static bool take_ratios(Call *call, int loss, const GradientBlocks *blocks, double interval,
                        double ratios[INTERVALS]) {
    const Model *model = call->model;
    double last = 0;
    for (int i = 0; i <= INTERVALS; i++) {
        double said = move_to(model, blocks, interval * ((double)i - INTERVALS / 2.0));
        if (!model_put_weights(model) || !call_run(call, 1, false)) return false;
        const float *value = call_get(call, loss);
        if (!value) return false;
        if (i) ratios[i - 1] = ((double)*value - last) / said;
        last = (double)*value;
    }
    return true;
}

/* The slope of the loss relative to the prediction, and how far it may be from 1. */
typedef struct LossSlope {
    double value, tolerance;
    const char *coarse; /* why the tolerance is large, or NULL */
} LossSlope;

static LossSlope loss_slope(const Bench *bench, double ratios[INTERVALS]) {
    double tolerance = tolerance_of(bench), middle = middle_of_parabola(ratios);
    double usual = median(ratios, INTERVALS);
    int agree = 0;
    for (int i = 0; i < INTERVALS; i++) agree += fabs(ratios[i] - usual) <= tolerance;
    const char *coarse = bench->coarse                     ? "operands are too coarse"
                         : bench->routed && agree < QUORUM ? "choices change too often"
                                                           : NULL;
    return (LossSlope){bench->routed || bench->coarse ? usual : middle,
                       coarse ? coarse_tolerance : tolerance, coarse};
}

static bool is_predicted(const LossSlope *slope) {
    return fabs(slope->value - 1) <= slope->tolerance;
}

static bool judge(const Bench *bench, const LossSlope *slope) {
    char kind[96];
    snprintf(kind, sizeof kind, "%s%sto %.0f %%",
             slope->coarse   ? slope->coarse
             : bench->routed ? "with choices unchanged, "
                             : "",
             slope->coarse ? " to see more than gross errors: " : "", 100 * slope->tolerance);
    bench_tell(bench, "gradient_difference", fabs(slope->value - 1));
    bench_tell_text(bench, "gradient_check", kind);
    return is_predicted(slope) ||
           error_message(
               "moec forward --device reference computes the expected tensors",
               "no speed is reported: the loss changes by %.4g of the prediction of its gradient",
               slope->value);
}

static bool check(const Bench *bench, Call *call, int loss, const GradientBlocks *blocks) {
    Model *model = call->model;
    size_t bytes = model->table->weight_bytes;
    call_set_scalar(call, MOEC_SCALAR_LOSS_SCALE, 1);
    bench_fill(call, bench->routed);
    call->begins = true;
    if (!call_run(call, 1, false) || !model_get_gradients(model) || !call_get(call, loss))
        return false;
    memcpy(blocks->kept, model->weights, bytes);
    memcpy(blocks->before, model->weights, bytes);
    memcpy(blocks->gradients, model->gradients, bytes);
    double slope = take_lengths(model->table, blocks), ratios[INTERVALS],
           size = fabs((double)call->outputs[loss][0]),
           interval = (bench->rounded ? change_rounded : change) * (size > 0 ? size : 1) / slope;
    LossSlope found = {0};
    bool good = true;
    for (int i = 0; i < LENGTHS && good && !is_predicted(&found); i++, interval /= 4) {
        good = take_ratios(call, loss, blocks, interval, ratios);
        found = loss_slope(bench, ratios);
    }
    memcpy(model->weights, blocks->kept, bytes);
    return good && model_put_weights(model) && judge(bench, &found);
}

bool bench_gradient(const Bench *bench, Call *call, int loss) {
    const MoecTable *table = call->model->table;
    size_t bytes = table->weight_bytes;
    GradientBlocks blocks = {memory_map(bytes), memory_map(bytes), memory_map(bytes),
                             memory_new(sizeof(double) * (size_t)(table->parameter_count + 1))};
    bool good =
        blocks.kept && blocks.before && blocks.gradients
            ? check(bench, call, loss, &blocks)
            : error_message("use a smaller model or batch: -b N", "no memory for the check");
    memory_unmap(blocks.kept, bytes);
    memory_unmap(blocks.before, bytes);
    memory_unmap(blocks.gradients, bytes);
    free(blocks.lengths);
    return good;
}
