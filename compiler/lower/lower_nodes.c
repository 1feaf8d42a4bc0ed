/* lower_nodes: adds nodes of the lowered form to the current block. */
#include "lower/lower.h"

FormNode *lower_let(Lowering *lower, const Term *name, const Term *value) {
    FormNode *node = form_add(lower->arena, lower->block, FORM_LET);
    node->name = name;
    node->values[0] = value;
    return node;
}

FormNode *lower_constant(Lowering *lower, const Term *name, const Term *value) {
    FormNode *node = lower_let(lower, name, value);
    node->constant = true;
    return node;
}

FormNode *lower_head(Lowering *lower, const Term *name, const Term *value) {
    FormNode *node = lower_constant(lower, name, value);
    node->head = true;
    return node;
}

void lower_place(Lowering *lower, const Term *name, const Term *value) {
    lower_head(lower, name, value)->optional = true;
}

FormNode *lower_array(Lowering *lower, const Term *name, long size, const Term *initial) {
    FormNode *node = lower_let(lower, name, initial);
    node->size = size;
    return node;
}

FormNode *lower_join(Lowering *lower, const Term *target, Reduction reduction, const Term *value) {
    FormNode *node = form_add(lower->arena, lower->block, FORM_SET);
    node->values[0] = target;
    node->reduces = reduction;
    node->values[1] = value;
    return node;
}

void lower_set(Lowering *lower, const Term *target, const Term *value) {
    lower_join(lower, target, REDUCE_NONE, value);
}

FormNode *lower_do(Lowering *lower, const Term *call) {
    FormNode *node = form_add(lower->arena, lower->block, FORM_DO);
    node->values[0] = call;
    return node;
}

void lower_barrier(Lowering *lower) {
    form_add(lower->arena, lower->block, FORM_BARRIER);
}

FormNode *lower_for(Lowering *lower, const Term *name, const Term *from, const Term *to,
                    const Term *step) {
    FormNode *node = form_add(lower->arena, lower->block, FORM_FOR);
    node->name = name;
    node->values[0] = from;
    node->values[1] = to;
    node->values[2] = step;
    lower->block = &node->body;
    return node;
}

FormNode *lower_shared(Lowering *lower, const Term *name, const Term *to, LoopBy by) {
    FormNode *node = lower_for(lower, name, whole(lower, 0), to, NULL);
    node->by = by;
    return node;
}

FormNode *lower_count(Lowering *lower, const Term *name, long size, FormLayout layout) {
    FormNode *node = lower_for(lower, name, whole(lower, 0), whole(lower, size), NULL);
    node->layout = layout;
    return node;
}

FormNode *lower_if(Lowering *lower, const Term *condition, FormLayout layout) {
    FormNode *node = form_add(lower->arena, lower->block, FORM_IF);
    node->values[0] = condition;
    node->layout = layout;
    lower->block = &node->body;
    return node;
}

void lower_scope(Lowering *lower, FormKind kind) {
    lower->block = &form_add(lower->arena, lower->block, kind)->body;
}

void lower_end(Lowering *lower) {
    lower->block = lower->block->outer;
}

const Term *whole(Lowering *lower, long number) {
    return term_whole(lower->arena, number);
}
