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

/* The condition for the storing thread, or NULL: each thread stores its own value. */
static const Term *owner_of(Arena *arena, FormBy by) {
    if (by == BY_ONE || by == BY_BLOCKS) return term(arena, "moec_thread() == 0");
    if (by != BY_COLUMNS) return NULL;
    return term(arena, "moec_thread() < 32 && moec_from + moec_thread() == iteration");
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

static void find_stores(Arena *arena, FormBlock *block, FormBy by) {
    const Term *owner = owner_of(arena, by);
    for (FormNode *node = block->first; node; node = node->next) {
        bool guarded = node->kind == FORM_IF && node->layout == ON_SAME_LINE;
        FormNode *store = guarded ? node->body.first : node;
        bool again = store->again;
        if (!store->stores) {
            find_stores(arena, &node->body, node->by != BY_ONE ? node->by : by);
        } else if (!owner) {
            if (again) store->seen = SEEN_LATER;
        } else {
            if (guarded)
                node->values[0] = term(arena, "$0 && $1", owner, node->values[0]);
            else
                guard_store(arena, node, owner);
            if (again) node->seen = SEEN_AT_ONCE;
        }
    }
}

void owners(Arena *arena, KernelForm *form, const Target *target) {
    if (target->launches && !form->is_store) find_stores(arena, &form->block, BY_ONE);
}
