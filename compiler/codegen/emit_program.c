/* emit_program: one program as functions: its kernels, then run_NAME, which finds the memory of
 * every tensor and executes the units. */
#include "codegen/emit.h"

#include <string.h>

/* The index of a path in a layout, or -1. */
static int place_of(const Layout *layout, const char *path) {
    const List *found = table_find(&layout->places, hash_text(HASH_START, path));
    for (int i = 0; i < found->count; i++) {
        int place = *(int *)found->items[i];
        if (strcmp(((Tensor *)layout->tensors.items[place])->path, path) == 0) return place;
    }
    return -1;
}

static size_t layout_offset(const Layout *layout, const Tensor *tensor) {
    int place = place_of(layout, tensor->path);
    return place < 0 ? 0 : layout->offsets[place];
}

static void add_tensor(Arena *arena, Layout *layout, Tensor *tensor) {
    if (place_of(layout, tensor->path) >= 0) return;
    int *place = arena_alloc(arena, sizeof *place);
    *place = layout->tensors.count;
    table_add(arena, &layout->places, hash_text(HASH_START, tensor->path), place);
    list_push(arena, &layout->tensors, tensor);
}

static size_t bytes_in(const Layout *layout, int place) {
    const Tensor *tensor = layout->tensors.items[place];
    const size_t bytes = (size_t)(tensor_elements(tensor) * type_bytes(tensor->type));
    return (bytes + layout->unit - 1) / layout->unit * layout->unit;
}

/* Sets the offsets of the tensors with these values of frozen and whole. Returns their bytes. */
static size_t place(Layout *layout, bool frozen, bool whole) {
    const size_t before = layout->bytes;
    for (int i = 0; i < layout->tensors.count; i++) {
        const Tensor *tensor = layout->tensors.items[i];
        if (tensor->frozen != frozen || (!frozen && tensor->whole != whole)) continue;
        layout->offsets[i] = layout->bytes;
        layout->bytes += bytes_in(layout, i);
    }
    return layout->bytes - before;
}

Layout layout_of(Arena *arena, Program *const *programs, int count, Role role) {
    Layout layout = {.unit = 64};
    for (int i = 0; i < count; i++) {
        if (programs[i]->graph == GRAPH_UPDATE) continue;
        if (role == ROLE_PARAMETER && programs[i]->weights == TYPE_INT8)
            layout.unit = 4 * INT8_GROUP;
        for (int j = 0; j < programs[i]->tensors.count; j++) {
            Tensor *tensor = programs[i]->tensors.items[j];
            if (tensor->role == role) add_tensor(arena, &layout, tensor);
        }
    }
    layout.offsets =
        arena_alloc(arena, (size_t)(layout.tensors.count + 1) * sizeof *layout.offsets);
    place(&layout, false, false);
    layout.whole_bytes = place(&layout, false, true);
    layout.frozen_bytes = place(&layout, true, false);
    return layout;
}

static Emitter *emitter_new(Module *module, Schedule *schedule, const char *prefix) {
    Program *program = schedule->program;
    Arena *arena = module->arena;
    Emitter *emitter = arena_alloc(arena, sizeof *emitter);
    size_t tensors = (size_t)program->tensors.count + 1;
    emitter->lower.arena = arena;
    emitter->lower.program = program;
    emitter->prefix = prefix;
    emitter->target = module->target;
    emitter->products = &module->products;
    emitter->device = &module->device;
    emitter->own_products = &module->own_products;
    emitter->kernel_texts = &module->kernel_texts;
    emitter->forms = module->forms;
    if (!module->forms) emitter->lower.sizes = &module->sizes;
    emitter->repeats = 1;
    emitter->functions = module->target->apart ? &module->device.text : &module->functions;
    emitter->lower.names = arena_alloc(arena, tensors * sizeof *emitter->lower.names);
    emitter->declared = arena_alloc(arena, tensors * sizeof *emitter->declared);
    emitter->lower.schedule = schedule;
    name_tensors(&emitter->lower, emitter->target->apart);
    return emitter;
}

/* The index of a tensor among those of its role: its slot. */
static int slot_of(const Program *program, const Tensor *tensor) {
    int slot = 0;
    if (tensor->role == ROLE_OUTPUT) {
        while (program->outputs.items[slot] != tensor) slot++;
        return slot;
    }
    for (int i = 0; i < tensor->id; i++)
        slot += ((Tensor *)program->tensors.items[i])->role == tensor->role;
    return slot;
}

static const char *memory_of(Emitter *emitter, const Tensor *tensor, const Layout *weights,
                             const Layout *states, const Layout *caches) {
    Arena *arena = emitter->lower.arena;
    switch (tensor->role) {
    case ROLE_PARAMETER:
        return arena_format(arena, "run->weights + %zu", layout_offset(weights, tensor) / 4);
    case ROLE_GRADIENT:
        return arena_format(arena, "run->gradients + %zu", layout_offset(weights, tensor->of) / 4);
    case ROLE_STATE:
        return arena_format(arena, "run->states + %zu", layout_offset(states, tensor) / 4);
    case ROLE_INPUT:
        return arena_format(arena, "run->inputs[%d]", slot_of(emitter->lower.program, tensor));
    case ROLE_OUTPUT:
        return arena_format(arena, "run->outputs[%d]", slot_of(emitter->lower.program, tensor));
    case ROLE_CACHE:
        if (tensor->type == TYPE_REAL)
            return arena_format(arena, "run->cache + %zu", layout_offset(caches, tensor) / 4);
        return arena_format(arena, "(%s *)(void *)(run->cache + %zu)", type_name(tensor),
                            layout_offset(caches, tensor) / 4);
    case ROLE_ROUNDED:
        return arena_format(arena, "(const %s *)run->rounded + %zu", type_name(tensor),
                            layout_offset(weights, tensor->of) / 4 /
                                (tensor->type == TYPE_INT8 ? INT8_GROUP : 1));
    case ROLE_TEMP:
        break;
    }
    return arena_format(arena, "(void *)(run->arena + %zu)",
                        emitter->lower.schedule->places[tensor->id].offset);
}

static void declare_tensors(Emitter *emitter, const Layout *weights, const Layout *states) {
    const Layout caches = layout_of(emitter->lower.arena, &emitter->lower.program, 1, ROLE_CACHE);
    for (int i = 0; i < emitter->lower.program->tensors.count; i++) {
        const Tensor *tensor = emitter->lower.program->tensors.items[i];
        const Allocation *place = &emitter->lower.schedule->places[i];
        bool fixed =
            (tensor->role == ROLE_PARAMETER && emitter->lower.program->graph != GRAPH_STEP) ||
            tensor->role == ROLE_INPUT || tensor->role == ROLE_ROUNDED;
        if (emitter->declared[i] || place->cleared)
            emit_line(emitter, "%s%s *const %s = %s; /* %s%s */", fixed ? "const " : "",
                      type_name(tensor), emitter->lower.names[i],
                      memory_of(emitter, tensor, weights, states, &caches),
                      axes_of(emitter->lower.arena, tensor), place->slots ? ", two slots" : "");
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
    const Schedule *schedule = emitter->lower.schedule;
    int cleared = 0;
    for (int i = 0; i < schedule->program->tensors.count; i++) {
        const Allocation *place = &schedule->places[i];
        if (place->cleared && !cleared++) open_part(emitter, "BACKWARD");
        if (place->cleared) emitter->target->clear(emitter, emitter->lower.names[i], place->bytes);
    }
    if (cleared) close_part(emitter);
}

/* By index in the weights: a product overwrites the gradient. */
static void find_made(const List *units, const Layout *weights, bool *made) {
    for (int i = 0; i < units->count; i++) {
        const ScheduleUnit *unit = units->items[i];
        if (unit->kind == UNIT_REPEAT) find_made(&unit->body, weights, made);
        if (unit->kind == UNIT_CONTRACTION && unit->overwrites_gradient)
            made[place_of(weights, unit->statement->target->tensor->of->path)] = true;
    }
}

/* Clears the other gradients, adjacent ones together. */
static void clear_gradients(Emitter *emitter, const Layout *weights) {
    Arena *arena = emitter->lower.arena;
    const size_t trained = weights->bytes - weights->frozen_bytes;
    if (emitter->lower.program->graph != GRAPH_TRAIN || !trained) return;
    bool *made = arena_alloc(arena, ((size_t)weights->tensors.count + 1) * sizeof *made);
    find_made(&emitter->lower.schedule->units, weights, made);
    emit_line(emitter, "const int moec_first = run->first_micro_batch != 0;");
    open_part(emitter, "FORWARD");
    emit_line(emitter, "if (moec_first) {");
    emitter->indent++;
    for (size_t first = 0, next = trained; first < trained; first = next) {
        size_t end = next = trained;
        for (int i = 0; i < weights->tensors.count; i++) {
            const size_t offset = weights->offsets[i];
            if (!made[i] || offset < first || offset >= end) continue;
            end = offset;
            next = offset + bytes_in(weights, i);
        }
        const char *name = arena_format(arena, "run->gradients + %zu", first / sizeof(float));
        if (end > first) emitter->target->clear(emitter, name, end - first);
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
    Emitted *emitted = arena_alloc(arena, sizeof *emitted);
    Text body = {.arena = arena}, head = {.arena = arena};
    Text *text = &module->functions;
    emitted->first_product = module->products.count;
    emitter->lower.used = emitter->declared;
    emitter->out = &body;
    emitter->indent = 1;
    emit_parts(emitter);

    emitter->out = &head;
    if (emitter->target->marks) emit_line(emitter, "moec_mark(run, -1);");
    declare_tensors(emitter, &module->weights, &module->states);
    clear_tensors(emitter);
    clear_gradients(emitter, &module->weights);
    text_add(text, "static void run_%s(const MoecRun *run)\n{\n", prefix);
    if (head.length)
        text_add_bytes(text, head.text, head.length);
    else
        text_add(text, "    (void)run;\n");
    text_add(text, "\n");
    if (body.length) text_add_bytes(text, body.text, body.length);
    text_add(text, "}\n\n");

    emitted->program = program;
    emitted->arena_bytes = schedule->arena_bytes + emitter->lower.scratch_bytes;
    emitted->prefix = prefix;
    emitted->kernels = emitter->kernels;
    emitted->product_count = module->products.count - emitted->first_product;
    emitted->dense = emitter->dense;
    emitted->flops = emitter->flops;
    emitted->product_flops = emitter->product_flops;
    list_push(arena, &module->emitted, emitted);
}
