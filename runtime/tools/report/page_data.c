/* page_data: the data of the page as JSON. */
#include "tools/report/report.h"

#include "abi/json_make.h"
#include "base/build.h"
#include "device/device.h"
#include "model/model.h"
#include "tools/experiment/experiment.h"
#include "moec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_POINTS = 1000,
    MAX_PICTURES = 60
}; /* points per series; maps per probe with many values
                                                  per step */

static void add_point(json_t *series, double step, double value) {
    json_array_append_new(series, json_make("[f, f]", step, value));
}

/* Each point is the mean of `stride` neighbours, at the last of their steps. */
static json_t *series_json(const History *history, int column) {
    const double *steps = history->values[0], *values = history->values[column];
    json_t *series = json_array();
    long count = 0, held = 0;
    double sum = 0, last = 0;
    for (long row = 0; row < history->rows; row++) count += !isnan(values[row]);
    long stride = (count + MAX_POINTS - 1) / MAX_POINTS;
    for (long row = 0; row < history->rows; row++) {
        if (isnan(values[row])) continue;
        sum += values[row];
        last = steps[row];
        if (++held < stride) continue;
        add_point(series, last, sum / (double)held);
        sum = 0;
        held = 0;
    }
    if (held) add_point(series, last, sum / (double)held);
    return series;
}

static json_t *clock_json(const History *history) {
    int column = history_column(history, "seconds");
    json_t *clock = json_array();
    double passed = 0;
    long stride = (history->rows + MAX_POINTS - 1) / MAX_POINTS;
    for (long row = 0; column >= 0 && row < history->rows; row++) {
        double seconds = history->values[column][row];
        if (isfinite(seconds)) passed += seconds;
        if (row % stride == 0 || row == history->rows - 1)
            add_point(clock, history->values[0][row], passed);
    }
    return clock;
}

/* "val_expert_load.layer.2.5": value 5 of layer 2, and the length of "val_expert_load". False of
 * other names. */
static bool is_layer_value(const char *name, size_t *length, int *layer, int *place) {
    const char *at = strstr(name, ".layer.");
    *length = at ? (size_t)(at - name) : 0;
    return at && sscanf(at, ".layer.%d.%d", layer, place) == 2;
}

static json_t *member(json_t *object, const char *name, json_t *fresh) {
    json_t *there = json_object_get(object, name);
    if (there) json_decref(fresh);
    if (!there) json_object_set_new(object, name, fresh);
    return there ? there : fresh;
}

/* Samples as many measurements as fit: their steps, or their values. */
static json_t *thinned(const History *history, int column, bool steps) {
    const double *values = history->values[column];
    json_t *list = json_array();
    long count = 0, seen = 0;
    for (long row = 0; row < history->rows; row++) count += !isnan(values[row]);
    long stride = (count + MAX_PICTURES - 1) / MAX_PICTURES;
    for (long row = 0; row < history->rows; row++)
        if (!isnan(values[row]) && (++seen % stride == 0 || seen == count))
            json_array_append_new(list, json_number(history->values[steps ? 0 : column][row]));
    return list;
}

/* Per-element values of a probe, of one run. NULL if there are none. */
static json_t *values_json(const Run *run) {
    AUTO(History) history;
    if (!history_open(&history, run->folder, true)) return NULL;
    json_t *all = json_object();
    for (int i = 1; i < history.columns; i++) {
        size_t length;
        int layer, place;
        if (!is_layer_value(history.names[i], &length, &layer, &place)) continue;
        char name[256], number[16];
        snprintf(name, sizeof name, "%.*s", (int)length, history.names[i]);
        snprintf(number, sizeof number, "%d", layer);
        json_t *probe = member(all, name, json_object());
        if (!json_object_get(probe, "steps"))
            json_object_set_new(probe, "steps", thinned(&history, i, true));
        json_t *layers = member(probe, "layers", json_object());
        json_array_append_new(member(layers, number, json_array()), thinned(&history, i, false));
    }
    return all;
}

static json_t *run_json(const Run *run) {
    json_t *all = json_object();
    for (int i = 1; i < run->history.columns; i++)
        json_object_set_new(all, run->history.names[i], series_json(&run->history, i));
    json_t *starts = json_object_get(run->account, "starts");
    return json_make("{s:I, s:o?, s:b, s:s?, s:O?, s:o, s:o}", "seed", (json_int_t)run->seed,
                     "folder", json_escaped(run->folder), "diverged", run->result.diverged,
                     "nonsense", run->history.diverged, "starts", starts, "clock",
                     clock_json(&run->history), "series", all);
}

/* Of the machine that writes the report: of products of f32, of bf16, of memory. */
typedef struct Ceilings {
    double products[2], memory;
} Ceilings;

/* Layer graph and kernels of a step; NULL if this version cannot read the spec. */
static json_t *graph_json(const Group *group, const Ceilings *ceilings) {
    if (!group->options) return NULL;
    AUTO(MoecCompiler) *compiler = moec_open_bundle(group->spec, strlen(group->spec), NULL, 0);
    const MoecCeilings own = {ceilings->products[moec_rounded(compiler)], ceilings->memory};
    const char *picture =
        moec_explain(compiler, MOEC_TRAIN, moec_target("c"), own, MOEC_EXPLAIN_SVG);
    return picture ? json_text(picture) : NULL;
}

/* Models that differ only in tuned settings share the graph of the first. */
static bool has_own_graph(const Gathering *gathering, int number) {
    const char *structure = gathering->groups[number].structure;
    for (int i = 0; structure && i < number; i++) {
        const char *other = gathering->groups[i].structure;
        if (other && !strcmp(other, structure)) return false;
    }
    return true;
}

static json_t *model_json(const Gathering *gathering, int number, const Ceilings *ceilings) {
    const Group *group = &gathering->groups[number];
    json_t *runs = json_array();
    for (int i = 0; i < group->count; i++) json_array_append_new(runs, run_json(&group->runs[i]));
    json_t *flops = json_object_get(json_object_get(group->cost, "flops_per_token"), "train");
    json_t *tokens = json_object_get(group->runs[0].account, "tokens_per_step");
    json_t *graph = has_own_graph(gathering, number) ? graph_json(group, ceilings) : NULL;
    return json_make("{s:s, s:O?, s:O?, s:O?, s:O?, s:O?, s:o, s:o?, s:o?}", "name", group->name,
                     "sets", group->sets, "options", group->options, "layers",
                     json_object_get(group->cost, "layers"), "flops", flops, "tokens_per_step",
                     tokens, "runs", runs, "graph", graph, "values", values_json(&group->runs[0]));
}

json_t *report_json(const Gathering *gathering, int base) {
    const Ceilings ceilings = {
        {1e9 * ceiling_products_quick(false), 1e9 * ceiling_products_quick(true)},
        1e9 * device_ceiling_read(device_cpu())};
    json_t *models = json_array();
    for (int i = 0; i < gathering->count; i++)
        json_array_append_new(models, model_json(gathering, i, &ceilings));
    return json_make("{s:o, s:s, s:s, s:o}", "comparison", comparison_json(gathering, base, false),
                     "version", MOEC_VERSION, "commit", build_commit, "models", models);
}
