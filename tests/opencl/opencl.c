/* opencl: parallel CPU loops as OpenCL kernels.
 *
 *     for t = 0 .. 96 parallel                  for t = get_global_id(0) .. 96 step get_global_size(0)
 *         y[t] = x[t] * 2               -->         y[t] = x[t] * 2
 *
 * A kernel that is one such loop runs in all work groups. Any other kernel runs in one group, with a barrier after each
 * parallel loop. Outside of these loops every work item computes the values, and the first one stores them.
 */
#include "opencl.h"

#include "lower/lower_entry.h"
#include "print/print.h"

enum { GROUP = 64, GROUPS = 16 };

static bool is_parallel(const FormNode *node) {
    return node->kind == FORM_FOR && node->run & RUN_PARALLEL;
}

static bool has_parallel(const FormBlock *block) {
    for (const FormNode *node = block->first; node; node = node->next)
        if (is_parallel(node) || has_parallel(&node->body)) return true;
    return false;
}

/* Values that every work item computes, then one parallel loop. */
static bool is_one_loop(const FormBlock *block) {
    const FormNode *node = block->first;
    while (node && node->kind == FORM_LET && !node->size) node = node->next;
    return node && is_parallel(node) && !node->next;
}

static void share_loop(Arena *arena, FormNode *loop, bool groups) {
    loop->values[0] = term_name(arena, T_I64, groups ? "get_global_id(0)" : "get_local_id(0)");
    loop->values[2] = term_name(arena, T_I64, groups ? "get_global_size(0)" : "get_local_size(0)");
    loop->run = 0;
}

/* Only the first item of the group stores. */
static FormNode *by_first(Arena *arena, FormNode *store) {
    FormBlock block = {0};
    FormNode *condition = form_add(arena, &block, FORM_IF);
    condition->values[0] = 
        term(arena, TERM_EQ, term_name(arena, T_I64, "get_local_id(0)"), term_whole(arena, 0));
    condition->layout = ON_SAME_LINE;
    condition->body.first = condition->body.last = store;
    return condition;
}

/* Outside of parallel loops: the memory belongs to the group, and one item stores. */
static void share_block(Arena *arena, FormBlock *block, int depth) {
    FormNode *node = block->first, *next;
    *block = (FormBlock){0};
    for (; node; node = next) {
        bool parallel = is_parallel(node);
        bool stores = node->kind == FORM_SET && node->values[0]->op != TERM_NAME;
        next = node->next;
        node->next = NULL;
        if (parallel)
            share_loop(arena, node, false);
        else
            share_block(arena, &node->body, depth + 1);
        if (node->kind == FORM_LET && !depth && node->size && !node->values[0])
            node->shared = true; /* printed as __shared__ */
        if (stores) node = by_first(arena, node);
        form_append(block, &(FormBlock){.first = node, .last = node});
        if (parallel || stores) form_add(arena, block, FORM_BARRIER);
    }
}

/* Distributes the loops of a kernel. */
static OpenclKernel *share(Arena *arena, LoopKernel *loops) {
    OpenclKernel *made = arena_alloc(arena, sizeof *made);
    FormBlock *block = &loops->form.block;
    parallel(arena, &loops->form, loops->target);
    made->group = has_parallel(block) ? GROUP : 1;
    made->items = made->group;
    if (is_one_loop(block)) {
        made->items *= GROUPS;
        share_loop(arena, block->last, true);
    } else {
        share_block(arena, block, 0);
    }
    hoist(arena, &loops->form, loops->target);
    name_common(arena, &loops->form, loops->target);
    name_variables(arena, &loops->form, loops->target);
    made->name = loops->form.name;
    for (int i = 0; i < loops->params.count; i++)
        list_push(arena, &made->tensors,
                  (void *)(uintptr_t)((Param *)loops->params.items[i])->buffer->tensor);
    return made;
}

static const LowerTarget target_opencl = {.kernel = lower_kernel, .apart = true};

static const PrintStyle style = {.function = "__kernel void",
                                 .memory = "__global ",
                                 .alone = "restrict ",
                                 .address = "",
                                 .begin = ""};

const char *emit_opencl(Arena *arena, Schedule *schedule, List *kernels) {
    for (int i = 0; i < schedule->units.count; i++)
        if (((ScheduleUnit *)schedule->units.items[i])->kind != UNIT_KERNEL) return NULL;
    Module *module = module_for(arena, &schedule, 1, &target_opencl, TARGET_HOSTED, false);
    for (int i = 0; i < module->kernels.count; i++)
        list_push(arena, kernels, share(arena, module->kernels.items[i]));
    Text text = {.arena = arena};
    print_sizes(&text, &module->sizes, true);
    print_functions(&text, &(const PrintContext){module, &style}, &module->device, NULL, NULL);
    return text.text;
}
