#include "model/internal.h"

#include "abi/quantity.h"
#include "abi/json_make.h"
#include "base/message.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GRAPH_LIMIT = 2 * TRAIN_SHAPES + 6 };

static int moment_count(const Model *model) {
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

static void begin_averages(Model *model);

void model_initialise(Model *model, uint64_t seed) {
    initialise_block(model->parameters, model->parameter_count, model->weights, seed);
    initialise_block(model->states, model->state_count, model->layer_states, seed);
    begin_averages(model);
    model_put(model);
}

static bool fits_tensor(const PublicTensor *one, const TensorEntry *entry) {
    return one->rank == entry->rank &&
           memcmp(one->shape, entry->shape, sizeof(long) * (size_t)one->rank) == 0;
}

char *tensor_sizes_text(const long *shape, int rank, const char *between) {
    char *text = memory_format("%s", "");
    for (int i = 0; i < rank; i++) text = memory_append(text, "%s%ld", i ? between : "", shape[i]);
    return text;
}

char *tensor_shape_text(const long *shape, int rank) {
    char *sizes = tensor_sizes_text(shape, rank, ", "), *text = memory_format("[%s]", sizes);
    free(sizes);
    return text;
}

/* Reports weights of another shape. If only one axis is too short, as with learned positions, a
 * smaller setting fits. */
static bool wrong_shape(const Safetensors *file, const char *name, const PublicTensor *one,
                        const TensorEntry *entry) {
    int differ = 0, axis = 0;
    for (int i = 0; i < one->rank && one->rank == entry->rank; i++) {
        if (one->shape[i] == entry->shape[i]) continue;
        differ++;
        axis = i;
    }
    const char *letter = one->axes;
    for (int i = 0; i < axis && *letter; i++)
        letter += strcspn(letter, ",") + (strchr(letter, ',') != NULL);
    char *longer =
        differ == 1 && one->shape[axis] > entry->shape[axis]
            ? memory_format(
                  "the weights have size %ld on axis '%.*s'; use a setting of at most %ld, or "
                  "weights with size %ld",
                  entry->shape[axis], (int)strcspn(letter, ","), letter, entry->shape[axis],
                  one->shape[axis])
            : memory_format("use weights made for this model and these settings");
    char *found = tensor_shape_text(entry->shape, entry->rank),
         *wanted = tensor_shape_text(one->shape, one->rank);
    error_message(longer, "%s: %s has shape %s, but the model needs %s (%s)", file->path, name,
                  found, wanted, one->axes);
    free(found);
    free(wanted);
    free(longer);
    return false;
}

static bool read_values(const Safetensors *file, const char *name, const PublicTensor *one,
                        float *values, bool needed, bool *used) {
    const TensorEntry *entry = safetensors_find(file, name);
    if (entry) used[entry - file->entries] = true;
    if (!entry)
        return !needed || error_message("use weights made for this model and these settings",
                                        "%s has no tensor %s", file->path, name);
    if (!fits_tensor(one, entry)) return wrong_shape(file, name, one, entry);
    const bool good = safetensors_floats(file, entry, values, one->count);
    memory_release((void *)(uintptr_t)entry->data, entry->bytes); /* pages of the mapped file */
    return good;
}

static bool read_tensor(const Safetensors *file, const char *name, const PublicTensor *one,
                        float *block, bool needed, bool *used) {
    return read_values(file, name, one, block + one->offset / sizeof(float), needed, used);
}

/* True for optimizer states of parameters that are updated as matrices: by name in files, by table
 * entry in programs. */
static bool is_optimizers(const char *name) {
    return strncmp(name, "optimizer.", 10) == 0;
}

/* Tensors in the file that were not read: an error if the run resumes, otherwise a note. */
static bool nothing_left(const Safetensors *file, const bool *used, bool optimizer) {
    int left = 0;
    const char *first = NULL;
    for (int i = 0; i < file->count; i++) {
        const char *name = file->entries[i].name;
        if (used[i] || (!optimizer && is_optimizers(name))) continue;
        if (!left++) first = name;
    }
    if (left && optimizer)
        return error_message("use weights made for this model and these settings",
                             "%s contains %d tensors that the model does not have, such as %s",
                             file->path, left, first);
    if (left)
        note_message("%s contains %d tensors that the model does not read, such as %s", file->path,
                     left, first);
    return true;
}

/* True if the parameter is updated element by element. */
static bool is_moved(const PublicTensor *parameter) {
    return !parameter->tensor->frozen && !parameter->tensor->whole;
}

/* ---- averages ---- */

/* Index of the optimizer state with this name, or -1. */
static int moment_called(const Model *model, const char *name) {
    for (int j = 0; j < moment_count(model); j++)
        if (strcmp(model->table->update->state_names[j], name) == 0) return j;
    return -1;
}

static const char of_average[] = "optimizer.average:";

/* True if the state is the weight average of a parameter that is updated as a matrix. */
static bool is_average(const Model *model, const PublicTensor *state) {
    const size_t length = strlen(of_average);
    if (strncmp(state->name, of_average, length) != 0) return false;
    for (int i = 0; i < model->parameter_count; i++) {
        const PublicTensor *one = &model->parameters[i];
        if (strcmp(one->name, state->name + length) == 0) return one->count == state->count;
    }
    return false;
}

/* The weight average (EMA) of a parameter in host memory, or NULL. Everything except training steps
 * uses it instead of the weights. */
static float *average_of(const Model *model, const PublicTensor *one) {
    int moment = is_moved(one) ? moment_called(model, "average") : -1;
    if (moment >= 0) return model->moments[moment] + one->offset / sizeof(float);
    if (!model->trains || !one->tensor->whole) return NULL;
    char *name = memory_format("%s%s", of_average, one->name);
    float *found = NULL;
    for (int i = 0; i < model->state_count && !found; i++)
        if (strcmp(model->states[i].name, name) == 0 && model->states[i].count == one->count)
            found = model->layer_states + model->states[i].offset / sizeof(float);
    free(name);
    return found;
}

static bool has_average(const Model *model) {
    bool found = false;
    for (int i = 0; i < model->parameter_count && !found; i++)
        found = average_of(model, &model->parameters[i]) != NULL;
    return found;
}

/* Before the first step the averages equal the weights. */
static void begin_averages(Model *model) {
    for (int i = 0; i < model->parameter_count; i++) {
        const PublicTensor *one = &model->parameters[i];
        float *average = average_of(model, one);
        if (average)
            memcpy(average, model->weights + one->offset / sizeof(float),
                   one->count * sizeof(float));
    }
}

bool model_take_averages(Model *model) {
    if (!has_average(model)) return true;
    if (!model_get(model, true)) return false;
    model->own = memory_new(model->table->weight_bytes);
    memcpy(model->own, model->weights, model->table->weight_bytes);
    for (int i = 0; i < model->parameter_count; i++) {
        const PublicTensor *one = &model->parameters[i];
        const float *average = average_of(model, one);
        if (average)
            memcpy(model->weights + one->offset / sizeof(float), average,
                   one->count * sizeof(float));
    }
    return model_put_weights(model);
}

bool model_give_averages(Model *model) {
    if (!model->own) return true;
    memcpy(model->weights, model->own, model->table->weight_bytes);
    free(model->own);
    model->own = NULL;
    return model_put_weights(model);
}

/* Reads the optimizer states of a parameter. */
static bool read_moments(Model *model, const Safetensors *file, const PublicTensor *one,
                         bool *used) {
    const MoecUpdate *update = model->table->update;
    bool good = true;
    for (int j = 0; good && update && is_moved(one) && j < update->state_count; j++) {
        if (j == moment_called(model, "average")) continue;
        char *name = memory_format("optimizer.%s:%s", update->state_names[j], one->name);
        good = read_tensor(file, name, one, model->moments[j], true, used);
        free(name);
    }
    return good;
}

/* The parameter's name stores the average; the trained weights have a separate name. */
static bool read_trained(Model *model, const Safetensors *file, const PublicTensor *one,
                         bool *used) {
    float *average = average_of(model, one);
    if (!average) return read_tensor(file, one->name, one, model->weights, true, used);
    char *name = memory_format("optimizer.weight:%s", one->name);
    bool good = read_values(file, one->name, one, average, true, used) &&
                read_tensor(file, name, one, model->weights, true, used);
    free(name);
    return good;
}

bool model_fits(const Model *model, const Safetensors *file) {
    for (int i = 0; i < model->parameter_count; i++) {
        const PublicTensor *one = &model->parameters[i];
        const TensorEntry *entry = safetensors_find(file, one->name);
        if (entry && !fits_tensor(one, entry)) return wrong_shape(file, one->name, one, entry);
    }
    return true;
}

bool model_read(Model *model, const Safetensors *file, bool optimizer) {
    bool good = true, *used = memory_new(sizeof *used * ((size_t)file->count + 1));
    for (int i = 0; i < model->parameter_count && good; i++) {
        const PublicTensor *one = &model->parameters[i];
        good = (optimizer ? read_trained(model, file, one, used)
                          : read_tensor(file, one->name, one, model->weights, true, used)) &&
               (!optimizer || read_moments(model, file, one, used));
    }
    for (int i = 0; i < model->state_count && good; i++)
        if (optimizer || !is_optimizers(model->states[i].name))
            good = read_tensor(file, model->states[i].name, &model->states[i], model->layer_states,
                               false, used);
    good = good && nothing_left(file, used, optimizer);
    free(used);
    return good && model_put(model);
}

enum { LISTED = 20 };

/* Names in a message. Those that differ in numbers only, such as the number of the block, share a
 * line: "block.*.attention.query (30)". */
typedef struct Names {
    char *text, *lines[LISTED], *first[LISTED];
    int counts[LISTED]; /* of names in each line */
    int lines_used, count;
} Names;

static char *without_numbers(const char *name) {
    char *text = memory_new(strlen(name) + 1), *end = text;
    for (const char *from = name; *from;) {
        const size_t digits = from == name || from[-1] == '.' ? strspn(from, "0123456789") : 0;
        if (digits && from[digits] == '.') {
            *end++ = '*';
            from += digits;
        } else
            *end++ = *from++;
    }
    return text;
}

static void add_name(Names *names, const char *name) {
    char *line = without_numbers(name);
    int i = 0;
    names->count++;
    while (i < names->lines_used && strcmp(names->lines[i], line) != 0) i++;
    if (i < LISTED) names->counts[i]++;
    if (i == LISTED || i < names->lines_used) {
        free(line);
        return;
    }
    names->first[i] = memory_format("%s", name);
    names->lines[names->lines_used++] = line;
}

/* A line for each group, and "... and 37 more" if there are more than LISTED groups. */
static const char *listed_names(Names *names) {
    int left = names->count;
    names->text = memory_format("%s", "");
    for (int i = 0; i < names->lines_used; i++) {
        names->text =
            names->counts[i] == 1
                ? memory_append(names->text, "\n    %s", names->first[i])
                : memory_append(names->text, "\n    %s (%d)", names->lines[i], names->counts[i]);
        left -= names->counts[i];
    }
    if (left) names->text = memory_append(names->text, "\n    ... and %d more", left);
    return names->text;
}

static void free_names(Names *names) {
    for (int i = 0; i < names->lines_used; i++) {
        free(names->lines[i]);
        free(names->first[i]);
    }
    free(names->text);
}

static bool report_lacking(const Safetensors *file, Names *names, bool lacking) {
    const char *many = names->count == 1 ? "" : "s";
    if (!names->count) return true;
    if (!lacking)
        return error_message(
            "initialize them with --init-missing (in the API: init_missing = true)",
            "%s does not have %d tensor%s of the model:%s", file->path, names->count, many,
            listed_names(names));
    note_message("%s does not have %d tensor%s of the model; random initialization of:%s",
                 file->path, names->count, many, listed_names(names));
    return true;
}

/* Reads a tensor if the file has it, otherwise initializes it; another shape is added to
 * `wrong`. */
static bool begin_tensor(const Safetensors *file, const PublicTensor *one, float *block,
                         uint64_t seed, bool *used, Names *wrong) {
    const TensorEntry *entry = safetensors_find(file, one->name);
    if (!entry) initialise_block(one, 1, block, seed);
    if (!entry || fits_tensor(one, entry))
        return read_tensor(file, one->name, one, block, false, used);
    used[entry - file->entries] = true;
    char *found = tensor_shape_text(entry->shape, entry->rank),
         *expected = tensor_shape_text(one->shape, one->rank),
         *line = memory_format("%s: %s, expected %s", one->name, found, expected);
    add_name(wrong, line);
    free(found);
    free(expected);
    free(line);
    return true;
}

bool model_begin(Model *model, const Safetensors *file, bool lacking, uint64_t seed) {
    bool good = true, *used = memory_new(sizeof *used * ((size_t)file->count + 1));
    Names absent = {0}, left = {0}, wrong = {0};
    for (int i = 0; i < model->parameter_count; i++) {
        const PublicTensor *one = &model->parameters[i];
        good &= begin_tensor(file, one, model->weights, seed, used, &wrong);
        if (!safetensors_find(file, one->name)) add_name(&absent, one->name);
    }
    for (int i = 0; i < model->state_count; i++) {
        const PublicTensor *one = &model->states[i];
        if (is_optimizers(one->name))
            initialise_block(one, 1, model->layer_states, seed);
        else
            good &= begin_tensor(file, one, model->layer_states, seed, used, &wrong);
    }
    for (int i = 0; i < file->count; i++)
        if (!used[i] && !is_optimizers(file->entries[i].name))
            add_name(&left, file->entries[i].name);
    if (wrong.count)
        good = error_message("use the sizes of that run, or train from scratch",
                             "%s: %d tensor%s of another shape:%s", file->path, wrong.count,
                             wrong.count == 1 ? "" : "s", listed_names(&wrong));
    good = report_lacking(file, &absent, lacking) && good;
    if (good && left.count)
        note_message("%s has %d tensor%s that the model does not have:%s", file->path, left.count,
                     left.count == 1 ? "" : "s", listed_names(&left));
    free_names(&wrong);
    free_names(&absent);
    free_names(&left);
    free(used);
    begin_averages(model);
    return good && model_put(model);
}

static void add_values(TensorEntry *entries, int *count, char *name, const PublicTensor *one,
                       const float *values) {
    TensorEntry *entry = &entries[(*count)++];
    *entry = (TensorEntry){
        .name = name, .number = NUMBER_F32, .rank = one->rank, .bytes = one->count * sizeof(float)};
    memcpy(entry->shape, one->shape, sizeof(long) * (size_t)one->rank);
    entry->data = values;
}

static void add_entry(TensorEntry *entries, int *count, char *name, const PublicTensor *one,
                      const float *block) {
    add_values(entries, count, name, one, block + one->offset / sizeof(float));
}

/* Adds the entry of a parameter for inference, and the one of its trained weights. */
static void add_parameter(const Model *model, TensorEntry *entries, int *count,
                          const PublicTensor *one, bool optimizer) {
    const float *average = model->own ? NULL : average_of(model, one);
    char *name = memory_format("%s", one->name);
    if (!average) {
        add_entry(entries, count, name, one, model->weights);
        return;
    }
    add_values(entries, count, name, one, average);
    if (optimizer)
        add_entry(entries, count, memory_format("optimizer.weight:%s", one->name), one,
                  model->weights);
}

static void append_axes(json_t *notes, const PublicTensor *one) {
    char *key = memory_format("axes:%s", one->name);
    json_object_set_new(notes, key, json_text(one->axes));
    free(key);
}

TensorEntry *model_entries(const Model *model, bool optimizer, json_t *notes, int *count) {
    if (!model_get(model, optimizer || has_average(model))) return NULL;
    const MoecUpdate *update = optimizer ? model->table->update : NULL;
    int copies = 1 + (update ? update->state_count : 0);
    TensorEntry *entries = memory_new(
        sizeof *entries * (size_t)(model->parameter_count * copies + model->state_count + 1));
    *count = 0;
    for (int i = 0; i < model->parameter_count; i++) {
        const PublicTensor *one = &model->parameters[i];
        add_parameter(model, entries, count, one, optimizer);
        append_axes(notes, one);
    }
    for (int i = 0; i < model->state_count; i++) {
        const PublicTensor *one = &model->states[i];
        if (is_optimizers(one->name) && (!optimizer || is_average(model, one))) continue;
        add_entry(entries, count, memory_format("%s", one->name), one, model->layer_states);
        append_axes(notes, one);
    }
    const int average = moment_called(model, "average");
    for (int j = 0; j < copies - 1; j++)
        for (int i = 0; i < model->parameter_count; i++)
            if (j != average && is_moved(&model->parameters[i]))
                add_entry(entries, count,
                          memory_format("optimizer.%s:%s", update->state_names[j],
                                        model->parameters[i].name),
                          &model->parameters[i], model->moments[j]);
    return entries;
}

void entries_free(TensorEntry *entries, int count) {
    for (int i = 0; i < count; i++) free(entries[i].name);
    free(entries);
}
