/* print_table: the constant that a generated file exports: its graphs, names, sizes and offsets. */
#include "print/print.h"

#include <string.h>
#include <strings.h>

/* In the order of MoecBlock, MoecInput, MoecInit and MoecProbe. */
static const char *const blocks[] = {"WEIGHTS", "GRADIENTS", "STATES", "INPUTS",
                                     "OUTPUTS", "CACHE",     "ARENA"};
static const char *const input_kinds[] = {"TOKEN", "NEXT", "REAL", "CLASS", "SCALAR"};
static const char *const init_kinds[] = {"CONSTANT", "NORMAL", "UNIFORM"};
static const char *const probes[] = {"NONE", "MEAN", "LARGEST"};

const char *scalar_text(MoecScalar kind) {
    static const char *const kinds[] = {
        [MOEC_SCALAR_OPTION] = "MOEC_SCALAR_OPTION",
        [MOEC_SCALAR_RATE] = "MOEC_SCALAR_RATE",
        [MOEC_SCALAR_STEP] = "MOEC_SCALAR_STEP",
        [MOEC_SCALAR_STEPS] = "MOEC_SCALAR_STEPS",
        [MOEC_SCALAR_CLIP] = "MOEC_SCALAR_CLIP",
        [MOEC_SCALAR_MATRIX] = "MOEC_SCALAR_MATRIX",
        [MOEC_SCALAR_SCHEDULE_STEP] = "MOEC_SCALAR_SCHEDULE_STEP",
        [MOEC_SCALAR_SCHEDULE_STEPS] = "MOEC_SCALAR_SCHEDULE_STEPS",
        [MOEC_SCALAR_LOSS_SCALE] = "MOEC_SCALAR_LOSS_SCALE",
        [MOEC_SCALAR_POSITION] = "MOEC_SCALAR_POSITION",
        [MOEC_SCALAR_PROCESS] = "MOEC_SCALAR_PROCESS",
        [MOEC_SCALAR_TEMPERATURE] = "MOEC_SCALAR_TEMPERATURE",
    };
    return kinds[kind];
}

static void add_tensor(Text *text, const MoecTensor *tensor) {
    Text shape = {.arena = text->arena};
    for (int i = 0; i < tensor->rank; i++)
        text_add(&shape, "%s%ld", i ? ", " : "", tensor->shape[i]);
    text_add(text,
             "    {.name = %s, .axes = %s, .block = MOEC_%s, .offset = %zu,\n     .rank = %d, "
             ".shape = {%s}",
             quoted(text->arena, tensor->name), quoted(text->arena, tensor->axes),
             blocks[tensor->block], tensor->offset, tensor->rank, tensor->rank ? shape.text : "0");
    if (tensor->is_int) text_add(text, ", .is_int = 1");
    if (tensor->type == MOEC_BF16) text_add(text, ", .type = MOEC_BF16");
    if (tensor->type == MOEC_BYTE) text_add(text, ", .type = MOEC_BYTE");
    if (tensor->block == MOEC_WEIGHTS || tensor->block == MOEC_STATES)
        text_add(text, ", .init = MOEC_INIT_%s, .a = %.17g, .b = %.17g, .matrix = %d",
                 init_kinds[tensor->init], tensor->a, tensor->b, tensor->matrix);
    if (tensor->frozen) text_add(text, ", .frozen = 1");
    if (tensor->whole) text_add(text, ", .whole = 1");
    if (tensor->group) text_add(text, ", .group = %d", tensor->group);
    if (tensor->clip_group)
        text_add(text, ", .clip_group = %d, .clip = %.17g", tensor->clip_group, tensor->clip);
    if (tensor->divided) text_add(text, ", .divided = %d", tensor->divided);
    if (tensor->block == MOEC_INPUTS)
        text_add(text, ", .input = MOEC_INPUT_%s, .vocabulary = %ld", input_kinds[tensor->input],
                 tensor->vocabulary);
    if (tensor->block == MOEC_INPUTS && tensor->input == MOEC_INPUT_SCALAR)
        text_add(text, ", .scalar = %s", scalar_text(tensor->scalar));
    if (tensor->probe) text_add(text, ", .probe = MOEC_PROBE_%s", probes[tensor->probe]);
    text_add(text, "},\n");
}

static void add_tensors(Text *text, const char *name, const MoecTensor *tensors, int count) {
    if (!count) return;
    text_add(text, "static const MoecTensor %s[] = {\n", name);
    for (int i = 0; i < count; i++) add_tensor(text, &tensors[i]);
    text_add(text, "};\n\n");
}

/* ---- products, sizes ---- */

static void add_strides(Text *text, const char *name, const long strides[2]) {
    if (strides[0] || strides[1])
        text_add(text, ", .%s = {%ld, %ld}", name, strides[0], strides[1]);
}

void add_type(Text *text, const char *operand, Type type) {
    if (weight_type(type)) text_add(text, ", .%s_type = %s", operand, weight_type(type)->code);
    if (unit_type(type)) text_add(text, ", .%s_type = %s", operand, unit_type(type)->code);
}

static void add_scales(Text *text, const UnitScales *scales) {
    text_add(text,
             ",\n     .scales = {.block = %ld, .a_m = %ld, .a_k = %ld, .b_k = %ld, .b_n = %ld",
             scales->block, scales->a_m, scales->a_k, scales->b_k, scales->b_n);
    add_strides(text, "a_batch", scales->a_batch);
    add_strides(text, "b_batch", scales->b_batch);
    text_add(text, "}");
}

void print_products(Text *text, const List *products) {
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
        add_type(text, "a", p->a_type);
        add_type(text, "b", p->b_type);
        add_type(text, "c", p->c_type);
        if (p->epilogue_ops)
            text_add(text, ",\n     .epilogue_ops = %d, .add_m = %ld, .kept_m = %ld",
                     p->epilogue_ops, p->add_m, p->kept_m);
        if (p->epilogue_ops & MOEC_SCALE)
            text_add(text, ", .scale = %s", number_text(text->arena, p->scale));
        if (unit_type(p->a_type)) add_scales(text, &p->scales);
        text_add(text, "}, /* %d: %s */\n", i, p->name);
    }
    text_add(text, "};\n\n");
}

void print_sizes(Text *text, const List *sizes, bool only_kernels) {
    Text line = {.arena = text->arena};
    LIST_EACH(const SizeConstant, size, sizes)
        if (size->of_kernels || !only_kernels)
            text_add(&line, "%s %s = %ld", line.length ? "," : "enum {", size->name,
                     size->axis->size);
    if (!line.length) return;
    text_add(&line, " };");
    text_add(text, "/* Axis sizes. */\n");
    print_line(text, 0, line.text);
    text_add(text, "\n");
}

/* ---- graphs ---- */

/* Adds inputs, outputs and caches of one graph; returns its entry in the graph table. */
static const char *add_graph(Text *text, const char *name, const MoecGraphEntry *graph) {
    static const char *const kinds[] = {"FORWARD", "TRAIN",  "DECODE", "MEASURE",
                                        "STEP",    "GATHER", "REFINE", "PREPARE"};
    Arena *arena = text->arena;
    const struct {
        const char *one, *all;
        const MoecTensor *tensors;
        int count;
    } lists[] = {{"input", "inputs", graph->inputs, graph->input_count},
                 {"output", "outputs", graph->outputs, graph->output_count},
                 {"cache", "caches", graph->caches, graph->cache_count}};
    for (int i = 0; i < 3; i++)
        add_tensors(text, arena_format(arena, "%s_%s", name, lists[i].all), lists[i].tensors,
                    lists[i].count);
    Text row = {.arena = arena};
    text_add(&row,
             "    {.kind = MOEC_GRAPH_%s, .run = run_%s, .batch = %ld, .context = %ld, .tokens = "
             "%ld,\n     .arena_bytes = %zu, .cache_bytes = %zu,\n",
             kinds[graph->kind], name, graph->batch, graph->context, graph->tokens,
             graph->arena_bytes, graph->cache_bytes);
    for (int i = 0; i < 3; i++)
        if (lists[i].count)
            text_add(&row, "     .%s = %s_%s, .%s_count = %d,\n", lists[i].all, name, lists[i].all,
                     lists[i].one, lists[i].count);
    text_add(
        &row,
        "     .first_product = %d, .product_count = %d, .flops = %.17g, .product_flops = %.17g},\n",
        graph->first_product, graph->product_count, graph->flops, graph->product_flops);
    return row.text;
}

/* Adds the axes of a program's tensors with their sizes, in the order of the tensors. */
static void add_axes(Text *text, const Program *program, const List *sizes) {
    List found = {0};
    LIST_EACH(const Tensor, tensor, &program->tensors) {
        for (int j = 0; j < tensor->rank; j++) {
            Axis *axis = tensor->axes[j];
            bool known = false;
            for (int k = 0; k < found.count && !known; k++) {
                const Axis *other = found.items[k];
                known = !strcmp(other->name, axis->name) && other->size == axis->size;
            }
            if (!known) list_push(text->arena, &found, axis);
        }
    }
    text_add(text, "   axes:   ");
    for (int i = 0; i < found.count; i++) {
        const Axis *axis = found.items[i];
        const SizeConstant *size = size_constant(sizes, axis);
        text_add(text, "%s %s = %ld", i ? "," : "", axis->name, axis->size);
        if (size && strcasecmp(size->name, axis->name) != 0) text_add(text, " (%s)", size->name);
    }
}

static void add_given(Arena *arena, Text *text, const char *what, const List *tensors) {
    text_add(text, "   %-8s", what);
    for (int i = 0; i < tensors->count; i++) {
        const Tensor *tensor = tensors->items[i];
        text_add(text, "%s %s%s", i ? "," : "", tensor->path ? tensor->path : tensor->name,
                 tensor->rank ? axes_of(arena, tensor) : "");
    }
    if (!tensors->count) text_add(text, " none");
}

void print_overview(Text *text, const Module *module) {
    Arena *arena = text->arena;
    LIST_EACH(const Entry, entry, &module->entries) {
        const Program *program = entry->program;
        const List inputs = tensors_with(arena, program, ROLE_INPUT);
        Text axes = {.arena = arena}, given = {.arena = arena}, made = {.arena = arena};
        add_axes(&axes, program, &module->sizes);
        add_given(arena, &given, "inputs:", &inputs);
        add_given(arena, &made, "outputs:", &program->outputs);
        text_add(text, "/* run_%s\n", entry->name);
        print_line(text, 0, axes.text);
        print_line(text, 0, given.text);
        print_line(text, 0, made.text);
        text_add(text, "   work:    %d kernels and calls, %d products\n", entry->kernels,
                 entry->dense);
        text_add(text, "   memory:  %zu bytes of temporaries */\n", entry->arena_bytes);
    }
    if (module->update) text_add(text, "/* update: one optimizer step of one parameter. */\n");
}

void print_table(Text *text, const Module *module) {
    const MoecTable *table = module_table(text->arena, module);
    Text graphs = {.arena = text->arena};
    add_tensors(text, "parameters", table->parameters, table->parameter_count);
    add_tensors(text, "states", table->states, table->state_count);
    for (int i = 0; i < table->graph_count; i++)
        text_add(
            &graphs, "%s",
            add_graph(text, ((const Entry *)module->entries.items[i])->name, &table->graphs[i]));
    if (table->graph_count)
        text_add(text, "static const MoecGraphEntry graphs[] = {\n%s};\n\n", graphs.text);

    text_add(text, "const MoecTable moec_table = {\n    .abi = MOEC_ABI,\n    .model = %s,\n",
             quoted(text->arena, table->model));
    if (table->parameter_count)
        text_add(text, "    .parameters = parameters, .parameter_count = %d,\n",
                 table->parameter_count);
    if (table->state_count)
        text_add(text, "    .states = states, .state_count = %d,\n", table->state_count);
    text_add(text, "    .weight_bytes = %zu, .state_bytes = %zu,\n", table->weight_bytes,
             table->state_bytes);
    if (table->frozen_bytes) text_add(text, "    .frozen_bytes = %zu,\n", table->frozen_bytes);
    if (table->whole_bytes) text_add(text, "    .whole_bytes = %zu,\n", table->whole_bytes);
    if (table->graph_count)
        text_add(text, "    .graphs = graphs, .graph_count = %d,\n", table->graph_count);
    if (table->update) text_add(text, "    .update = &update,\n");
    if (module->rounded) text_add(text, "    .round = round_weights,\n");
    if (module->packed.tensors.count)
        text_add(text,
                 "    .packed = packed_weights, .packed_count = %d, .packed_bytes = %zu, "
                 ".alone_bytes = %zu,\n",
                 module->packed.tensors.count, module->packed.bytes, module->weights.alone_bytes);
    else if (module->weights.alone_bytes)
        text_add(text, "    .alone_bytes = %zu,\n", module->weights.alone_bytes);
    if (table->product_count)
        text_add(text, "    .products = moec_products, .product_count = %d,\n",
                 table->product_count);
    if (table->kernel_count)
        text_add(text, "    .kernels = moec_kernel_names, .kernel_count = %d,\n",
                 table->kernel_count);
    if (table->own_products) text_add(text, "    .own_products = moec_own_products,\n");
    text_add(text, "};\n");
}
