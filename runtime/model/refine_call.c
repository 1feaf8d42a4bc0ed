#include "model/refine_call.h"

#include "abi/refine.h"
#include "data/random.h"

static bool run_once(Call *call, const Refinement *refinement, long step) {
    call_set_scalar(call, MOEC_SCALAR_SCHEDULE_STEP, (double)step);
    if (!call_run(call, random_bits(refinement->seed, (uint64_t)step), false)) return false;
    for (int i = 0; i < call->graph->output_count; i++)
        if (!call_get(call, i)) return false;
    return refine_inputs(call->graph, call->inputs, call->outputs) ||
           model_tell_nonsense(call->model, "a sampled value is");
}

bool refine_call(Call *call, const Refinement *refinement) {
    call_set_scalar(call, MOEC_SCALAR_SCHEDULE_STEPS, (double)refinement->steps);
    call_set_scalar(call, MOEC_SCALAR_TEMPERATURE, refinement->temperature);
    for (long step = 0; step < refinement->steps; step++)
        if (!run_once(call, refinement, step)) return false;
    return true;
}

Model *refining_model(Device *device, MoecCompiler *compiler, const Safetensors *weights,
                      long batch, long context) {
    const GraphShape shape = {.graph = MOEC_REFINE, .batch = batch, .context = context};
    Model *model = model_open(device, compiler, &shape, 1, true);
    if (model && model_read(model, weights, false)) return model;
    model_close(model);
    return NULL;
}
