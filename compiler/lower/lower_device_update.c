/* lower_device_update: the optimizer step as a kernel over all parameters. */
#include "analysis/parameter_facts.h"
#include "lower/lower_entry.h"

/* Elements per block. */
enum { SHARE = 8192 };

void lower_shares(Module *module, Update *update) {
    const BlockLayout *weights = &module->weights;
    long blocks = 0;
    update->each = update->step->launch.blocks ? 0 : SHARE; /* a separate grid: one block each */
    for (int i = 0; i < weights->tensors.count; i++) {
        const Tensor *tensor = weights->tensors.items[i];
        if (!is_trained(tensor) || tensor->whole) continue;
        const UpdateShare share = {tensor, blocks, weights->offsets[i] / 4, tensor_elements(tensor),
                                   module->groups[i]};
        list_copy(module->arena, &update->shares, &share, sizeof share);
        blocks += update->each ? ceil_div(share.count, update->each) : 1;
    }
    update->blocks = blocks ? blocks : 1;
}

/* Statements without elements come first and every thread computes them, unless more than one loop
 * over the elements follows. */
Launch lower_device_update_nests(EntryLowering *lowering, const Kernel *kernel) {
    Nest *root = kernel->root;
    Nest *last = root->children.items[root->children.count - 1];
    bool plain = !last->member && is_innermost(last);
    for (int i = 0; i + 1 < root->children.count; i++)
        plain &= ((Nest *)root->children.items[i])->member != NULL;
    LIST_EACH(const Local, local, &kernel->locals) plain &= !local->stored || local->scope != root;
    for (int i = 0; i < kernel->members.count; i++)
        plain &= ((Member *)kernel->members.items[i])->statement->reduction == REDUCE_NONE;
    if (!plain) return lower_device_block(&lowering->lower, root);
    for (int i = 0; i + 1 < root->children.count; i++)
        lower_member(&lowering->lower, ((Nest *)root->children.items[i])->member);
    return lower_device_nest(&lowering->lower, last);
}
