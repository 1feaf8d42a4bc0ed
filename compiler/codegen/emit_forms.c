/* emit_forms: the lowered form of all kernels of a program, as `moec dump --after loops` shows it.
 */
#include "codegen/emit.h"
#include "passes.h"

char *emit_forms(Arena *arena, Schedule *schedule) {
    Text forms = {.arena = arena};
    bool apart = schedule->program->target == &target_device;
    text_add(&forms, "%s", "");
    emit_module(arena, &schedule, 1, apart ? &target_cuda : &target_c, &forms);
    return forms.text;
}
