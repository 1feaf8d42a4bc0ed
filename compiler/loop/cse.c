/* cse: computes a subexpression that occurs several times in a value, or in those of adjacent
 * statements, once.
 *
 *     y[d] = (x[d] - mean) * (x[d] - mean)     -->     let float part = x[d] - mean
 *     z[d] = w[d] / (x[d] - mean)                      y[d] = part * part
 *                                                      z[d] = w[d] / part
 */
#include "loop/form.h"

/* Minimum operations for a name, including those of subscripts. */
enum { MANY_OPERATIONS = 3 };

/* The value that a statement computes, without the term that it is added to. */
static const Term *value_in(const Term *term) {
    const Term *found = term->value != NO_VALUE ? term : NULL;
    for (int i = 0; i < term->count && !found; i++) found = value_in(term->args[i]);
    return found;
}

/* The store or the let of a node, possibly under a condition on the same line; NULL: neither. */
static FormNode *statement_of(FormNode *node) {
    if (node->kind == FORM_IF && node->layout == ON_SAME_LINE) node = node->body.first;
    bool computes = node->kind == FORM_SET || (node->kind == FORM_LET && node->values[0]);
    return computes ? node : NULL;
}

static const Term **computed_by(FormNode *statement) {
    return &statement->values[statement->kind == FORM_SET];
}

static bool changes(const FormNode *statement, const Term *part) {
    return statement->kind == FORM_SET && term_uses(part, term_stored(statement->values[0]));
}

/* The statement after this one if `part` still has the same value there; or NULL. */
static FormNode *next_with(const FormNode *node, const FormNode *statement, const Term *part) {
    return node->next && !changes(statement, part) ? statement_of(node->next) : NULL;
}

/* Counts `part` in the values of the nodes from this one on, as long as it has the same value; with
 * `by`, replaces it. */
static int occurrences(Arena *arena, FormNode *node, const Term *part, const Term *by) {
    int count = 0;
    for (FormNode *at = statement_of(node); at; at = next_with(node, at, part), node = node->next) {
        const Term **place = computed_by(at), *value = value_in(*place);
        if (!value) continue;
        count += term_count(value, part);
        if (by) *place = term_replace(arena, *place, value, term_replace(arena, value, part, by));
    }
    return count;
}

/* The first subexpression to name, innermost first. */
static const Term *find_part(const Term *term, FormNode *node) {
    const Term *found = NULL;
    for (int i = 0; i < term->count && term->value != VALUE_READ && !found; i++)
        found = find_part(term->args[i], node);
    if (found || term->value == NO_VALUE) return found;
    bool is_long = term->value == VALUE_LONG || term_operations(term) >= MANY_OPERATIONS;
    return is_long && occurrences(NULL, node, term, NULL) > 1 ? term : NULL;
}

/* Inserts names after `before`; returns the last. */
static FormNode *name_in(Arena *arena, FormBlock *block, FormNode *before, FormNode *node) {
    const Term **place = computed_by(statement_of(node)), *value, *part;
    while ((value = value_in(*place)) != NULL && (part = find_part(value, node)) != NULL) {
        before = form_insert(arena, block, before, FORM_LET);
        before->constant = true;
        before->name = term_variable(arena, part->type, term_wanted(arena, part, "part"));
        before->values[0] = part;
        occurrences(arena, node, part, before->name);
    }
    return before;
}

static void name_in_block(Arena *arena, FormBlock *block) {
    FormNode *before = NULL;
    for (FormNode *node = block->first; node; before = node, node = node->next) {
        if (statement_of(node))
            name_in(arena, block, before, node);
        else
            name_in_block(arena, &node->body);
    }
}

void name_common(Arena *arena, KernelForm *form, const Target *target) {
    (void)target;
    name_in_block(arena, &form->block);
}
