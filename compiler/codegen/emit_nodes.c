/* emit_nodes: nodes of the lowered form, added where the emitter stands. */
#include "codegen/emit.h"

FormNode *lower_let(Emitter *emitter, const char *type, const Term *name, const Term *value) {
    FormNode *node = form_add(emitter->arena, emitter->block, FORM_LET);
    node->type = type;
    node->name = name;
    node->values[0] = value;
    return node;
}

void lower_place(Emitter *emitter, const Term *name, const Term *value) {
    FormNode *node = lower_let(emitter, "const long", name, value);
    node->head = node->optional = true;
}

void lower_head(Emitter *emitter, const char *type, const char *name, const Term *value) {
    lower_let(emitter, type, named(emitter, name), value)->head = true;
}

FormNode *lower_array(Emitter *emitter, const char *type, const Term *name, long size,
                      const char *initial) {
    const Term *value = initial ? term_number(emitter->arena, initial) : NULL;
    FormNode *node = lower_let(emitter, type, name, value);
    node->size = size;
    return node;
}

FormNode *lower_join(Emitter *emitter, const Term *target, Reduction reduction, const Term *value) {
    FormNode *node = form_add(emitter->arena, emitter->block, FORM_SET);
    node->values[0] = target;
    node->reduces = reduction;
    node->values[1] = value;
    return node;
}

void lower_set(Emitter *emitter, const Term *target, const Term *value) {
    lower_join(emitter, target, REDUCE_NONE, value);
}

FormNode *lower_do(Emitter *emitter, const Term *call) {
    FormNode *node = form_add(emitter->arena, emitter->block, FORM_DO);
    node->values[0] = call;
    return node;
}

void lower_barrier(Emitter *emitter) {
    form_add(emitter->arena, emitter->block, FORM_BARRIER);
}

FormNode *lower_for(Emitter *emitter, const char *type, const Term *name, const Term *from,
                    const Term *to, const Term *step) {
    FormNode *node = form_add(emitter->arena, emitter->block, FORM_FOR);
    node->type = type;
    node->name = name;
    node->values[0] = from;
    node->values[1] = to;
    node->values[2] = step;
    emitter->block = &node->body;
    return node;
}

FormNode *lower_shared(Emitter *emitter, const Term *name, const Term *to, FormBy by) {
    FormNode *node = lower_for(emitter, "long", name, whole(emitter, 0), to, NULL);
    node->by = by;
    return node;
}

FormNode *lower_count(Emitter *emitter, const char *type, const Term *name, long size,
                      FormLayout layout) {
    Arena *arena = emitter->arena;
    FormNode *node =
        lower_for(emitter, type, name, term_whole(arena, 0), term_whole(arena, size), NULL);
    node->layout = layout;
    return node;
}

FormNode *lower_if(Emitter *emitter, const Term *condition, FormLayout layout) {
    FormNode *node = form_add(emitter->arena, emitter->block, FORM_IF);
    node->values[0] = condition;
    node->layout = layout;
    emitter->block = &node->body;
    return node;
}

void lower_scope(Emitter *emitter, FormKind kind) {
    emitter->block = &form_add(emitter->arena, emitter->block, kind)->body;
}

void lower_end(Emitter *emitter) {
    emitter->block = emitter->block->outer;
}

const Term *named(Emitter *emitter, const char *name) {
    return term_name(emitter->arena, name);
}

const Term *whole(Emitter *emitter, long number) {
    return term_whole(emitter->arena, number);
}

static KernelForm *form_of(Emitter *emitter, const char *name, const FormBlock *body) {
    KernelForm *form = arena_alloc(emitter->arena, sizeof *form);
    *form = (KernelForm){.name = name,
                         .work = emitter->kernel->work,
                         .is_store = emitter->in_template,
                         .block = *body,
                         .around = names_around(emitter)};
    return form;
}

void finish_form(Emitter *emitter, const char *name, FormBlock *body, Text *text, int indent) {
    KernelForm *form = form_of(emitter, name, body);
    if (emitter->forms) {
        list_push(emitter->arena, emitter->forms, form);
        return;
    }
    for (int i = 0; i < form_pass_count; i++)
        form_passes[i].run(emitter->arena, form, emitter->program->target);
    name_variables(emitter->arena, form);
    print_block(text, &form->block, indent);
}
