/* calibrate: rounds matrices to int4 so that the results of their products change least on given
 * data (GPTQ, Frantar et al. 2022).
 *
 * H, the sum of x x^T over the inputs x of a product, is the Hessian of the squared error of its
 * results. The terms of a column are rounded in order. U is the Cholesky factor of the inverse of
 * H (H^-1 = U^T U). It distributes the error of term i over the terms after it:
 *
 *     error = (w[i] - rounded[i]) / U[i,i]          w[j] -= error * U[i,j], j > i
 */
#include "tools/command/internal.h"

#include "base/memory.h"
#include "base/message.h"
#include "model/call.h"
#include "training/evaluation.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP_TERMS = 32, CALIBRATION_SEQUENCES = 128 };

/* The matrices of a parameter, one per instance, and their Hessians. */
typedef struct Hessian {
    const PublicTensor *parameter;
    const MoecWeightCopy *form;
    long instances;
    double *sums; /* [instances, k, k] */
    bool given;   /* by the program */
} Hessian;

static long hessian_size(const Hessian *hessian) {
    return hessian->instances * hessian->form->k * hessian->form->k;
}

/* ---- linear algebra: lower triangles, overwritten ---- */

/* A = L L^T; false if A is not positive definite. */
static bool cholesky(double *a, long n) {
    for (long j = 0; j < n; j++) {
        double *row = a + j * n;
        for (long i = 0; i < j; i++) row[j] -= row[i] * row[i];
        if (!(row[j] > 0)) return false;
        row[j] = sqrt(row[j]);
#pragma omp parallel for schedule(static)
        for (long i = j + 1; i < n; i++) {
            double *other = a + i * n;
            for (long p = 0; p < j; p++) other[j] -= other[p] * row[p];
            other[j] /= row[j];
        }
    }
    return true;
}

/* The inverse of A = L L^T from L: a new array, lower triangle. */
static double *inverse_of(const double *l, long n) {
    double *inverse = memory_new(sizeof *inverse * (size_t)(n * n)),
           *solved = memory_new(sizeof *solved * (size_t)(n * n));
    /* Column c of L^-1, stored as row c. */
#pragma omp parallel for schedule(dynamic)
    for (long c = 0; c < n; c++) {
        double *x = solved + c * n;
        for (long i = c; i < n; i++) {
            double sum = i == c;
            for (long p = c; p < i; p++) sum -= l[i * n + p] * x[p];
            x[i] = sum / l[i * n + i];
        }
    }
#pragma omp parallel for schedule(dynamic)
    for (long i = 0; i < n; i++)
        for (long j = 0; j <= i; j++)
            for (long p = i; p < n; p++)
                inverse[i * n + j] += solved[i * n + p] * solved[j * n + p];
    free(solved);
    return inverse;
}

/* U with H^-1 = U^T U, an upper triangle, as the transposed factor of the inverse: U[i,j] is
 * element [j, i]. NULL if the damped Hessian is not positive definite. */
static double *inverse_factor(double *hessian, long k) {
    const double damping = 0.01; /* of the mean of the diagonal */
    double mean = 0;
    for (long i = 0; i < k; i++) mean += hessian[i * k + i] / (double)k;
    for (long i = 0; i < k; i++) hessian[i * k + i] += damping * mean;
    if (!(mean > 0) || !cholesky(hessian, k)) return NULL;
    double *inverse = inverse_of(hessian, k);
    if (cholesky(inverse, k)) return inverse;
    free(inverse);
    return NULL;
}

/* ---- rounding ---- */

static float half_scale(float value) {
    int exponent;
    frexp((double)value, &exponent);
    const double unit = ldexp(1, (exponent < -13 ? -13 : exponent) - 11);
    return (float)(nearbyint((double)value / unit) * unit);
}

static double rounded_step(double value, double scale) {
    return scale == 0 ? 0 : fmin(fmax(nearbyint(value / scale), -8), 7);
}

/* The scale of a group: that of the largest magnitude or a smaller one, with the least squared
 * error. */
static double group_scale(const double *values) {
    double most = 0, best = 0, least = INFINITY;
    for (int i = 0; i < GROUP_TERMS; i++)
        if (fabs(values[i]) > fabs(most)) most = values[i];
    for (int part = 0; part < 8; part++) {
        const double scale = (double)half_scale((float)(most / -8 * (1 - 0.04 * part)));
        double error = 0;
        for (int i = 0; i < GROUP_TERMS; i++) {
            const double rest = values[i] - scale * rounded_step(values[i], scale);
            error += rest * rest;
        }
        if (error < least) least = error, best = scale;
    }
    return best;
}

static void round_column(double *w, const double *factor, long k) {
    double scale = 0;
    for (long i = 0; i < k; i++) {
        if (i % GROUP_TERMS == 0) scale = group_scale(w + i);
        const double rounded = scale * rounded_step(w[i], scale),
                     error = (w[i] - rounded) / factor[i * k + i];
        w[i] = rounded;
        for (long j = i + 1; j < k; j++) w[j] -= error * factor[j * k + i];
    }
}

static void round_matrix(const MoecWeightCopy *form, const double *factor, float *weights) {
#pragma omp parallel for schedule(static)
    for (long column = 0; column < form->n; column++) {
        float *from = weights + column * form->n_stride;
        AUTO_FREE double *w = memory_new(sizeof *w * (size_t)form->k);
        for (long i = 0; i < form->k; i++) w[i] = (double)from[i * form->k_stride];
        round_column(w, factor, form->k);
        for (long i = 0; i < form->k; i++) from[i * form->k_stride] = (float)w[i];
    }
}

/* Rounds the matrices of a parameter. Instances without inputs, such as experts that no token of
 * the data selects, keep the nearest values; false if there is one. */
static bool round_instances(const Hessian *hessian, float *weights) {
    const MoecWeightCopy *form = hessian->form;
    bool all = hessian->given;
    for (long i = 0; i < hessian->instances && hessian->given; i++) {
        AUTO_FREE double *factor = inverse_factor(hessian->sums + i * form->k * form->k, form->k);
        if (factor) round_matrix(form, factor, weights + i * form->batch_stride);
        all &= factor != NULL;
    }
    return all;
}

/* ---- data ---- */

/* Adds the sums that a run of the program has returned. */
static bool add_outputs(Call *call, const PublicTensor *all, int outputs, Hessian *hessians,
                        int count) {
    for (int i = 0; i < outputs; i++)
        for (int j = 0; j < count; j++) {
            Hessian *hessian = &hessians[j];
            const long size = hessian_size(hessian);
            if (strcmp(all[i].name, hessian->parameter->name) != 0 || (long)all[i].count != size)
                continue;
            const float *values = call_get(call, (int)(all[i].tensor - call->graph->outputs));
            if (!values) return false;
            values += (all[i].offset - all[i].tensor->offset) / sizeof *values;
            for (long p = 0; p < size; p++) hessian->sums[p] += (double)values[p];
            hessian->given = true;
        }
    return true;
}

/* Sequences are spread over the data; the last batch repeats some. */
static bool add_batches(Call *call, const Data *data, Hessian *hessians, int count) {
    const uint64_t length = (uint64_t)call_context(call) + 1, batch = (uint64_t)call->graph->batch,
                   windows = (data->count - 1) / (length - 1),
                   wanted = windows < CALIBRATION_SEQUENCES ? windows : CALIBRATION_SEQUENCES;
    AUTO_FREE int32_t *tokens = memory_new(sizeof *tokens * (size_t)(batch * length));
    int outputs;
    PublicTensor *all = public_tensors(call->graph->outputs, call->graph->output_count, &outputs);
    bool good = true;
    for (uint64_t first = 0; first < wanted && good; first += batch) {
        for (uint64_t b = 0; b < batch && good; b++)
            good = data_read(data, (first + b) % wanted * (windows / wanted) * (length - 1),
                             (size_t)length, tokens + b * length);
        if (good) call_set_windows(call, tokens);
        good = good && call_run(call, 1, false) && add_outputs(call, all, outputs, hessians, count);
    }
    public_free(all, outputs);
    return good;
}

static Data *open_calibration(Call *call, const char *path, const Tokenizer *tokenizer) {
    Data *data = texts_open(path, tokenizer, call);
    const uint64_t least = (uint64_t)call_context(call) + 1;
    if (!data || data->count >= least) return data;
    error_message("use more data", "%s has %" PRIu64 " tokens, but one sequence needs %" PRIu64,
                  path, data->count, least);
    data_close(data);
    return NULL;
}

/* The matrices that can be calibrated: a new array. */
static Hessian *find_hessians(const Calibration *calibration, int *count) {
    const Model *model = calibration->model;
    Hessian *hessians = memory_new(sizeof *hessians * (size_t)(model->parameter_count + 1));
    *count = 0;
    for (int i = 0; i < model->parameter_count; i++) {
        const PublicTensor *one = &model->parameters[i];
        const MoecWeightCopy *form = weight_copy(model, one);
        if (!form || form->type != MOEC_INT4 ||
            !moec_weight_type(calibration->program, one->tensor->name))
            continue;
        const long instances = (long)one->count / (form->n * form->k);
        if (instances > 1 && form->batch_stride != form->n * form->k) continue;
        Hessian *made = &hessians[(*count)++];
        *made = (Hessian){.parameter = one, .form = form, .instances = instances};
        made->sums = memory_new(sizeof(double) * (size_t)hessian_size(made));
    }
    return hessians;
}

bool calibrate_int4(const Calibration *calibration, int *calibrated) {
    const Model *model = calibration->model;
    AUTO(Data) *data =
        open_calibration(calibration->inputs, calibration->data, calibration->tokenizer);
    if (!data) return false;
    int count;
    AUTO_FREE Hessian *hessians = find_hessians(calibration, &count);
    const bool good = add_batches(calibration->inputs, data, hessians, count);
    *calibrated = 0;
    for (int i = 0; i < count; i++) {
        float *weights = model->weights + hessians[i].parameter->offset / sizeof(float);
        *calibrated += good && round_instances(&hessians[i], weights);
        free(hessians[i].sums);
    }
    return good && model_put_weights(model);
}
