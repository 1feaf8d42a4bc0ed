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

/* Every thread computes the statements before the loop over the elements. */
Launch lower_device_update_nests(EntryLowering *lowering, const Kernel *kernel) {
    const LaunchMap *map = kernel->launches.items[0];
    for (int i = 0; map->nest != kernel->root && i + 1 < kernel->root->children.count; i++)
        lower_member(&lowering->lower, ((Nest *)kernel->root->children.items[i])->member);
    if (map->form == LAUNCH_BLOCK)
        lower_device_block(&lowering->lower, map->nest);
    else
        lower_outer_loops(&lowering->lower, map->nest);
    return map->launch;
}
