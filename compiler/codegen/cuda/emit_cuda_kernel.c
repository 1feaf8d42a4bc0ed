/* emit_cuda_kernel: a kernel of a schedule as GPU kernels, one for each nest, and the lines that
 * launch them.
 *
 *     (* y[b,s,d] = x[b,s,d] * scale[d]      norm.moe:7 *)
 *     extern "C" __global__ void kernel_train_3(long i, const float *__restrict__ x, ...)
 *
 *     moec_launch(run, kernel_train_3, 512, 256, MOEC_ARGUMENTS(&i, &x, &y));
 */
#include "codegen/emit.h"
#include "schedule/nest.h"

#include <stdint.h>
#include <string.h>

/* The number of a kernel; the count of kernels if it has none yet. */
static int number_of(const Module *module, const char *kernel) {
    int number = 0;
    while (number < module->device_kernels.count &&
           strcmp(module->device_kernels.items[number], kernel) != 0)
        number++;
    return number;
}

const char *device_kernel(Emitter *emitter, const char *name) {
    Module *module = emitter->module;
    if (number_of(module, name) == module->device_kernels.count)
        list_push(module->arena, &module->device_kernels, (void *)(uintptr_t)name);
    return name;
}

void end_piece(Module *module, const char *kernel) {
    Section *last = module->device.items[module->device.count - 1];
    last->ends = true;
    last->number = kernel ? number_of(module, kernel) : MOEC_EVERY_KERNEL;
}

typedef enum Part {
    WHOLE_KERNEL,
    ONE_NEST,
    PARTS_OF_SUMS, /* and later values: with partial sums in separate memory */
    SUMS_OF_PARTS,
    PARTS_OF_COLUMNS,
    SUMS_OF_COLUMNS
} Part;

static Launch emit_nest(Emitter *emitter, Part part, Nest *nest) {
    switch (part) {
    case WHOLE_KERNEL:
        break;
    case ONE_NEST:
        return lower_device_nest(&emitter->lower, nest);
    case PARTS_OF_SUMS:
        lower_parts_of_sums(&emitter->lower, nest);
        return launch_of_parts();
    case SUMS_OF_PARTS:
        return lower_sums_of_parts(&emitter->lower, nest);
    case PARTS_OF_COLUMNS:
        return lower_parts_of_columns(&emitter->lower, nest);
    case SUMS_OF_COLUMNS:
        return lower_sums_of_columns(&emitter->lower, nest);
    }
    return lower_device_block(&emitter->lower, nest);
}

static void emit_part(Emitter *emitter, Kernel *kernel, Part part, Nest *nest) {
    LoopKernel *loops = open_kernel(emitter, kernel);
    loops->launch = emit_nest(emitter, part, nest);
    add_params(emitter, &loops->params);
    if (part >= PARTS_OF_SUMS)
        add_param(emitter->lower.arena, &loops->params,
                  (Param){.kind = PARAM_SCRATCH,
                          .type = T_F32,
                          .written = true,
                          .name = "moec_parts",
                          .offset = emitter->lower.schedule->arena_bytes});
    launch_kernel(emitter, loops, nest);
}

/* The first part of a nest. */
static Part part_of(Emitter *emitter, Kernel *kernel, Nest *nest) {
    emitter->lower.kernel = kernel;
    Part part = sums_in_two(&emitter->lower, nest)      ? PARTS_OF_SUMS
                : columns_in_two(&emitter->lower, nest) ? PARTS_OF_COLUMNS
                                                        : ONE_NEST;
    emitter->lower.kernel = NULL;
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
static bool wants_blocks(Emitter *emitter, Kernel *kernel) {
    bool wants = false;
    emitter->lower.kernel = kernel;
    for (int i = 0; i < kernel->root->children.count; i++)
        wants |= shares_iterations(&emitter->lower, kernel->root->children.items[i]);
    emitter->lower.kernel = NULL;
    return wants;
}

void emit_cuda_kernel(Emitter *emitter, Kernel *kernel) {
    bool small = kernel->work < small_work(emitter->lower.program);
    if (!are_apart(kernel) || (small && !wants_blocks(emitter, kernel))) {
        emit_part(emitter, kernel, WHOLE_KERNEL, kernel->root);
        return;
    }
    for (int i = 0; i < kernel->root->children.count; i++) {
        Nest *nest = kernel->root->children.items[i];
        Part part = small ? ONE_NEST : part_of(emitter, kernel, nest);
        emit_part(emitter, kernel, part, nest);
        if (part != ONE_NEST) emit_part(emitter, kernel, part + 1, nest);
    }
}
