#include "training/probes.h"

#include "base/json_number.h"
#include "base/memory.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of one layer; or, in a graph that has none of those, a number that is logged. */
static bool is_wanted(const MoecTensor *output, bool layers) {
    if (layers) return output->probe != MOEC_PROBE_NONE;
    return output->rank == 0 && strcmp(output->name, "loss") != 0 &&
           strcmp(output->name, "total") != 0;
}

Probes *probes_open(const Call *call) {
    const MoecGraphEntry *graph = call->graph;
    Probes *probes = memory_new(sizeof *probes);
    bool layers = false;
    for (int i = 0; i < graph->output_count; i++)
        layers |= graph->outputs[i].probe != MOEC_PROBE_NONE;
    PublicTensor *all = public_tensors(graph->outputs, graph->output_count, &probes->outputs);
    probes->all = all;
    for (int i = 0; i < probes->outputs; i++) {
        PublicTensor one = all[i];
        if (!is_wanted(one.tensor, layers)) continue;
        all[i] = all[probes->count];
        all[probes->count++] = one;
    }
    probes->values = memory_new(sizeof *probes->values * (size_t)(probes->count + 1));
    for (int i = 0; i < probes->count; i++)
        probes->values[i] = memory_new(sizeof **probes->values * (all[i].count + 1));
    return probes;
}

void probes_close(Probes *probes) {
    if (!probes) return;
    for (int i = 0; i < probes->count; i++) free(probes->values[i]);
    free(probes->values);
    public_free(probes->all, probes->outputs);
    free(probes);
}

bool probes_add(Probes *probes, Call *call) {
    for (int i = 0; i < probes->count; i++) {
        const PublicTensor *one = &probes->all[i];
        const float *given = call_get(call, (int)(one->tensor - call->graph->outputs));
        if (!given) return false;
        given += (one->offset - one->tensor->offset) / sizeof(float);
        for (size_t j = 0; j < one->count; j++) {
            double *value = &probes->values[i][j], next = (double)given[j];
            bool largest = one->tensor->probe == MOEC_PROBE_LARGEST;
            if (!largest)
                *value += next;
            else if (probes->calls == 0 || next > *value)
                *value = next;
        }
    }
    probes->calls++;
    return true;
}

static double value_at(const Probes *probes, int i, size_t element) {
    bool largest = probes->all[i].tensor->probe == MOEC_PROBE_LARGEST;
    return probes->values[i][element] / (double)(largest || !probes->calls ? 1 : probes->calls);
}

/* What follows the number of the layer: "attention.first_token"; the name where there is none. */
static const char *name_in_layer(const char *name) {
    for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
        const char *end = dot + 1;
        while (isdigit((unsigned char)*end)) end++;
        if (end > dot + 1 && *end == '.') return end + 1;
    }
    return name;
}

static bool is_alike(const Probes *probes, int i, int j) {
    return probes->all[i].count == probes->all[j].count &&
           strcmp(name_in_layer(probes->all[i].name), name_in_layer(probes->all[j].name)) == 0;
}

static bool is_first(const Probes *probes, int i) {
    for (int j = 0; j < i; j++)
        if (is_alike(probes, i, j)) return false;
    return true;
}

/* Over the layers that have it. */
static double mean_of(const Probes *probes, int i, int *layers) {
    double sum = 0;
    *layers = 0;
    for (int j = i; j < probes->count; j++) {
        if (!is_alike(probes, i, j)) continue;
        sum += value_at(probes, j, 0);
        ++*layers;
    }
    return sum / *layers;
}

json_t *probes_json(const Probes *probes) {
    json_t *object = json_object();
    for (int i = 0; i < probes->count; i++) {
        const PublicTensor *one = &probes->all[i];
        json_t *list = json_array();
        int layers;
        for (size_t j = 0; j < one->count; j++)
            json_array_append_new(list, json_number(value_at(probes, i, j)));
        if (one->rank == 0)
            json_object_set(object, one->name, json_array_get(list, 0));
        else
            json_object_set(object, one->name, list);
        json_decref(list);
        if (one->rank > 0 || !is_first(probes, i)) continue;
        double mean = mean_of(probes, i, &layers);
        char *name = memory_format("mean.%s", name_in_layer(one->name));
        if (layers > 1) json_object_set_new(object, name, json_number(mean));
        free(name);
    }
    return object;
}

void probes_print(const Probes *probes) {
    int width = 0;
    for (int i = 0; i < probes->count; i++) {
        const PublicTensor *one = &probes->all[i];
        int length = (int)strlen(one->rank ? one->name : name_in_layer(one->name));
        if (length > width) width = length;
    }
    for (int i = 0; i < probes->count; i++) {
        const PublicTensor *one = &probes->all[i];
        if (one->rank > 0) {
            printf("%-*s", width, one->name);
            for (size_t j = 0; j < one->count; j++) printf(" %.4g", value_at(probes, i, j));
            printf("\n");
        }
        if (one->rank > 0 || !is_first(probes, i)) continue;
        int layers;
        double mean = mean_of(probes, i, &layers);
        printf("%-*s %.4g", width, name_in_layer(one->name), mean);
        if (layers > 1) printf("  by layer");
        for (int j = i; j < probes->count && layers > 1; j++)
            if (is_alike(probes, i, j)) printf(" %.4g", value_at(probes, j, 0));
        printf("\n");
    }
}
