/* plain_memory: the memory of a freestanding program: constants, the state, the stack.
 *
 *     embedding [v,d]   constant floats from element 0 on
 *     logits            a part of the state of their own
 *     other outputs     after the temporaries
 */
#include "module/lowered.h"
#include "base/must.h"

#include <string.h>

/* ---- stored weights and states ---- */

static bool is_constant_memory(const Buffer *buffer) {
    return buffer->used && (buffer->block == MOEC_WEIGHTS || buffer->block == MOEC_STATES ||
                            buffer->block == MOEC_COMPUTE_WEIGHTS);
}

/* Elements of a tensor in the arrays: floats and bf16 fill lines of 16. */
static size_t stored_room(const MoecStored *stored) {
    const bool lines = stored->type == MOEC_F32 || stored->type == MOEC_BF16;
    return lines ? (stored->elements + 15) / 16 * 16 : stored->elements;
}

/* Assigns memory to all stored tensors that the program reads. */
static size_t *store_constants(Arena *arena, const Module *module, MoecFreestanding *result) {
    const Entry *entry = module->entries.items[0];
    const int tensors = entry->program->tensors.count;
    size_t *first = arena_alloc(arena, ((size_t)tensors + 1) * sizeof *first);
    MoecStored *stored = arena_alloc(arena, ((size_t)tensors + 1) * sizeof *stored);
    MUST(weight_type_count == MOEC_STORED_ARRAYS);
    for (int i = 0; i < weight_type_count; i++)
        result->copies[i] = (MoecStoredArray){.structure = weight_types[i].structure,
                                              .name = weight_types[i].array,
                                              .type = weight_types[i].stored,
                                              .bytes = weight_types[i].bytes};
    for (int i = 0; i < tensors; i++) {
        const Buffer *buffer = &entry->buffers[i];
        if (!is_constant_memory(buffer)) continue;
        const Tensor *tensor = buffer->tensor;
        const bool rounded = buffer->block == MOEC_COMPUTE_WEIGHTS;
        const Type type = rounded ? tensor->type : TYPE_REAL;
        const size_t elements = packed_bytes(tensor) / copy_element_bytes(type);
        size_t *end =
            rounded ? &result->copies[weight_type(type) - weight_types].elements : &result->floats;
        const size_t from = rounded ? layout_offset(&module->weights, tensor->of) : buffer->offset;
        first[i] = *end;
        stored[result->stored_count++] =
            (MoecStored){.name = rounded ? tensor->of->path : tensor->path,
                         .axes = axis_names(arena, tensor),
                         .is_state = buffer->block == MOEC_STATES,
                         .type = table_type(type),
                         .from = from / sizeof(float),
                         .at = *end,
                         .elements = elements};
        *end += stored_room(&stored[result->stored_count - 1]);
    }
    result->stored = stored;
    return first;
}

/* ---- memory of the state ---- */

bool is_logits(const Tensor *tensor) {
    return strcmp(tensor->path ? tensor->path : tensor->name, "logits") == 0;
}

/* Bytes of the arrays in a block and in the blocks inside it. */
static size_t local_bytes(const FormBlock *block) {
    size_t bytes = 0;
    for (const FormNode *node = block->first; node; node = node->next) {
        if (node->kind == FORM_LET && node->size)
            bytes += (size_t)(node->size * (node->rows ? node->rows : 1)) * 8;
        bytes += local_bytes(&node->body);
    }
    return bytes;
}

/* The logits are a part of the state, all other outputs follow the temporaries. */
static void measure_state(const Module *module, const Entry *entry, size_t *first,
                          MoecFreestanding *result) {
    result->cache_bytes = entry->caches.bytes;
    result->arena_bytes = entry->arena_bytes;
    LIST_EACH(const Tensor, output, &entry->program->outputs) {
        if (is_logits(output)) {
            result->vocabulary = tensor_elements(output);
        } else {
            first[output->id] = result->arena_bytes;
            result->arena_bytes += ((size_t)tensor_elements(output) * sizeof(float) + 63) / 64 * 64;
        }
    }
    result->context = entry->program->context;
    result->products = entry->dense;
    result->kernels = entry->kernels;
    LIST_EACH(const LoopKernel, kernel, &module->kernels) {
        const size_t bytes = local_bytes(&kernel->form.block);
        if (bytes > result->local_bytes) result->local_bytes = bytes;
    }
}

/* ---- integers ---- */

/* Whether a value needs integers of 64 bits. */
static bool needs_wide(const Term *term) {
    if (!term) return false;
    if (term->op >= TERM_WHOLE && term->op <= TERM_WHOLE_REMAINDER) return true;
    bool wide = false;
    for (int i = 0; i < term->count; i++) wide |= needs_wide(term->args[i]);
    return wide;
}

static bool needs_wide_block(const FormBlock *block) {
    bool wide = false;
    for (const FormNode *node = block->first; node; node = node->next) {
        for (int i = 0; i < NODE_VALUES; i++) wide |= needs_wide(node->values[i]);
        wide |= needs_wide_block(&node->body);
    }
    return wide;
}

PlainMemory plain_memory(Arena *arena, const Module *module, MoecFreestanding *result) {
    const Entry *entry = module->entries.items[0];
    PlainMemory memory = {store_constants(arena, module, result), false};
    measure_state(module, entry, memory.first, result);
    for (int i = 0; i < module->kernels.count; i++)
        memory.wide |=
            needs_wide_block(&((const LoopKernel *)module->kernels.items[i])->form.block);
    return memory;
}
