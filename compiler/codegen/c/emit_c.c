/* emit_c: a module as one C text.
 *
 * Needs:   final loops.
 * Leaves:  a text that includes kernels.h and exports `const MoecTable moec_table`
 *          (runtime/abi/abi.h). It is the same for both hosts: a standalone folder contains the
 *          kernel files, the runtime has them in its own folder.
 */
#include "codegen/emit.h"
#include "passes.h"

#include <string.h>

static void add_strides(Text *text, const char *name, const long strides[2]) {
    if (strides[0] || strides[1])
        text_add(text, ", .%s = {%ld, %ld}", name, strides[0], strides[1]);
}

void emit_type(Text *text, const char *operand, Type type) {
    if (type == TYPE_BF16) text_add(text, ", .%s_type = MOEC_BF16", operand);
    if (type == TYPE_INT8) text_add(text, ", .%s_type = MOEC_INT8", operand);
}

void emit_products(Text *text, const List *products) {
    if (!products->count) return;
    text_add(text, "/* Matrix products: see MoecProduct in abi.h. */\n");
    text_add(text, "static const MoecProduct moec_products[] = {\n");
    for (int i = 0; i < products->count; i++) {
        const Product *p = products->items[i];
        text_add(text,
                 "    {.m = %ld, .n = %ld, .k = %ld, .a_m = %ld, .a_k = %ld, .b_k = %ld, .b_n = "
                 "%ld, .c_m = %ld,\n",
                 p->m, p->n, p->k, p->a_m, p->a_k, p->b_k, p->b_n, p->c_m);
        text_add(text, "     .batch = {%ld, %ld}", p->batch[0], p->batch[1]);
        add_strides(text, "a_batch", p->a_batch);
        add_strides(text, "b_batch", p->b_batch);
        add_strides(text, "c_batch", p->c_batch);
        text_add(text, ", .accumulate = %d%s", p->accumulate, p->rounded ? ", .rounded = 1" : "");
        emit_type(text, "a", p->a_type);
        emit_type(text, "b", p->b_type);
        emit_type(text, "c", p->c_type);
        if (p->epilogue_ops)
            text_add(text, ",\n     .epilogue_ops = %d, .add_m = %ld, .kept_m = %ld",
                     p->epilogue_ops, p->add_m, p->kept_m);
        if (p->epilogue_ops & MOEC_SCALE)
            text_add(text, ", .scale = %s", number_text(text->arena, p->scale));
        text_add(text, "}, /* %d: %s */\n", i, p->name);
    }
    text_add(text, "};\n\n");
}

/* All weights as bf16 or int8: see MoecTable.round. */
static void add_rounding(Text *text, Type type, size_t weight_bytes) {
    text_add(text, "static void round_weights(const MoecHost *host, const float *weights, void "
                   "*rounded)\n{\n");
    text_add(text, "    (void)host;\n    %s(weights, rounded, %zu);\n}\n\n",
             type == TYPE_INT8 ? "moec_round_groups" : "moec_round", weight_bytes / 4);
}

#define PROCESSOR(FUNCTION)                                                                        \
    .parameters = {.function = FUNCTION,                                                           \
                   .seed = "uint64_t moec_seed",                                                   \
                   .seed_argument = "run->seed",                                                   \
                   .memory = "",                                                                   \
                   .alone = "restrict ",                                                           \
                   .address = "",                                                                  \
                   .begin = "",                                                                    \
                   .seed_begin = ""},                                                              \
    .kernel = emit_kernel, .grouped = emit_grouped, .clear = "moec_clear(",                        \
    .nests = emit_update_nests

const EmitTarget target_c = {PROCESSOR("static void")};
const EmitTarget target_c_hosted = {PROCESSOR("MOEC_KERNEL void")};
const EmitTarget target_c_marked = {PROCESSOR("MOEC_KERNEL void"), .marks = true};

/* Operand types that no program multiplies; the kernels leave them out, see operands.h. */
static void add_absent(Text *text, const Module *module) {
    bool rounds = false, bf16 = false, int8 = false, bytes = false;
    for (int i = 0; i < module->program_count; i++) {
        const Program *program = module->programs[i];
        rounds |= program->rounded;
        for (int j = 0; j < program->tensors.count; j++) {
            const Tensor *tensor = program->tensors.items[j];
            bf16 |= tensor->type == TYPE_BF16;
            int8 |= tensor->type == TYPE_INT8;
            bytes |= tensor->type == TYPE_BYTE;
        }
    }
    if (!rounds || !bf16 || !int8 || !bytes)
        text_add(text, "/* Kernel features that this program does not use. */\n");
    if (!rounds) text_add(text, "#define MOEC_ROUNDED_PRODUCTS 0\n");
    if (!bf16) text_add(text, "#define MOEC_BF16_OPERANDS 0\n");
    if (!int8) text_add(text, "#define MOEC_INT8_OPERANDS 0\n");
    if (!bytes) text_add(text, "#define MOEC_BYTE_OPERANDS 0\n");
}

/* The number of first kernels that make up about half of the text. */
static int half_of(const List *kernels) {
    size_t all = 0, half = 0;
    int count = 0;
    for (int i = 0; i < kernels->count; i++) {
        const KernelRange *kernel = kernels->items[i];
        all += kernel->end - kernel->first;
    }
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

char *emit_c(const Module *module) {
    const bool standalone = module->target == &target_c;
    Text text = {.arena = module->arena}, functions = {.arena = module->arena};
    List kernels = {0};
    print_functions(&functions, module, &module->functions, &kernels, NULL);
    text_add(&text,
             "/* Generated by moec%s. Comments show the equations and their source lines. */\n",
             standalone ? " (standalone)" : "");
    emit_overview(module, &text);
    if (standalone) add_absent(&text, module);
    text_add(&text, "#include \"kernels.h\"\n\n");
    add_sizes(&text, &module->sizes, false);
    emit_products(&text, &module->products);
    if (standalone)
        text_add_bytes(&text, functions.text, functions.length);
    else
        add_parts(&text, &functions, &kernels);
    if (module->rounded) add_rounding(&text, module->rounded, module->weights.bytes);
    emit_table(module, &text);
    if (!standalone) text_add(&text, "#endif\n");
    return text.text;
}
