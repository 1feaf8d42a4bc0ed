/* emit_forms: runs the passes over the form of a lowered kernel and prints it; for `moec dump`,
 * collects the forms of all kernels of a program before these passes. */
#include "codegen/emit.h"
#include "passes.h"

static KernelForm *form_of(Emitter *emitter, const char *name, const FormBlock *body) {
    KernelForm *form = arena_alloc(emitter->lower.arena, sizeof *form);
    *form = (KernelForm){.name = name,
                         .work = emitter->lower.kernel->work,
                         .is_store = emitter->lower.in_template,
                         .block = *body,
                         .around = names_around(&emitter->lower)};
    return form;
}

void finish_form(Emitter *emitter, const char *name, FormBlock *body, Text *text, int indent) {
    KernelForm *form = form_of(emitter, name, body);
    if (emitter->forms) {
        list_push(emitter->lower.arena, emitter->forms, form);
        return;
    }
    for (int i = 0; i < form_pass_count; i++)
        form_passes[i].run(emitter->lower.arena, form, emitter->lower.program->target);
    name_variables(emitter->lower.arena, form);
    print_block(text, &form->block, indent);
}

List emit_forms(Arena *arena, Schedule *schedule) {
    List forms = {0};
    bool apart = schedule->program->target == &target_device;
    emit_module(arena, &schedule, 1, apart ? &target_cuda : &target_c, &forms);
    return forms;
}
