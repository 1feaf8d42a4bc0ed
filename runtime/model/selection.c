#include "model/selection.h"

#include "abi/step_path.h"
#include "base/memory.h"
#include "base/message.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

SelectedNames selections_read(const TextList *texts, char mark) {
    SelectedNames list = {.count = texts->count};
    list.items = memory_new(sizeof(SelectedName) * (size_t)(texts->count + 1));
    for (int i = 0; i < texts->count; i++) {
        const char *text = texts->items[i];
        const size_t length = strcspn(text, (const char[]){mark, 0});
        list.items[i] = (SelectedName){.name = memory_format("%.*s", (int)length, text),
                                       .rest = text[length] ? text + length + 1 : NULL};
    }
    return list;
}

void selections_free(SelectedNames *selections) {
    for (int i = 0; i < selections->count; i++) free(selections->items[i].name);
    free(selections->items);
}

static bool names_tensor(const SelectedName *selection, const char *name) {
    if (!selection->anywhere)
        return !fnmatch(selection->name, name, 0) || has_public_name(name, selection->name);
    AUTO_FREE char *pattern = memory_format("*.%s", selection->name);
    return !fnmatch(pattern, name, 0);
}

const SelectedName *selection_of(const SelectedNames *selections, const char *name) {
    for (int i = 0; i < selections->count; i++)
        if (names_tensor(&selections->items[i], name)) return &selections->items[i];
    return NULL;
}

static bool is_output(const Model *described, const char *name) {
    for (int i = 0; described && i < described->table->graphs[0].output_count; i++)
        if (!strcmp(described->table->graphs[0].outputs[i].name, name)) return true;
    return false;
}

static bool observe_selection(SelectedName *selection, const char *prefix, MoecCompiler *compiler,
                              const MoecSpecTensor *tensors, int tensor_count,
                              const Model *described) {
    for (int i = 0; i < tensor_count; i++) {
        if (!names_tensor(selection, tensors[i].name)) continue;
        if (tensors[i].part && is_output(described, tensors[i].name)) continue;
        char *name = memory_format("%s%s", prefix ? prefix : "", tensors[i].name);
        moec_observe_name(compiler, name);
        free(name);
        selection->used = true;
    }
    for (int i = 0; described && i < described->parameter_count; i++)
        selection->used |= names_tensor(selection, described->parameters[i].name);
    for (int i = 0; described && i < described->table->graphs[0].output_count; i++)
        selection->used |= names_tensor(selection, described->table->graphs[0].outputs[i].name);
    return selection->used;
}

/* A name of the tensor: of the first iteration. A new string. */
static char *first_name(const char *spec_name) {
    StepPath parts;
    if (!step_path_read(spec_name, &parts)) return memory_format("%s", spec_name);
    return memory_format("%.*s%ld%s", parts.before, spec_name, step_path_number(&parts, 0),
                         parts.after);
}

static bool report_unknown_tensor(const SelectedName *selection, const MoecSpecTensor *tensors,
                                  int count, const Model *described) {
    const int outputs = described ? described->table->graphs[0].output_count : 0;
    AUTO_FREE char **names =
        memory_new(sizeof *names *
                   (size_t)(count + (described ? described->parameter_count : 0) + outputs + 1));
    int known = 0;
    for (int i = 0; i < count; i++)
        if (!tensors[i].part) names[known++] = first_name(tensors[i].name);
    for (int i = 0; described && i < described->parameter_count; i++)
        names[known++] = memory_format("%s", described->parameters[i].name);
    for (int i = 0; i < outputs; i++)
        names[known++] = first_name(described->table->graphs[0].outputs[i].name);
    const char *near = moec_nearest(selection->name, (const char *const *)names, known);
    char *help = near ? memory_format("did you mean '%s'?", near)
                      : memory_format("moec inspect SPEC lists the names");
    error_message(help, "the model has no tensor '%s'", selection->name);
    free(help);
    for (int i = 0; i < known; i++) free(names[i]);
    return false;
}

bool selections_observe(SelectedNames *selections, MoecCompiler *compiler,
                        const MoecSpecTensor *tensors, int tensor_count, const Model *described) {
    for (int i = 0; i < selections->count; i++) {
        SelectedName *selection = &selections->items[i];
        if (observe_selection(selection, selections->prefix, compiler, tensors, tensor_count,
                              described))
            continue;
        selection->anywhere = true;
        if (observe_selection(selection, selections->prefix, compiler, tensors, tensor_count,
                              described))
            continue;
        return report_unknown_tensor(selection, tensors, tensor_count, described);
    }
    return true;
}

bool selections_name(SelectedNames *selections, const MoecTensor *tensors, int count) {
    const MoecGraphEntry graph = {.outputs = tensors, .output_count = count};
    const Model outputs = {.table = &(MoecTable){.graphs = &graph}};
    return selections_observe(selections, NULL, NULL, 0, &outputs);
}
