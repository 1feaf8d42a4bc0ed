/* print_c: a module as one C text.
 *
 * Needs:   final loops.
 * Leaves:  a text that includes kernels.h and exports `const MoecTable moec_table`
 *          (runtime/abi/abi.h). It is the same for both hosts: a standalone folder contains the
 *          kernel files, the runtime has them in its own folder.
 */
#include "print/print.h"

#include "ir/weight_type.h"
#include "passes.h"

/* All weights as bf16: see MoecTable.round. */
static void add_rounding(Text *text, size_t weight_bytes) {
    text_add(text, "static void round_weights(const MoecHost *host, const float *weights, void "
                   "*rounded)\n{\n");
    text_add(text, "    (void)host;\n    moec_round(weights, rounded, %zu);\n}\n\n",
             weight_bytes / 4);
}

/* The same, a parameter at a time. */
static void add_packing(Text *text, const Module *module) {
    const BlockLayout *packed = &module->packed;
    text_add(text, "static const MoecWeightCopy packed_weights[] = {\n");
    for (int i = 0; i < packed->tensors.count; i++) {
        const Tensor *tensor = packed->tensors.items[i];
        const Matrices matrices = copy_matrices(tensor), *m = &matrices;
        text_add(text, "    {%s, %zu, %zu, %ld, %ld, %ld, %ld, %ld, %ld}, /* %s */\n",
                 weight_type(tensor->type)->code, layout_offset(&module->weights, tensor->of),
                 packed->offsets[i], m->batch, m->n, m->k, m->batch_stride, m->n_stride,
                 m->k_stride, tensor->path);
    }
    text_add(text, "};\n\n"
                   "static void round_weights(const MoecHost *host, const float *weights, void "
                   "*rounded)\n{\n    (void)host;\n");
    text_add(text,
             "    for (int i = 0; i < %d; i++) moec_round_copy(&packed_weights[i], weights, "
             "rounded);\n}\n\n",
             packed->tensors.count);
}

void print_absent(Text *text, const Module *module) {
    bool rounds = false, used[TYPES] = {false};
    for (int i = 0; i < module->program_count; i++) {
        const Program *program = module->programs[i];
        rounds |= program->rounded;
        LIST_EACH(const Tensor, tensor, &program->tensors) used[tensor->type] = true;
    }
    if (!rounds || !used[TYPE_BF16] || !used[TYPE_INT8] || !used[TYPE_BYTE])
        text_add(text, "/* Kernel features that this program does not use. */\n");
    if (!rounds) text_add(text, "#define MOEC_ROUNDED_PRODUCTS 0\n");
    if (!used[TYPE_BF16]) text_add(text, "#define MOEC_BF16_OPERANDS 0\n");
    if (!used[TYPE_INT8]) text_add(text, "#define MOEC_INT8_OPERANDS 0\n");
    for (int i = 0; i < weight_type_count; i++) {
        const WeightType *type = &weight_types[i];
        if (type->columns > 1 && used[type->type] != used[TYPE_INT8])
            text_add(text, "#define %s_OPERANDS %d\n", type->code, used[type->type]);
    }
    if (!used[TYPE_BYTE]) text_add(text, "#define MOEC_BYTE_OPERANDS 0\n");
}

/* The number of first kernels that make up about half of the text. */
static int half_of(const List *kernels) {
    size_t all = 0, half = 0;
    int count = 0;
    LIST_EACH(const KernelRange, kernel, kernels) all += kernel->end - kernel->first;
    for (; count < kernels->count && 2 * half < all; count++) {
        const KernelRange *kernel = kernels->items[count];
        half += kernel->end - kernel->first;
    }
    return count;
}

/* Splits the functions into two parts that a host may compile in parallel: the first kernels; the
 * other kernels, the run functions and the table, whose text follows. Text between the first
 * kernels belongs to both.
 *
 *     MOEC_KERNEL void kernel_train_0(float *x);      called by the other part
 *     #if MOEC_HAS_PART(1)
 *     MOEC_KERNEL void kernel_train_0(float *x) { ... }
 *     #endif
 *     #if MOEC_HAS_PART(0)
 *     ... */
static void add_parts(Text *text, const Text *all, const List *kernels) {
    const char *functions = all->text;
    const int apart = half_of(kernels);
    size_t at = 0;
    for (int i = 0; i < apart; i++) {
        const KernelRange *kernel = kernels->items[i];
        print_line(text, 0, arena_format(text->arena, "%s;", kernel->head));
    }
    text_add(text, "\n");
    for (int i = 0; i < apart; i++) {
        const KernelRange *kernel = kernels->items[i];
        const bool beside = i && at == kernel->first;
        if (i && !beside) text_add(text, "#endif\n");
        text_add_bytes(text, functions + at, kernel->first - at);
        if (!beside) text_add(text, "#if MOEC_HAS_PART(1)\n");
        text_add_bytes(text, functions + kernel->first, kernel->end - kernel->first);
        at = kernel->end;
    }
    if (apart) text_add(text, "#endif\n");
    text_add(text, "#if MOEC_HAS_PART(0)\n");
    text_add_bytes(text, functions + at, all->length - at);
}

PrintStyle c_style(const char *function, const char *seed, const char *run) {
    return (PrintStyle){.function = function,
                        .seed = "uint64_t moec_seed",
                        .seed_argument = seed,
                        .memory = "",
                        .alone = "restrict ",
                        .address = "",
                        .begin = "",
                        .seed_begin = "",
                        .clear = "moec_clear(",
                        .run = run};
}

char *print_c(Arena *arena, const Module *module) {
    const bool standalone = module->hosting == TARGET_STANDALONE;
    const PrintStyle style =
        c_style(standalone ? "static void" : "MOEC_KERNEL void", "run->seed", "const MoecRun");
    const PrintContext context = {module, &style, NULL};
    Text text = {.arena = arena}, functions = {.arena = arena};
    List kernels = {0};
    print_functions(&functions, &context, &module->functions, &kernels, NULL);
    text_add(&text,
             "/* Generated by moec%s. Comments show the equations and their source lines. */\n",
             standalone ? " (standalone)" : "");
    print_overview(&text, module);
    if (standalone) print_absent(&text, module);
    text_add(&text, "#include \"kernels.h\"\n\n");
    print_sizes(&text, &module->sizes, false);
    print_extern_declarations(&text, module);
    print_products(&text, &module->products);
    if (standalone)
        text_add_bytes(&text, functions.text, functions.length);
    else
        add_parts(&text, &functions, &kernels);
    if (module->packed.tensors.count)
        add_packing(&text, module);
    else if (module->rounded)
        add_rounding(&text, module->weights.bytes);
    print_table(&text, module);
    print_extern_files(&text, module);
    if (!standalone) text_add(&text, "#endif\n");
    return text.text;
}
