/* emit_program: one program as an entry of the module: its memory, its kernels and its steps. */
#include "codegen/emit.h"

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
    emitter->declared = arena_alloc(arena, tensors * sizeof *emitter->declared);
    emitter->lower.schedule = schedule;
    name_tensors(&emitter->lower, emitter->target->apart);
    emitter->entry =
        entry_new(arena, schedule, &module->weights, &module->states, emitter->lower.names);
    emitter->entry->name = prefix;
    return emitter;
}

static void emit_parts(Emitter *emitter) {
    Entry *entry = emitter->entry;
    const List *all = &entry->schedule->units;
    int second = entry->schedule->second;
    const List parts[2] = {{.items = all->items, .count = second},
                           {.items = all->items + second, .count = all->count - second}};
    for (int i = second ? 0 : 1; i < 2; i++) {
        emitter->steps = steps_in_part(emitter->lower.arena, entry, &entry->steps,
                                       i ? BACKWARD_PART : FORWARD_PART);
        emit_units(emitter, &parts[i]);
    }
}

void emit_program(Module *module, Schedule *schedule, const char *prefix) {
    Emitter *emitter = emitter_new(module, schedule, prefix);
    Entry *entry = emitter->entry;
    entry->first_product = module->products.count;
    emitter->lower.used = emitter->declared;
    emit_parts(emitter);
    for (int i = 0; i < entry->program->tensors.count; i++)
        entry->buffers[i].used = emitter->declared[i];
    entry->arena_bytes += emitter->lower.scratch_bytes;
    entry->product_count = module->products.count - entry->first_product;
    add_section(module->arena, &module->functions, (Section){.entry = entry});
    list_push(module->arena, &module->entries, entry);
}
