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

typedef enum Part {
    WHOLE_KERNEL,
    ONE_NEST,
    PARTS_OF_SUMS, /* and later values: with partial sums in separate memory */
    SUMS_OF_PARTS,
    PARTS_OF_COLUMNS,
    SUMS_OF_COLUMNS
} Part;

static Launch lower_nest_part(EntryLowering *lowering, Part part, Nest *nest) {
    switch (part) {
    case WHOLE_KERNEL:
        break;
    case ONE_NEST:
        return lower_device_nest(&lowering->lower, nest);
    case PARTS_OF_SUMS:
        lower_parts_of_sums(&lowering->lower, nest);
        return launch_of_parts();
    case SUMS_OF_PARTS:
        return lower_sums_of_parts(&lowering->lower, nest);
    case PARTS_OF_COLUMNS:
        return lower_parts_of_columns(&lowering->lower, nest);
    case SUMS_OF_COLUMNS:
        return lower_sums_of_columns(&lowering->lower, nest);
    }
    return lower_device_block(&lowering->lower, nest);
}

static void lower_kernel_part(EntryLowering *lowering, Kernel *kernel, Part part, Nest *nest) {
    LoopKernel *loops = open_kernel(lowering, kernel);
    loops->launch = lower_nest_part(lowering, part, nest);
    add_params(lowering, &loops->params);
    if (part >= PARTS_OF_SUMS)
        add_param(lowering->lower.arena, &loops->params,
                  (Param){.kind = PARAM_SCRATCH,
                          .type = T_F32,
                          .written = true,
                          .name = "moec_parts",
                          .offset = lowering->lower.schedule->arena_bytes});
    launch_kernel(lowering, loops, nest);
}

/* The first part of a nest. */
static Part part_of(EntryLowering *lowering, Kernel *kernel, Nest *nest) {
    lowering->lower.kernel = kernel;
    Part part = sums_in_two(&lowering->lower, nest)      ? PARTS_OF_SUMS
                : columns_in_two(&lowering->lower, nest) ? PARTS_OF_COLUMNS
                                                         : ONE_NEST;
    lowering->lower.kernel = NULL;
    return part;
}

/* True if nests can be launched separately: only memory connects them. */
static bool are_apart(const Kernel *kernel) {
    for (int i = 0; i < kernel->root->children.count; i++)
        if (((Nest *)kernel->root->children.items[i])->member) return false;
    for (int i = 0; i < kernel->locals.count; i++)
        if (((Local *)kernel->locals.items[i])->scope == kernel->root) return false;
    return true;
}

/* True if one block would run long iterations of a nest with one thread each. */
static bool wants_blocks(const Kernel *kernel) {
    for (int i = 0; i < kernel->root->children.count; i++)
        if (shares_iterations(kernel, kernel->root->children.items[i])) return true;
    return false;
}

void lower_device_kernel(EntryLowering *lowering, Kernel *kernel) {
    bool small = kernel->work < small_work(lowering->lower.program);
    if (!are_apart(kernel) || (small && !wants_blocks(kernel))) {
        lower_kernel_part(lowering, kernel, WHOLE_KERNEL, kernel->root);
        return;
    }
    LIST_EACH(Nest, nest, &kernel->root->children) {
        Part part = small ? ONE_NEST : part_of(lowering, kernel, nest);
        lower_kernel_part(lowering, kernel, part, nest);
        if (part != ONE_NEST) lower_kernel_part(lowering, kernel, part + 1, nest);
    }
}
