/* barriers: adds barriers where a thread of a block reads a value that another one stores.
 *
 *     group                                     barrier
 *         for s = thread() .. 64                for s = thread() .. 64
 *             row[s] = x[s] * 2                     row[s] = x[s] * 2
 *     for s = thread() .. 64            -->     barrier
 *         y[s] = row[63 - s]                    for s = thread() .. 64
 *                                                   y[s] = row[63 - s]
 *
 * The first barrier waits for threads that still read the old values. Leaves no group.
 */
#include "loop/form.h"

static bool shows(const FormBlock *block) {
    for (const FormNode *node = block->first; node; node = node->next)
        if (node->seen == SEEN_LATER || shows(&node->body)) return true;
    return false;
}

static void add_barrier(Arena *arena, FormBlock *block) {
    if (!block->last || block->last->kind != FORM_BARRIER) form_add(arena, block, FORM_BARRIER);
}

static void wait_in(Arena *arena, FormBlock *block) {
    FormNode *node = block->first, *next;
    *block = (FormBlock){.outer = block->outer};
    for (; node; node = next) {
        bool group = node->kind == FORM_GROUP;
        bool seen = node->seen == SEEN_AT_ONCE || (group && shows(&node->body));
        next = node->next;
        node->next = NULL;
        if (seen) add_barrier(arena, block);
        wait_in(arena, &node->body);
        form_append(block, group ? &node->body : &(FormBlock){.first = node, .last = node});
        if (seen) add_barrier(arena, block);
    }
}

void barriers(Arena *arena, KernelForm *form, const Target *target) {
    (void)target;
    wait_in(arena, &form->block);
}
