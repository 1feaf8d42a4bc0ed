/* emit_program: one program as functions: its kernels, then run_NAME, which finds the memory of
 * every tensor and executes the units. */
#include "codegen/emit.h"

#include <string.h>

static Emitter *emitter_new(Module *module, Schedule *schedule, const char *prefix) {
    Program *program = schedule->program;
    Arena *arena = module->arena;
    Emitter *emitter = arena_alloc(arena, sizeof *emitter);
    size_t tensors = (size_t)program->tensors.count + 1;
    emitter->lower.arena = arena;
    emitter->lower.program = program;
    emitter->module = module;
    emitter->target = module->target;
    if (!module->plain) emitter->lower.sizes = &module->sizes;
    emitter->repeats = 1;
    emitter->lower.names = arena_alloc(arena, tensors * sizeof *emitter->lower.names);
    emitter->declared = arena_alloc(arena, tensors * sizeof *emitter->declared);
    emitter->lower.schedule = schedule;
    name_tensors(&emitter->lower, emitter->target->apart);
    emitter->entry =
        entry_new(arena, schedule, &module->weights, &module->states, emitter->lower.names);
    emitter->entry->name = prefix;
    return emitter;
}

static const char *memory_of(Arena *arena, const Buffer *buffer) {
    const char *type = type_name(buffer->tensor);
    const size_t floats = buffer->offset / sizeof(float);
    switch (buffer->block) {
    case MOEC_WEIGHTS:
        return arena_format(arena, "run->weights + %zu", floats);
    case MOEC_GRADIENTS:
        return arena_format(arena, "run->gradients + %zu", floats);
    case MOEC_STATES:
        return arena_format(arena, "run->states + %zu", floats);
    case MOEC_INPUTS:
        return arena_format(arena, "run->inputs[%zu]", buffer->offset);
    case MOEC_OUTPUTS:
        return arena_format(arena, "run->outputs[%zu]", buffer->offset);
    case MOEC_CACHE:
        if (buffer->tensor->type == TYPE_REAL)
            return arena_format(arena, "run->cache + %zu", floats);
        return arena_format(arena, "(%s *)(void *)(run->cache + %zu)", type, floats);
    case MOEC_COMPUTE_WEIGHTS:
        return arena_format(arena, "(const %s *)run->rounded + %zu", type, buffer->offset);
    default:
        return arena_format(arena, "(void *)(run->arena + %zu)", buffer->offset);
    }
}

static void declare_tensors(Emitter *emitter) {
    Arena *arena = emitter->lower.arena;
    for (int i = 0; i < emitter->lower.program->tensors.count; i++) {
        const Buffer *buffer = &emitter->entry->buffers[i];
        const Tensor *tensor = buffer->tensor;
        if (buffer->used || buffer->cleared)
            emit_line(emitter, "%s%s *const %s = %s; /* %s%s */", buffer->constant ? "const " : "",
                      type_name(tensor), buffer->name, memory_of(arena, buffer),
                      axes_of(arena, tensor), buffer->slots > 1 ? ", two slots" : "");
    }
}

static void open_part(Emitter *emitter, const char *other) {
    if (!emitter->lower.schedule->second) return;
    emit_line(emitter, "if (run->part != MOEC_PART_%s) {", other);
    emitter->indent++;
}

static void close_part(Emitter *emitter) {
    if (!emitter->lower.schedule->second) return;
    emitter->indent--;
    emit_line(emitter, "}");
}

static void clear_tensors(Emitter *emitter) {
    int cleared = 0;
    for (int i = 0; i < emitter->lower.program->tensors.count; i++) {
        const Buffer *buffer = &emitter->entry->buffers[i];
        if (buffer->cleared && !cleared++) open_part(emitter, "BACKWARD");
        if (buffer->cleared) emitter->target->clear(emitter, buffer->name, buffer->bytes);
    }
    if (cleared) close_part(emitter);
}

static void clear_gradients(Emitter *emitter, const BlockLayout *weights) {
    Arena *arena = emitter->lower.arena;
    const List *ranges = &emitter->entry->gradients;
    if (emitter->lower.program->graph != GRAPH_TRAIN || weights->bytes == weights->frozen_bytes)
        return;
    emit_line(emitter, "const int moec_first = run->first_micro_batch != 0;");
    open_part(emitter, "FORWARD");
    emit_line(emitter, "if (moec_first) {");
    emitter->indent++;
    for (int i = 0; i < ranges->count; i++) {
        const MemoryRange *range = ranges->items[i];
        emitter->target->clear(
            emitter, arena_format(arena, "run->gradients + %zu", range->first / sizeof(float)),
            range->bytes);
    }
    emitter->indent--;
    emit_line(emitter, "}");
    close_part(emitter);
}

static void emit_parts(Emitter *emitter) {
    const List *all = &emitter->lower.schedule->units;
    int second = emitter->lower.schedule->second;
    const List parts[2] = {{.items = all->items, .count = second},
                           {.items = all->items + second, .count = all->count - second}};
    if (second) {
        open_part(emitter, "BACKWARD");
        emit_units(emitter, &parts[0]);
        close_part(emitter);
    }
    open_part(emitter, "FORWARD");
    emit_units(emitter, &parts[1]);
    close_part(emitter);
}

void emit_program(Module *module, Schedule *schedule, const char *prefix) {
    Program *program = schedule->program;
    Arena *arena = module->arena;
    Emitter *emitter = emitter_new(module, schedule, prefix);
    Entry *entry = emitter->entry;
    Text body = {.arena = arena}, head = {.arena = arena};
    entry->first_product = module->products.count;
    emitter->lower.used = emitter->declared;
    emitter->out = &body;
    emitter->indent = 1;
    emit_parts(emitter);
    for (int i = 0; i < program->tensors.count; i++) entry->buffers[i].used = emitter->declared[i];
    entry->arena_bytes += emitter->lower.scratch_bytes;
    entry->product_count = module->products.count - entry->first_product;

    emitter->out = &head;
    if (emitter->target->marks) emit_line(emitter, "moec_mark(run, -1);");
    declare_tensors(emitter);
    clear_tensors(emitter);
    clear_gradients(emitter, &module->weights);
    if (!head.length) text_add(&head, "    (void)run;\n");
    add_text(arena, &module->functions, "static void run_%s(const MoecRun *run)\n{\n%s\n%s}\n\n",
             prefix, head.text, body.length ? body.text : "");
    list_push(arena, &module->entries, entry);
}
