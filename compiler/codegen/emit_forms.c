/* emit_forms: the lowered form of all kernels of a program, as it is before the passes over it. */
#include "codegen/emit.h"
#include "passes.h"

List emit_forms(Arena *arena, Schedule *schedule) {
    List forms = {0};
    bool apart = schedule->program->target == &target_device;
    emit_module(arena, &schedule, 1, apart ? &target_cuda : &target_c, &forms);
    return forms;
}
