#include "training/limits.h"

#include "base/memory.h"
#include "base/message.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char gradient_mark[] = "gradient:", norm_name[] = "grad_norm";

static bool read_limit(const char *text, double *limit) {
    const char *value = strchr(text, '=');
    char *end = NULL;
    *limit = value ? strtod(value + 1, &end) : NAN;
    return (value && end != value + 1 && !*end && *limit >= 0) ||
           error_message("write the largest absolute value, for example --watch ffn.h=1e4",
                         "--watch expects NAME=LIMIT, got '%s'", text);
}

/* Names with a limit each. */
static bool read_names(WatchedNames *names, const TextList *texts) {
    names->names = selections_read(texts, '=');
    names->most = memory_new(sizeof *names->most * (size_t)(texts->count + 1));
    for (int i = 0; i < texts->count; i++)
        if (!read_limit(texts->items[i], &names->most[i])) return false;
    return true;
}

/* Distributes the texts. */
static bool read_limits(WatchedTensors *limits, const TextList *texts) {
    TextList tensors = {0}, gradients = {0};
    const size_t mark = sizeof gradient_mark - 1, norm = sizeof norm_name - 1;
    limits->norm = NAN;
    for (int i = 0; i < texts->count; i++) {
        const char *text = texts->items[i];
        if (!strncmp(text, gradient_mark, mark))
            gradients.items[gradients.count++] = text + mark;
        else if (strncmp(text, norm_name, norm) != 0 || (text[norm] && text[norm] != '='))
            tensors.items[tensors.count++] = text;
        else if (!read_limit(text, &limits->norm))
            return false;
    }
    return read_names(&limits->tensors, &tensors) && read_names(&limits->gradients, &gradients);
}

static void keep_equation(WatchedTensors *limits, const char *prefix, const char *name,
                          const char *file, int line, bool reads) {
    limits->equations = memory_grow(limits->equations, sizeof *limits->equations *
                                                           (size_t)(limits->equation_count + 1));
    limits->equations[limits->equation_count++] =
        (WatchedEquation){.name = memory_format("%s%s", prefix, name),
                          .file = file ? memory_format("%s", file) : NULL,
                          .line = line,
                          .reads = reads};
}

/* Of the tensors; of weights the first equation that reads them. */
static void keep_equations(WatchedTensors *limits, MoecCompiler *compiler,
                           const MoecSpecTensor *tensors, int count, const MoecTable *table) {
    for (int i = 0; i < count; i++)
        keep_equation(limits, "", tensors[i].name, tensors[i].file, tensors[i].line, false);
    for (int i = 0; i < table->parameter_count; i++) {
        const char *name = table->parameters[i].name, *file;
        int line;
        if (!moec_first_reader(compiler, name, &file, &line)) continue;
        keep_equation(limits, "", name, file, line, true);
        keep_equation(limits, gradient_mark, name, file, line, true);
    }
}

/* Whether a weight with a gradient has each name; false after a message. */
static bool name_gradients(const WatchedTensors *limits, MoecCompiler *compiler, Model *described) {
    const size_t trained = trained_bytes(described->table);
    int parameters = 0;
    while (parameters < described->parameter_count &&
           described->parameters[parameters].offset < trained)
        parameters++;
    const Model weights = {.parameters = described->parameters,
                           .parameter_count = parameters,
                           .table = &(MoecTable){.graphs = &(MoecGraphEntry){0}}};
    SelectedNames names = limits->gradients.names;
    return selections_observe(&names, compiler, NULL, 0, &weights);
}

WatchedTensors *limits_open(const TextList *texts, MoecCompiler *compiler) {
    WatchedTensors *limits = memory_new(sizeof *limits);
    int count;
    moec_trains(compiler);
    const MoecSpecTensor *tensors = moec_spec_tensors(compiler, 0, 0, &count);
    Model *described = model_describe(compiler, &(GraphShape){.graph = MOEC_TRAIN});
    const bool good =
        described && reports_good(compiler) && read_limits(limits, texts) &&
        selections_observe(&limits->tensors.names, compiler, tensors, count, described) &&
        name_gradients(limits, compiler, described);
    if (good) keep_equations(limits, compiler, tensors, count, described->table);
    model_close(described);
    if (good) return limits;
    limits_close(limits);
    return NULL;
}

static void names_free(WatchedNames *names) {
    free(names->most);
    selections_free(&names->names);
}

void limits_close(WatchedTensors *limits) {
    if (!limits) return;
    for (int i = 0; i < limits->equation_count; i++) {
        free(limits->equations[i].name);
        free(limits->equations[i].file);
    }
    free(limits->equations);
    names_free(&limits->tensors);
    names_free(&limits->gradients);
    free(limits);
}

static void note_excess(WatchedTensors *limits, const char *name, double value, double limit) {
    limits->exceeded = true;
    limits->value = value;
    limits->limit = limit;
    snprintf(limits->element, sizeof limits->element, "%s", name);
}

static void note_element(WatchedTensors *limits, const char *prefix, const PublicTensor *tensor,
                         size_t number) {
    char *name = memory_format("%s%s", prefix, tensor->name), *element = limits->element;
    size_t stride = tensor->count;
    int length = snprintf(element, LIMIT_NAME, "%s", name);
    for (int i = 0; i < tensor->rank && length < LIMIT_NAME; i++) {
        stride /= (size_t)tensor->shape[i];
        length +=
            snprintf(element + length, LIMIT_NAME - (size_t)length, "%s%zu%s", i ? "," : "[",
                     number / stride % (size_t)tensor->shape[i], i == tensor->rank - 1 ? "]" : "");
    }
    limits->equation = NULL;
    for (int i = 0; i < limits->equation_count; i++)
        if (has_public_name(limits->equations[i].name, name))
            limits->equation = &limits->equations[i];
    free(name);
}

/* The elements from `start` to `end` of a tensor, times a factor. */
static void check_watched(WatchedTensors *limits, const WatchedNames *names, const char *prefix,
                          const PublicTensor *tensor, const float *values, size_t start, size_t end,
                          double factor) {
    const SelectedName *name = selection_of(&names->names, tensor->name);
    const double most = name ? names->most[name - names->names.items] : 0;
    for (size_t i = start; name && i < end && !limits->exceeded; i++) {
        const double value = factor * (double)values[i];
        if (fabs(value) <= most) continue;
        note_excess(limits, "", value, most);
        note_element(limits, prefix, tensor, i);
    }
}

bool limits_check(WatchedTensors *limits, Call *call) {
    const MoecGraphEntry *graph = call->graph;
    int count;
    bool good = true;
    PublicTensor *outputs = public_tensors(graph->outputs, graph->output_count, &count);
    for (int i = 0; i < count && good && !limits->exceeded; i++) {
        const PublicTensor *one = &outputs[i];
        const int slot = (int)(one->tensor - graph->outputs);
        if (!selection_of(&limits->tensors.names, one->name)) continue;
        const float *values = call_get(call, slot);
        good = values != NULL;
        if (good)
            check_watched(limits, &limits->tensors, "", one,
                          values + (one->offset - one->tensor->offset) / sizeof(float), 0,
                          one->count, 1);
    }
    public_free(outputs, count);
    return good;
}

static bool watches_weight(const WatchedNames *names, const Model *model) {
    for (int i = 0; i < model->parameter_count; i++)
        if (selection_of(&names->names, model->parameters[i].name)) return true;
    return false;
}

/* Compares the elements of a block in a range; the block has the layout of the weights. */
static void check_block(WatchedTensors *limits, const WatchedNames *names, const char *prefix,
                        const Model *model, const float *block, MeshRange range, double factor) {
    for (int i = 0; i < model->parameter_count; i++) {
        const PublicTensor *one = &model->parameters[i];
        const size_t first = one->offset / sizeof(float), last = first + one->count,
                     start = first > range.start ? first : range.start,
                     end = last < range.end ? last : range.end;
        if (start < end)
            check_watched(limits, names, prefix, one, block + first, start - first, end - first,
                          factor);
    }
}

bool limits_check_weights(WatchedTensors *limits, const Model *model) {
    const MeshRange all = {0, model->table->weight_bytes / sizeof(float)};
    if (!watches_weight(&limits->tensors, model)) return true;
    if (!model_get(model, false)) return false;
    check_block(limits, &limits->tensors, "", model, model->weights, all, 1);
    return true;
}

bool limits_check_gradient(WatchedTensors *limits, const Model *model, MeshRange range,
                           double factor, double norm) {
    if (!limits->exceeded && watches_weight(&limits->gradients, model)) {
        if (!model_get_gradients(model)) return false;
        check_block(limits, &limits->gradients, gradient_mark, model, model->gradients, range,
                    factor);
    }
    if (!limits->exceeded && !isnan(limits->norm) && !(norm <= limits->norm))
        note_excess(limits, norm_name, norm, limits->norm);
    return true;
}
