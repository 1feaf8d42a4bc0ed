#include "model/internal.h"

#include "abi/quantity.h"
#include "base/message.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GRAPH_LIMIT = 2 * TRAIN_SHAPES + 6 };

int moment_count(const Model *model) {
    return model->trains && model->table->update ? model->table->update->state_count : 0;
}

/* Allocates the host blocks. Untouched memory needs no pages: with separate device memory, tensors
 * without a host copy; in gradients and optimizer states, the frozen part. */
static bool take_here(Model *model) {
    const MoecTable *table = model->table;
    model->weights = memory_map(table->weight_bytes);
    model->layer_states = memory_map(table->state_bytes);
    bool good = model->weights && model->layer_states;
    if (model->trains) {
        model->gradients = memory_map(table->weight_bytes);
        good = good && model->gradients;
    }
    int moments = moment_count(model);
    model->moments = memory_new(sizeof(float *) * (size_t)(moments + 1));
    for (int i = 0; i < moments; i++) {
        model->moments[i] = memory_map(table->weight_bytes);
        good = good && model->moments[i];
    }
    return good;
}

/* Temporaries with room for the rows of other processes, of which few arrive. */
static bool reserves_rows(const Model *model) {
    const MoecTable *table = model->table;
    for (int i = 0; i < table->parameter_count; i++)
        if (table->parameters[i].divided) return true;
    return false;
}

enum { APART = 256 }; /* alignment of blocks in bytes */
static size_t rounded(size_t bytes) {
    return (bytes + APART - 1) / APART * APART;
}

/* Allocates the device blocks as one piece of memory. */
static bool take_there(Model *model) {
    const MoecTable *table = model->table;
    ModelMemory *there = &model->there;
    int moments = moment_count(model);
    size_t weights = rounded(table->weight_bytes), states = rounded(table->state_bytes);
    size_t trained = rounded(trained_bytes(table));
    there->moments = memory_new(sizeof(float *) * (size_t)(moments + 1));
    if (!model->device->apart) {
        there->weights = model->weights;
        there->layer_states = model->layer_states;
        there->gradients = model->gradients;
        memcpy(there->moments, model->moments, sizeof(float *) * (size_t)moments);
        there->arena = reserves_rows(model) ? memory_reserve(model->arena_bytes)
                                            : memory_map(model->arena_bytes);
        there->rounded = table->round ? memory_map(rounded_bytes(table)) : NULL;
        return there->arena && (there->rounded || !table->round);
    }
    size_t halves = rounded(rounded_bytes(table));
    there->bytes = weights + trained * (size_t)model->trains + states + halves + model->arena_bytes;
    there->block = model->device->kind->allocate(model->device, there->bytes);
    if (!there->block) return false;
    unsigned char *at = there->block;
    there->weights = (float *)(void *)at;
    there->layer_states = (float *)(void *)(at += weights);
    at += states;
    there->gradients = model->trains ? (float *)(void *)at : NULL;
    at += model->trains ? trained : 0;
    there->rounded = halves ? at : NULL;
    there->arena = at + halves;
    return true;
}

/* The optimizer states that the device has: of each a range of bytes. */
static size_t moments_start(const Model *model) {
    return model->moment_start * sizeof(float);
}

static size_t moments_length(const Model *model) {
    return model->moment_part ? (model->moment_end - model->moment_start) * sizeof(float)
                              : moment_bytes(model->table);
}

static size_t moments_there(const Model *model) {
    return rounded(moments_length(model)) * (size_t)moment_count(model);
}

/* Allocates the optimizer states of a device apart. Pointers to them are those of whole states, of
 * which only the range exists. */
static bool take_moments(Model *model) {
    ModelMemory *there = &model->there;
    const size_t bytes = moments_there(model);
    if (!model->device->apart || there->moment_block || !moment_count(model)) return true;
    there->moment_block = model->device->kind->allocate(model->device, bytes);
    for (int i = 0; i < moment_count(model); i++)
        there->moments[i] =
            (float *)((uintptr_t)there->moment_block + rounded(moments_length(model)) * (size_t)i -
                      moments_start(model));
    return there->moment_block ||
           error_message("reduce train.batch_size or train.context_length, or use more processes",
                         "out of memory: cannot allocate %s of optimizer state on %s",
                         quantity((double)bytes, "B").text, model->device->name);
}

static bool take_memory(Model *model) {
    const MoecTable *table = model->table;
    for (int i = 0; i < table->graph_count; i++) {
        const MoecGraphEntry *graph = &table->graphs[i];
        model->trains = model->trains || graph->kind == MOEC_GRAPH_TRAIN;
        if (graph->arena_bytes > model->arena_bytes) model->arena_bytes = graph->arena_bytes;
    }
    const size_t reserved = reserves_rows(model) ? model->arena_bytes : 0;
    bool fits = model->device->apart || model_bytes(model) - reserved <= memory_of_machine();
    return (fits && take_here(model) && take_there(model)) ||
           error_message("reduce train.batch_size or train.context_length",
                         "out of memory: cannot allocate %s on %s",
                         quantity((double)model_bytes(model), "B").text, model->device->name);
}

/* Completes a model with a table; NULL after a message. */
static Model *complete_model(Model *model, bool keep) {
    const MoecTable *table = model->table;
    model->parameters =
        public_tensors(table->parameters, table->parameter_count, &model->parameter_count);
    model->states = public_tensors(table->states, table->state_count, &model->state_count);
    model->engine = model->device->kind->engine_new(model->device, table, model->program, keep);
    const Module *module = model->module;
    if (model->engine) {
        model->cached = module ? module->cached : model->engine->cached;
        model->compile_seconds = module ? module->compile_seconds : model->engine->seconds;
        if (take_memory(model)) return model;
    }
    model_close(model);
    return NULL;
}

/* The table of compiled C, or of a step list; NULL after a message. */
static const MoecTable *compile_table(Model *model, MoecCompiler *compiler,
                                      MoecProgram *const *programs, int count, bool keep) {
    if (model->device->apart) {
        model->program = moec_device_program(compiler, programs, count);
        return model->program ? model->program->table : (reports_good(compiler), NULL);
    }
    const char *text = moec_emit_c(compiler, programs, count, false);
    model->module = text ? module_load(text, keep) : NULL;
    return model->module ? model->module->table : (reports_good(compiler), NULL);
}

Model *model_open(Device *device, MoecCompiler *compiler, const GraphShape *shapes, int count,
                  bool keep) {
    GraphShape all[GRAPH_LIMIT];
    MoecProgram *programs[GRAPH_LIMIT];
    count = shapes_of(compiler, shapes, count, all);
    if (!compile_with_externs(device, compiler, all, count, programs)) return NULL;
    Model *model = memory_new(sizeof *model);
    model->device = device;
    model->table = compile_table(model, compiler, programs, count, keep);
    if (model->table) return complete_model(model, keep);
    free(model);
    return NULL;
}

Model *model_describe(MoecCompiler *compiler, const GraphShape *shape) {
    MoecProgram *program;
    if (!compile_graphs(compiler, shape, 1, &program)) return NULL;
    Model *model = memory_new(sizeof *model);
    model->device = device_cpu();
    model->table = moec_table(compiler, program);
    return complete_model(model, false);
}

void model_close(Model *model) {
    if (!model) return;
    const MoecTable *table = model->table;
    for (int i = 0; model->moments && i < moment_count(model); i++)
        memory_unmap(model->moments[i], table->weight_bytes);
    free(model->moments);
    memory_unmap(model->weights, table->weight_bytes);
    memory_unmap(model->gradients, table->weight_bytes);
    memory_unmap(model->layer_states, table->state_bytes);
    if (model->there.block) {
        if (model->there.moment_block)
            model->device->kind->release(model->device, model->there.moment_block,
                                         moments_there(model));
        model->device->kind->release(model->device, model->there.block, model->there.bytes);
    } else if (!model->device->apart) {
        memory_unmap(model->there.arena, model->arena_bytes);
        memory_unmap(model->there.rounded, rounded_bytes(table));
    }
    free(model->there.moments);
    free(model->own);
    public_free(model->parameters, model->parameter_count);
    public_free(model->states, model->state_count);
    if (model->engine) model->device->kind->engine_free(model->engine);
    module_free(model->module);
    moec_device_program_free(model->program);
    free(model);
}

typedef bool (*Copy)(Device *device, void *to, const void *from, size_t bytes);

bool model_prepare(const Model *model) {
    const MoecGraphEntry *graph = model_graph(model, MOEC_GRAPH_PREPARE);
    const ModelMemory *there = &model->there;
    MoecRun run = {.weights = there->weights, .states = there->layer_states, .arena = there->arena};
    return (!graph || model->device->kind->run(model->engine, graph, &run)) &&
           (!there->rounded ||
            model->device->kind->round(model->engine, there->weights, there->rounded));
}

void model_release_weights(const Model *model) {
    const MoecTable *table = model->table;
    memory_release((char *)model->weights + table->weight_bytes - table->alone_bytes,
                   table->alone_bytes);
}

bool model_put_weights(const Model *model) {
    return model->device->kind->put(model->device, model->there.weights, model->weights,
                                    model->table->weight_bytes) &&
           model_prepare(model);
}

bool model_put(Model *model) {
    const MoecTable *table = model->table;
    const ModelMemory *there = &model->there;
    Copy put = model->device->kind->put;
    bool good = take_moments(model) && model_put_weights(model) &&
                put(model->device, there->layer_states, model->layer_states, table->state_bytes);
    for (int i = 0; good && i < moment_count(model); i++)
        good = put(model->device, there->moments[i] + model->moment_start,
                   model->moments[i] + model->moment_start, moments_length(model));
    return good;
}

bool model_get_moments(const Model *model) {
    bool good = true;
    for (int i = 0; good && i < moment_count(model); i++)
        good = model->device->kind->get(model->device, model->moments[i] + model->moment_start,
                                        model->there.moments[i] + model->moment_start,
                                        moments_length(model));
    return good;
}

bool model_get(const Model *model, bool optimizer) {
    const MoecTable *table = model->table;
    const ModelMemory *there = &model->there;
    Copy get = model->device->kind->get;
    return get(model->device, model->weights, there->weights, table->weight_bytes) &&
           get(model->device, model->layer_states, there->layer_states, table->state_bytes) &&
           (!optimizer || model_get_moments(model));
}

bool model_get_gradients(const Model *model) {
    return model->device->kind->get(model->device, model->gradients, model->there.gradients,
                                    trained_bytes(model->table));
}

bool model_finite(const Model *model, bool *finite) {
    const ModelMemory *there = &model->there;
    size_t weights = model->table->weight_bytes, moments = moments_length(model);
    *finite = true;
    for (int i = -1; i < moment_count(model); i++) {
        double squares;
        if (!device_square_sum(model->engine,
                               i < 0 ? there->weights : there->moments[i] + model->moment_start,
                               (i < 0 ? weights : moments) / sizeof(float), &squares))
            return false;
        *finite = *finite && isfinite(squares);
    }
    return true;
}

const MoecGraphEntry *model_graph(const Model *model, MoecGraphKind kind) {
    for (int i = 0; i < model->table->graph_count; i++)
        if (model->table->graphs[i].kind == kind) return &model->table->graphs[i];
    return NULL;
}

const MoecGraphEntry *model_graph_of_shape(const Model *model, MoecGraphKind kind, long batch,
                                           long context) {
    for (int i = 0; i < model->table->graph_count; i++) {
        const MoecGraphEntry *graph = &model->table->graphs[i];
        if (graph->kind == kind && graph->batch == batch && graph->context == context) return graph;
    }
    return NULL;
}

size_t model_bytes(const Model *model) {
    const MoecTable *table = model->table;
    size_t moments = (size_t)moment_count(model);
    size_t halves = rounded_bytes(table);
    return table->weight_bytes + (model->trains ? trained_bytes(table) : 0) +
           moments * moment_bytes(table) + halves + table->state_bytes + model->arena_bytes;
}

size_t model_elements(const Model *model) {
    size_t count = 0;
    for (int i = 0; i < model->parameter_count; i++) count += model->parameters[i].count;
    return count;
}
