/* form_check: finds faults in a kernel after a pass.
 *
 *     for i = 0 .. 8                 error: 'j' is used outside of its scope
 *         y[j] = x[i]
 *
 * Every variable is used within the scope of its declaration. A variable that no node declares is
 * a parameter and has a fixed name. Terms have the types of term.def; loops run from an integer to
 * an integer; conditions are integers; a value is stored to an element of its kind.
 */
#include "loop/form.h"

typedef struct FormCheck {
    Arena *arena;
    const char *fault; /* the first one */
} FormCheck;

static void fault(FormCheck *check, const char *what, const Term *term) {
    if (!check->fault)
        check->fault = arena_format(check->arena, "'%s' %s", term_text(check->arena, term), what);
}

/* Sets the scope of all variables that the block declares. */
static void set_scopes(const FormBlock *block, VariableScope scope) {
    for (const FormNode *node = block->first; node; node = node->next) {
        if (node->name) node->name->variable->scope = scope;
        set_scopes(&node->body, scope);
    }
}

static void check_term(FormCheck *check, const Term *term) {
    if (term->op == TERM_NAME) {
        const Variable *variable = term->variable;
        if (variable->scope == SCOPE_OUTSIDE) fault(check, "is used outside of its scope", term);
        if (variable->scope == SCOPE_UNKNOWN && variable->wanted)
            fault(check, "is not declared", term);
    }
    for (int i = 0; i < term->count; i++) check_term(check, term->args[i]);
    if (!term_fits(term)) fault(check, "has a wrong type", term);
}

static void check_values(FormCheck *check, const FormNode *node) {
    for (int i = 0; i < NODE_VALUES; i++)
        if (node->values[i]) check_term(check, node->values[i]);
    const Term *value = node->values[0];
    if (node->kind == FORM_IF && !term_is_integer(value)) fault(check, "is no condition", value);
    for (int i = 0; i < NODE_VALUES && node->kind == FORM_FOR; i++)
        if (node->values[i] && !term_is_integer(node->values[i]))
            fault(check, "is no number of iterations", node->values[i]);
    if (node->kind == FORM_SET && !term_may_hold(value, node->values[1]))
        fault(check, "is set to a value of another type", value);
    if (node->kind == FORM_LET && value && !term_may_hold(node->name, value))
        fault(check, "is declared with a value of another type", node->name);
}

/* A group is no scope: barriers.c replaces it by its body. */
static void check_block(FormCheck *check, const FormBlock *block) {
    for (const FormNode *node = block->first; node; node = node->next) {
        check_values(check, node);
        if (node->name && node->name->variable->scope == SCOPE_INSIDE)
            fault(check, "is declared twice", node->name);
        if (node->name) node->name->variable->scope = SCOPE_INSIDE;
        check_block(check, &node->body);
        if (node->kind != FORM_GROUP) set_scopes(&node->body, SCOPE_OUTSIDE);
        if (node->kind == FORM_FOR) node->name->variable->scope = SCOPE_OUTSIDE;
    }
}

const char *form_check(Arena *arena, const KernelForm *form) {
    FormCheck check = {.arena = arena};
    set_scopes(&form->block, SCOPE_OUTSIDE);
    check_block(&check, &form->block);
    set_scopes(&form->block, SCOPE_UNKNOWN);
    return check.fault;
}
