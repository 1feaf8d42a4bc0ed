/* lower_module: programs with their schedules as a module. Its loops are as the schedules have
 * them; passes over them follow. */
#include "lower/lower_entry.h"
#include "analysis/access.h"
#include "passes.h"

#include <string.h>

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
        LIST_EACH(const Tensor, tensor, &programs[i]->tensors)
            if (tensor->role == ROLE_ROUNDED) return tensor->type;
    return TYPE_REAL;
}

/* True if a program reads the parameter with this path, or its copy. */
static bool is_read(Program *const *programs, int count, const char *path, Role role) {
    bool read = false;
    for (int i = 0; i < count; i++) {
        const int *touches = touches_of(programs[i]);
        for (int j = 0; j < programs[i]->tensors.count && !read; j++) {
            const Tensor *tensor = programs[i]->tensors.items[j];
            read = touches[j] && tensor->role == role && strcmp(tensor->path, path) == 0;
        }
    }
    return read;
}

/* True if the copies of weights have memory of their own. */
static bool for_inference(Program *const *programs, int count) {
    for (int i = 0; i < count; i++)
        if (reads_copies(programs[i])) return true;
    return false;
}

/* The programs of steps, without the one of GRAPH_PREPARE; *prepares: that one, or NULL. */
static int stepping(Arena *arena, Program *const *programs, int count, Program ***steps,
                    Program **prepares) {
    int found = 0;
    *prepares = NULL;
    *steps = arena_alloc(arena, ((size_t)count + 1) * sizeof **steps);
    for (int i = 0; i < count; i++) {
        if (programs[i]->prepare) *prepares = programs[i]->prepare;
        if (programs[i]->graph != GRAPH_PREPARE) (*steps)[found++] = programs[i];
    }
    return found;
}

/* Steps read nothing of such a parameter but copies or prepared tensors. */
static void mark_alone(Arena *arena, Program *const *programs, int count) {
    Program **steps, *prepares;
    const int step_count = stepping(arena, programs, count, &steps, &prepares);
    for (int i = 0; i < count; i++)
        LIST_EACH(Tensor, tensor, &programs[i]->tensors)
            if (tensor->role == ROLE_PARAMETER)
                tensor->copied_alone =
                    (is_read(steps, step_count, tensor->path, ROLE_ROUNDED) ||
                     (prepares && is_read(&prepares, 1, tensor->path, ROLE_PARAMETER))) &&
                    !is_read(steps, step_count, tensor->path, ROLE_PARAMETER);
}

const LowerTarget lower_host = {
    .kernel = lower_kernel, .grouped = lower_grouped, .nests = lower_update_nests};

static const LowerTarget lower_gpu = {.kernel = lower_device_kernel,
                                      .product = lower_device_dense,
                                      .grouped = lower_device_grouped,
                                      .rows = lower_device_rows,
                                      .nests = lower_device_update_nests,
                                      .apart = true};

Module *module_for(Arena *arena, Schedule *const *schedules, int count, const LowerTarget *target,
                   Hosting hosting, bool plain) {
    Module *module = arena_alloc(arena, sizeof *module);
    Program **programs = arena_alloc(arena, ((size_t)count + 1) * sizeof *programs);
    for (int i = 0; i < count; i++) programs[i] = schedules[i]->program;
    module->arena = arena;
    module->hosting = hosting;
    module->apart = target->apart;
    module->plain = plain;
    module->programs = programs;
    module->program_count = count;
    module->rounded = type_of_rounded(programs, count);
    const bool packs = for_inference(programs, count);
    /* Without types of their own, copies are those of all weights. */
    if (packs || !module->rounded) mark_alone(arena, programs, count);
    module->weights = layout_of(arena, programs, count, ROLE_PARAMETER);
    module->states = layout_of(arena, programs, count, ROLE_STATE);
    if (packs) module->packed = layout_of(arena, programs, count, ROLE_ROUNDED);
    for (int i = 0; i < count; i++) {
        if (programs[i]->graph == GRAPH_UPDATE)
            lower_update(module, target, programs[i]);
        else
            lower_program(module, target, schedules[i], prefix_of(arena, programs, i));
    }
    if (module->rounded && target->apart) {
        list_push(arena, &module->device_kernels, (void *)(uintptr_t) "moec_round");
        module->rounding.threads = 256;
        module->rounding.blocks = ceil_div((long)module->weights.bytes / 16, 256);
    }
    return module;
}

Module *lower_module(Arena *arena, Schedule *const *schedules, int count, const Target *target,
                     Hosting hosting, bool plain) {
    return module_for(arena, schedules, count, target->launches ? &lower_gpu : &lower_host, hosting,
                      plain);
}

/* Its variants, with the templates that they call: their stores are among the loops. */
static void dump_template(Text *text, const TemplateKernel *kernel) {
    LIST_EACH(const TemplateVariant, variant, &kernel->variants) {
        text_add(text, "template %s%s:\n", kernel->name, variant->ending);
        LIST_EACH(const TemplateCall, call, &variant->calls) {
            text_add(text, "    ");
            if (call->blocks) text_add(text, "if %s: ", term_text(text->arena, call->blocks));
            add_template_text(text, call->function);
            text_add(text, "\n");
        }
    }
}

const char *dump_module(const Module *module) {
    Text text = text_new(module->arena);
    for (int i = 0; i < module->kernels.count; i++)
        dump_form(&text, &((LoopKernel *)module->kernels.items[i])->form);
    LIST_EACH(const Section, section, &module->device)
        if (section->template) dump_template(&text, section->template);
    return text.text;
}
