/* emit_cuda: programs as two texts: C that launches kernels, and those kernels.
 *
 * Needs:   as emit_c; programs for a device.
 * Leaves:  C text that includes launch.h and exports the same table as emit_c, and CUDA text that
 *          includes kernels.cuh, in pieces that can be compiled apart. Both come from one walk of
 *          the schedule, so that a kernel and its launch cannot differ.
 */
#include "codegen/emit.h"
#include "passes.h"

#include <string.h>

static void clear(Emitter *emitter, const char *name, size_t bytes) {
    emit_line(emitter, "run->host->zero(run->host->self, %s, %zu);", name, bytes);
}

#define CUDA                                                                                       \
    .parameters = {.function = "extern \"C\" __global__ void",                                     \
                   .seed = "const uint64_t *__restrict__ moec_seed_at",                            \
                   .seed_argument = "run->device_seed",                                            \
                   .memory = "",                                                                   \
                   .alone = "__restrict__ ",                                                       \
                   .address = "&"},                                                                \
    .kernel = emit_cuda_kernel, .call = emit_cuda_call, .product = emit_cuda_dense,                \
    .grouped = emit_cuda_grouped, .rows = emit_cuda_rows, .clear = clear,                          \
    .nests = emit_cuda_update_nests, .update = emit_cuda_update,                                   \
    .update_function = "launch = launch_update", .apart = true

const EmitTarget target_cuda = {CUDA, .variants = true};
const EmitTarget target_cuda_alone = {CUDA};

/* The numbers of the kernels, and their names by number. */
static void add_kernels(Text *text, const List *kernels) {
    text_add(text, "/* Kernels of the device: their numbers, their names. */\nenum {\n");
    for (int i = 0; i < kernels->count; i++)
        text_add(text, "    %s,\n", (const char *)kernels->items[i]);
    text_add(text, "};\nstatic const char *const moec_kernel_names[] = {\n");
    for (int i = 0; i < kernels->count; i++)
        text_add(text, "    \"%s\",\n", (const char *)kernels->items[i]);
    text_add(text, "};\n\n");
}

static void add_own_products(Text *text, const List *products) {
    if (!products->count) return;
    text_add(text,
             "/* The kernel of each product, for where the host does not take it: see abi.h. */\n");
    text_add(text, "static const MoecOwnProduct moec_own_products[] = {\n");
    for (int i = 0; i < products->count; i++) {
        const OwnProduct *own = products->items[i];
        text_add(text, "    {%s, %ld},\n", own->kernel, own->alignment);
    }
    text_add(text, "};\n\n");
}

/* The kernels by number, for who launches them without a driver of ours. */
static void add_functions(Text *text, const List *kernels) {
    text_add(text, "extern \"C\" {\nextern const void *const moec_kernel_functions[] = {\n");
    for (int i = 0; i < kernels->count; i++)
        text_add(text, "    (const void *)%s,\n", (const char *)kernels->items[i]);
    text_add(text, "};\n}\n");
}

/* All weights as bf16, in one launch: see MoecTable.round. */
static void add_rounding(Text *text, size_t weight_bytes) {
    text_add(text, "static void round_weights(const MoecHost *host, const float *weights, void "
                   "*rounded)\n{\n");
    text_add(text,
             "    moec_launch_on(host, moec_round, %zu, 256, MOEC_ARGUMENTS(&weights, &rounded, "
             "MOEC_NUMBER(%zu)));\n}\n\n",
             (weight_bytes / 16 + 255) / 256, weight_bytes / 4);
}

/* The pieces of a text that has `head` bytes before them and perhaps something behind. */
static MoecKernels kernels_of(const Module *module, const Text *text, size_t head) {
    const List *pieces = &module->device.pieces;
    MoecPiece *all = arena_alloc(module->arena, ((size_t)pieces->count + 2) * sizeof *all);
    int count = 0;
    all[count++] = (MoecPiece){MOEC_EVERY_KERNEL, head};
    for (int i = 0; i < pieces->count; i++) {
        all[count] = *(const MoecPiece *)pieces->items[i];
        all[count++].end += head;
    }
    all[count++] = (MoecPiece){MOEC_EVERY_KERNEL, text->length};
    return (MoecKernels){text->text, all, count};
}

static MoecKernels emit_device(const Module *module, bool standalone) {
    Text text = {.arena = module->arena};
    text_add(&text, "/* Written by moec%s: the kernels that the program beside it launches. */\n",
             standalone ? " to stand alone" : "");
    emit_overview(module, &text);
    text_add(&text, "#include \"kernels.cuh\"\n%s\n", standalone ? "#include \"fixed.cuh\"\n" : "");
    add_sizes(&text, &module->sizes, true);
    size_t head = text.length;
    if (module->device.text.length)
        text_add_bytes(&text, module->device.text.text, module->device.text.length);
    if (standalone) add_functions(&text, &module->device.kernels);
    return kernels_of(module, &text, head);
}

char *emit_cuda(Arena *arena, Schedule *const *schedules, int count, Hosting hosting,
                MoecKernels *device) {
    Text text = {.arena = arena};
    bool standalone = hosting == TARGET_STANDALONE;
    Module *module =
        emit_module(arena, schedules, count, standalone ? &target_cuda_alone : &target_cuda, NULL);
    if (module->rounded) list_push(arena, &module->device.kernels, "moec_round");
    text_add(&text, "/* Written by moec%s. Comments hold the equations and where they stand. */\n",
             standalone ? " to stand alone" : "");
    emit_overview(module, &text);
    text_add(&text, "#include \"launch.h\"\n\n");
    add_sizes(&text, &module->sizes, false);
    add_kernels(&text, &module->device.kernels);
    emit_products(&text, &module->products);
    add_own_products(&text, &module->own_products);
    text_add_bytes(&text, module->functions.text, module->functions.length);
    if (module->rounded) add_rounding(&text, module->weights.bytes);
    emit_table(module, &text, count ? schedules[0]->program->name : "");
    *device = emit_device(module, standalone);
    return text.text;
}
