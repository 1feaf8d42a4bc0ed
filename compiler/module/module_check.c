/* module_check: finds faults in a module after a pass, and counts the terms that no rule decides.
 *
 *     for s = 0 .. 64                fault: bounds: 'x[s + 1]' has a subscript of 1 .. 64
 *         y[s] = x[s + 1]                   and 64 elements
 */
#include "module/module_check.h"

#include "base/table.h"

/* Scopes and types. */
static void check_forms(ModuleCheck *check) {
    for (int i = 0; i < check->module->kernels.count; i++) {
        check->kernel = check->module->kernels.items[i];
        if (!check->kernel->changed) continue;
        const char *wrong = form_check(check->module->arena, &check->kernel->form);
        if (wrong) fault_found(check, FAULT_SCOPE, "%s", wrong);
    }
    check->kernel = NULL;
}

/* The repeats of an entry, for kernels that are parts of launched ones. */
static void add_repeats(ModuleCheck *check, const List *steps) {
    LIST_EACH(const HostStep, step, steps) {
        if (step->kind == STEP_REPEAT && check->repeat_count < MAX_REPEATS)
            check->repeats[check->repeat_count++] =
                (RepeatIndex){step->repeat.index, step->repeat.count};
        add_repeats(check, &step->body);
    }
}

/* The stores of templates and the kernels of the optimizer, which no step launches by name. */
static void check_unlaunched(ModuleCheck *check) {
    LIST_EACH(const LoopKernel, kernel, &check->module->kernels) {
        const bool launched = kernel->entry && !kernel->form.is_store && !kernel->inside;
        if (launched || !kernel->changed) continue;
        check->entry = kernel->entry;
        check->repeat_count = 0;
        if (kernel->entry) add_repeats(check, &kernel->entry->steps);
        walk_kernel(check, kernel, kernel->launch);
        if (kernel->form.is_store) continue;
        check_writers(check);
        check_barriers(check);
    }
    check->entry = NULL;
    check->kernel = NULL;
}

static void check_all(ModuleCheck *check) {
    check_forms(check);
    for (int i = 0; i < check->module->entries.count; i++)
        check_entry(check, check->module->entries.items[i]);
    check_unlaunched(check);
}

/* Of its nodes and parameters, and of the properties that it must have. */
static uint64_t kernel_state(const Module *module, const LoopKernel *kernel) {
    uint64_t state = hash_word(HASH_START, module->properties);
    for (int i = 0; i < kernel->params.count; i++)
        state = hash_word(state, (uintptr_t)kernel->params.items[i]);
    return form_state(state, &kernel->form.block);
}

bool module_changed(const Module *module) {
    bool changed = false;
    LIST_EACH(LoopKernel, kernel, &module->kernels) {
        const uint64_t state = kernel_state(module, kernel);
        kernel->changed = state != kernel->state;
        kernel->state = state;
        changed |= kernel->changed;
    }
    return changed;
}

Fault module_check(const Module *module, Arena *scratch) {
    Fault fault = {0};
    ModuleCheck check = {.arena = scratch, .module = module, .fault = &fault};
    check_all(&check);
    arena_clear(scratch);
    return fault;
}

const char *module_unproven(const Module *module, Arena *scratch) {
    Fault fault = {0};
    Text lines = text_new(module->arena);
    for (int i = 0; i < module->kernels.count; i++)
        ((LoopKernel *)module->kernels.items[i])->changed = true;
    ModuleCheck check = {.arena = scratch, .module = module, .fault = &fault, .unproven = &lines};
    check_all(&check);
    arena_clear(scratch);
    text_add(&lines, "%d unproven\n", check.unproven_count);
    return lines.text;
}
