/* lower_device_kernel: a kernel of a schedule as GPU kernels, one for each nest, and the lines that
 * launch them.
 *
 *     (* y[b,s,d] = x[b,s,d] * scale[d]      norm.moe:7 *)
 *     extern "C" __global__ void kernel_train_3(long i, const float *x, ...)
 *
 *     moec_launch(run, kernel_train_3, 512, 256, MOEC_ARGUMENTS(&i, &x, &y));
 */
#include "lower/lower_entry.h"
#include "schedule/nest.h"

#include <stdint.h>

const char *device_kernel(EntryLowering *lowering, const char *name) {
    Module *module = lowering->module;
    if (device_kernel_number(module, name) == module->device_kernels.count)
        list_push(module->arena, &module->device_kernels, (void *)(uintptr_t)name);
    return name;
}

void end_piece(Module *module, const char *kernel) {
    Section *last = module->device.items[module->device.count - 1];
    last->ends = true;
    last->number = kernel ? device_kernel_number(module, kernel) : MOEC_EVERY_KERNEL;
}

static void lower_launch(Lowering *lower, const LaunchMap *map) {
    switch (map->form) {
    case LAUNCH_BLOCK:
        lower_device_block(lower, map->nest);
        break;
    case LAUNCH_LOOPS:
        lower_outer_loops(lower, map->nest);
        break;
    case LAUNCH_SUM_PARTS:
        lower_parts_of_sums(lower, map->nest);
        break;
    case LAUNCH_PART_SUMS:
        lower_sums_of_parts(lower, map->nest);
        break;
    case LAUNCH_COLUMN_PARTS:
        lower_parts_of_columns(lower, map->nest);
        break;
    case LAUNCH_COLUMN_SUMS:
        lower_sums_of_columns(lower, map->nest);
        break;
    case LAUNCH_ADDED_ROWS:
        lower_added_rows(lower, map);
        break;
    case LAUNCH_LISTED_ROWS:
    case LAUNCH_SEARCHED_ROWS:
    case LAUNCH_SEARCHED_TERMS:
        lower_scatter(lower, map);
    }
}

void lower_device_kernel(EntryLowering *lowering, Kernel *kernel) {
    LIST_EACH(const LaunchMap, map, &kernel->launches) {
        LoopKernel *loops = open_kernel(lowering, kernel);
        loops->launch = map->launch;
        lower_launch(&lowering->lower, map);
        add_params(lowering, &loops->params);
        if (map->form >= LAUNCH_SUM_PARTS)
            add_param(lowering->lower.arena, &loops->params,
                      (Param){.kind = PARAM_SCRATCH,
                              .type = T_F32,
                              .written = true,
                              .name = "moec_parts",
                              .offset = lowering->lower.schedule->arena_bytes});
        launch_kernel(lowering, loops, map->nest);
    }
}
