/* interface: inputs and outputs of a program, for its table and for the public header. */
#include "analysis/parameter_facts.h"
#include "codegen/emit.h"
#include "passes.h"

List tensors_with(Arena *arena, const Program *program, Role role) {
    List list = {0};
    for (int i = 0; i < program->tensors.count; i++) {
        Tensor *tensor = program->tensors.items[i];
        if (tensor->role == role) list_push(arena, &list, tensor);
    }
    return list;
}

MoecTensorInfo tensor_info(Arena *arena, const Tensor *tensor, size_t offset) {
    Text axes = {.arena = arena};
    long *shape = arena_alloc(arena, ((size_t)tensor->rank + 1) * sizeof *shape);
    text_add(&axes, "%s", "");
    for (int i = 0; i < tensor->rank; i++) {
        text_add(&axes, "%s%s", i ? "," : "", tensor->axes[i]->name);
        shape[i] = tensor->axes[i]->size;
    }
    return (MoecTensorInfo){
        .name = tensor->path ? tensor->path : tensor->name,
        .axes = axes.text,
        .offset = offset,
        .rank = tensor->rank,
        .shape = shape,
        .is_int = tensor->type == TYPE_INT,
        .matrix = is_matrix(tensor),
        .frozen = tensor->role == ROLE_PARAMETER && !is_trained(tensor),
        .init = (int)tensor->init.kind,
        .a = tensor->init.a,
        .b = tensor->init.b,
        .input = (int)tensor->input,
        .scalar = (int)tensor->scalar,
        .vocabulary = tensor->vocabulary,
        .probe = (int)tensor->probe,
    };
}

const MoecTensorInfo *moec_tensors(MoecCompiler *compiler, const MoecProgram *program,
                                   MoecTensorList list, int *count) {
    static const Role roles[] = {ROLE_PARAMETER, ROLE_STATE, ROLE_INPUT, ROLE_OUTPUT};
    Arena *arena = moec_arena(compiler);
    Program *only = (Program *)(uintptr_t)program;
    bool slots = list == MOEC_INPUT_SLOTS || list == MOEC_OUTPUT_SLOTS;
    BlockLayout layout = slots ? (BlockLayout){0} : layout_of(arena, &only, 1, roles[list]);
    List tensors = !slots                      ? layout.tensors
                   : list == MOEC_OUTPUT_SLOTS ? program->outputs
                                               : tensors_with(arena, program, ROLE_INPUT);
    MoecTensorInfo *infos = arena_alloc(arena, ((size_t)tensors.count + 1) * sizeof *infos);
    for (int i = 0; i < tensors.count; i++)
        infos[i] = tensor_info(arena, tensors.items[i], slots ? (size_t)i : layout.offsets[i]);
    *count = tensors.count;
    return infos;
}
