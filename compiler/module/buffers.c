/* buffers: the memory of programs: the blocks that they share, and the buffer of each tensor. */
#include "module/lowered.h"

#include <string.h>

/* ---- blocks ---- */

/* The index of a path in a layout, or -1. */
static int place_of(const BlockLayout *layout, const char *path) {
    const List *found = table_find(&layout->places, hash_text(HASH_START, path));
    for (int i = 0; i < found->count; i++) {
        int place = *(int *)found->items[i];
        if (strcmp(((Tensor *)layout->tensors.items[place])->path, path) == 0) return place;
    }
    return -1;
}

size_t layout_offset(const BlockLayout *layout, const Tensor *tensor) {
    int place = place_of(layout, tensor->path);
    return place < 0 ? 0 : layout->offsets[place];
}

static void add_tensor(Arena *arena, BlockLayout *layout, Tensor *tensor) {
    const int known = place_of(layout, tensor->path);
    if (known >= 0) {
        Tensor *first = layout->tensors.items[known];
        if (first->spare < tensor->spare) first->spare = tensor->spare;
        return;
    }
    int *place = arena_alloc(arena, sizeof *place);
    *place = layout->tensors.count;
    table_add(arena, &layout->places, hash_text(HASH_START, tensor->path), place);
    list_push(arena, &layout->tensors, tensor);
}

Matrices copy_matrices(const Tensor *tensor) {
    if (tensor->matrices) return *tensor->matrices;
    return (Matrices){.batch = 1, .n = tensor_elements(tensor), .k = 1};
}

size_t copy_element_bytes(Type type) {
    return weight_type(type) ? weight_type(type)->bytes : (size_t)type_bytes(type);
}

size_t packed_bytes(const Tensor *tensor) {
    const WeightType *type = weight_type(tensor->type);
    const Matrices *m = tensor->matrices;
    const long elements =
        !m     ? tensor_elements(tensor) / (type ? type->elements : 1)
        : type ? m->batch * ((m->n + type->columns - 1) / type->columns) * (m->k / type->terms)
               : 0;
    return (size_t)elements * copy_element_bytes(tensor->type);
}

static size_t bytes_in(const BlockLayout *layout, int place) {
    const Tensor *tensor = layout->tensors.items[place];
    size_t bytes = packed_bytes(tensor);
    if (tensor->spare) bytes += (size_t)(tensor->spare * type_bytes(tensor->type));
    return (bytes + layout->unit - 1) / layout->unit * layout->unit;
}

/* Sets the offsets of the tensors with these values of frozen and whole, or of those that are read
 * as copies only. Returns their bytes. */
static size_t place(BlockLayout *layout, bool frozen, bool whole, bool alone) {
    const size_t before = layout->bytes;
    for (int i = 0; i < layout->tensors.count; i++) {
        const Tensor *tensor = layout->tensors.items[i];
        if (tensor->copied_alone != alone) continue;
        if (!alone && (tensor->frozen != frozen || (!frozen && tensor->whole != whole))) continue;
        layout->offsets[i] = layout->bytes;
        layout->bytes += bytes_in(layout, i);
    }
    return layout->bytes - before;
}

static size_t least_common_multiple(size_t a, size_t b) {
    size_t multiple = a;
    while (multiple % b) multiple += a;
    return multiple;
}

/* Every copy begins at a multiple of 64 bytes and of its elements. */
static size_t copy_unit(Program *const *programs, int count) {
    size_t unit = 64;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < weight_type_count; j++)
            if (programs[i]->has[weight_types[j].form])
                unit = least_common_multiple(unit, weight_types[j].bytes);
    return unit;
}

static void add_role(Arena *arena, BlockLayout *layout, Program *const *programs, int count,
                     Role role, bool prepared) {
    for (int i = 0; i < count; i++) {
        if (programs[i]->graph == GRAPH_UPDATE) continue;
        LIST_EACH(Tensor, tensor, &programs[i]->tensors)
            if (tensor->role == role && tensor->prepared == prepared)
                add_tensor(arena, layout, tensor);
    }
}

/* Prepared tensors follow the parameters. */
BlockLayout layout_of(Arena *arena, Program *const *programs, int count, Role role) {
    BlockLayout layout = {.unit = role == ROLE_ROUNDED ? copy_unit(programs, count) : 64};
    add_role(arena, &layout, programs, count, role, false);
    layout.given = layout.tensors.count;
    add_role(arena, &layout, programs, count, role, true);
    layout.offsets =
        arena_alloc(arena, (size_t)(layout.tensors.count + 1) * sizeof *layout.offsets);
    place(&layout, false, false, false);
    layout.whole_bytes = place(&layout, false, true, false);
    layout.frozen_bytes = place(&layout, true, false, false);
    layout.alone_bytes = place(&layout, false, false, true);
    return layout;
}

/* ---- host steps ---- */

HostStep *step_new(Arena *arena, List *steps, HostStepKind kind) {
    HostStep *step = arena_alloc(arena, sizeof *step);
    step->kind = kind;
    step->unit = -1;
    list_push(arena, steps, step);
    return step;
}

List *steps_when(Arena *arena, List *steps, Condition condition) {
    HostStep *step = step_new(arena, steps, STEP_WHEN);
    step->when = condition;
    return &step->body;
}

List *steps_in_part(Arena *arena, const Entry *entry, List *steps, Condition part) {
    return entry->schedule->second ? steps_when(arena, steps, part) : steps;
}

/* ---- buffers ---- */

/* The index of a tensor among those of its role: its slot. */
static size_t slot_of(const Program *program, const Tensor *tensor) {
    size_t slot = 0;
    if (tensor->role == ROLE_OUTPUT) {
        while (program->outputs.items[slot] != tensor) slot++;
        return slot;
    }
    for (int i = 0; i < tensor->id; i++)
        slot += ((Tensor *)program->tensors.items[i])->role == tensor->role;
    return slot;
}

/* Sets the block and the offset of a tensor. */
static void put_in_block(const Module *module, const Entry *entry, Buffer *buffer) {
    const BlockLayout *weights = &module->weights, *states = &module->states,
                      *packed = &module->packed;
    static const int blocks[] = {
        [ROLE_PARAMETER] = MOEC_WEIGHTS, [ROLE_GRADIENT] = MOEC_GRADIENTS,
        [ROLE_STATE] = MOEC_STATES,      [ROLE_INPUT] = MOEC_INPUTS,
        [ROLE_OUTPUT] = MOEC_OUTPUTS,    [ROLE_CACHE] = MOEC_CACHE,
        [ROLE_TEMP] = MOEC_ARENA,        [ROLE_ROUNDED] = MOEC_COMPUTE_WEIGHTS};
    const Tensor *tensor = buffer->tensor;
    buffer->block = blocks[tensor->role];
    switch (tensor->role) {
    case ROLE_PARAMETER:
        buffer->offset = layout_offset(weights, tensor);
        break;
    case ROLE_GRADIENT:
        buffer->offset = layout_offset(weights, tensor->of);
        break;
    case ROLE_STATE:
        buffer->offset = layout_offset(states, tensor);
        break;
    case ROLE_INPUT:
    case ROLE_OUTPUT:
        buffer->offset = slot_of(entry->program, tensor);
        break;
    case ROLE_CACHE:
        buffer->offset = layout_offset(&entry->caches, tensor);
        break;
    case ROLE_ROUNDED:
        if (!packed->tensors.count)
            buffer->offset = layout_offset(weights, tensor->of) / sizeof(float);
        else
            buffer->offset = layout_offset(packed, tensor) / copy_element_bytes(tensor->type);
        break;
    case ROLE_TEMP:
        buffer->offset = entry->schedule->allocations[tensor->id].offset;
        break;
    }
}

/* By index in the weights: a product overwrites the gradient. */
static void find_made(const List *units, const BlockLayout *weights, bool *made) {
    LIST_EACH(const ScheduleUnit, unit, units) {
        if (unit->kind == UNIT_REPEAT) find_made(&unit->body, weights, made);
        if (unit->kind == UNIT_CONTRACTION && unit->overwrites_gradient)
            made[place_of(weights, unit->statement->target->tensor->of->path)] = true;
    }
}

/* Clears the gradients that no product overwrites, adjacent ones together. */
static void clear_gradients(Arena *arena, Entry *entry, const BlockLayout *weights) {
    const size_t trained = weights->bytes - weights->frozen_bytes;
    if (entry->program->graph != GRAPH_TRAIN || !trained) return;
    List *steps = steps_when(arena, steps_in_part(arena, entry, &entry->gradients, BACKWARD_PART),
                             FIRST_MICRO_BATCH);
    bool *made = arena_alloc(arena, ((size_t)weights->tensors.count + 1) * sizeof *made);
    find_made(&entry->schedule->units, weights, made);
    for (size_t first = 0, next = trained; first < trained; first = next) {
        size_t end = next = trained;
        for (int i = 0; i < weights->tensors.count; i++) {
            const size_t offset = weights->offsets[i];
            if (!made[i] || offset < first || offset >= end) continue;
            end = offset;
            next = offset + bytes_in(weights, i);
        }
        if (end == first) continue;
        HostStep *step = step_new(arena, steps, STEP_CLEAR);
        step->clear.offset = first;
        step->clear.bytes = end - first;
    }
}

static void clear_tensors(Arena *arena, Entry *entry) {
    List *steps = NULL;
    for (int i = 0; i < entry->program->tensors.count; i++) {
        const Buffer *buffer = &entry->buffers[i];
        if (!buffer->cleared) continue;
        if (!steps) steps = steps_in_part(arena, entry, &entry->clears, FORWARD_PART);
        HostStep *step = step_new(arena, steps, STEP_CLEAR);
        step->clear.buffer = buffer;
        step->clear.bytes = buffer->bytes;
    }
}

Entry *entry_new(const Module *module, const Schedule *schedule, const char *const *names) {
    Arena *arena = module->arena;
    Program *program = schedule->program;
    Entry *entry = arena_alloc(arena, sizeof *entry);
    entry->program = program;
    entry->schedule = schedule;
    entry->caches = layout_of(arena, &program, 1, ROLE_CACHE);
    entry->arena_bytes = schedule->arena_bytes;
    entry->buffers = arena_alloc(arena, ((size_t)program->tensors.count + 1) * sizeof(Buffer));
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        const Allocation *place = &schedule->allocations[i];
        Buffer *buffer = &entry->buffers[i];
        *buffer =
            (Buffer){.tensor = tensor,
                     .name = names[i],
                     .bytes = place->bytes,
                     .slots = place->slots ? 2 : 1,
                     .constant = (tensor->role == ROLE_PARAMETER && program->graph != GRAPH_STEP &&
                                  !(tensor->prepared && program->graph == GRAPH_PREPARE)) ||
                                 tensor->role == ROLE_INPUT || tensor->role == ROLE_ROUNDED,
                     .cleared = place->cleared};
        put_in_block(module, entry, buffer);
    }
    clear_tensors(arena, entry);
    clear_gradients(arena, entry, &module->weights);
    return entry;
}

/* ---- sizes ---- */

SizeConstant *size_constant(const List *sizes, const Axis *axis) {
    LIST_EACH(SizeConstant, size, sizes)
        if (size->axis == axis ||
            (size->axis->size == axis->size && strcmp(size->axis->name, axis->name) == 0))
            return size;
    return NULL;
}
