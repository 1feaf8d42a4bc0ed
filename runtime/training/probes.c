#include "training/probes.h"

#include "abi/json_make.h"
#include "base/memory.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

static bool is_wanted_probe(const MoecTensor *output) {
    return output->probe != MOEC_PROBE_NONE ||
           (output->rank == 0 && strcmp(output->name, "loss") != 0 &&
            strcmp(output->name, "loss_weight") != 0);
}

static bool is_single_number(const char *part, size_t length) {
    return length > 0 && strspn(part, "0123456789") == length;
}

/* The path without the layer number: "block.attention.sdpa_gate.gate". A new string. */
static char *path_of(const char *name, long *layer) {
    *layer = -1;
    for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
        size_t length = strcspn(dot + 1, ".");
        if (!is_single_number(dot + 1, length)) continue;
        *layer = strtol(dot + 1, NULL, 10);
        return memory_format("%.*s%s", (int)(dot - name), name, dot + 1 + length);
    }
    return memory_format("%s", name);
}

/* The last `parts` components of a path, or all; a number is joined with its predecessor. */
static const char *last_parts(const char *path, int parts) {
    const char *at = path + strlen(path);
    while (at > path) {
        bool begins = at[-1] == '.';
        if (begins && --parts <= 0 && !isdigit((unsigned char)*at)) return at;
        at--;
    }
    return path;
}

/* The shortest suffix that no other path of the same name shares. */
static const char *label_of(char *const *paths, int count, int which) {
    int parts = 1;
    for (int i = 0; i < count; i++) {
        const char *mine = last_parts(paths[which], parts), *other = last_parts(paths[i], parts);
        if (!strcmp(paths[i], paths[which]) || strcmp(mine, other) != 0) continue;
        if (mine == paths[which]) break;
        parts++;
        i = -1;
    }
    return last_parts(paths[which], parts);
}

static int by_name(const void *a, const void *b) {
    const LayerProbe *one = a, *other = b;
    int names = strcmp(one->name, other->name), labels = strcmp(one->label, other->label);
    if (names) return one->first - other->first;
    return labels ? labels : (one->layer > other->layer) - (one->layer < other->layer);
}

/* Sorts by first occurrence of the name in the graph, then by layer. */
static void name_probes(Probes *probes) {
    AUTO_FREE char **paths = memory_new(sizeof *paths * (size_t)(probes->count + 1));
    for (int i = 0; i < probes->count; i++) {
        LayerProbe *one = &probes->all[i];
        paths[i] = path_of(one->tensor->name, &one->layer);
        one->name = last_parts(one->tensor->name, 1);
        while (strcmp(probes->all[one->first].name, one->name) != 0) one->first++;
    }
    for (int i = 0; i < probes->count; i++)
        probes->all[i].label = memory_format("%s", label_of(paths, probes->count, i));
    for (int i = 0; i < probes->count; i++) free(paths[i]);
    qsort(probes->all, (size_t)probes->count, sizeof *probes->all, by_name);
}

Probes *probes_open(Call *call) {
    const MoecGraphEntry *graph = call->graph;
    Probes *probes = memory_new(sizeof *probes);
    probes->call = call;
    probes->outputs = public_tensors(graph->outputs, graph->output_count, &probes->output_count);
    probes->all = memory_new(sizeof *probes->all * (size_t)(probes->output_count + 1));
    for (int i = 0; i < probes->output_count; i++) {
        const PublicTensor *one = &probes->outputs[i];
        if (!is_wanted_probe(one->tensor)) continue;
        double *values = memory_new(sizeof *values * (one->count + 1));
        probes->all[probes->count++] = (LayerProbe){.tensor = one, .values = values};
        probes->width += one->count;
    }
    name_probes(probes);
    return probes;
}

void probes_close(Probes *probes) {
    if (!probes) return;
    for (int i = 0; i < probes->count; i++) {
        free(probes->all[i].label);
        free(probes->all[i].values);
    }
    free(probes->all);
    public_free(probes->outputs, probes->output_count);
    free(probes);
}

/* ---- values ---- */

void probes_clear(Probes *probes) {
    probes->calls = 0;
    for (int i = 0; i < probes->count; i++)
        memset(probes->all[i].values, 0, sizeof(double) * probes->all[i].tensor->count);
}

static bool is_largest(const LayerProbe *one) {
    return one->tensor->tensor->probe == MOEC_PROBE_LARGEST;
}

bool probes_read(const Probes *probes, double *values) {
    Call *call = probes->call;
    const MoecTensor *outputs = call->graph->outputs;
    for (int i = 0; i < call->graph->output_count; i++)
        if (is_wanted_probe(&outputs[i]) && tensor_count(&outputs[i]) > 1 && !call_get(call, i))
            return false;
    for (int i = 0; i < probes->count; i++) {
        const PublicTensor *one = probes->all[i].tensor;
        const float *given = call->outputs[one->tensor - outputs] +
                             (one->offset - one->tensor->offset) / sizeof(float);
        for (size_t k = 0; k < one->count; k++) *values++ = (double)given[k];
    }
    return true;
}

void probes_add(Probes *probes, const double *values) {
    for (int i = 0; i < probes->count; i++) {
        const LayerProbe *one = &probes->all[i];
        for (size_t k = 0; k < one->tensor->count; k++) {
            const double next = *values++;
            if (!is_largest(one))
                one->values[k] += next;
            else if (!probes->calls || !(next <= one->values[k]))
                one->values[k] = next;
        }
    }
    probes->calls++;
}

static double probe_value(const Probes *probes, int which, size_t element) {
    const LayerProbe *one = &probes->all[which];
    return one->values[element] / (double)(is_largest(one) || !probes->calls ? 1 : probes->calls);
}

/* ---- JSON output ---- */

static json_t *value_json(const Probes *probes, int which) {
    const PublicTensor *tensor = probes->all[which].tensor;
    if (tensor->rank == 0) return json_number(probe_value(probes, which, 0));
    json_t *list = json_array();
    for (size_t i = 0; i < tensor->count; i++) {
        char brief[32]; /* there may be many */
        snprintf(brief, sizeof brief, "%.4g", probe_value(probes, which, i));
        json_array_append_new(list, json_number(strtod(brief, NULL)));
    }
    return list;
}

static double mean_of(const Probes *probes, int from, int to) {
    double sum = 0;
    for (int i = from; i < to; i++) sum += probe_value(probes, i, 0);
    return sum / (to - from);
}

/* True if the layers are consecutive from the first one on. */
static bool are_all(const Probes *probes, int from, int to) {
    for (int i = from; i < to; i++)
        if (probes->all[i].layer != i - from) return false;
    return true;
}

static json_t *layers_json(const Probes *probes, int from, int to) {
    bool all = are_all(probes, from, to);
    json_t *layers = all ? json_array() : json_object();
    for (int i = from; i < to; i++) {
        char number[32];
        snprintf(number, sizeof number, "%ld", probes->all[i].layer);
        if (all)
            json_array_append_new(layers, value_json(probes, i));
        else
            json_object_set_new(layers, number, value_json(probes, i));
    }
    return layers;
}

/* End of the range with the name, or name and label, of the first one. */
static int end_of(const Probes *probes, int first, bool label) {
    const LayerProbe *one = &probes->all[first];
    int end = first + 1;
    while (end < probes->count && !strcmp(probes->all[end].name, one->name) &&
           !(label && strcmp(probes->all[end].label, one->label)))
        end++;
    return end;
}

/* Adds the layers of one label. */
static void tell_layers(const Probes *probes, int from, int to, json_t *object) {
    const LayerProbe *one = &probes->all[from];
    bool apart = strcmp(one->label, one->name) != 0, numbers = one->tensor->rank == 0;
    if (apart && numbers)
        json_object_set_new(object, one->label, json_number(mean_of(probes, from, to)));
    if (one->layer < 0 && !numbers)
        json_object_set_new(object, one->label, value_json(probes, from));
    if (one->layer < 0 || (numbers && to - from < 2)) return;
    AUTO_FREE char *name = memory_format("%s.layer", one->label);
    json_object_set_new(object, name, layers_json(probes, from, to));
}

static bool probe_is_finite(const Probes *probes, int which) {
    for (size_t i = 0; i < probes->all[which].tensor->count; i++)
        if (!isfinite(probes->all[which].values[i])) return false;
    return true;
}

json_t *probes_json(const Probes *probes, const char **wrong) {
    json_t *object = json_object();
    *wrong = NULL;
    for (int from = 0, to; from < probes->count; from = to) {
        to = end_of(probes, from, false);
        if (probes->all[from].tensor->rank == 0)
            json_object_set_new(object, probes->all[from].name,
                                json_number(mean_of(probes, from, to)));
        for (int part = from, end; part < to; part = end) {
            end = end_of(probes, part, true);
            tell_layers(probes, part, end, object);
        }
    }
    for (int i = 0; i < probes->count && !*wrong; i++)
        if (!probe_is_finite(probes, i)) *wrong = probes->all[i].name;
    return object;
}

/* ---- text output ---- */

static int print_name(const LayerProbe *one, const char *name, bool by_layer, char *text,
                      size_t room) {
    if (!by_layer) return snprintf(text, room, "%s", name);
    return snprintf(text, room, "%s.layer.%ld", name, one->layer);
}

/* Prints the values of each layer on separate lines. */
static void print_axes(const Probes *probes, int from, int to, int width) {
    for (int i = from; i < to; i++) {
        const LayerProbe *one = &probes->all[i];
        char name[256];
        print_name(one, one->label, one->layer >= 0, name, sizeof name);
        printf("%-*s", width, name);
        for (size_t k = 0; k < one->tensor->count; k++) printf(" %.4g", probe_value(probes, i, k));
        puts("");
    }
}

static void print_numbers(const Probes *probes, int from, int to, const char *name, int width) {
    printf("%-*s %.4g", width, name, mean_of(probes, from, to));
    if (to - from > 1 && end_of(probes, from, true) >= to) {
        bool all = are_all(probes, from, to);
        printf("  by layer");
        for (int i = from; i < to; i++) {
            printf(all ? " " : " %ld: ", probes->all[i].layer);
            printf("%.4g", probe_value(probes, i, 0));
        }
    }
    puts("");
}

static int widest_name(const Probes *probes) {
    int width = 0;
    for (int i = 0; i < probes->count; i++) {
        const LayerProbe *one = &probes->all[i];
        int length = print_name(one, one->label, one->tensor->rank && one->layer >= 0, NULL, 0);
        if (length > width) width = length;
    }
    return width;
}

void probes_print(const Probes *probes) {
    int width = widest_name(probes);
    for (int from = 0, to; from < probes->count; from = to) {
        to = end_of(probes, from, false);
        if (probes->all[from].tensor->rank == 0)
            print_numbers(probes, from, to, probes->all[from].name, width);
        for (int part = from, end; part < to; part = end) {
            const LayerProbe *one = &probes->all[part];
            end = end_of(probes, part, true);
            if (one->tensor->rank)
                print_axes(probes, part, end, width);
            else if (strcmp(one->label, one->name) != 0)
                print_numbers(probes, part, end, one->label, width);
        }
    }
}
