/* unused: removes loop indices that are not read.
 *
 *     let? long b = iteration / 4                   let long s = iteration % 4
 *     let? long s = iteration % 4         -->       store y[s] = x[s]
 *     store y[s] = x[s]
 */
#include "loop/form.h"

static bool is_used(const FormNode *first, const Term *name) {
    const FormBlock rest = {.first = (FormNode *)(uintptr_t)first};
    return form_uses(&rest, name);
}

static void drop_unused(FormBlock *block);

/* From last to first, because an index may be used only by another unused one. */
static FormNode *without_unused(FormNode *node) {
    if (!node) return NULL;
    node->next = without_unused(node->next);
    drop_unused(&node->body);
    if (node->optional && !is_used(node->next, node->name)) return node->next;
    node->optional = false;
    return node;
}

static void drop_unused(FormBlock *block) {
    block->first = without_unused(block->first);
    block->last = block->first;
    while (block->last && block->last->next) block->last = block->last->next;
}

void unused(Arena *arena, KernelForm *form, const Target *target) {
    (void)arena, (void)target;
    drop_unused(&form->block);
}
