/* lower_kernel: a kernel of a schedule as a record of the module: its loops and parameters. */
#include "lower/lower_entry.h"

/* ---- sections ---- */

Section *add_section(Arena *arena, List *sections, Section section) {
    return list_copy(arena, sections, &section, sizeof section);
}

/* ---- names and parameters ---- */

void add_statements(Arena *arena, const Kernel *kernel, const Nest *nest, List *statements) {
    LIST_EACH(const Member, member, &kernel->members)
        if (!nest || nest == kernel->root || is_inside(member, nest))
            list_push(arena, statements, member->statement);
}

void merge_kernel(Arena *arena, Kernel *all, const Kernel *kernel) {
    list_append(arena, &all->members, &kernel->members);
    LIST_EACH(Local, local, &kernel->locals)
        if (!local_in(all, local->tensor)) list_push(arena, &all->locals, local);
}

/* A name with a unique number, after the last tensor that the kernel computes. */
static const char *kernel_name(EntryLowering *lowering, const Kernel *kernel, const Nest *nest) {
    List statements = {0};
    add_statements(lowering->lower.arena, kernel, nest, &statements);
    const Statement *last = statements.count ? statements.items[statements.count - 1] : NULL;
    return arena_format(lowering->lower.arena, "kernel_%s_%d_%s", lowering->entry->name,
                        lowering->entry->kernels++,
                        last ? lowering->lower.names[last->target->tensor->id] : "");
}

/* True if no other tensor of the kernel overlaps the memory. */
static bool lies_alone(const EntryLowering *lowering, const Tensor *tensor) {
    const Allocation *allocations = lowering->lower.schedule->allocations;
    if (allocations[tensor->id].over && lowering->lower.used[allocations[tensor->id].over->id])
        return false;
    for (int i = 0; allocations[tensor->id].taken && i < lowering->lower.program->tensors.count;
         i++)
        if (allocations[i].over == tensor && lowering->lower.used[i]) return false;
    return true;
}

void add_param(Arena *arena, List *params, Param param) {
    list_copy(arena, params, &param, sizeof param);
}

void add_operand_param(EntryLowering *lowering, List *params, const Expr *access, bool written) {
    add_param(lowering->lower.arena, params,
              (Param){.kind = PARAM_OPERAND,
                      .written = written,
                      .address = pointer_term(&lowering->lower, access)});
}

void add_params(EntryLowering *lowering, List *params) {
    const Lowering *lower = &lowering->lower;
    if (lower->uses_seed) add_param(lower->arena, params, (Param){.kind = PARAM_SEED});
    for (int i = 0; i < lower->repeats_used.count; i++)
        add_param(
            lower->arena, params,
            (Param){.kind = PARAM_INDEX,
                    .name = bound_index(lower, lower->repeats_used.items[i])->variable->name});
    for (int i = 0; i < lower->program->tensors.count; i++) {
        if (!lower->used[i]) continue;
        const Buffer *buffer = &lowering->entry->buffers[i];
        add_param(lower->arena, params,
                  (Param){.kind = PARAM_POINTER,
                          .name = buffer->name,
                          .buffer = buffer,
                          .written = lower->written[i],
                          .alone = lies_alone(lowering, buffer->tensor)});
        lowering->declared[i] = true;
    }
}

/* ---- kernels ---- */

/* A block of this size fits with any register count of the compiler, at most 255 of 65536 per
 * thread. A larger block needs launch bounds, or the launch may fail. */
enum { FREE_THREADS = 256 };

void add_loops(EntryLowering *lowering, LoopKernel *loops, const char *name) {
    const Lowering *lower = &lowering->lower;
    loops->form.name = name;
    loops->entry = lowering->entry;
    loops->form.work = lower->kernel->work;
    loops->form.is_store = lower->in_template;
    loops->form.around = names_around(lower);
    loops->target = lower->program->target;
    list_push(lower->arena, &lowering->module->kernels, loops);
}

LoopKernel *open_kernel(EntryLowering *lowering, Kernel *kernel) {
    LoopKernel *loops = arena_alloc(lowering->lower.arena, sizeof *loops);
    lowering->bindings = lowering->lower.binding_count;
    begin_kernel(&lowering->lower, kernel);
    lowering->lower.block = &loops->form.block;
    return loops;
}

void launch_kernel(EntryLowering *lowering, LoopKernel *loops, const Nest *nest) {
    Arena *arena = lowering->lower.arena;
    Module *module = lowering->module;
    const bool apart = lowering->target->apart;
    const char *name = kernel_name(lowering, lowering->lower.kernel, nest);
    add_statements(arena, lowering->lower.kernel, nest, &loops->statements);
    add_loops(lowering, loops, name);
    loops->bounded = loops->launch.threads > FREE_THREADS;
    add_section(arena, apart ? &module->device : &module->functions, (Section){.kernel = loops});
    if (apart) end_piece(module, device_kernel(lowering, name));
    lowering->lower.kernel = NULL;
    lowering->lower.used = lowering->declared;
    lowering->lower.binding_count = lowering->bindings;
    add_launch(lowering, name, loops->launch, &loops->params);
}

void lower_kernel(EntryLowering *lowering, Kernel *kernel) {
    LoopKernel *loops = open_kernel(lowering, kernel);
    lower_nests(&lowering->lower, kernel->root);
    add_params(lowering, &loops->params);
    launch_kernel(lowering, loops, NULL);
}
