/* owners: one thread stores a value that all threads of a block or column hold.
 *
 *     for iteration by blocks                   for iteration by blocks
 *         ...                                       ...
 *         store y[iteration] = sum     -->          if thread() == 0
 *                                                       store y[iteration] = sum
 *
 * Other threads may have read the old value and may read the new one. If other nodes of the kernel
 * access the memory, the store records its readers for the barriers.
 */
#include "loop/form.h"

const Term *column_owner(Arena *arena, const Term *from, const Term *column) {
    const Term *thread = term(arena, TERM_THREAD);
    return term(arena, TERM_AND, term(arena, TERM_LT, thread, term_whole(arena, 32)),
                term(arena, TERM_EQ, term(arena, TERM_ADD, from, thread), column));
}

/* The condition for the storing thread, or NULL: each thread stores its own value. loop: whose
 * iterations the threads share, or NULL. */
static const Term *owner_of(Arena *arena, const FormNode *loop) {
    if (!loop || loop->by == BY_BLOCKS) return first_thread(arena);
    if (loop->by != BY_COLUMNS) return NULL;
    return column_owner(arena, loop->name, loop->body.first->name);
}

/* Puts a store under the condition. */
static FormNode *guard_store(Arena *arena, FormNode *node, const Term *owner) {
    FormNode *store = arena_alloc(arena, sizeof *store);
    *store = *node;
    store->next = NULL;
    *node = (FormNode){.kind = FORM_IF,
                       .values = {owner},
                       .layout = ON_SAME_LINE,
                       .body = {.first = store, .last = store},
                       .next = node->next};
    return node;
}

static void find_stores(Arena *arena, FormBlock *block, const FormNode *loop) {
    const Term *owner = owner_of(arena, loop);
    for (FormNode *node = block->first; node; node = node->next) {
        bool guarded = node->kind == FORM_IF && node->layout == ON_SAME_LINE;
        FormNode *store = guarded ? node->body.first : node;
        bool again = store->again;
        if (!store->stores) {
            find_stores(arena, &node->body, node->by != BY_ONE ? node : loop);
        } else if (!owner) {
            if (again) store->seen = SEEN_LATER;
        } else {
            if (guarded)
                node->values[0] = term(arena, TERM_AND, owner, node->values[0]);
            else
                guard_store(arena, node, owner);
            if (again) node->seen = SEEN_AT_ONCE;
        }
    }
}

void owners(Arena *arena, KernelForm *form, const Target *target) {
    if (target->launches && !form->is_store) find_stores(arena, &form->block, NULL);
}
