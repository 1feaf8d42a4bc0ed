/* emit_kernel: one kernel of a schedule as a record of the module: its loops and its parameters. */
#include "codegen/emit.h"

#include <stdarg.h>

/* ---- sections ---- */

Section *add_section(Arena *arena, List *sections, Section section) {
    Section *added = arena_alloc(arena, sizeof *added);
    *added = section;
    list_push(arena, sections, added);
    return added;
}

static List *functions_of(const Emitter *emitter) {
    Module *module = emitter->module;
    return emitter->target->apart ? &module->device : &module->functions;
}

Section *add_text(Arena *arena, List *sections, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *text = arena_vformat(arena, format, arguments);
    va_end(arguments);
    return add_section(arena, sections, (Section){.text = text});
}

Section *function_text(Emitter *emitter, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *text = arena_vformat(emitter->lower.arena, format, arguments);
    va_end(arguments);
    return add_section(emitter->lower.arena, functions_of(emitter), (Section){.text = text});
}

void function_line(Emitter *emitter, const char *format, ...) {
    Text line = {.arena = emitter->lower.arena};
    va_list arguments;
    va_start(arguments, format);
    print_line(&line, 0, arena_vformat(emitter->lower.arena, format, arguments));
    va_end(arguments);
    function_text(emitter, "%s", line.text);
}

/* ---- names and parameters ---- */

void add_statements(Arena *arena, const Kernel *kernel, const Nest *nest, List *statements) {
    for (int i = 0; i < kernel->members.count; i++) {
        const Member *member = kernel->members.items[i];
        if (!nest || nest == kernel->root || is_inside(member, nest))
            list_push(arena, statements, member->statement);
    }
}

const char *kernel_name(Emitter *emitter, const Kernel *kernel, const Nest *nest) {
    List statements = {0};
    add_statements(emitter->lower.arena, kernel, nest, &statements);
    const Statement *last = statements.count ? statements.items[statements.count - 1] : NULL;
    return arena_format(emitter->lower.arena, "kernel_%s_%d_%s", emitter->entry->name,
                        emitter->entry->kernels++,
                        last ? emitter->lower.names[last->target->tensor->id] : "");
}

/* True if no other tensor of the kernel overlaps the memory. */
static bool lies_alone(const Emitter *emitter, const Tensor *tensor) {
    const Allocation *places = emitter->lower.schedule->places;
    if (places[tensor->id].over && emitter->lower.used[places[tensor->id].over->id]) return false;
    for (int i = 0; places[tensor->id].taken && i < emitter->lower.program->tensors.count; i++)
        if (places[i].over == tensor && emitter->lower.used[i]) return false;
    return true;
}

void add_param(Arena *arena, List *params, Param param) {
    Param *added = arena_alloc(arena, sizeof *added);
    *added = param;
    list_push(arena, params, added);
}

void add_operand_param(Emitter *emitter, List *params, const Expr *access, bool written) {
    add_param(emitter->lower.arena, params,
              (Param){.kind = PARAM_OPERAND,
                      .written = written,
                      .address = pointer_term(&emitter->lower, access)});
}

void add_params(Emitter *emitter, List *params) {
    const Lowering *lower = &emitter->lower;
    if (lower->uses_seed) add_param(lower->arena, params, (Param){.kind = PARAM_SEED});
    for (int i = 0; i < lower->repeats_used.count; i++)
        add_param(
            lower->arena, params,
            (Param){.kind = PARAM_INDEX,
                    .name = bound_index(lower, lower->repeats_used.items[i])->variable->name});
    for (int i = 0; i < lower->program->tensors.count; i++) {
        if (!lower->used[i]) continue;
        const Buffer *buffer = &emitter->entry->buffers[i];
        add_param(lower->arena, params,
                  (Param){.kind = PARAM_POINTER,
                          .name = buffer->name,
                          .buffer = buffer,
                          .written = lower->written[i],
                          .alone = lies_alone(emitter, buffer->tensor)});
        emitter->declared[i] = true;
    }
}

/* ---- kernels ---- */

void add_loops(Emitter *emitter, LoopKernel *loops, const char *name) {
    const Lowering *lower = &emitter->lower;
    loops->form.name = name;
    loops->entry = emitter->entry;
    loops->form.work = lower->kernel->work;
    loops->form.is_store = lower->in_template;
    loops->form.around = names_around(lower);
    loops->target = lower->program->target;
    list_push(lower->arena, &emitter->module->kernels, loops);
}

LoopKernel *open_kernel(Emitter *emitter, Kernel *kernel) {
    LoopKernel *loops = arena_alloc(emitter->lower.arena, sizeof *loops);
    loops->indent = 1;
    emitter->bindings = emitter->lower.binding_count;
    begin_kernel(&emitter->lower, kernel);
    emitter->lower.block = &loops->form.block;
    return loops;
}

void close_kernel(Emitter *emitter, LoopKernel *loops, const Nest *nest, const char *name) {
    Arena *arena = emitter->lower.arena;
    add_statements(arena, emitter->lower.kernel, nest, &loops->statements);
    add_loops(emitter, loops, name);
    add_section(arena, functions_of(emitter), (Section){.kernel = loops});
    emitter->lower.kernel = NULL;
    emitter->lower.used = emitter->declared;
    emitter->lower.binding_count = emitter->bindings;
}

void launch_kernel(Emitter *emitter, LoopKernel *loops, const Nest *nest, const char *name) {
    close_kernel(emitter, loops, nest, name);
    add_launch(emitter, name, loops->launch, &loops->params);
}

void emit_kernel(Emitter *emitter, Kernel *kernel) {
    LoopKernel *loops = open_kernel(emitter, kernel);
    lower_nests(&emitter->lower, kernel->root);
    add_params(emitter, &loops->params);
    launch_kernel(emitter, loops, NULL, kernel_name(emitter, kernel, NULL));
}

void emit_scan(Emitter *emitter, const Statement *scan) {
    Kernel *kernel = scan_kernel(&emitter->lower, scan);
    LoopKernel *loops = open_kernel(emitter, kernel);
    lower_scan(&emitter->lower, scan);
    add_params(emitter, &loops->params);
    launch_kernel(emitter, loops, NULL, kernel_name(emitter, kernel, NULL));
}
