/* print_freestanding: a module of one decoding program as C99 for a machine without a C library.
 *
 * Needs:   final loops.
 * Leaves:  functions and constants, of which run_decode is the last. Weights and states are parts
 *          of two constant arrays, everything else is in the state of type Model:
 *
 *     const float *const embedding = moec_floats.values + 0;
 *     float *const x = (float *)(void *)(run->arena + 256);
 *
 * runtime/freestanding/plain_model.c has the rest of the text, plain.h the functions that it calls.
 */
#include "print/print.h"
#include "passes.h"

#include <string.h>

/* ---- stored weights and states ---- */

static bool is_stored(const Buffer *buffer) {
    return buffer->used && (buffer->block == MOEC_WEIGHTS || buffer->block == MOEC_STATES ||
                            buffer->block == MOEC_COMPUTE_WEIGHTS);
}

/* Assigns memory to all stored tensors that the program reads: every 16 elements begin a line. */
static size_t *store(Arena *arena, const Entry *entry, MoecFreestanding *result) {
    const int tensors = entry->program->tensors.count;
    size_t *first = arena_alloc(arena, ((size_t)tensors + 1) * sizeof *first);
    MoecStored *stored = arena_alloc(arena, ((size_t)tensors + 1) * sizeof *stored);
    for (int i = 0; i < tensors; i++) {
        const Buffer *buffer = &entry->buffers[i];
        if (!is_stored(buffer)) continue;
        const Tensor *tensor = buffer->tensor;
        const bool rounded = buffer->block == MOEC_COMPUTE_WEIGHTS, groups = tensor->type == TYPE_INT8;
        const size_t numbers = (size_t)tensor_elements(tensor), group = groups ? INT8_GROUP : 1;
        size_t *end = rounded ? &result->rounded : &result->floats;
        first[i] = *end;
        stored[result->stored_count++] = (MoecStored){
            .name = rounded ? tensor->of->path : tensor->path,
            .axes = axes_of(arena, tensor),
            .is_state = buffer->block == MOEC_STATES,
            .type = groups ? MOEC_INT8 : rounded ? MOEC_BF16 : MOEC_F32,
            .from = rounded ? buffer->offset * group : buffer->offset / sizeof(float),
            .at = *end,
            .numbers = numbers};
        if (rounded) result->rounded_type = groups ? MOEC_INT8 : MOEC_BF16;
        *end += groups ? (numbers + group - 1) / group : (numbers + 15) / 16 * 16;
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
    for (int i = 0; i < entry->program->outputs.count; i++) {
        const Tensor *output = entry->program->outputs.items[i];
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
    for (int i = 0; i < module->kernels.count; i++) {
        const LoopKernel *kernel = module->kernels.items[i];
        const size_t bytes = local_bytes(&kernel->form.block);
        if (bytes > result->local_bytes) result->local_bytes = bytes;
    }
}

/* ---- text ---- */

static bool begins(const char *text, const char *word) {
    return strncmp(text, word, strlen(word)) == 0;
}

/* Whether a word begins here: not inside a longer one. */
static bool is_word(const char *text, const char *at, const char *word) {
    const char *letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    return begins(at, word) && (at == text || !strchr(letters, at[-1])) &&
           (!at[strlen(word)] || !strchr(letters, at[strlen(word)]));
}

/* Words of other programs that C99 has in headers of the C library, and int32_t under the name that
 * it has on hosts. */
typedef struct Word {
    const char *hosted, *plain;
} Word;

static const Word *plain_word(const char *text, const char *at) {
    static const Word words[] = {
        {"INFINITY", "MOEC_INFINITE"}, {"NAN", "MOEC_NOT_A_NUMBER"}, {"int", "int32_t"}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (is_word(text, at, words[i].hosted)) return &words[i];
    return NULL;
}

/* Without hints for OpenMP. Functions of the C library are replaced by those of plain_math.h:
 * moec_math(cos)(x) is moec_double_cos(x). Where integers need 64 bits, they have them on every
 * machine. */
static void add_plain(Text *text, const char *from) {
    const bool wide = strstr(from, "moec_whole") != NULL;
    const Word *word;
    for (const char *at = from; *at;) {
        const char *line = at + strspn(at, " ");
        if ((at == from || at[-1] == '\n') && begins(line, "MOEC_OMP(")) {
            at = strchr(line, '\n') + 1;
        } else if (begins(at, "moec_math(")) {
            const char *name = at + strlen("moec_math("), *end = strchr(name, ')');
            text_add(text, "moec_double_%.*s", (int)(end - name), name);
            at = end + 1;
        } else if ((word = plain_word(from, at))) {
            text_add(text, "%s", word->plain);
            at += strlen(word->hosted);
        } else if (wide && is_word(from, at, "long")) {
            text_add(text, "int64_t");
            at += strlen("long");
        } else {
            text_add_bytes(text, at++, 1);
        }
    }
}

char *print_freestanding(Arena *arena, const Module *module, MoecFreestanding *program) {
    const Entry *entry = module->entries.items[0];
    const PrintStyle style = {.function = "static void",
                              .seed = "uint64_t moec_seed",
                              .seed_argument = "0",
                              .memory = "",
                              .alone = "restrict ",
                              .address = "",
                              .begin = "",
                              .seed_begin = "",
                              .clear = "moec_clear(",
                              .run = "Model"};
    *program = (MoecFreestanding){0};
    size_t *stored = store(arena, entry, program);
    measure_state(module, entry, stored, program);
    const PrintContext context = {module, &style, stored};
    Text text = {.arena = arena}, functions = {.arena = arena};
    print_sizes(&functions, &module->sizes, false);
    print_products(&functions, &module->products);
    print_functions(&functions, &context, &module->functions, NULL, NULL);
    print_absent(&text, module);
    add_plain(&text, functions.text);
    return text.text;
}
