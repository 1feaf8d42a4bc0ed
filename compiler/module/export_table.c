/* export_table: the constants that a text exports, as data: tensors, graphs, products, kernels, the
 * optimizer. Strings are copies, so a table needs no program. */
#include "analysis/parameter_facts.h"
#include "module/lowered.h"

#include <string.h>

List tensors_with(Arena *arena, const Program *program, Role role) {
    List list = {0};
    LIST_EACH(Tensor, tensor, &program->tensors)
        if (tensor->role == role) list_push(arena, &list, tensor);
    return list;
}

int device_kernel_number(const Module *module, const char *kernel) {
    int number = 0;
    while (number < module->device_kernels.count &&
           strcmp(module->device_kernels.items[number], kernel) != 0)
        number++;
    return number;
}

/* ---- tensors ---- */

static MoecBlock table_block(Role role) {
    static const MoecBlock blocks[] = {
        [ROLE_PARAMETER] = MOEC_WEIGHTS, [ROLE_STATE] = MOEC_STATES, [ROLE_INPUT] = MOEC_INPUTS,
        [ROLE_OUTPUT] = MOEC_OUTPUTS,    [ROLE_CACHE] = MOEC_CACHE,  [ROLE_GRADIENT] = MOEC_ARENA,
        [ROLE_ROUNDED] = MOEC_ARENA,     [ROLE_TEMP] = MOEC_ARENA};
    return blocks[role];
}

const char *axis_names(Arena *arena, const Tensor *tensor) {
    Text axes = text_new(arena);
    for (int i = 0; i < tensor->rank; i++)
        text_add(&axes, "%s%s", i ? "," : "", tensor->axes[i]->name);
    return axes.text;
}

static MoecTensor table_tensor(Arena *arena, const Tensor *tensor, size_t offset, int group) {
    const bool starts = tensor->role == ROLE_PARAMETER || tensor->role == ROLE_STATE;
    const bool given = tensor->role == ROLE_INPUT;
    MoecTensor made = {
        .name = arena_format(arena, "%s", tensor->path ? tensor->path : tensor->name),
        .axes = axis_names(arena, tensor),
        .block = table_block(tensor->role),
        .offset = offset,
        .rank = tensor->rank,
        .is_int = tensor->type == TYPE_INT,
        .type = tensor->type == TYPE_BF16   ? MOEC_BF16
                : tensor->type == TYPE_BYTE ? MOEC_BYTE
                                            : MOEC_F32,
        .init = starts ? tensor->init.kind : MOEC_INIT_CONSTANT,
        .a = starts ? tensor->init.a : 0,
        .b = starts ? tensor->init.b : 0,
        .input = given ? tensor->input : MOEC_INPUT_TOKEN,
        .scalar = given ? tensor->scalar : MOEC_SCALAR_OPTION,
        .vocabulary = given ? tensor->vocabulary : 0,
        .matrix = starts && is_matrix(tensor),
        .frozen = tensor->role == ROLE_PARAMETER && !is_trained(tensor),
        .whole = tensor->whole,
        .group = group,
        .clip_group = tensor->clip_group,
        .clip = tensor->clip,
        .probe = tensor->probe,
    };
    const Placement *keys = &tensor->placed[MESH_EXPERT];
    if (keys->kind == PLACED_DIVIDED) made.divided = 1 + keys->dimension;
    for (int i = 0; i < tensor->rank; i++) made.shape[i] = tensor->axes[i]->size;
    return made;
}

/* The first `count` of them. offsets: NULL: the slots of a graph; groups: or NULL. */
static const MoecTensor *table_tensors(Arena *arena, const List *tensors, const size_t *offsets,
                                       const int *groups, int count) {
    MoecTensor *made = arena_alloc(arena, ((size_t)count + 1) * sizeof *made);
    for (int i = 0; i < count; i++)
        made[i] = table_tensor(arena, tensors->items[i], offsets ? offsets[i] : (size_t)i,
                               groups ? groups[i] : 0);
    return made;
}

/* ---- graphs, products ---- */

static MoecGraphEntry table_graph(Arena *arena, const Program *program) {
    static const MoecGraphKind kinds[] = {
        [GRAPH_FORWARD] = MOEC_GRAPH_FORWARD, [GRAPH_TRAIN] = MOEC_GRAPH_TRAIN,
        [GRAPH_DECODE] = MOEC_GRAPH_DECODE,   [GRAPH_MEASURE] = MOEC_GRAPH_MEASURE,
        [GRAPH_STEP] = MOEC_GRAPH_STEP,       [GRAPH_GATHER] = MOEC_GRAPH_GATHER,
        [GRAPH_REFINE] = MOEC_GRAPH_REFINE,   [GRAPH_PREPARE] = MOEC_GRAPH_PREPARE};
    const List inputs = tensors_with(arena, program, ROLE_INPUT);
    const long sequence = program->sequence ? program->sequence->size : 1;
    MoecGraphEntry made = {.kind = kinds[program->graph],
                           .batch = program->batch ? program->batch->size : 1,
                           .context = program->graph == GRAPH_DECODE ? program->context : sequence,
                           .tokens = sequence,
                           .input_count = inputs.count,
                           .output_count = program->outputs.count};
    made.inputs = table_tensors(arena, &inputs, NULL, NULL, made.input_count);
    made.outputs = table_tensors(arena, &program->outputs, NULL, NULL, made.output_count);
    return made;
}

MoecType table_type(Type type) {
    if (unit_type(type)) return unit_type(type)->stored;
    return weight_type(type) ? weight_type(type)->stored : MOEC_F32;
}

MoecProduct table_product(const Product *p) {
    MoecProduct made = {.m = p->m,
                        .n = p->n,
                        .k = p->k,
                        .a_m = p->a_m,
                        .a_k = p->a_k,
                        .b_k = p->b_k,
                        .b_n = p->b_n,
                        .c_m = p->c_m,
                        .accumulate = p->accumulate,
                        .rounded = p->rounded,
                        .a_type = table_type(p->a_type),
                        .b_type = table_type(p->b_type),
                        .c_type = table_type(p->c_type),
                        .epilogue_ops = p->epilogue_ops,
                        .add_m = p->add_m,
                        .kept_m = p->kept_m,
                        .scale = (float)p->scale};
    made.scales.block = p->scales.block;
    made.scales.a_m = p->scales.a_m;
    made.scales.a_k = p->scales.a_k;
    made.scales.b_k = p->scales.b_k;
    made.scales.b_n = p->scales.b_n;
    memcpy(made.scales.a_batch, p->scales.a_batch, sizeof made.scales.a_batch);
    memcpy(made.scales.b_batch, p->scales.b_batch, sizeof made.scales.b_batch);
    memcpy(made.batch, p->batch, sizeof made.batch);
    memcpy(made.a_batch, p->a_batch, sizeof made.a_batch);
    memcpy(made.b_batch, p->b_batch, sizeof made.b_batch);
    memcpy(made.c_batch, p->c_batch, sizeof made.c_batch);
    return made;
}

static void set_products(Arena *arena, const Module *module, MoecTable *table) {
    const int count = module->products.count;
    MoecProduct *products = arena_alloc(arena, ((size_t)count + 1) * sizeof *products);
    MoecOwnProduct *own = arena_alloc(arena, ((size_t)count + 1) * sizeof *own);
    for (int i = 0; i < count; i++) products[i] = table_product(module->products.items[i]);
    for (int i = 0; i < module->own_products.count; i++)
        own[i] = *(const MoecOwnProduct *)module->own_products.items[i];
    table->products = products;
    table->product_count = count;
    table->own_products = module->own_products.count ? own : NULL;
}

/* ---- the optimizer ---- */

static const MoecUpdate *table_update(Arena *arena, const Update *update) {
    const int scalars = update->scalars.count, states = update->states.count;
    const size_t settings = (size_t)update->groups * (size_t)scalars;
    MoecUpdate *made = arena_alloc(arena, sizeof *made);
    MoecUpdateScalar *all = arena_alloc(arena, ((size_t)scalars + 1) * sizeof *all);
    const char **names = arena_alloc(arena, ((size_t)states + 1) * sizeof *names);
    float *own = arena_alloc(arena, (settings + 1) * sizeof *own);
    for (int i = 0; i < scalars; i++) {
        const Tensor *scalar = update->scalars.items[i];
        all[i] = (MoecUpdateScalar){scalar->scalar, arena_format(arena, "%s", scalar->path)};
    }
    for (int i = 0; i < states; i++)
        names[i] = arena_format(arena, "%s", ((const Tensor *)update->states.items[i])->path);
    memcpy(own, update->settings, settings * sizeof *own);
    *made = (MoecUpdate){.state_names = names,
                         .state_count = states,
                         .scalars = all,
                         .scalar_count = scalars,
                         .own = own,
                         .group_count = update->groups};
    return made;
}

/* ---- the table ---- */

static MoecTable *new_table(Arena *arena, Program *const *programs, int count,
                            const BlockLayout *weights, const BlockLayout *states,
                            const int *groups) {
    MoecTable *table = arena_alloc(arena, sizeof *table);
    table->abi = MOEC_ABI;
    table->parameter_count = weights->given;
    table->state_count = states->tensors.count;
    table->model = count ? arena_format(arena, "%s", programs[0]->name) : "";
    table->parameters =
        table_tensors(arena, &weights->tensors, weights->offsets, groups, table->parameter_count);
    table->states =
        table_tensors(arena, &states->tensors, states->offsets, NULL, table->state_count);
    table->weight_bytes = weights->bytes;
    table->state_bytes = states->bytes;
    table->frozen_bytes = weights->frozen_bytes;
    table->whole_bytes = weights->whole_bytes;
    return table;
}

MoecTable *tensors_table(Arena *arena, Program *const *programs, int count,
                         const BlockLayout *weights, const BlockLayout *states) {
    MoecTable *table = new_table(arena, programs, count, weights, states, NULL);
    MoecGraphEntry *graphs = arena_alloc(arena, ((size_t)count + 1) * sizeof *graphs);
    for (int i = 0; i < count; i++) graphs[i] = table_graph(arena, programs[i]);
    table->graphs = graphs;
    table->graph_count = count;
    return table;
}

MoecTable *module_table(Arena *arena, const Module *module) {
    const int count = module->entries.count, kernels = module->device_kernels.count;
    MoecTable *table = new_table(arena, module->programs, module->program_count, &module->weights,
                                 &module->states, module->groups);
    MoecGraphEntry *graphs = arena_alloc(arena, ((size_t)count + 1) * sizeof *graphs);
    const char **names = arena_alloc(arena, ((size_t)kernels + 1) * sizeof *names);
    for (int i = 0; i < count; i++) {
        const Entry *entry = module->entries.items[i];
        MoecGraphEntry *graph = &graphs[i];
        *graph = table_graph(arena, entry->program);
        graph->arena_bytes = entry->arena_bytes;
        graph->cache_bytes = entry->caches.bytes;
        graph->cache_count = entry->caches.tensors.count;
        graph->caches = table_tensors(arena, &entry->caches.tensors, entry->caches.offsets, NULL,
                                      graph->cache_count);
        graph->first_product = entry->first_product;
        graph->product_count = entry->product_count;
        graph->flops = entry->flops;
        graph->product_flops = entry->product_flops;
    }
    for (int i = 0; i < kernels; i++)
        names[i] = arena_format(arena, "%s", (const char *)module->device_kernels.items[i]);
    table->graphs = graphs;
    table->graph_count = count;
    table->kernels = names;
    table->kernel_count = kernels;
    set_products(arena, module, table);
    if (module->update) table->update = table_update(arena, module->update);
    return table;
}
