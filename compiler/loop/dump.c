/* dump: the lowered form as text, one node per line, bodies indented. */
#include "loop/form.h"

static void dump_for(Text *text, const FormNode *node) {
    Arena *arena = text->arena;
    text_add(text, "for %s %s = %s .. %s", term_type_name(node->name->type),
             term_text(arena, node->name), term_text(arena, node->values[0]),
             term_text(arena, node->values[1]));
    if (node->values[3]) text_add(text, " while %s", term_text(arena, node->values[3]));
    if (node->values[2]) text_add(text, " step %s", term_text(arena, node->values[2]));
    if (node->width > 1) text_add(text, " step %d", node->width);
    if (node->by) text_add(text, " by %s", loop_by_names[node->by]);
    if (node->run & RUN_PARALLEL) text_add(text, " parallel");
    if (node->run & RUN_VECTOR) text_add(text, " vector");
    if (node->run & RUN_UNROLLED) text_add(text, " unrolled");
    if (node->run & RUN_ROLLED) text_add(text, " rolled");
}

static void dump_set(Text *text, const FormNode *node) {
    static const char *const signs[] = {"=", "+=", "max=", "min="};
    const Term *target = node->values[0];
    text_add(text, "%s %s %s %s",
             node->scatters            ? "scatter"
             : target->op == TERM_NAME ? "set"
                                       : "store",
             term_text(text->arena, target), signs[node->reduces],
             term_text(text->arena, node->values[1]));
}

static void dump_node(Text *text, const FormNode *node) {
    const char *value = node->values[0] ? term_text(text->arena, node->values[0]) : "";
    switch (node->kind) {
    case FORM_FOR:
        dump_for(text, node);
        break;
    case FORM_LET:
        text_add(text, "let%s%s %s%s %s%s%s", node->optional ? "?" : "",
                 node->shared ? " shared" : "", node->constant ? "const " : "",
                 term_type_name(node->name->type), declared_text(text->arena, node),
                 *value ? " = " : "", value);
        break;
    case FORM_SET:
        dump_set(text, node);
        break;
    case FORM_IF:
        text_add(text, "if %s", value);
        break;
    case FORM_SCOPE:
        text_add(text, "scope");
        break;
    case FORM_GROUP:
        text_add(text, "group");
        break;
    case FORM_BARRIER:
        text_add(text, "barrier");
        break;
    case FORM_DO:
        text_add(text, "do %s", value);
        break;
    }
}

static void dump_block(Text *text, const FormBlock *block, int indent) {
    for (const FormNode *node = block->first; node; node = node->next) {
        text_add(text, "%*s", 2 * indent, "");
        dump_node(text, node);
        text_add(text, "\n");
        dump_block(text, &node->body, indent + 1);
    }
}

void dump_form(Text *text, KernelForm *form) {
    name_variables(text->arena, form, NULL);
    text_add(text, "%s:\n", form->name);
    dump_block(text, &form->block, 1);
}
