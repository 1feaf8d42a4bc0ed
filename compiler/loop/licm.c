/* licm: hoists subscripts and scalars that are read out of the loops that do not change them, as
 * far out as possible.
 *
 *     for s = 0 .. 64                           for s = 0 .. 64
 *         for d = 0 .. 8                            let long tokens_at = (long)tokens[s]
 *             y[s * 8 + d] =          -->           for d = 0 .. 8
 *                 x[tokens[s] * 8 + d]                  y[s * 8 + d] = x[tokens_at * 8 + d]
 *
 * Hoists only terms marked by the lowering, and none that the kernel writes.
 */
#include "loop/form.h"

/* ---- changes ---- */

static void find_written(Arena *arena, const FormBlock *block, List *written) {
    for (const FormNode *node = block->first; node; node = node->next) {
        const Term *call = node->kind == FORM_DO ? node->values[0] : NULL;
        if (node->kind == FORM_LET && !node->optional)
            list_push(arena, written, (void *)(uintptr_t)node->name);
        if (node->kind == FORM_SET)
            list_push(arena, written, (void *)(uintptr_t)term_stored(node->values[0]));
        for (int i = 0; call && i < call->count; i++)
            list_push(arena, written, (void *)(uintptr_t)term_stored(call->args[i]));
        find_written(arena, &node->body, written);
    }
}

/* True if a node from `first` on declares a variable that the term uses. */
static bool is_made_inside(const FormNode *first, const Term *term) {
    for (const FormNode *node = first; node; node = node->next)
        if ((node->name && term_uses(term, node->name)) || is_made_inside(node->body.first, term))
            return true;
    return false;
}

/* ---- hoisting ---- */

typedef struct Search {
    Arena *arena;
    const List *written; /* Term * */
    const FormNode *first;
    TermInvariant wanted;
} Search;

static bool may_move(const Search *search, const Term *term) {
    for (int i = 0; i < search->written->count; i++)
        if (term_uses(term, search->written->items[i])) return false;
    return !is_made_inside(search->first, term);
}

/* Innermost terms first: an expression of an element then uses the hoisted element. */
static const Term *find_in_term(const Search *search, const Term *term) {
    const Term *found = NULL;
    for (int i = 0; i < term->count && !found; i++) found = find_in_term(search, term->args[i]);
    if (found || term->invariant != search->wanted || !may_move(search, term)) return found;
    return term;
}

static const Term *find(const Search *search, const FormNode *first) {
    const Term *found = NULL;
    for (const FormNode *node = first; node && !found; node = node->next) {
        for (int i = 0; i < NODE_VALUES && !found; i++)
            if (node->values[i]) found = find_in_term(search, node->values[i]);
        if (!found) found = find(search, node->body.first);
    }
    return found;
}

/* In statement order; reads first, because their value is then the same in all uses. */
static void hoist_to(Search *search, FormBlock *block) {
    FormNode *at = NULL;
    for (FormNode *node = block->first; node && node->head; node = node->next) at = node;
    for (int i = READ_ONCE; i <= COMPUTED_ONCE; i++) {
        const Term *found;
        search->wanted = (TermInvariant)i;
        while (search->first = at ? at->next : block->first,
               (found = find(search, search->first)) != NULL) {
            FormNode *let = form_insert(search->arena, block, at, FORM_LET);
            let->constant = true;
            let->name =
                term_variable(search->arena, found->type, term_wanted(search->arena, found, "at"));
            form_replace(search->arena, let->next, found, let->name);
            let->values[0] = found;
            at = let;
        }
    }
}

static void hoist_inside(Search *search, FormBlock *block) {
    for (FormNode *node = block->first; node; node = node->next) {
        if (node->kind == FORM_FOR) hoist_to(search, &node->body);
        hoist_inside(search, &node->body);
    }
}

/* The only loop of a GPU kernel has few iterations per thread; nothing is hoisted out of it. */
static bool is_one_loop(const KernelForm *form) {
    const FormNode *node = form->block.first;
    while (node && node->kind == FORM_LET) node = node->next;
    return node && node->kind == FORM_FOR && !node->next;
}

void hoist(Arena *arena, KernelForm *form, const Target *target) {
    List written = {0};
    find_written(arena, &form->block, &written);
    Search search = {.arena = arena, .written = &written};
    if (!form->is_store && (!target->launches || !is_one_loop(form)))
        hoist_to(&search, &form->block);
    hoist_inside(&search, &form->block);
}
