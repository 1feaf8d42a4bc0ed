/* check_launch: launches, products and operands of the host program: the limits of the machine, the
 * arguments against the parameters, the elements that a product reads and writes against the sizes
 * of its buffers. */
#include "module/module_check.h"

#include <string.h>

/* Limits of a block on every supported GPU: threads, static and dynamic shared memory in bytes. */
enum { WARP = 32, MAX_THREADS = 1024, MAX_STATIC = 48 << 10, MAX_SHARED = 227 << 10 };

/* ---- kernels ---- */

static long block_shared_bytes(const FormBlock *block) {
    long bytes = 0;
    for (const FormNode *node = block->first; node; node = node->next) {
        if (node->kind == FORM_LET && node->shared)
            bytes += node->size * (node->name->type == T_F64 ? 8 : 4);
        bytes += block_shared_bytes(&node->body);
    }
    return bytes;
}

static bool same_param(const Param *a, const Param *b) {
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case PARAM_POINTER:
        return a->buffer == b->buffer;
    case PARAM_INDEX:
        return strcmp(a->name, b->name) == 0;
    case PARAM_SCRATCH:
        return a->offset == b->offset;
    default:
        return true;
    }
}

static void check_arguments(ModuleCheck *check, const LaunchStep *launch,
                            const LoopKernel *kernel) {
    if (launch->arguments.count != kernel->params.count) {
        fault_found(check, FAULT_LAUNCH, "%d arguments for %d parameters of %s",
                    launch->arguments.count, kernel->params.count, launch->kernel);
        return;
    }
    for (int i = 0; i < kernel->params.count; i++)
        if (!same_param(launch->arguments.items[i], kernel->params.items[i]))
            fault_found(check, FAULT_LAUNCH, "argument %d of %s is that of another parameter",
                        i + 1, launch->kernel);
}

static bool is_in_repeat(const ModuleCheck *check, const char *index) {
    for (int i = 0; i < check->repeat_count; i++)
        if (strcmp(check->repeats[i].name, index) == 0) return true;
    return false;
}

static void check_machine(ModuleCheck *check, const char *kernel, Launch launch, long shared) {
    if (launch.blocks < 1 || launch.threads < WARP || launch.threads > MAX_THREADS ||
        launch.threads % WARP)
        fault_found(check, FAULT_LAUNCH, "%s is launched with %ld blocks of %d threads", kernel,
                    launch.blocks, launch.threads);
    if (shared > MAX_SHARED)
        fault_found(check, FAULT_LAUNCH, "%s needs %ld bytes of shared memory", kernel, shared);
}

void check_launch(ModuleCheck *check, const LaunchStep *launch, const LoopKernel *kernel) {
    const bool device = check->entry->program->target->launches;
    LIST_EACH(const Param, argument, &launch->arguments)
        if (argument->kind == PARAM_INDEX && !is_in_repeat(check, argument->name))
            fault_found(check, FAULT_SCOPE, "'%s' is an argument of %s outside of its repeat",
                        argument->name, launch->kernel);
    if (device) check_machine(check, launch->kernel, launch->launch, launch->shared);
    if (!kernel) return;
    check_arguments(check, launch, kernel);
    if (!device) return;
    if (launch->launch.blocks != kernel->launch.blocks ||
        launch->launch.threads != kernel->launch.threads)
        fault_found(check, FAULT_LAUNCH,
                    "%s is launched with %ld blocks of %d threads, not %ld of %d", launch->kernel,
                    launch->launch.blocks, launch->launch.threads, kernel->launch.blocks,
                    kernel->launch.threads);
    const long bytes = block_shared_bytes(&kernel->form.block);
    if (bytes > MAX_STATIC)
        fault_found(check, FAULT_LAUNCH, "%s has %ld bytes of shared arrays", launch->kernel,
                    bytes);
}

/* ---- products and operands ---- */

/* From the address on, the access covers that many elements. */
static void check_extent(ModuleCheck *check, const Operand *operand, long extent) {
    if (!operand) return;
    const Term *array = term_stored(operand->address);
    const long elements = memory_elements(check, array);
    const Interval offset = operand->address->op == TERM_ADDRESS
                                ? interval_of(check, operand->address->args[1])
                                : (Interval){0, 0, 0, true};
    if (elements < 0) return;
    if (!offset.certain)
        term_unproven(check, FAULT_BOUNDS, operand->address);
    else if (offset.low < 0 || offset.high + extent > elements)
        fault_found(check, FAULT_BOUNDS, "%ld elements from '%s' on exceed its %ld elements",
                    extent, term_text(check->module->arena, operand->address), elements);
}

static long product_extent(const Product *product, long rows, long row, long columns, long column,
                           const long batch[2]) {
    return (rows - 1) * row + (columns - 1) * column + (product->batch[0] - 1) * batch[0] +
           (product->batch[1] - 1) * batch[1] + 1;
}

static void check_product(ModuleCheck *check, const HostStep *step, int row) {
    const Product *product = check->module->products.items[row];
    const List *operands = &step->operands;
    check_extent(check, operands->items[0],
                 product_extent(product, product->m, product->a_m, product->k, product->a_k,
                                product->a_batch));
    check_extent(check, operands->items[1],
                 product_extent(product, product->k, product->b_k, product->n, product->b_n,
                                product->b_batch));
    check_extent(
        check, operands->items[2],
        product_extent(product, product->m, product->c_m, product->n, 1, product->c_batch));
    check_extent(check, operands->items[3], (product->m - 1) * product->add_m + product->n);
    check_extent(check, operands->items[4], product->n);
    check_extent(check, operands->items[5], (product->m - 1) * product->kept_m + product->n);
}

void check_step_operands(ModuleCheck *check, const HostStep *step) {
    check->known_count = check->fact_count = 0;
    if (step->kind == STEP_PRODUCT) {
        check_product(check, step, step->product.row);
        if (step->product.begins) check_product(check, step, step->product.row + 1);
        if (step->product.first.count) check_product(check, step, step->product.more);
        return;
    }
    LIST_EACH(const Operand, operand, &step->operands)
        if (operand && (operand->address->op == TERM_NAME || operand->address->op == TERM_ADDRESS))
            check_extent(check, operand, 1);
}
