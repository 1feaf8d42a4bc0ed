/* device_program: programs for a GPU as data: their table, their host programs as step lists, the
 * text of their kernels. */
#include "driver.h"

#include "module/lowered.h"

typedef struct OwnedProgram {
    MoecDeviceProgram program;
    Arena *arena; /* of everything but the text */
    const RateProgram *rate;
} OwnedProgram;

MoecDeviceProgram *moec_device_program(MoecCompiler *compiler, MoecProgram *const *programs,
                                       int count) {
    programs = with_step(compiler, programs, &count);
    const Module *module = lowered_module(compiler, programs, count, true, "check");
    if (!module) return NULL;
    Arena *arena = arena_new();
    OwnedProgram *made = arena_alloc(arena, sizeof *made);
    const MoecSteps **graphs =
        arena_alloc(arena, ((size_t)module->entries.count + 1) * sizeof *graphs);
    for (int i = 0; i < module->entries.count; i++)
        graphs[i] = entry_steps(arena, module, module->entries.items[i]);
    made->arena = arena;
    made->program.table = module_table(arena, module);
    made->program.graphs = graphs;
    if (module->rounded) made->program.round = rounding_steps(arena, module);
    if (module->update) {
        made->program.update = update_steps(arena, module);
        made->rate = rate_program(arena, module->update);
    }
    made->program.kernels = print_kernels(moec_arena(compiler), module);
    return &made->program;
}

static const OwnedProgram *owned(const MoecDeviceProgram *program) {
    return (const OwnedProgram *)(const void *)program;
}

void moec_device_program_free(MoecDeviceProgram *program) {
    if (program) arena_free(owned(program)->arena);
}

double moec_rate(const MoecDeviceProgram *program, double step, double steps) {
    return rate_value(owned(program)->rate, step, steps);
}
