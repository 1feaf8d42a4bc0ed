#include "model/interpreted.h"

#include "base/memory.h"

#include <stdlib.h>

/* Operations of the interpreter per second, on one core of the year 2020. */
static const double interpreter_speed = 1e8;
/* The share of the memory that the interpreter may use. */
static const double memory_share = 0.7;

static void give(MoecInterpreter *interpreter, const char *name, const void *values, size_t count,
                 bool integer) {
    AUTO_FREE double *wide = memory_new(sizeof *wide * (count + 1));
    for (size_t i = 0; i < count; i++)
        wide[i] =
            integer ? (double)((const int32_t *)values)[i] : (double)((const float *)values)[i];
    moec_interpreter_set(interpreter, name, wide, count);
}

static void give_all(MoecInterpreter *interpreter, const PublicTensor *tensors, int count,
                     const float *block) {
    for (int i = 0; i < count; i++)
        give(interpreter, tensors[i].name, block + tensors[i].offset / sizeof(float),
             tensors[i].count, false);
}

MoecInterpreter *interpreted_open(MoecCompiler *compiler, MoecProgram *program, const Model *model,
                                  const float *states) {
    MoecInterpreter *interpreter = program ? moec_interpreter_new(compiler, program) : NULL;
    if (!interpreter) return NULL;
    give_all(interpreter, model->parameters, model->parameter_count, model->weights);
    give_all(interpreter, model->states, model->state_count, states);
    return interpreter;
}

void interpreted_set_inputs(MoecInterpreter *interpreter, const Call *call) {
    for (int i = 0; i < call->graph->input_count; i++) {
        const MoecTensor *input = &call->graph->inputs[i];
        AUTO_FREE char *name = memory_format(
            "%s:%s", input->input == MOEC_INPUT_SCALAR ? "scalar" : "input", input->name);
        give(interpreter, name, call->inputs[i], tensor_count(input), input->is_int);
    }
}

double interpreted_seconds(const MoecProgram *program) {
    return moec_interpreter_cost(program).operations / interpreter_speed;
}

bool interpreted_has_room(double bytes) {
    return bytes <= memory_share * (double)memory_of_machine();
}
