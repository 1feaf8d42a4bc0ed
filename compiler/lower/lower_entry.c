/* lower_entry: one program as an entry of the module: its memory, its kernels and its steps. */
#include "lower/lower_entry.h"

static EntryLowering *lowering_new(Module *module, const LowerTarget *target, Schedule *schedule,
                                   const char *prefix) {
    Program *program = schedule->program;
    Arena *arena = module->arena;
    EntryLowering *lowering = arena_alloc(arena, sizeof *lowering);
    size_t tensors = (size_t)program->tensors.count + 1;
    lowering->lower.arena = arena;
    lowering->lower.program = program;
    lowering->module = module;
    lowering->target = target;
    if (!module->plain) lowering->lower.sizes = &module->sizes;
    lowering->repeats = 1;
    lowering->declared = arena_alloc(arena, tensors * sizeof *lowering->declared);
    lowering->lower.schedule = schedule;
    name_tensors(&lowering->lower);
    lowering->entry = entry_new(module, schedule, lowering->lower.names);
    lowering->entry->name = prefix;
    return lowering;
}

static void lower_entry_parts(EntryLowering *lowering) {
    Entry *entry = lowering->entry;
    const List *all = &entry->schedule->units;
    int second = entry->schedule->second;
    const List parts[2] = {{.items = all->items, .count = second},
                           {.items = all->items + second, .count = all->count - second}};
    for (int i = second ? 0 : 1; i < 2; i++) {
        lowering->steps = steps_in_part(lowering->lower.arena, entry, &entry->steps,
                                        i ? BACKWARD_PART : FORWARD_PART);
        lower_units(lowering, &parts[i]);
    }
}

void add_counters(EntryLowering *lowering, Param *param, long count) {
    const size_t bytes = (size_t)count * sizeof(unsigned);
    list_push(lowering->lower.arena, &lowering->counters, param);
    if (bytes > lowering->counter_bytes) lowering->counter_bytes = bytes;
}

/* All launches share the counters. */
static void place_counters(EntryLowering *lowering) {
    Arena *arena = lowering->lower.arena;
    Entry *entry = lowering->entry;
    for (int i = 0; i < lowering->counters.count; i++)
        ((Param *)lowering->counters.items[i])->offset = entry->arena_bytes;
    if (!lowering->counters.count) return;
    HostStep *step =
        step_new(arena, steps_in_part(arena, entry, &entry->clears, FORWARD_PART), STEP_CLEAR);
    step->clear.scratch = true;
    step->clear.offset = entry->arena_bytes;
    step->clear.bytes = lowering->counter_bytes;
    entry->arena_bytes += lowering->counter_bytes;
}

void lower_program(Module *module, const LowerTarget *target, Schedule *schedule,
                   const char *prefix) {
    EntryLowering *lowering = lowering_new(module, target, schedule, prefix);
    Entry *entry = lowering->entry;
    entry->first_product = module->products.count;
    lowering->lower.used = lowering->declared;
    lower_entry_parts(lowering);
    for (int i = 0; i < entry->program->tensors.count; i++)
        entry->buffers[i].used = lowering->declared[i];
    entry->arena_bytes += lowering->lower.scratch_bytes;
    place_counters(lowering);
    entry->product_count = module->products.count - entry->first_product;
    add_section(module->arena, &module->functions, (Section){.entry = entry});
    list_push(module->arena, &module->entries, entry);
}
