/* Numbers in and out: the arrays of a model where they lie, and the calls that read and write
 * them. */
#include "library/library.h"

#include "base/memory.h"
#include "base/message.h"
#include "training/measure.h"

#include <stdlib.h>
#include <string.h>

static Call *any_call(const MoecModel *model) {
    return model->run ? model->run : model->train;
}

long moec_batch(const MoecModel *model) {
    return any_call(model) ? any_call(model)->graph->batch : 1;
}

long moec_context(const MoecModel *model) {
    return any_call(model) ? call_context(any_call(model)) : model->length;
}

long moec_vocabulary(const MoecModel *model) {
    if (model->decoder) return decoder_vocabulary(model->decoder);
    return any_call(model) ? call_vocabulary(any_call(model)) : 0;
}

/* ---- tokens in ---- */

static bool ready(const Call *call, const char *can) {
    if (!call) return error_message(NULL, "the model was loaded without %s", can);
    const MoecTensor *foreign = call_foreign_input(call);
    return !foreign || error_message("bind its inputs and call moec_run or moec_differentiate",
                                     "the input '%s' is not a token", foreign->name);
}

static bool check_tokens(const MoecModel *model, const int32_t *tokens, size_t count) {
    long vocabulary = moec_vocabulary(model);
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || (vocabulary && tokens[i] >= vocabulary))
            return error_message(NULL, "item %zu is no token: numbers from 0 to %ld are", i,
                                 vocabulary - 1);
    return true;
}

static size_t window_count(const MoecModel *model) {
    return (size_t)(moec_batch(model) * (moec_context(model) + 1));
}

/* Weights may have been written to since the last call. */
static bool run(Call *call, uint64_t seed) {
    return model_put(call->model) && call_run(call, seed, true);
}

static bool logits(MoecModel *model, const int32_t *tokens, const float **values) {
    long batch = moec_batch(model), context = moec_context(model);
    if (!ready(model->run, "MOEC_CAN_RUN") ||
        !check_tokens(model, tokens, (size_t)(batch * context)))
        return false;
    int slot = call_output(model->run, "logits");
    if (slot < 0) return error_message(NULL, "the model has no output 'logits'");
    if (!model->windows) model->windows = memory_new(sizeof(int32_t) * window_count(model));
    for (long b = 0; b < batch; b++)
        memcpy(model->windows + b * (context + 1), tokens + b * context,
               sizeof *tokens * (size_t)context);
    call_set_windows(model->run, model->windows);
    *values = run(model->run, 0) ? call_get(model->run, slot) : NULL;
    return *values != NULL;
}

int moec_logits(MoecModel *model, const int32_t *tokens, const float **values) {
    library_begin();
    return library_end(logits(model, tokens, values));
}

static bool loss_of(Call *call, double *loss) {
    int slot = call_output(call, "loss");
    const float *value = slot >= 0 ? call_get(call, slot) : NULL;
    if (value && loss) *loss = (double)*value;
    return value || error_message(NULL, "the model has no loss");
}

static bool loss(MoecModel *model, const int32_t *windows, double *value) {
    if (!ready(model->run, "MOEC_CAN_RUN") || !check_tokens(model, windows, window_count(model)))
        return false;
    call_set_windows(model->run, windows);
    return run(model->run, 0) && loss_of(model->run, value);
}

int moec_loss(MoecModel *model, const int32_t *windows, double *value) {
    library_begin();
    return library_end(loss(model, windows, value));
}

static bool differentiate(MoecModel *model, uint64_t seed) {
    Call *call = model->train;
    const Model *inner = model->model;
    if (!call) return error_message(NULL, "the model was loaded without MOEC_CAN_TRAIN");
    call_set_scalar(call, MOEC_SCALAR_LOSS_SCALE, 1);
    call->begins = true;
    return model_put(inner) && step_gather(&model->stepper, seed) && run(call, seed) &&
           model_get_gradients(inner);
}

static bool run_part(MoecModel *model, MoecPart part, uint64_t seed, void *tape) {
    Call *call = model->train;
    if (!model->split) return error_message(NULL, "the model was loaded without a cotangent");
    call->part = part;
    call->arena = tape;
    call->begins = true;
    bool good =
        part == MOEC_PART_FORWARD
            ? model_put(call->model) && step_gather(&model->stepper, seed) && run(call, seed)
            : run(call, seed) && model_get_gradients(call->model);
    call->part = MOEC_PART_ALL;
    call->arena = NULL;
    return good;
}

size_t moec_tape_bytes(const MoecModel *model) {
    return model->split ? model->train->graph->arena_bytes : 0;
}

int moec_forward(MoecModel *model, uint64_t seed, void *tape) {
    library_begin();
    return library_end(run_part(model, MOEC_PART_FORWARD, seed, tape));
}

int moec_backward(MoecModel *model, uint64_t seed, void *tape) {
    library_begin();
    return library_end(run_part(model, MOEC_PART_BACKWARD, seed, tape));
}

static bool gradients(MoecModel *model, const int32_t *windows, double *value) {
    if (!ready(model->train, "MOEC_CAN_TRAIN") ||
        !check_tokens(model, windows, window_count(model)))
        return false;
    call_set_windows(model->train, windows);
    return differentiate(model, 0) && loss_of(model->train, value);
}

int moec_gradients(MoecModel *model, const int32_t *windows, double *value) {
    library_begin();
    return library_end(gradients(model, windows, value));
}

static bool step(MoecModel *model, const int32_t *windows, double *value) {
    Stepper *stepper = &model->stepper;
    size_t count = window_count(model);
    StepResult result;
    if (!ready(model->train, "MOEC_CAN_TRAIN") ||
        !check_tokens(model, windows, count * (size_t)model->settings.accumulate) ||
        !model_put(model->model))
        return false;
    stepper->given = windows;
    if (!step_run(stepper, model->step, 0, &result) || !model_get(model->model, false))
        return false;
    model->step++;
    if (value) *value = result.loss;
    return (isfinite(result.loss) && isfinite(result.norm)) ||
           model_tell_nonsense(model->model, "the loss is");
}

int moec_step(MoecModel *model, const int32_t *windows, double *value) {
    library_begin();
    return library_end(step(model, windows, value));
}

/* ---- arrays ---- */

static bool is_of_train(MoecKind kind) {
    return kind == MOEC_TRAIN_INPUT || kind == MOEC_TRAIN_OUTPUT;
}

static bool is_input(MoecKind kind) {
    return kind == MOEC_RUN_INPUT || kind == MOEC_TRAIN_INPUT;
}

static Call *call_of(const MoecModel *model, MoecKind kind) {
    return is_of_train(kind) ? model->train : model->run;
}

int moec_count(const MoecModel *model, MoecKind kind) {
    if (kind == MOEC_WEIGHT || kind == MOEC_GRADIENT)
        return kind == MOEC_GRADIENT && !model->train ? 0 : model->model->parameter_count;
    const Call *call = call_of(model, kind);
    return !call ? 0 : is_input(kind) ? call->graph->input_count : call->graph->output_count;
}

static void describe(MoecArray *array, const char *name, const char *axes, int rank,
                     const long *shape) {
    *array = (MoecArray){.name = name, .axes = axes, .rank = rank};
    for (int i = 0; i < rank && i < MOEC_RANK; i++) array->shape[i] = shape[i];
}

int moec_array(MoecModel *model, MoecKind kind, int place, MoecArray *array) {
    library_begin();
    if (place < 0 || place >= moec_count(model, kind))
        return library_end(error_message(NULL, "there is no array of the number %d", place));
    if (kind == MOEC_WEIGHT || kind == MOEC_GRADIENT) {
        const PublicTensor *one = &model->model->parameters[place];
        float *block = kind == MOEC_GRADIENT ? model->model->gradients : model->model->weights;
        describe(array, one->name, one->axes, one->rank, one->shape);
        array->data = block + one->offset / sizeof(float);
        return library_end(true);
    }
    const Call *call = call_of(model, kind);
    const MoecTensor *tensor =
        is_input(kind) ? &call->graph->inputs[place] : &call->graph->outputs[place];
    describe(array, tensor->name, tensor->axes, tensor->rank, tensor->shape);
    array->is_int = is_input(kind) && tensor->is_int;
    array->data = is_input(kind) ? call->inputs_there[place] : call->outputs_there[place];
    return library_end(true);
}

int moec_bind(MoecModel *model, MoecKind kind, int place, void *data) {
    library_begin();
    bool may = kind != MOEC_WEIGHT && kind != MOEC_GRADIENT;
    if (!may || place < 0 || place >= moec_count(model, kind))
        return library_end(
            error_message(NULL, "there is no input or output of the number %d", place));
    Call *call = call_of(model, kind);
    if (is_input(kind))
        call->inputs_there[place] = data ? data : call->inputs[place];
    else
        call->outputs_there[place] = data ? data : call->outputs[place];
    return library_end(true);
}

int moec_run(MoecModel *model, uint64_t seed) {
    library_begin();
    return library_end(model->run ? run(model->run, seed)
                                  : error_message(NULL, "the model was loaded without "
                                                        "MOEC_CAN_RUN"));
}

int moec_differentiate(MoecModel *model, uint64_t seed) {
    library_begin();
    return library_end(differentiate(model, seed));
}
