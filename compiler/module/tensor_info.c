/* tensor_info: the table entry of a tensor. */
#include "analysis/parameter_facts.h"
#include "module/lowered.h"

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
