/* lower_update: the optimizer's program as two functions: the step of one parameter, and the
 * learning-rate factor.
 *
 * Both are single kernels; the caller passes the arrays of the program.
 */
#include "analysis/parameter_facts.h"
#include "lower/lower_entry.h"

#include <string.h>

/* Marks the statements that a target needs, from last to first. */
static void need(Program *program, const Statement *statement, bool *needed) {
    List reads = {0};
    reads_of(program->arena, statement, &reads);
    for (int i = 0; i < reads.count; i++) needed[((Expr *)reads.items[i])->tensor->id] = true;
}

/* The statements of the learning rate, or all other needed ones; scalars first, because they depend
 * on numbers only. */
static List statements_of(Program *program, bool rate) {
    const List *all = &program->body.statements;
    bool *needed =
        arena_alloc(program->arena, ((size_t)program->tensors.count + 1) * sizeof *needed);
    bool *taken = arena_alloc(program->arena, ((size_t)all->count + 1) * sizeof *taken);
    for (int i = all->count - 1; i >= 0; i--) {
        const Statement *statement = all->items[i];
        const Tensor *target = statement->target->tensor;
        bool root = rate ? target->role == ROLE_OUTPUT
                         : target->role == ROLE_PARAMETER || target->role == ROLE_STATE ||
                               target->role == ROLE_ROUNDED;
        taken[i] = root || needed[target->id];
        if (taken[i]) need(program, statement, needed);
    }
    List list = {0};
    for (int rank = 0; rank < 2; rank++)
        for (int i = 0; i < all->count; i++) {
            Statement *statement = all->items[i];
            if (taken[i] && statement->target->tensor->rank == rank)
                list_push(program->arena, &list, statement);
        }
    return list;
}

static Kernel *kernel_of(EntryLowering *lowering, const List *statements) {
    Program *program = lowering->lower.program;
    size_t tensors = (size_t)program->tensors.count + 1;
    Kernel *kernel = arena_alloc(lowering->lower.arena, sizeof *kernel);
    Kernel **users = arena_alloc(lowering->lower.arena, tensors * sizeof *users);
    for (int i = 0; i < program->tensors.count; i++) users[i] = kernel;
    for (int i = 0; i < statements->count; i++)
        if (!nest_add(program, kernel, statements->items[i], false))
            nest_add(program, kernel, statements->items[i], true);
    choose_locals(program, kernel, users);
    map_kernel(program, kernel);
    begin_kernel(&lowering->lower, kernel);
    return kernel;
}

static EntryLowering *part_of(Module *module, Program *program, const LowerTarget *target,
                              LoopKernel *body) {
    Arena *arena = module->arena;
    EntryLowering *lowering = arena_alloc(arena, sizeof *lowering);
    lowering->lower.arena = arena;
    lowering->lower.program = program;
    lowering->module = module;
    lowering->target = target;
    lowering->lower.schedule = arena_alloc(arena, sizeof *lowering->lower.schedule);
    lowering->lower.schedule->allocations =
        arena_alloc(arena, ((size_t)program->tensors.count + 1) *
                               sizeof *lowering->lower.schedule->allocations);
    lowering->lower.block = &body->form.block;
    name_tensors(&lowering->lower);
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        if (tensor->role == ROLE_PARAMETER) lowering->lower.names[i] = "weight";
        if (tensor->role == ROLE_INPUT && tensor->rank == 1) lowering->lower.names[i] = "gradient";
    }
    return lowering;
}

static bool is_scalar(const Tensor *tensor) {
    return tensor->role == ROLE_INPUT && tensor->rank == 0;
}

static void add_update_array(EntryLowering *lowering, List *arrays, const Tensor *tensor,
                             int index) {
    const UpdateArray array = {tensor, lowering->lower.names[tensor->id], index};
    list_copy(lowering->lower.arena, arrays, &array, sizeof array);
}

static void lower_rate(Module *module, Program *program, Update *update) {
    const Target *target = program->target;
    program->target = &target_processor; /* the host calls it */
    EntryLowering *lowering = part_of(module, program, &lower_host, update->rate);
    update->rate_statements = statements_of(program, true);
    const Kernel *kernel = kernel_of(lowering, &update->rate_statements);
    if (kernel->root) lower_nests(&lowering->lower, kernel->root);
    add_loops(lowering, update->rate, "update_rate");
    program->target = target;
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        if (tensor->role == ROLE_OUTPUT || (is_scalar(tensor) && lowering->lower.used[i]))
            add_update_array(lowering, &update->rate_arrays, tensor, 0);
    }
}

/* Scalars of the step are those in use, states all of them. */
static void declare_arrays(EntryLowering *lowering, Update *update) {
    for (int i = 0; i < lowering->lower.program->tensors.count; i++) {
        Tensor *tensor = lowering->lower.program->tensors.items[i];
        const bool used = lowering->lower.used[i];
        List *inputs = is_scalar(tensor) && used    ? &update->scalars
                       : tensor->role == ROLE_STATE ? &update->states
                                                    : NULL;
        if (used && (inputs || tensor->role == ROLE_ROUNDED))
            add_update_array(lowering, &update->arrays, tensor, inputs ? inputs->count : 0);
        if (inputs) list_push(lowering->lower.arena, inputs, tensor);
    }
}

/* ---- settings of single parameters ---- */

static double own_number(const Tensor *parameter, const Tensor *scalar) {
    if (scalar->scalar == MOEC_SCALAR_RATE && !is_trained(parameter)) return 0;
    const OwnNumber *own = tensor_own(parameter, scalar->name);
    if (own) return own->value;
    return scalar->scalar == MOEC_SCALAR_MATRIX ? is_matrix(parameter) : scalar->init.a;
}

/* Groups parameters with equal settings and the same clip group. */
static void group_parameters(Module *module, Update *update) {
    const List *all = &module->weights.tensors, *scalars = &update->scalars;
    int width = scalars->count, groups = 0;
    int *clips = arena_alloc(module->arena, ((size_t)all->count + 1) * sizeof *clips);
    module->groups = arena_alloc(module->arena, ((size_t)all->count + 1) * sizeof *module->groups);
    update->settings =
        arena_alloc(module->arena, ((size_t)(all->count * width) + 1) * sizeof *update->settings);
    for (int i = 0; i < all->count; i++) {
        float *row = update->settings + (size_t)(groups * width);
        int group = 0, clip = ((const Tensor *)all->items[i])->clip_group;
        for (int j = 0; j < width; j++)
            row[j] = (float)own_number(all->items[i], scalars->items[j]);
        while (group < groups &&
               (clips[group] != clip || memcmp(update->settings + (size_t)(group * width), row,
                                               (size_t)width * sizeof *row) != 0))
            group++;
        module->groups[i] = group;
        clips[group] = clip;
        if (group == groups) groups++;
    }
    update->groups = groups ? groups : 1;
}

Launch lower_update_nests(EntryLowering *lowering, const Kernel *kernel) {
    lower_nests(&lowering->lower, kernel->root);
    return (Launch){0};
}

/* Adds a store of the new weights as bf16: rounded[e] = weight[e]. */
static void add_rounded(Program *program) {
    Tensor *weight = NULL;
    LIST_EACH(Tensor, tensor, &program->tensors) {
        if (tensor->role == ROLE_ROUNDED) return; /* already added */
        if (tensor->role == ROLE_PARAMETER) weight = tensor;
    }
    Tensor *copy =
        tensor_new(program, "rounded", ROLE_ROUNDED, TYPE_BF16, 1, weight->axes, weight->span);
    copy->of = weight;
    Index *index = index_over(program, weight->axes[0]);
    statement_assign(program, &program->body, expr_read_indices(program, copy, &index),
                     expr_read_indices(program, weight, &index), weight->span);
}

void lower_update(Module *module, const LowerTarget *target, Program *program) {
    Arena *arena = module->arena;
    if (module->rounded) add_rounded(program);
    Update *update = arena_alloc(arena, sizeof *update);
    update->step = arena_alloc(arena, sizeof *update->step);
    update->rate = arena_alloc(arena, sizeof *update->rate);
    EntryLowering *lowering = part_of(module, program, target, update->step);
    update->statements = statements_of(program, false);
    const Kernel *kernel = kernel_of(lowering, &update->statements);
    update->step->launch = (Launch){1, 32};
    if (kernel->root) update->step->launch = target->nests(lowering, kernel);
    declare_arrays(lowering, update);
    add_loops(lowering, update->step, "update_step");
    group_parameters(module, update);
    lower_rate(module, program, update);
    module->update = update;
    add_section(arena, &module->functions, (Section){.update = update});
    if (!target->apart) return;
    lower_shares(module, update);
    list_push(arena, &module->device_kernels, (void *)(uintptr_t) "update_step");
    add_section(arena, &module->device, (Section){.update = update});
    end_piece(module, "update_step");
}
