#include "training/limits.h"

#include "base/memory.h"
#include "base/message.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_limits(WatchedTensors *limits) {
    limits->most = memory_new(sizeof *limits->most * (size_t)(limits->names.count + 1));
    for (int i = 0; i < limits->names.count; i++) {
        const SelectedName *name = &limits->names.items[i];
        char *end = NULL;
        limits->most[i] = name->rest ? strtod(name->rest, &end) : NAN;
        if (name->rest && end != name->rest && !*end && limits->most[i] >= 0) continue;
        return error_message("write the largest absolute value, for example --watch ffn.h=1e4",
                             "--watch expects NAME=LIMIT, got '%s%s%s'", name->name,
                             name->rest ? "=" : "", name->rest ? name->rest : "");
    }
    return true;
}

static void keep_equations(WatchedTensors *limits, const MoecSpecTensor *tensors, int count) {
    limits->equations = memory_new(sizeof *limits->equations * (size_t)(count + 1));
    limits->equation_count = count;
    for (int i = 0; i < count; i++)
        limits->equations[i] =
            (WatchedEquation){.name = memory_format("%s", tensors[i].name),
                              .file = tensors[i].file ? memory_format("%s", tensors[i].file) : NULL,
                              .line = tensors[i].line};
}

WatchedTensors *limits_open(const TextList *texts, MoecCompiler *compiler) {
    WatchedTensors *limits = memory_new(sizeof *limits);
    int count;
    limits->names = selections_read(texts, '=');
    const MoecSpecTensor *tensors = moec_spec_tensors(compiler, 0, 0, &count);
    bool good = reports_good(compiler) && read_limits(limits) &&
                selections_observe(&limits->names, compiler, tensors, count, NULL);
    if (good) {
        keep_equations(limits, tensors, count);
        return limits;
    }
    limits_close(limits);
    return NULL;
}

void limits_close(WatchedTensors *limits) {
    if (!limits) return;
    for (int i = 0; i < limits->equation_count; i++) {
        free(limits->equations[i].name);
        free(limits->equations[i].file);
    }
    free(limits->equations);
    free(limits->most);
    selections_free(&limits->names);
    free(limits);
}

static void note_excess(WatchedTensors *limits, const PublicTensor *tensor, size_t number,
                        double value) {
    int length = snprintf(limits->element, sizeof limits->element, "%s", tensor->name);
    size_t stride = tensor->count;
    for (int i = 0; i < tensor->rank && length < LIMIT_NAME; i++) {
        stride /= (size_t)tensor->shape[i];
        length += snprintf(limits->element + length, sizeof limits->element - (size_t)length,
                           "%s%zu%s", i ? "," : "[", number / stride % (size_t)tensor->shape[i],
                           i == tensor->rank - 1 ? "]" : "");
    }
    limits->exceeded = true;
    limits->value = value;
    limits->equation = NULL;
    for (int i = 0; i < limits->equation_count; i++)
        if (has_public_name(limits->equations[i].name, tensor->name))
            limits->equation = &limits->equations[i];
}

static void check_watched(WatchedTensors *limits, const PublicTensor *tensor, const float *values) {
    const SelectedName *name = selection_of(&limits->names, tensor->name);
    if (!name) return;
    limits->limit = limits->most[name - limits->names.items];
    for (size_t i = 0; i < tensor->count && !limits->exceeded; i++)
        if (!(fabs((double)values[i]) <= limits->limit))
            note_excess(limits, tensor, i, (double)values[i]);
}

bool limits_check(WatchedTensors *limits, Call *call) {
    const MoecGraphEntry *graph = call->graph;
    int count;
    bool good = true;
    PublicTensor *outputs = public_tensors(graph->outputs, graph->output_count, &count);
    for (int i = 0; i < count && good && !limits->exceeded; i++) {
        const PublicTensor *one = &outputs[i];
        const int slot = (int)(one->tensor - graph->outputs);
        if (!selection_of(&limits->names, one->name)) continue;
        const float *values = call_get(call, slot);
        good = values != NULL;
        if (good)
            check_watched(limits, one,
                          values + (one->offset - one->tensor->offset) / sizeof(float));
    }
    public_free(outputs, count);
    return good;
}
