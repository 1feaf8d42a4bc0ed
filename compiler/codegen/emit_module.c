/* emit_module: programs with their schedules as a module. Its loops are as the schedules have them;
 * passes over them follow. */
#include "codegen/emit.h"
#include "passes.h"

/* "train", or "decode_2" if there are two of a kind. */
static const char *prefix_of(Arena *arena, Program *const *programs, int place) {
    int before = 0;
    for (int i = 0; i < place; i++) before += programs[i]->graph == programs[place]->graph;
    const char *name = graph_name(programs[place]->graph);
    return before ? arena_format(arena, "%s_%d", name, before + 1) : name;
}

/* The type of the compute weights of the programs, TYPE_REAL if none reads rounded weights. */
static Type type_of_rounded(Program *const *programs, int count) {
    for (int i = 0; i < count; i++)
        for (int j = 0; j < programs[i]->tensors.count; j++) {
            const Tensor *tensor = programs[i]->tensors.items[j];
            if (tensor->role == ROLE_ROUNDED) return tensor->type;
        }
    return TYPE_REAL;
}

static const EmitTarget *target_of(bool device, Hosting hosting) {
    if (device) return hosting == TARGET_STANDALONE ? &target_cuda_alone : &target_cuda;
    return hosting == TARGET_STANDALONE ? &target_c
           : hosting == TARGET_MARKED   ? &target_c_marked
                                        : &target_c_hosted;
}

Module *module_for(Arena *arena, Schedule *const *schedules, int count, const EmitTarget *target,
                   bool plain) {
    Module *module = arena_alloc(arena, sizeof *module);
    Program **programs = arena_alloc(arena, ((size_t)count + 1) * sizeof *programs);
    for (int i = 0; i < count; i++) programs[i] = schedules[i]->program;
    module->arena = arena;
    module->target = target;
    module->plain = plain;
    module->programs = programs;
    module->program_count = count;
    module->weights = layout_of(arena, programs, count, ROLE_PARAMETER);
    module->states = layout_of(arena, programs, count, ROLE_STATE);
    module->rounded = type_of_rounded(programs, count);
    for (int i = 0; i < count; i++) {
        if (programs[i]->graph == GRAPH_UPDATE)
            emit_update(module, programs[i]);
        else
            emit_program(module, schedules[i], prefix_of(arena, programs, i));
    }
    if (module->rounded && target->apart)
        list_push(arena, &module->device_kernels, (void *)(uintptr_t) "moec_round");
    return module;
}

Module *emit_module(Arena *arena, Schedule *const *schedules, int count, bool device,
                    Hosting hosting, bool plain) {
    return module_for(arena, schedules, count, target_of(device, hosting), plain);
}

const char *dump_module(const Module *module) {
    Text text = {.arena = module->arena};
    text_add(&text, "%s", "");
    for (int i = 0; i < module->kernels.count; i++)
        dump_form(&text, &((LoopKernel *)module->kernels.items[i])->form);
    return text.text;
}
