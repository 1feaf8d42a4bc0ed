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

void lower_device_kernel(EntryLowering *lowering, Kernel *kernel) {
    LIST_EACH(const LaunchMap, map, &kernel->launches) {
        LoopKernel *loops = open_kernel(lowering, kernel);
        loops->launch = map->launch;
        lower_launch(&lowering->lower, map);
        add_params(lowering, &loops->params);
        if (map->form >= LAUNCH_PARTS_OF_SUMS)
            add_param(lowering->lower.arena, &loops->params,
                      (Param){.kind = PARAM_SCRATCH,
                              .type = T_F32,
                              .written = true,
                              .name = "moec_parts",
                              .offset = lowering->lower.schedule->arena_bytes});
        launch_kernel(lowering, loops, map->nest);
    }
}
