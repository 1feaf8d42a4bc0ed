/* interpret_view: the elements of an operand of a call. */
#include "interpret/interpreter.h"

/* A subscript of repeat indices and numbers. */
static long fixed_index(const Interpreter *interpreter, const Expr *sub) {
    if (sub->kind == EXPR_NUMBER) return (long)sub->number;
    if (sub->kind == EXPR_INDEX) {
        for (int slot = 0; slot < interpreter->slot_count; slot++)
            if (interpreter->slots[slot] == sub->index) return interpreter->at[slot];
        return 0;
    }
    double values[3] = {0, 0, 0};
    for (int i = 0; i < sub->count; i++) values[i] = (double)fixed_index(interpreter, sub->args[i]);
    return (long)op_value(sub->op, values[0], values[1], values[2]);
}

View interpreter_view(Interpreter *interpreter, const Expr *operand) {
    const Tensor *tensor = operand->tensor;
    View view = {0};
    long strides[MAX_RANK], stride = 1, base = 0;
    for (int i = tensor->rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= tensor->axes[i]->size;
    }
    for (int i = 0; i < tensor->rank; i++) {
        const Expr *sub = operand->args[i];
        if (sub->kind == EXPR_INDEX && !sub->index->of_repeat) {
            view.index[view.rank] = sub->index;
            view.size[view.rank] = tensor->axes[i]->size;
            view.stride[view.rank++] = strides[i];
            continue;
        }
        long subscript = fixed_index(interpreter, sub);
        if (subscript < 0 || subscript >= tensor->axes[i]->size)
            interpreter->message = arena_format(
                interpreter->arena, "index %ld of %s is out of range", subscript, tensor->name);
        else
            base += subscript * strides[i];
    }
    view.real = interpreter->real[tensor->id] ? interpreter->real[tensor->id] + base : NULL;
    view.ints = interpreter->ints[tensor->id] ? interpreter->ints[tensor->id] + base : NULL;
    return view;
}
