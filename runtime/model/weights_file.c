/* weights_file: initial values, and the tensors of a model in a weights file. */
#include "model/internal.h"

#include "abi/json_make.h"
#include "base/memory.h"
#include "base/message.h"

#include <stdlib.h>
#include <string.h>

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
    AUTO_FREE char *longer =
        differ == 1 && one->shape[axis] > entry->shape[axis]
            ? memory_format(
                  "the weights have size %ld on axis '%.*s'; use a setting of at most %ld, or "
                  "weights with size %ld",
                  entry->shape[axis], (int)strcspn(letter, ","), letter, entry->shape[axis],
                  one->shape[axis])
            : memory_format("use weights made for this model and these settings");
    AUTO_FREE char *found = tensor_shape_text(entry->shape, entry->rank),
                   *wanted = tensor_shape_text(one->shape, one->rank);
    error_message(longer, "%s: %s has shape %s, but the model needs %s (%s)", file->path, name,
                  found, wanted, one->axes);
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
    AUTO_FREE char *name = memory_format("%s%s", of_average, one->name);
    float *found = NULL;
    for (int i = 0; i < model->state_count && !found; i++)
        if (strcmp(model->states[i].name, name) == 0 && model->states[i].count == one->count)
            found = model->layer_states + model->states[i].offset / sizeof(float);
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

void model_initialise(Model *model, uint64_t seed) {
    initialise_block(model->parameters, model->parameter_count, model->weights, seed);
    initialise_block(model->states, model->state_count, model->layer_states, seed);
    begin_averages(model);
    model_put(model);
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
        AUTO_FREE char *name = memory_format("optimizer.%s:%s", update->state_names[j], one->name);
        good = read_tensor(file, name, one, model->moments[j], true, used);
    }
    return good;
}

/* The parameter's name stores the average; the trained weights have a separate name. */
static bool read_trained(Model *model, const Safetensors *file, const PublicTensor *one,
                         bool *used) {
    float *average = average_of(model, one);
    if (!average) return read_tensor(file, one->name, one, model->weights, true, used);
    AUTO_FREE char *name = memory_format("optimizer.weight:%s", one->name);
    return read_values(file, one->name, one, average, true, used) &&
           read_tensor(file, name, one, model->weights, true, used);
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
    AUTO_FREE char *found = tensor_shape_text(entry->shape, entry->rank),
                   *expected = tensor_shape_text(one->shape, one->rank),
                   *line = memory_format("%s: %s, expected %s", one->name, found, expected);
    add_name(wrong, line);
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
    AUTO_FREE char *key = memory_format("axes:%s", one->name);
    json_object_set_new(notes, key, json_text(one->axes));
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
