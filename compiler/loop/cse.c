/* cse: what occurs more than once in a value is computed once.
 *
 *     y[d] = (x[d] - mean) * (x[d] - mean)     -->     let float part = x[d] - mean
 *                                                      y[d] = part * part
 */
#include "loop/form.h"

/* A few operations, those of subscripts as well, are worth a name. */
enum { MANY_OPERATIONS = 3 };

static bool is_worth_naming(const Term *part, const Term *value) {
    return part->value != NO_VALUE && term_count(value, part) > 1 &&
           (part->value == VALUE_LONG || term_operations(part) >= MANY_OPERATIONS);
}

/* The first part to name, from the inside out. */
static const Term *find_part(const Term *term, const Term *value) {
    const Term *found = NULL;
    for (int i = 0; i < term->count && term->value != VALUE_READ && !found; i++)
        found = find_part(term->args[i], value);
    return found ? found : is_worth_naming(term, value) ? term : NULL;
}

/* The value that a statement computes: not what it joins that to. */
static const Term *value_in(const Term *term) {
    const Term *found = term->value != NO_VALUE ? term : NULL;
    for (int i = 0; i < term->count && !found; i++) found = value_in(term->args[i]);
    return found;
}

/* Names come behind `before`; returns the last. */
static FormNode *name_in(Arena *arena, FormBlock *block, FormNode *before, const Term **place) {
    const Term *value = value_in(*place), *part, *now = value;
    while (now && (part = find_part(now, now)) != NULL) {
        before = form_insert(arena, block, before, FORM_LET);
        before->type = "const float";
        const char *wanted = part->of ? arena_format(arena, "%s_at", part->of) : "part";
        before->name = term_variable(arena, wanted);
        before->values[0] = part;
        now = term_replace(arena, now, part, before->name);
    }
    if (now != value) *place = term_replace(arena, *place, value, now);
    return before;
}

static void name_in_block(Arena *arena, FormBlock *block) {
    FormNode *before = NULL;
    for (FormNode *node = block->first; node; before = node, node = node->next) {
        bool guards = node->kind == FORM_IF && node->layout == ON_SAME_LINE;
        FormNode *inner = guards ? node->body.first : node;
        if (inner->kind == FORM_SET) name_in(arena, block, before, &inner->values[1]);
        if (inner->kind == FORM_LET && inner->values[0])
            name_in(arena, block, before, &inner->values[0]);
        if (!guards) name_in_block(arena, &node->body);
    }
}

void name_common(Arena *arena, KernelForm *form, const Target *target) {
    (void)target;
    name_in_block(arena, &form->block);
}
