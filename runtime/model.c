#include "model.h"

#include "complain.h"
#include "memory.h"
#include "random.h"
#include "spec.h"

#include <stdlib.h>
#include <string.h>

enum { GRAPH_LIMIT = 8 };

/* The C text of the wished graphs; NULL after the reports were printed. */
static const char *text_of(MoecCompiler *compiler, const Wish *wishes, int count) {
    MoecProgram *programs[GRAPH_LIMIT];
    for (int i = 0; i < count; i++) {
        const Wish *wish = &wishes[i];
        programs[i] = moec_compile(compiler, wish->graph, wish->batch, wish->context, wish->tokens);
        if (!programs[i]) {
            spec_good(compiler);
            return NULL;
        }
    }
    const char *text = moec_emit_c(compiler, programs, count, false);
    if (!text) spec_good(compiler);
    return text;
}

static bool take_memory(Model *model) {
    const MoecTable *table = model->table;
    for (int i = 0; i < table->graph_count; i++) {
        const MoecGraphEntry *graph = &table->graphs[i];
        model->trains = model->trains || graph->kind == MOEC_GRAPH_TRAIN;
        if (graph->arena_bytes > model->arena_bytes) model->arena_bytes = graph->arena_bytes;
    }
    model->weights = memory_map(table->weight_bytes);
    model->layer_states = memory_map(table->state_bytes);
    model->arena = memory_map(model->arena_bytes);
    bool good = model->weights && model->layer_states && model->arena;
    if (model->trains) {
        model->gradients = memory_map(table->weight_bytes);
        good = good && model->gradients;
    }
    int moments = model->trains && table->update ? table->update->state_count : 0;
    model->moments = memory_new(sizeof(float *) * (size_t)(moments + 1));
    for (int i = 0; i < moments; i++) {
        model->moments[i] = memory_map(table->weight_bytes);
        good = good && model->moments[i];
    }
    char size[16];
    return good || complain("make train.batch or train.context smaller", "no memory for %s",
                            memory_text(size, (double)model_bytes(model)));
}

Model *model_open(MoecCompiler *compiler, const Wish *wishes, int count, bool keep) {
    const char *text = text_of(compiler, wishes, count);
    Module *module = text ? module_load(text, keep) : NULL;
    if (!module) return NULL;
    Model *model = memory_new(sizeof *model);
    model->module = module;
    model->table = module->table;
    model->parameters = public_tensors(model->table->parameters, model->table->parameter_count,
                                       &model->parameter_count);
    model->states =
        public_tensors(model->table->states, model->table->state_count, &model->state_count);
    model->products = products_new(model->table);
    model->host =
        (MoecHost){.self = model->products, .product = model->products ? products_run : NULL};
    if (take_memory(model)) return model;
    model_close(model);
    return NULL;
}

void model_close(Model *model) {
    if (!model) return;
    const MoecTable *table = model->table;
    for (int i = 0;
         model->moments && table->update && model->trains && i < table->update->state_count; i++)
        memory_unmap(model->moments[i], table->weight_bytes);
    free(model->moments);
    memory_unmap(model->weights, table->weight_bytes);
    memory_unmap(model->gradients, table->weight_bytes);
    memory_unmap(model->layer_states, table->state_bytes);
    memory_unmap(model->arena, model->arena_bytes);
    public_free(model->parameters, model->parameter_count);
    public_free(model->states, model->state_count);
    products_free(model->products);
    module_free(model->module);
    free(model);
}

const MoecGraphEntry *model_graph(const Model *model, MoecGraphKind kind) {
    for (int i = 0; i < model->table->graph_count; i++)
        if (model->table->graphs[i].kind == kind) return &model->table->graphs[i];
    return NULL;
}

size_t model_bytes(const Model *model) {
    const MoecTable *table = model->table;
    size_t copies =
        model->trains ? 2 + (size_t)(table->update ? table->update->state_count : 0) : 1;
    return copies * table->weight_bytes + table->state_bytes + model->arena_bytes;
}

static double initial_value(const MoecTensor *tensor, uint64_t seed, uint64_t place) {
    switch (tensor->init) {
    case MOEC_INIT_NORMAL:
        return tensor->a + tensor->b * random_normal(seed, place);
    case MOEC_INIT_UNIFORM:
        return tensor->a + (tensor->b - tensor->a) * random_uniform(seed, place);
    default:
        return tensor->a;
    }
}

static void initialise_tensor(const PublicTensor *one, float *values, uint64_t seed) {
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < one->count; i++)
        values[i] = (float)initial_value(one->tensor, seed, i);
}

static void initialise_block(const PublicTensor *tensors, int count, float *block, uint64_t seed) {
    for (int i = 0; i < count; i++)
        initialise_tensor(&tensors[i], block + tensors[i].offset / sizeof(float),
                          random_seed_for(seed, tensors[i].name));
}

void model_initialise(Model *model, uint64_t seed) {
    initialise_block(model->parameters, model->parameter_count, model->weights, seed);
    initialise_block(model->states, model->state_count, model->layer_states, seed);
}

static bool same_shape(const PublicTensor *one, const Entry *entry) {
    return one->rank == entry->rank &&
           memcmp(one->shape, entry->shape, sizeof(long) * (size_t)one->rank) == 0;
}

/* "[4, 16]" */
static char *shape_text(const long *shape, int rank) {
    char *text = memory_format("[");
    for (int i = 0; i < rank; i++) {
        char *longer = memory_format("%s%s%ld", text, i ? ", " : "", shape[i]);
        free(text);
        text = longer;
    }
    char *closed = memory_format("%s]", text);
    free(text);
    return closed;
}

static bool read_tensor(const Safetensors *file, const char *name, const PublicTensor *one,
                        float *block, bool needed) {
    const Entry *entry = safetensors_find(file, name);
    if (!entry)
        return !needed || complain("use weights made for this model and these settings",
                                   "%s has no tensor %s", file->path, name);
    if (!same_shape(one, entry)) {
        char *found = shape_text(entry->shape, entry->rank),
             *wanted = shape_text(one->shape, one->rank);
        complain("use weights made for this model and these settings",
                 "%s: %s has the shape %s, the model wants %s (%s)", file->path, name, found,
                 wanted, one->axes);
        free(found);
        free(wanted);
        return false;
    }
    return safetensors_floats(file, entry, block + one->offset / sizeof(float), one->count);
}

bool model_read(Model *model, const Safetensors *file, bool optimizer) {
    bool good = true;
    for (int i = 0; i < model->parameter_count && good; i++) {
        const PublicTensor *one = &model->parameters[i];
        good = read_tensor(file, one->name, one, model->weights, true);
        const MoecUpdate *update = optimizer ? model->table->update : NULL;
        for (int j = 0; good && update && j < update->state_count; j++) {
            char *name = memory_format("optimizer.%s:%s", update->state_names[j], one->name);
            good = read_tensor(file, name, one, model->moments[j], true);
            free(name);
        }
    }
    for (int i = 0; i < model->state_count && good; i++)
        good =
            read_tensor(file, model->states[i].name, &model->states[i], model->layer_states, false);
    return good;
}

static void add_entry(Entry *entries, int *count, char *name, const PublicTensor *one,
                      const float *block) {
    Entry *entry = &entries[(*count)++];
    *entry = (Entry){
        .name = name, .number = NUMBER_F32, .rank = one->rank, .bytes = one->count * sizeof(float)};
    memcpy(entry->shape, one->shape, sizeof(long) * (size_t)one->rank);
    entry->data = block + one->offset / sizeof(float);
}

static void add_axes(json_t *notes, const PublicTensor *one) {
    char *key = memory_format("axes:%s", one->name);
    json_object_set_new(notes, key, json_string(one->axes));
    free(key);
}

Entry *model_entries(const Model *model, bool optimizer, json_t *notes, int *count) {
    const MoecUpdate *update = optimizer ? model->table->update : NULL;
    int copies = 1 + (update ? update->state_count : 0);
    Entry *entries = memory_new(sizeof *entries *
                                (size_t)(model->parameter_count * copies + model->state_count + 1));
    *count = 0;
    for (int i = 0; i < model->parameter_count; i++) {
        const PublicTensor *one = &model->parameters[i];
        add_entry(entries, count, memory_format("%s", one->name), one, model->weights);
        add_axes(notes, one);
    }
    for (int i = 0; i < model->state_count; i++) {
        const PublicTensor *one = &model->states[i];
        add_entry(entries, count, memory_format("%s", one->name), one, model->layer_states);
        add_axes(notes, one);
    }
    for (int j = 0; j < copies - 1; j++)
        for (int i = 0; i < model->parameter_count; i++)
            add_entry(
                entries, count,
                memory_format("optimizer.%s:%s", update->state_names[j], model->parameters[i].name),
                &model->parameters[i], model->moments[j]);
    return entries;
}

void entries_free(Entry *entries, int count) {
    for (int i = 0; i < count; i++) free(entries[i].name);
    free(entries);
}
