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

void lower_set(Emitter *emitter, const Term *target, const char *sign, const Term *value) {
    FormNode *node = form_add(emitter->arena, emitter->block, FORM_SET);
    node->values[0] = target;
    node->text = sign;
    node->values[1] = value;
}

void lower_do(Emitter *emitter, const Term *call) {
    form_add(emitter->arena, emitter->block, FORM_DO)->values[0] = call;
}

void lower_hint(Emitter *emitter, const char *text) {
    form_add(emitter->arena, emitter->block, FORM_HINT)->text = text;
}

void lower_barrier(Emitter *emitter) {
    const FormNode *last = emitter->block->last;
    if (!last || last->kind != FORM_BARRIER) form_add(emitter->arena, emitter->block, FORM_BARRIER);
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

void lower_count(Emitter *emitter, const char *type, const char *name, long size,
                 FormLayout layout) {
    Arena *arena = emitter->arena;
    FormNode *node =
        lower_for(emitter, type, name, term_whole(arena, 0), term_whole(arena, size), NULL);
    node->layout = layout;
}

void lower_if(Emitter *emitter, const Term *condition, FormLayout layout) {
    FormNode *node = form_add(emitter->arena, emitter->block, FORM_IF);
    node->values[0] = condition;
    node->layout = layout;
    emitter->block = &node->body;
}

void lower_scope(Emitter *emitter) {
    emitter->block = &form_add(emitter->arena, emitter->block, FORM_SCOPE)->body;
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

void finish_form(Emitter *emitter, const char *name, FormBlock *body, Text *text, int indent) {
    unused(body);
    print_block(text, body, indent);
    if (!emitter->forms) return;
    text_add(emitter->forms, "%s:\n", name);
    dump_block(emitter->forms, body, 1);
}
