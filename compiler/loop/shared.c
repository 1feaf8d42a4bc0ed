/* shared: puts rows that threads of a block share into shared memory.
 *
 *     for iteration by blocks                   for iteration by blocks
 *         let row[64]                               let shared row[64]
 *         for s by threads             -->          for s by threads
 *             row[s] = ...                              row[s] = ...
 */
#include "loop/form.h"

static void find_rows(FormBlock *block, bool together) {
    for (FormNode *node = block->first; node; node = node->next) {
        if (node->kind == FORM_LET && node->head && node->size && together) node->shared = true;
        find_rows(&node->body, node->by == BY_ONE ? together : node->by == BY_BLOCKS);
    }
}

void shared_rows(Arena *arena, KernelForm *form, const Target *target) {
    (void)arena;
    if (target->launches && !form->is_store) find_rows(&form->block, true);
}
