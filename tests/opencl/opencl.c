/* opencl: parallel CPU loops as OpenCL kernels.
 *
 *     for t = 0 .. 96 parallel                  for t = get_global_id(0) .. 96 step get_global_size(0)
 *         y[t] = x[t] * 2               -->         y[t] = x[t] * 2
 *
 * A kernel that is one such loop runs in all work groups. Any other kernel runs in one group, with barriers around each
 * parallel loop. Outside of these loops every work item computes the values, and the first one stores them.
 */
#include "opencl.h"

#include "lower/lower_entry.h"
#include "passes.h"
#include "print/print.h"

#include <string.h>

enum { GROUP = 64, GROUPS = 16 };

static const char *const keywords[] = {"half", "kernel", "global", "local", "constant", "uint", "image", "pipe", NULL};

/* Products and attention are loops; even small kernels are parallel. */
const Target target_opencl = {.name = "opencl", .keywords = keywords, .small_work = 1000, .part_bytes = 1 << 20, .row_room = 4096};

/* ---- loops ---- */

static bool is_parallel(const FormNode *node) {
    return node->kind == FORM_FOR && node->run & RUN_PARALLEL;
}

static bool has_parallel(const FormBlock *block) {
    for (const FormNode *node = block->first; node; node = node->next)
        if (is_parallel(node)) return true;
    return false;
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
    condition->values[0] = term(arena, TERM_EQ, term_name(arena, T_I64, "get_local_id(0)"), term_whole(arena, 0));
    condition->layout = ON_SAME_LINE;
    condition->body.first = condition->body.last = store;
    return condition;
}

/* True for a store to memory, or to an array of the group. own: the arrays of single items. */
static bool stores(const FormNode *node, const List *own) {
    if (node->kind != FORM_SET || node->values[0]->op == TERM_NAME) return false;
    const Term *stored = term_stored(node->values[0]);
    for (int i = 0; i < own->count; i++)
        if (term_equal(own->items[i], stored)) return false;
    return true;
}

static void add_barrier(Arena *arena, FormBlock *block) {
    if (block->last && block->last->kind != FORM_BARRIER) form_add(arena, block, FORM_BARRIER);
}

/* Outside of parallel loops: arrays of the kernel belong to the group, and one item stores. */
static void share_block(Arena *arena, FormBlock *block, bool outermost, List *own) {
    FormNode *node = block->first, *next;
    *block = (FormBlock){.outer = block->outer};
    for (; node; node = next) {
        const bool alone = is_parallel(node) || stores(node, own);
        next = node->next;
        node->next = NULL;
        if (is_parallel(node))
            share_loop(arena, node, false);
        else
            share_block(arena, &node->body, false, own);
        if (node->kind == FORM_LET && node->size) node->shared = outermost && !node->values[0]; /* printed as __shared__ */
        if (node->kind == FORM_LET && node->size && !node->shared) list_push(arena, own, (void *)(uintptr_t)node->name);
        if (stores(node, own)) node = by_first(arena, node);
        if (alone) add_barrier(arena, block);
        form_append(block, &(FormBlock){.first = node, .last = node});
        if (alone) add_barrier(arena, block);
    }
}

/* Distributes the loops of a kernel. */
static void share(Arena *arena, LoopKernel *loops) {
    FormBlock *block = &loops->form.block;
    List own = {0};
    parallel(arena, &loops->form, loops->target);
    const bool one = is_parallel(block->first) && !block->first->next;
    loops->launch = launch_of(one ? GROUPS : 1, has_parallel(block) ? GROUP : 1);
    if (one)
        share_loop(arena, block->first, true);
    else if (loops->launch.threads > 1)
        share_block(arena, block, true, &own);
    hoist(arena, &loops->form, loops->target);
    name_common(arena, &loops->form, loops->target);
    unused(arena, &loops->form, loops->target);
    name_variables(arena, &loops->form, loops->target);
}

/* ---- the program ---- */

static void set_launches(const Module *module, const List *steps) {
    for (int i = 0; i < steps->count; i++) {
        HostStep *step = steps->items[i];
        set_launches(module, &step->body);
        for (int j = 0; step->kind == STEP_LAUNCH && j < module->kernels.count; j++) {
            const LoopKernel *kernel = module->kernels.items[j];
            if (!strcmp(kernel->form.name, step->launch.kernel)) step->launch.launch = kernel->launch;
        }
    }
}

static bool has_only_loops(const List *units) {
    for (int i = 0; i < units->count; i++) {
        const ScheduleUnit *unit = units->items[i];
        if (unit->kind != UNIT_KERNEL && unit->kind != UNIT_REPEAT) return false;
        if (!has_only_loops(&unit->body)) return false;
    }
    return true;
}

static const LowerTarget lower_opencl = {.kernel = lower_kernel, .apart = true};

static const PrintStyle style = {.function = "__kernel void",
                                 .seed = "ulong moec_seed",
                                 .memory = "__global ",
                                 .alone = "restrict ",
                                 .address = "",
                                 .begin = "",
                                 .seed_begin = ""};

Module *shared_module(Arena *arena, Schedule *schedule) {
    Module *module = module_for(arena, &schedule, 1, &lower_opencl, TARGET_HOSTED, false);
    for (int i = 0; i < module->kernels.count; i++) share(arena, module->kernels.items[i]);
    set_launches(module, &((const Entry *)module->entries.items[0])->steps);
    return module;
}

bool emit_opencl(Arena *arena, Schedule *schedule, OpenclProgram *made) {
    if (!has_only_loops(&schedule->units)) return false;
    Module *module = shared_module(arena, schedule);
    made->entry = module->entries.items[0];
    made->steps = entry_steps(arena, module, made->entry);
    Text text = {.arena = arena};
    print_sizes(&text, &module->sizes, true);
    print_functions(&text, &(const PrintContext){module, &style, NULL}, &module->device, NULL, NULL);
    made->kernels = text.text;
    return true;
}
