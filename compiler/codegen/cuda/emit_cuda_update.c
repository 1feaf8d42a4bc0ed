/* emit_cuda_update: the optimizer step as a kernel over all parameters. */
#include "analysis/parameter_facts.h"
#include "codegen/emit.h"

/* Elements per block. */
enum { SHARE = 8192 };

/* Adds the start of each trained parameter to the table of the kernel; returns the number of
 * blocks. each: elements per block, 0: a parameter is not divided. *shares: rows of the table. */
static long add_shares(const Module *module, Text *text, long each, int *shares) {
    const BlockLayout *weights = &module->weights;
    long blocks = 0;
    *shares = 0;
    text_add(text, "static __device__ const MoecShare update_shares[] = {\n");
    for (int i = 0; i < weights->tensors.count; i++) {
        const Tensor *tensor = weights->tensors.items[i];
        long count = tensor_elements(tensor);
        if (!is_trained(tensor) || tensor->whole) continue;
        ++*shares;
        text_add(text, "    {%ld, %zu, %ld, %d}, /* %s */\n", blocks, weights->offsets[i] / 4,
                 count, module->groups[i], tensor->name);
        blocks += each ? (count + each - 1) / each : 1;
    }
    if (!*shares) text_add(text, "    {0, 0, 0, 0},\n");
    text_add(text, "};\n\n");
    return blocks ? blocks : 1;
}

/* Adds the span of a parameter that a block updates. */
static void add_span(Text *text, int shares, int states, int scalars, long each) {
    int step = 1;
    while (2 * step < shares) step *= 2;
    text_add(
        text,
        "    int moec_at = 0; /* last share that starts at or before this block */\n"
        "    for (int step = %d; step > 0; step /= 2)\n"
        "        if (moec_at + step < %d && update_shares[moec_at + step].block <= moec_block())\n"
        "            moec_at += step;\n"
        "    const MoecShare moec_share = update_shares[moec_at];\n",
        step, shares);
    if (each)
        text_add(text,
                 "    const long moec_before = (moec_block() - moec_share.block) * %ld;\n"
                 "    const long moec_from = moec_share.first + moec_before;\n"
                 "    const long elements = moec_least(moec_share.count - moec_before, %ld);\n",
                 each, each);
    else
        text_add(text,
                 "    const long moec_from = moec_share.first, elements = moec_share.count;\n");
    text_add(text, "    float *const weight = moec_weights + moec_from;\n"
                   "    const float *const gradient = moec_gradients + moec_from;\n");
    text_add(text, "    const float *const scalars = moec_numbers + moec_share.group * %d;\n",
             scalars);
    if (!states) return;
    text_add(text, "    float *const state[] = {");
    for (int i = 0; i < states; i++)
        text_add(text, "%smoec_state_%d + moec_from", i ? ", " : "", i);
    text_add(text, "};\n");
}

/* The same as a kernel over all parameters, and the function that launches it. */
void emit_cuda_update(Module *module, const Update *update) {
    const Launch launch = update->body->launch;
    Text list = {.arena = module->arena}, given = {.arena = module->arena};
    Text start = {.arena = module->arena}, *text = &start;
    long each = launch.blocks ? 0 : SHARE; /* a separate grid: one block updates everything */
    int shares;
    text_add(&list, "%s", "");
    text_add(&given, "%s", "");
    for (int i = 0; i < update->states.count; i++) {
        text_add(&list, ", float *__restrict__ moec_state_%d", i);
        text_add(&given, ", &states[%d]", i);
    }
    long blocks = add_shares(module, text, each, &shares);
    list_push(module->arena, &module->device_kernels, "update_step");
    text_add(
        text,
        "extern \"C\" __global__ void __launch_bounds__(%d) update_step(\n"
        "        float *__restrict__ moec_weights, const float *__restrict__ moec_gradients%s,\n"
        "        const float *__restrict__ moec_numbers%s)\n{\n",
        launch.threads, list.text, module->rounded ? ", MoecBf16 *__restrict__ moec_rounded" : "");
    text_add(text, "    moec_begin();\n");
    add_span(text, shares, update->states.count, update->scalars.count, each);
    Section *section = add_text(module->arena, &module->device, "%s%s" LOOPS_HERE "}\n\n",
                                text->text, update->head);
    list_push(module->arena, &section->loops, update->body);
    end_piece(module, "update_step");
    add_text(
        module->arena, &module->functions,
        "static void launch_update(const MoecHost *host, float *weights, const float *gradients,\n"
        "                          float *const *states, const float *scalars, void *rounded)\n"
        "{\n    (void)states, (void)rounded;\n"
        "    moec_launch_on(host, update_step, %ld, %d,\n"
        "                   MOEC_ARGUMENTS(&weights, &gradients%s, &scalars%s));\n}\n\n",
        blocks, launch.threads, given.text, module->rounded ? ", &rounded" : "");
}

/* Statements without elements come first and every thread computes them, unless more than one loop
 * over the elements follows. */
Launch emit_cuda_update_nests(Emitter *emitter, const Kernel *kernel) {
    Nest *root = kernel->root;
    Nest *last = root->children.items[root->children.count - 1];
    bool plain = !last->member && is_innermost(last);
    for (int i = 0; i + 1 < root->children.count; i++)
        plain &= ((Nest *)root->children.items[i])->member != NULL;
    for (int i = 0; i < kernel->locals.count; i++) {
        const Local *local = kernel->locals.items[i];
        plain &= !local->stored || local->scope != root;
    }
    for (int i = 0; i < kernel->members.count; i++)
        plain &= ((Member *)kernel->members.items[i])->statement->reduction == REDUCE_NONE;
    if (!plain) return lower_device_block(&emitter->lower, root);
    for (int i = 0; i + 1 < root->children.count; i++)
        lower_member(&emitter->lower, ((Nest *)root->children.items[i])->member);
    return lower_device_nest(&emitter->lower, last);
}
