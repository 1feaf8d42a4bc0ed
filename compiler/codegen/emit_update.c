/* emit_update: the optimizer's program as two functions: the step of one parameter, and the
 * learning-rate factor.
 *
 * Both are single kernels; the caller passes the arrays of the program.
 */
#include "analysis/parameter_facts.h"
#include "codegen/emit.h"

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

static Kernel *kernel_of(Emitter *emitter, const List *statements) {
    Program *program = emitter->lower.program;
    size_t tensors = (size_t)program->tensors.count + 1;
    Kernel *kernel = arena_alloc(emitter->lower.arena, sizeof *kernel);
    Kernel **users = arena_alloc(emitter->lower.arena, tensors * sizeof *users);
    for (int i = 0; i < program->tensors.count; i++) users[i] = kernel;
    for (int i = 0; i < statements->count; i++)
        if (!nest_add(program, kernel, statements->items[i], false))
            nest_add(program, kernel, statements->items[i], true);
    choose_locals(program, kernel, users);
    begin_kernel(&emitter->lower, kernel);
    return kernel;
}

static Emitter *part_of(Module *module, Program *program, const EmitTarget *target,
                        LoopKernel *body) {
    Arena *arena = module->arena;
    Emitter *emitter = arena_alloc(arena, sizeof *emitter);
    emitter->lower.arena = arena;
    emitter->lower.program = program;
    emitter->module = module;
    emitter->target = target;
    emitter->lower.schedule = arena_alloc(arena, sizeof *emitter->lower.schedule);
    emitter->lower.schedule->allocations = arena_alloc(
        arena, ((size_t)program->tensors.count + 1) * sizeof *emitter->lower.schedule->allocations);
    emitter->lower.block = &body->form.block;
    body->indent = 1;
    name_tensors(&emitter->lower, emitter->target->apart);
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        if (tensor->role == ROLE_PARAMETER) emitter->lower.names[i] = "weight";
        if (tensor->role == ROLE_INPUT && tensor->rank == 1) emitter->lower.names[i] = "gradient";
    }
    return emitter;
}

static bool is_scalar(const Tensor *tensor) {
    return tensor->role == ROLE_INPUT && tensor->rank == 0;
}

static void emit_rate(Module *module, Program *program) {
    Arena *arena = module->arena;
    Text out = {.arena = arena};
    LoopKernel *body = arena_alloc(arena, sizeof *body);
    const Target *target = program->target;
    program->target = &target_processor; /* the host calls it */
    Emitter *emitter = part_of(module, program, &target_c, body);
    List statements = statements_of(program, true);
    const Kernel *kernel = kernel_of(emitter, &statements);
    if (kernel->root) lower_nests(&emitter->lower, kernel->root);
    add_loops(emitter, body, "update_rate");
    program->target = target;
    const char *result = "1";
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        if (is_scalar(tensor) && emitter->lower.used[i])
            print_format(&out, 1, "const float %s[1] = {(float)%s};", emitter->lower.names[i],
                         tensor->scalar == MOEC_SCALAR_SCHEDULE_STEP ? "step" : "steps");
        if (tensor->role != ROLE_OUTPUT) continue;
        result = arena_format(arena, "(double)%s[0]", emitter->lower.names[i]);
        print_format(&out, 1, "float %s[1];", emitter->lower.names[i]);
    }
    Section *section =
        add_text(arena, &module->functions,
                 "/* Learning-rate factor at zero-based `step` of `steps`. */\n"
                 "static double update_rate(double step, double steps)\n{\n    (void)step, "
                 "(void)steps;\n%s" LOOPS_HERE "    return %s;\n}\n\n",
                 out.length ? out.text : "", result);
    list_push(arena, &section->loops, body);
}

static void declare_arrays(Emitter *emitter, Text *text, Update *update) {
    for (int i = 0; i < emitter->lower.program->tensors.count; i++) {
        Tensor *tensor = emitter->lower.program->tensors.items[i];
        const char *name = emitter->lower.names[i];
        bool used = emitter->lower.used[i];
        if (is_scalar(tensor) && used) {
            print_format(text, 1, "const float *const %s = scalars + %d;", name,
                         update->scalars.count);
            list_push(emitter->lower.arena, &update->scalars, tensor);
        } else if (tensor->role == ROLE_ROUNDED && used) {
            print_format(text, 1, "MoecBf16 *const %s = moec_rounded%s;", name,
                         emitter->target->apart ? " + moec_from" : "");
        } else if (tensor->role == ROLE_STATE) {
            if (used)
                print_format(text, 1, "float *const %s = state[%d];", name, update->states.count);
            list_push(emitter->lower.arena, &update->states, tensor);
        }
    }
}

static void add_names(Arena *arena, Text *text, const char *array, const List *tensors) {
    if (!tensors->count) return;
    text_add(text, "static const char *const %s[] = {", array);
    for (int i = 0; i < tensors->count; i++)
        text_add(text, "%s%s", i ? ", " : "", quoted(arena, ((Tensor *)tensors->items[i])->path));
    text_add(text, "};\n");
}

static void add_scalars(Arena *arena, Text *text, const List *scalars) {
    if (!scalars->count) return;
    text_add(text, "static const MoecUpdateScalar update_scalars[] = {\n");
    for (int i = 0; i < scalars->count; i++) {
        const Tensor *scalar = scalars->items[i];
        text_add(text, "    {%s, %s},\n", scalar_text(scalar->scalar), quoted(arena, scalar->path));
    }
    text_add(text, "};\n");
}

static void add_equations(Text *text, const List *statements) {
    Arena *arena = text->arena;
    text_add(text, "%s", "");
    for (int i = 0; i < statements->count; i++) {
        const Statement *statement = statements->items[i];
        text_add(text, "%s %s   -- %s%s\n", i ? "  " : "/*", print_statement(arena, statement),
                 line_of(arena, statement->span), i == statements->count - 1 ? " */" : "");
    }
}

/* ---- settings of single parameters ---- */

static double own_number(const Module *module, const Tensor *parameter, const Tensor *scalar) {
    if (scalar->scalar == MOEC_SCALAR_RATE && !is_trained(parameter)) return 0;
    for (int i = 0; i < parameter->own.count; i++) {
        const OwnNumber *own = parameter->own.items[i];
        if (!strcmp(own->name, scalar->name)) return own->value;
    }
    return scalar->scalar == MOEC_SCALAR_MATRIX ? tensor_info(module->arena, parameter, 0).matrix
                                                : scalar->init.a;
}

/* Groups parameters with equal settings. Returns the number of groups; *own: their settings. */
static int group_parameters(Module *module, const List *scalars, float **own) {
    const List *all = &module->weights.tensors;
    int width = scalars->count, groups = 0;
    module->groups = arena_alloc(module->arena, ((size_t)all->count + 1) * sizeof *module->groups);
    *own = arena_alloc(module->arena, ((size_t)(all->count * width) + 1) * sizeof **own);
    for (int i = 0; i < all->count; i++) {
        float *row = *own + (size_t)(groups * width);
        int group = 0;
        for (int j = 0; j < width; j++)
            row[j] = (float)own_number(module, all->items[i], scalars->items[j]);
        while (group < groups &&
               memcmp(*own + (size_t)(group * width), row, (size_t)width * sizeof *row) != 0)
            group++;
        module->groups[i] = group;
        if (group == groups) groups++;
    }
    return groups ? groups : 1;
}

static void add_own(Text *text, const float *own, int groups, const List *scalars) {
    text_add(text, "/* Settings per parameter group:");
    for (int i = 0; i < scalars->count; i++)
        text_add(text, "%s %s", i ? "," : "", ((Tensor *)scalars->items[i])->path);
    text_add(text, ". */\nstatic const float update_own[] = {\n");
    for (int i = 0; i < groups; i++) {
        text_add(text, "   ");
        for (int j = 0; j < scalars->count; j++)
            text_add(text, " %.9g,", (double)own[i * scalars->count + j]);
        text_add(text, "%s\n", scalars->count ? "" : " 0,");
    }
    text_add(text, "};\n\n");
}

Launch emit_update_nests(Emitter *emitter, const Kernel *kernel) {
    lower_nests(&emitter->lower, kernel->root);
    return (Launch){0};
}

/* Adds a store of the new weights as bf16: rounded[e] = weight[e]. */
static void add_rounded(Program *program) {
    Tensor *weight = NULL;
    for (int i = 0; i < program->tensors.count; i++) {
        Tensor *tensor = program->tensors.items[i];
        if (tensor->role == ROLE_ROUNDED) return; /* already emitted */
        if (tensor->role == ROLE_PARAMETER) weight = tensor;
    }
    Tensor *copy =
        tensor_new(program, "rounded", ROLE_ROUNDED, TYPE_BF16, 1, weight->axes, weight->span);
    copy->of = weight;
    Index *index = index_new(program, weight->axes[0]->name, weight->axes[0]);
    statement_loop(program, &program->body, expr_read_indices(program, copy, &index), false,
                   REDUCE_NONE, NULL, 0, expr_read_indices(program, weight, &index), weight->span);
}

void emit_update(Module *module, Program *program) {
    Arena *arena = module->arena;
    const EmitTarget *target = module->target;
    if (module->rounded) add_rounded(program);
    Text head = {.arena = arena}, text = {.arena = arena}, equations = {.arena = arena};
    LoopKernel *body = arena_alloc(arena, sizeof *body);
    Emitter *emitter = part_of(module, program, target, body);
    List statements = statements_of(program, false);
    const Kernel *kernel = kernel_of(emitter, &statements);
    Update update = {.body = body};
    body->launch = (Launch){1, 32};
    if (kernel->root) body->launch = target->nests(emitter, kernel);
    declare_arrays(emitter, &head, &update);
    text_add(&head, "%s", "");
    add_loops(emitter, body, "update_step");
    update.head = head.text;

    float *own;
    int groups = group_parameters(module, &update.scalars, &own);
    emit_rate(module, program);
    add_own(&text, own, groups, &update.scalars);
    add_text(arena, &module->functions, "%s", text.text);
    add_equations(&equations, &statements);
    add_text(arena, target->apart ? &module->device : &module->functions, "%s", equations.text);
    target->update(module, &update);
    text = (Text){.arena = arena};
    add_names(arena, &text, "update_states", &update.states);
    add_scalars(arena, &text, &update.scalars);
    text_add(&text,
             "static const MoecUpdate update = {\n"
             "    .%s, .rate = update_rate, .state_names = %s, .state_count = %d,\n"
             "    .scalars = %s, .scalar_count = %d,\n"
             "    .own = update_own, .group_count = %d,\n};\n\n",
             target->update_function, update.states.count ? "update_states" : "NULL",
             update.states.count, update.scalars.count ? "update_scalars" : "NULL",
             update.scalars.count, groups);
    add_text(arena, &module->functions, "%s", text.text);
}
