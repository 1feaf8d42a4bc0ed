/* emit_nodes: nodes of the lowered form, added where the emitter stands. */
#include "codegen/emit.h"

void lower_let(Emitter *emitter, const char *type, const char *name, const Term *value) {
    FormNode *node = form_add(emitter->arena, emitter->block, FORM_LET);
    node->type = type;
    node->name = name;
    node->values[0] = value;
}

void lower_place(Emitter *emitter, const char *name, const Term *value) {
    lower_let(emitter, "const long", name, value);
    emitter->block->last->optional = true;
}

void lower_array(Emitter *emitter, const char *type, const char *name, long size,
                 const char *initial) {
    const char *array = arena_format(emitter->arena, "%s[%ld]", name, size);
    lower_let(emitter, type, array, initial ? term_number(emitter->arena, initial) : NULL);
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

FormNode *lower_for(Emitter *emitter, const char *type, const char *name, const Term *from,
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

FormNode *lower_count(Emitter *emitter, const char *type, const char *name, long size,
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

static void keep_form(Emitter *emitter, const char *name, const FormBlock *body) {
    KernelForm *form = arena_alloc(emitter->arena, sizeof *form);
    *form = (KernelForm){name, *body};
    list_push(emitter->arena, emitter->forms, form);
}

void finish_form(Emitter *emitter, const char *name, FormBlock *body, Text *text, int indent) {
    if (emitter->forms) {
        keep_form(emitter, name, body);
        return;
    }
    for (int i = 0; i < form_pass_count; i++)
        form_passes[i].run(emitter->arena, body, emitter->program->target);
    print_block(text, body, indent);
}
