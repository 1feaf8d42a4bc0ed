/* described: the tables of a program, built from the compiler's description. */
#include "model/internal.h"

#include "base/memory.h"
#include "model/model.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static MoecTensor tensor_of(const MoecTensorInfo *info, MoecBlock block) {
    MoecTensor tensor = {
        .name = info->name,
        .axes = info->axes,
        .block = block,
        .offset = info->offset,
        .rank = info->rank,
        .is_int = info->is_int,
        .init = (MoecInit)info->init,
        .a = info->a,
        .b = info->b,
        .input = (MoecInput)info->input,
        .scalar = (MoecScalar)info->scalar,
        .vocabulary = info->vocabulary,
        .matrix = info->matrix,
        .frozen = info->frozen,
    };
    memcpy(tensor.shape, info->shape, sizeof tensor.shape[0] * (size_t)info->rank);
    return tensor;
}

/* A list of tensors; *bytes: size of their block, 0 for slots. */
static const MoecTensor *tensors_of(MoecCompiler *compiler, const MoecProgram *program,
                                    MoecTensorList list, MoecBlock block, int *count,
                                    size_t *bytes) {
    const MoecTensorInfo *infos = moec_tensors(compiler, program, list, count);
    MoecTensor *tensors = memory_new(sizeof *tensors * (size_t)(*count + 1));
    for (int i = 0; i < *count; i++) {
        tensors[i] = tensor_of(&infos[i], block);
        size_t end = tensors[i].offset + (tensor_count(&tensors[i]) * sizeof(float) + 63) / 64 * 64;
        if (bytes && end > *bytes) *bytes = end;
    }
    return tensors;
}

Module *module_describe(MoecCompiler *compiler, MoecGraph graph, long batch, long context) {
    const MoecProgram *program = moec_compile(compiler, graph, batch, context, 0);
    if (!program) return NULL;
    Module *module = memory_new(sizeof *module);
    MoecTable *table = &module->described;
    MoecGraphEntry *entry = memory_new(sizeof *entry);
    *table = (MoecTable){
        .abi = MOEC_ABI, .model = moec_model(compiler), .graphs = entry, .graph_count = 1};
    table->parameters = tensors_of(compiler, program, MOEC_PARAMETERS, MOEC_WEIGHTS,
                                   &table->parameter_count, &table->weight_bytes);
    table->states = tensors_of(compiler, program, MOEC_LAYER_STATES, MOEC_STATES,
                               &table->state_count, &table->state_bytes);
    entry->kind = graph == MOEC_TRAIN ? MOEC_GRAPH_TRAIN : MOEC_GRAPH_FORWARD;
    entry->inputs =
        tensors_of(compiler, program, MOEC_INPUT_SLOTS, MOEC_INPUTS, &entry->input_count, NULL);
    entry->outputs =
        tensors_of(compiler, program, MOEC_OUTPUT_SLOTS, MOEC_OUTPUTS, &entry->output_count, NULL);
    for (int i = 0; i < entry->input_count && !entry->batch; i++)
        if (entry->inputs[i].rank) entry->batch = entry->inputs[i].shape[0];
    module->table = table;
    return module;
}

void module_forget(Module *module) {
    const MoecTable *table = &module->described;
    const void *const blocks[] = {table->parameters, table->states,
                                  table->graphs ? table->graphs->inputs : NULL,
                                  table->graphs ? table->graphs->outputs : NULL, table->graphs};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        free((void *)(uintptr_t)blocks[i]);
}
