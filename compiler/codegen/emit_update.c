/* emit_update: the optimizer's program as two functions: the step of one parameter, and the factor
 * of the learning rate.
 *
 * Both are single kernels; the program's arrays are what the caller hands over.
 */
#include "codegen/emit.h"

#include <string.h>

/* Statements that a target needs, found from the last to the first. */
static void need(Program *program, const Statement *statement, bool *needed) {
    List reads = {0};
    reads_of(program->arena, statement, &reads);
    for (int i = 0; i < reads.count; i++) needed[((Expr *)reads.items[i])->tensor->id] = true;
}

/* The statements behind the rate, or all others that matter; what is no array comes first, it
 * depends on numbers only. */
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
    Program *program = emitter->program;
    size_t tensors = (size_t)program->tensors.count + 1;
    Kernel *kernel = arena_alloc(emitter->arena, sizeof *kernel);
    Kernel **users = arena_alloc(emitter->arena, tensors * sizeof *users);
    for (int i = 0; i < program->tensors.count; i++) users[i] = kernel;
    for (int i = 0; i < statements->count; i++)
        if (!nest_add(program, kernel, statements->items[i], false))
            nest_add(program, kernel, statements->items[i], true);
    choose_locals(program, kernel, users);
    begin_kernel(emitter, kernel);
    return kernel;
}

static Emitter *part_of(Arena *arena, Program *program, Text *body) {
    Emitter *emitter = arena_alloc(arena, sizeof *emitter);
    emitter->arena = arena;
    emitter->program = program;
    emitter->schedule = arena_alloc(arena, sizeof *emitter->schedule);
    emitter->schedule->places = arena_alloc(arena, ((size_t)program->tensors.count + 1) *
                                                       sizeof *emitter->schedule->places);
    emitter->names =
        arena_alloc(arena, ((size_t)program->tensors.count + 1) * sizeof *emitter->names);
    emitter->out = body;
    emitter->indent = 1;
    name_tensors(emitter);
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        if (tensor->role == ROLE_PARAMETER) emitter->names[i] = "weight";
        if (tensor->role == ROLE_INPUT && tensor->rank == 1) emitter->names[i] = "gradient";
    }
    return emitter;
}

static bool is_scalar(const Tensor *tensor) {
    return tensor->role == ROLE_INPUT && tensor->rank == 0;
}

/* What the runtime calls a number of the schedule. */
static bool is_schedule_step(const Tensor *tensor) {
    return is_scalar(tensor) && strcmp(tensor->path, "schedule_step") == 0;
}

static void emit_rate(Arena *arena, Text *text, Program *program) {
    Text body = {.arena = arena}, out = {.arena = arena};
    bool device = program->device;
    program->device = false; /* the host calls it */
    Emitter *emitter = part_of(arena, program, &body);
    List statements = statements_of(program, true);
    const Kernel *kernel = kernel_of(emitter, &statements);
    if (kernel->root) emit_nests(emitter, kernel->root);
    program->device = device;
    emitter->out = &out;
    const char *result = "1";
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        if (is_scalar(tensor) && emitter->used[i])
            emit_line(emitter, "const float %s[1] = {(float)%s};", emitter->names[i],
                      is_schedule_step(tensor) ? "step" : "steps");
        if (tensor->role != ROLE_OUTPUT) continue;
        result = arena_format(arena, "(double)%s[0]", emitter->names[i]);
        emit_line(emitter, "float %s[1];", emitter->names[i]);
    }
    text_add(text, "/* The factor of the learning rate at a step (from 0) of `steps`. */\n");
    text_add(text,
             "static double update_rate(double step, double steps)\n{\n    (void)step, "
             "(void)steps;\n%s%s",
             out.length ? out.text : "", body.length ? body.text : "");
    text_add(text, "    return %s;\n}\n\n", result);
}

typedef struct Names {
    List scalars, states;
} Names;

static void declare_arrays(Emitter *emitter, Names *names) {
    for (int i = 0; i < emitter->program->tensors.count; i++) {
        Tensor *tensor = emitter->program->tensors.items[i];
        const char *name = emitter->names[i];
        bool used = emitter->used[i];
        if (is_scalar(tensor) && used) {
            emit_line(emitter, "const float *const %s = scalars + %d;", name, names->scalars.count);
            list_push(emitter->arena, &names->scalars, tensor);
        } else if (tensor->role == ROLE_ROUNDED && used) {
            emit_line(emitter, "MoecBf16 *const %s = moec_rounded + moec_from;", name);
        } else if (tensor->role == ROLE_STATE) {
            if (used) emit_line(emitter, "float *const %s = state[%d];", name, names->states.count);
            list_push(emitter->arena, &names->states, tensor);
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

static void add_statements(Arena *arena, Text *text, const List *statements) {
    for (int i = 0; i < statements->count; i++) {
        const Statement *statement = statements->items[i];
        text_add(text, "%s %s   -- %s%s\n", i ? "  " : "/*", print_statement(arena, statement),
                 line_of(arena, statement->span), i == statements->count - 1 ? " */" : "");
    }
}

static void emit_run(Text *text, const char *head, const char *body) {
    text_add(text, "static void run_update(float *weight, const float *gradient, float *const "
                   "*state, long elements,\n"
                   "                       const float *scalars)\n{\n");
    text_add(
        text,
        "    (void)weight, (void)gradient, (void)state, (void)elements, (void)scalars;\n%s%s}\n\n",
        head, body);
}

/* Elements that one block of a device takes. */
enum { SHARE = 8192 };

/* Where each parameter begins, as the table of the kernel; returns how many blocks there are. each:
 * elements of a block, 0: a parameter is not divided. */
static long add_shares(Module *module, long each) {
    const Layout *weights = &module->weights;
    Text *text = &module->device;
    long blocks = 0;
    text_add(text, "static __device__ const MoecShare update_shares[] = {\n");
    for (int i = 0; i < weights->tensors.count; i++) {
        const Tensor *tensor = weights->tensors.items[i];
        long count = tensor_elements(tensor);
        text_add(text, "    {%ld, %zu, %ld, %d}, /* %s */\n", blocks, weights->offsets[i] / 4,
                 count, tensor_info(module->arena, tensor, 0).matrix, tensor->name);
        blocks += each ? (count + each - 1) / each : 1;
    }
    if (!weights->tensors.count) text_add(text, "    {0, 0, 0, 0},\n");
    text_add(text, "};\n\n");
    return blocks ? blocks : 1;
}

/* What a block finds out before it begins: its piece of a parameter. */
static void add_piece(Text *text, int shares, int states, int scalars, long each) {
    int step = 1;
    while (2 * step < shares) step *= 2;
    text_add(
        text,
        "    int moec_at = 0; /* the last share that begins here or before */\n"
        "    for (int step = %d; step > 0; step /= 2)\n"
        "        if (moec_at + step < %d && update_shares[moec_at + step].block <= moec_block())\n"
        "            moec_at += step;\n"
        "    const MoecShare moec_share = update_shares[moec_at];\n",
        step, shares);
    if (each)
        text_add(text,
                 "    const long moec_before = (moec_block() - moec_share.block) * %ld;\n"
                 "    const long moec_from = moec_share.first + moec_before;\n"
                 "    const long elements = moec_least(moec_share.count - moec_before, %ld);\n",
                 each, each);
    else
        text_add(text,
                 "    const long moec_from = moec_share.first, elements = moec_share.count;\n");
    text_add(text, "    float *const weight = moec_weights + moec_from;\n"
                   "    const float *const gradient = moec_gradients + moec_from;\n");
    text_add(text, "    const float *const scalars = moec_numbers + moec_share.matrix * %d;\n",
             scalars);
    if (!states) return;
    text_add(text, "    float *const state[] = {");
    for (int i = 0; i < states; i++)
        text_add(text, "%smoec_state_%d + moec_from", i ? ", " : "", i);
    text_add(text, "};\n");
}

/* The same as a kernel over all parameters, and the function that launches it. */
static void emit_device(Module *module, const char *head, const char *body, Launch launch,
                        const Names *names) {
    Text list = {.arena = module->arena}, given = {.arena = module->arena};
    long each = launch.grid ? 0 : SHARE; /* a grid of its own: one block does it all */
    int shares = module->weights.tensors.count > 0 ? module->weights.tensors.count : 1;
    text_add(&list, "%s", "");
    text_add(&given, "%s", "");
    for (int i = 0; i < names->states.count; i++) {
        text_add(&list, ", float *__restrict__ moec_state_%d", i);
        text_add(&given, ", &states[%d]", i);
    }
    long blocks = add_shares(module, each);
    list_push(module->arena, &module->device_kernels, "update_step");
    text_add(
        &module->device,
        "extern \"C\" __global__ void update_step(\n"
        "        float *__restrict__ moec_weights, const float *__restrict__ moec_gradients%s,\n"
        "        const float *__restrict__ moec_numbers%s)\n{\n",
        list.text, module->rounded ? ", MoecBf16 *__restrict__ moec_rounded" : "");
    text_add(&module->device, "    moec_begin();\n");
    add_piece(&module->device, shares, names->states.count, names->scalars.count, each);
    text_add(&module->device, "%s%s}\n\n", head, body);
    text_add(
        &module->functions,
        "static void launch_update(const MoecHost *host, float *weights, const float *gradients,\n"
        "                          float *const *states, const float *scalars, void *rounded)\n"
        "{\n    (void)states, (void)rounded;\n"
        "    moec_launch_on(host, update_step, %ld, %d,\n"
        "                   MOEC_ARGUMENTS(&weights, &gradients%s, &scalars%s));\n}\n\n",
        blocks, launch.block, given.text, module->rounded ? ", &rounded" : "");
}

/* Statements without elements come first and every thread makes them for itself, unless what
 * follows is more than one loop over the elements. */
static Launch emit_threads(Emitter *emitter, const Kernel *kernel) {
    Nest *root = kernel->root;
    Nest *last = root->children.items[root->children.count - 1];
    bool plain = !last->member && is_innermost(last);
    for (int i = 0; i + 1 < root->children.count; i++)
        plain &= ((Nest *)root->children.items[i])->member != NULL;
    for (int i = 0; i < kernel->locals.count; i++) {
        const Local *local = kernel->locals.items[i];
        plain &= !local->stored || local->scope != root;
    }
    for (int i = 0; i < kernel->members.count; i++)
        plain &= ((Member *)kernel->members.items[i])->statement->reduction == REDUCE_NONE;
    if (!plain) return emit_cuda_block(emitter, root);
    for (int i = 0; i + 1 < root->children.count; i++)
        emit_member(emitter, ((Nest *)root->children.items[i])->member);
    return emit_cuda_nest(emitter, last);
}

/* The new weights as bf16, stored with them: rounded[e] = weight[e]. */
static void add_rounded(Program *program) {
    Tensor *weight = NULL;
    for (int i = 0; i < program->tensors.count; i++) {
        Tensor *tensor = program->tensors.items[i];
        if (tensor->role == ROLE_ROUNDED) return; /* emitted before */
        if (tensor->role == ROLE_PARAMETER) weight = tensor;
    }
    Tensor *copy = tensor_new(program, "rounded", ROLE_ROUNDED, TYPE_BF16, 1, weight->axes,
                              weight->span);
    copy->of = weight;
    Index *index = index_new(program, weight->axes[0]->name, weight->axes[0]);
    statement_loop(program, &program->body, expr_read_indices(program, copy, &index), false,
                   REDUCE_NONE, NULL, 0, expr_read_indices(program, weight, &index), weight->span);
}

void emit_update(Module *module, Program *program) {
    Arena *arena = module->arena;
    if (module->rounded) add_rounded(program);
    Text body = {.arena = arena}, head = {.arena = arena}, *text = &module->functions;
    Emitter *emitter = part_of(arena, program, &body);
    List statements = statements_of(program, false);
    const Kernel *kernel = kernel_of(emitter, &statements);
    Launch launch = {"1", 32};
    if (kernel->root && program->device)
        launch = emit_threads(emitter, kernel);
    else if (kernel->root)
        emit_nests(emitter, kernel->root);
    emitter->out = &head;
    Names names = {{0}, {0}};
    declare_arrays(emitter, &names);
    text_add(&head, "%s", "");
    text_add(&body, "%s", "");

    emit_rate(arena, text, program);
    add_statements(arena, program->device ? &module->device : text, &statements);
    if (program->device)
        emit_device(module, head.text, body.text, launch, &names);
    else
        emit_run(text, head.text, body.text);
    add_names(arena, text, "update_states", &names.states);
    add_names(arena, text, "update_scalars", &names.scalars);
    text_add(text,
             "static const MoecUpdate update = {\n"
             "    .%s, .rate = update_rate, .state_names = %s, .state_count = %d,\n"
             "    .scalar_names = %s, .scalar_count = %d,\n};\n\n",
             program->device ? "launch = launch_update" : "run = run_update",
             names.states.count ? "update_states" : "NULL", names.states.count,
             names.scalars.count ? "update_scalars" : "NULL", names.scalars.count);
}
