#include "model/interpreted.h"

#include "base/message.h"

#include <math.h>
#include <stdlib.h>

static MoecGraph compiled_graph(const Call *call) {
    static const MoecGraph graphs[] = {
        [MOEC_GRAPH_FORWARD] = MOEC_FORWARD, [MOEC_GRAPH_TRAIN] = MOEC_TRAIN,
        [MOEC_GRAPH_DECODE] = MOEC_DECODE,   [MOEC_GRAPH_MEASURE] = MOEC_MEASURE,
        [MOEC_GRAPH_STEP] = MOEC_STEP,       [MOEC_GRAPH_GATHER] = MOEC_GATHER,
        [MOEC_GRAPH_REFINE] = MOEC_REFINE};
    return graphs[call->graph->kind];
}

/* The program that the device runs. */
static MoecProgram *program_again(MoecCompiler *compiler, const Call *call) {
    const MoecGraphEntry *graph = call->graph;
    if (call->model->trains) moec_trains(compiler);
    MoecProgram *program =
        moec_compile(compiler, compiled_graph(call), graph->batch, graph->context, graph->tokens);
    if (program) moec_lower(compiler, program, device_target(call->model->device));
    return program && reports_good(compiler) ? program : NULL;
}

/* Whether the interpreter can run the program; false after a note. */
static bool is_affordable(const MoecProgram *program) {
    const double seconds = interpreted_seconds(program);
    if (!interpreted_has_room(moec_interpreter_cost(program).bytes))
        note_message("the first value that is not finite is unknown: the reference interpreter "
                     "needs too much memory; reduce train.batch_size to find it");
    else if (seconds > FAULT_SECONDS)
        note_message("the first value that is not finite is unknown: the reference interpreter "
                     "needs about %.0f s, the limit is %d s; reduce train.batch_size to find it",
                     seconds, FAULT_SECONDS);
    else
        return true;
    return false;
}

FaultFound fault_print(MoecCompiler *compiler, const Call *call, const float *states, uint64_t seed,
                       bool last_micro_batch) {
    const Model *model = call->model;
    MoecProgram *program = program_again(compiler, call);
    if (!program || !model_get(model, false)) return FAULT_FAILED;
    if (!is_affordable(program)) return FAULT_COSTLY;
    AUTO(MoecInterpreter) *interpreter =
        interpreted_open(compiler, program, model, states ? states : model->layer_states);
    if (!interpreter) return FAULT_FAILED;
    moec_interpreter_trace(interpreter);
    if (moec_rounded(compiler)) moec_interpreter_rounded(interpreter, 1);
    interpreted_set_inputs(interpreter, call);
    const char *problem = moec_interpreter_run(interpreter, seed, last_micro_batch),
               *found = problem ? NULL : moec_interpreter_fault(interpreter);
    if (problem) note_message("%s", problem);
    if (found) message_reports(found);
    return problem ? FAULT_FAILED : found ? FAULT_FOUND : FAULT_NONE;
}

/* The first weight in host memory with a value that is not finite, or NULL. */
static const char *first_nonsense(const Model *model) {
    for (int i = 0; i < model->parameter_count; i++) {
        const PublicTensor *one = &model->parameters[i];
        const float *values = model->weights + one->offset / sizeof(float);
        for (size_t j = 0; j < one->count; j++)
            if (!isfinite(values[j])) return one->name;
    }
    return NULL;
}

bool model_tell_nonsense(const Model *model, const char *what) {
    const char *name = first_nonsense(model);
    return error_message("use a checkpoint of an earlier step, or train with a lower train.lr",
                         "%s not a finite number%s%s", what,
                         name ? "; weight with values that are not finite: " : "",
                         name ? name : "");
}
