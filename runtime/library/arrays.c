/* Numbers in and out: the arrays of a model and the calls that read and write them. */
#include "library/library.h"

#include "base/memory.h"
#include "base/message.h"
#include "model/call.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)MOEC_RANK >= (int)MOEC_MAX_RANK, "MoecArray.shape holds every shape");

enum { TAPE_ALIGNMENT = 64 }; /* bytes */

static Call *any_call(const MoecModel *model) {
    return model->run ? model->run : model->train;
}

long moec_batch(const MoecModel *model) {
    if (!model) return 0;
    return any_call(model) ? any_call(model)->graph->batch : 1;
}

long moec_context(const MoecModel *model) {
    if (!model) return 0;
    return any_call(model) ? call_context(any_call(model)) : model->length;
}

long moec_vocabulary(const MoecModel *model) {
    if (!model) return 0;
    if (model->decoder) return decoder_vocabulary(model->decoder);
    return any_call(model) ? call_vocabulary(any_call(model)) : 0;
}

long moec_accumulation(const MoecModel *model) {
    return model && model->train ? model->settings.accumulate : 0;
}

/* ---- tokens in ---- */

static size_t window_count(const MoecModel *model) {
    return (size_t)(moec_batch(model) * (moec_context(model) + 1));
}

static bool loaded(const Call *call, const char *can) {
    return call || error_message("load it with this flag", "the model was loaded without %s", can);
}

/* Tokens go to the memory of the model, also if the caller has bound these inputs to other memory
 * before. */
static void unbind_tokens(Call *call) {
    for (int i = 0; i < call->graph->input_count; i++) {
        const int kind = (int)call->graph->inputs[i].input;
        if (kind == MOEC_INPUT_TOKEN || kind == MOEC_INPUT_NEXT)
            call->inputs_there[i] = call->inputs[i];
    }
}

/* Checks `count` tokens for a call on them. */
static bool ready(const Request *request, Call *call, const char *can, size_t count) {
    if (!loaded(call, can)) return false;
    const MoecTensor *foreign = call_foreign_input(call);
    if (foreign)
        return error_message(
            "bind the inputs with moec_bind, then call moec_run or moec_differentiate",
            "input '%s' is not a token", foreign->name);
    if (!library_given(request->tokens, "tokens") ||
        !library_tokens(request->tokens, count, moec_vocabulary(request->model)))
        return false;
    unbind_tokens(call);
    return true;
}

/* The caller may have changed weights since the last call. */
static bool run_array_call(Call *call, uint64_t seed) {
    return model_put(call->model) && call_run(call, seed, true);
}

static bool logits(const Request *request) {
    MoecModel *model = request->model;
    const float **values = request->result;
    long batch = moec_batch(model), context = moec_context(model);
    if (!library_given((const void *)values, "logits")) return false;
    if (!ready(request, model->run, "MOEC_CAN_RUN", (size_t)(batch * context))) return false;
    int slot = call_output(model->run, "logits");
    if (slot < 0)
        return error_message("add `output logits` to the model",
                             "the model has no output 'logits'");
    if (!model->windows) model->windows = memory_new(sizeof(int32_t) * window_count(model));
    for (long b = 0; b < batch; b++)
        memcpy(model->windows + b * (context + 1), request->tokens + b * context,
               sizeof(int32_t) * (size_t)context);
    call_set_windows(model->run, model->windows);
    *values = run_array_call(model->run, 0) ? call_get(model->run, slot) : NULL;
    return *values != NULL;
}

int moec_logits(MoecModel *model, const int32_t *tokens, const float **values) {
    return library_call(logits,
                        &(Request){.model = model, .tokens = tokens, .result = (void *)values});
}

static bool loss_of(Call *call, double *loss) {
    int slot = call_output(call, "loss");
    const float *value = slot >= 0 ? call_get(call, slot) : NULL;
    if (value && loss) *loss = (double)*value;
    return value || error_message("end the model in `loss = ...`", "the model has no loss");
}

static bool loss(const Request *request) {
    MoecModel *model = request->model;
    if (!ready(request, model->run, "MOEC_CAN_RUN", window_count(model))) return false;
    call_set_windows(model->run, request->tokens);
    return run_array_call(model->run, 0) && loss_of(model->run, request->result);
}

int moec_loss(MoecModel *model, const int32_t *windows, double *value) {
    return library_call(loss, &(Request){.model = model, .tokens = windows, .result = value});
}

static bool differentiate(const Request *request) {
    MoecModel *model = request->model;
    Call *call = model->train;
    Model *inner = model->model;
    if (!loaded(call, "MOEC_CAN_TRAIN")) return false;
    call_set_scalar(call, MOEC_SCALAR_LOSS_SCALE, 1);
    call->begins = true;
    return model_put(inner) && step_gather(&model->stepper, request->seed) &&
           run_array_call(call, request->seed) && model_get_gradients(inner);
}

int moec_differentiate(MoecModel *model, uint64_t seed) {
    return library_call(differentiate, &(Request){.model = model, .seed = seed});
}

static bool run_phase(const Request *request) {
    MoecModel *model = request->model;
    Call *call = model->train;
    if (!model->split)
        return error_message("set `cotangent` when the model is loaded",
                             "the model was loaded without a cotangent");
    if (moec_tape_bytes(model) && !library_given(request->data, "tape")) return false;
    if ((uintptr_t)request->data % TAPE_ALIGNMENT)
        return error_message("allocate it with posix_memalign",
                             "the tape is not aligned to %d bytes", TAPE_ALIGNMENT);
    call->part = request->part;
    call->arena = request->data;
    call->begins = true;
    bool good = request->part == MOEC_PART_FORWARD
                    ? model_put(call->model) && step_gather(&model->stepper, request->seed) &&
                          run_array_call(call, request->seed)
                    : run_array_call(call, request->seed) && model_get_gradients(call->model);
    call->part = MOEC_PART_ALL;
    call->arena = NULL;
    return good;
}

size_t moec_tape_bytes(const MoecModel *model) {
    return model && model->split ? model->train->graph->arena_bytes : 0;
}

int moec_forward(MoecModel *model, uint64_t seed, void *tape) {
    return library_call(
        run_phase,
        &(Request){.model = model, .seed = seed, .part = MOEC_PART_FORWARD, .data = tape});
}

int moec_backward(MoecModel *model, uint64_t seed, void *tape) {
    return library_call(
        run_phase,
        &(Request){.model = model, .seed = seed, .part = MOEC_PART_BACKWARD, .data = tape});
}

static bool gradients(const Request *request) {
    MoecModel *model = request->model;
    if (!ready(request, model->train, "MOEC_CAN_TRAIN", window_count(model))) return false;
    call_set_windows(model->train, request->tokens);
    return differentiate(request) && loss_of(model->train, request->result);
}

int moec_gradients(MoecModel *model, const int32_t *windows, double *value) {
    return library_call(gradients, &(Request){.model = model, .tokens = windows, .result = value});
}

static bool step(const Request *request) {
    MoecModel *model = request->model;
    Stepper *stepper = &model->stepper;
    double *value = request->result;
    StepResult result;
    if (model->split)
        return error_message("load the model without a cotangent",
                             "a model with a cotangent has no loss for a training step");
    if (!ready(request, model->train, "MOEC_CAN_TRAIN",
               window_count(model) * (size_t)model->settings.accumulate) ||
        !model_put(model->model))
        return false;
    stepper->given = request->tokens;
    bool good = step_run(stepper, model->step, 0, &result) && model_get(model->model, false);
    stepper->given = NULL;
    if (!good) return false;
    model->step++;
    if (value) *value = result.loss;
    return (isfinite(result.loss) && isfinite(result.norm)) ||
           model_tell_nonsense(model->model, "the loss is");
}

int moec_step(MoecModel *model, const int32_t *windows, double *value) {
    return library_call(step, &(Request){.model = model, .tokens = windows, .result = value});
}

/* ---- arrays ---- */

static bool is_of_model(MoecKind kind) {
    return kind == MOEC_WEIGHT || kind == MOEC_GRADIENT;
}

static bool is_input(MoecKind kind) {
    return kind == MOEC_RUN_INPUT || kind == MOEC_TRAIN_INPUT;
}

static Call *array_call(const MoecModel *model, MoecKind kind) {
    if (kind == MOEC_TRAIN_INPUT || kind == MOEC_TRAIN_OUTPUT) return model->train;
    return kind == MOEC_RUN_INPUT || kind == MOEC_RUN_OUTPUT ? model->run : NULL;
}

int moec_count(const MoecModel *model, MoecKind kind) {
    if (!model) return 0;
    if (is_of_model(kind))
        return kind == MOEC_GRADIENT && !model->train ? 0 : model->model->parameter_count;
    const Call *call = array_call(model, kind);
    return !call ? 0 : is_input(kind) ? call->graph->input_count : call->graph->output_count;
}

/* False after a message if there is no such array. */
static bool index_exists(const Request *request) {
    int count = moec_count(request->model, request->kind);
    if (request->index >= 0 && request->index < count) return true;
    return error_message("call moec_count for the number of arrays of a kind",
                         "no array %d of kind %d: the model has %d of them", request->index,
                         (int)request->kind, count);
}

static void describe_array(MoecArray *array, const char *name, const char *axes, int rank,
                           const long *shape) {
    *array = (MoecArray){.name = name, .axes = axes, .rank = rank};
    for (int i = 0; i < rank; i++) array->shape[i] = shape[i];
}

static bool array(const Request *request) {
    MoecArray *array = request->result;
    const Model *inner = request->model->model;
    const int index = request->index;
    if (!library_given(array, "array") || !index_exists(request)) return false;
    if (is_of_model(request->kind)) {
        const PublicTensor *one = &inner->parameters[index];
        float *block = request->kind == MOEC_GRADIENT ? inner->gradients : inner->weights;
        describe_array(array, one->name, one->axes, one->rank, one->shape);
        array->data = block + one->offset / sizeof(float);
        return true;
    }
    const bool input = is_input(request->kind);
    const Call *call = array_call(request->model, request->kind);
    const MoecTensor *tensor = input ? &call->graph->inputs[index] : &call->graph->outputs[index];
    describe_array(array, tensor->name, tensor->axes, tensor->rank, tensor->shape);
    array->is_int = input && tensor->is_int;
    array->data = input ? call->inputs_there[index] : call->outputs_there[index];
    return true;
}

int moec_array(MoecModel *model, MoecKind kind, int index, MoecArray *result) {
    return library_call(array,
                        &(Request){.model = model, .kind = kind, .index = index, .result = result});
}

static bool bind(const Request *request) {
    const int index = request->index;
    if (is_of_model(request->kind))
        return error_message("copy values to its memory instead",
                             "weights and gradients cannot be bound to other memory");
    if (!index_exists(request)) return false;
    if ((uintptr_t)request->data % sizeof(float))
        return error_message("pass the address of a float",
                             "the memory is not aligned to %zu bytes", sizeof(float));
    Call *call = array_call(request->model, request->kind);
    if (is_input(request->kind))
        call->inputs_there[index] = request->data ? request->data : call->inputs[index];
    else
        call->outputs_there[index] = request->data ? request->data : call->outputs[index];
    return true;
}

int moec_bind(MoecModel *model, MoecKind kind, int index, void *data) {
    return library_call(bind,
                        &(Request){.model = model, .kind = kind, .index = index, .data = data});
}

static bool run_array_graph(const Request *request) {
    return loaded(request->model->run, "MOEC_CAN_RUN") &&
           run_array_call(request->model->run, request->seed);
}

int moec_run(MoecModel *model, uint64_t seed) {
    return library_call(run_array_graph, &(Request){.model = model, .seed = seed});
}
