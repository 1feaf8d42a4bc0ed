/* explain_text: the same as a table, and as JSON. */
#include "explain/explain.h"

#include "abi/json_make.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 24, BAR = 40, MAX_LIVE = 8 };

static const char *result_of(const Statement *statement) {
    if (statement->kind == STATEMENT_LOOP) return statement->target->tensor->name;
    return statement->outputs.count ? ((const Expr *)statement->outputs.items[0])->tensor->name
                                    : "";
}

/* "std/attention.moe:41" */
static const char *place_of(Arena *arena, Span span) {
    if (!span.source) return "";
    return arena_format(arena, "%s:%d", span.source->path, span_line(span));
}

static Span span_of(const ExplainedUnit *unit) {
    return ((const Statement *)unit->statements.items[0])->span;
}

static void add_layers(const Explanation *explanation, Text *text) {
    Arena *arena = explanation->arena;
    text_add(text, "layers, and what they read\n");
    for (int i = 0; i < explanation->layers.count; i++) {
        const ExplainedLayer *layer = explanation->layers.items[i];
        if (layer->input) continue;
        text_add(text, "  %-40s %8s parameters %8s FLOP/token  <-", layer->path,
                 explain_number(arena, layer->parameters), explain_number(arena, layer->flops));
        for (int k = 0, told = 0; k < explanation->edges.count; k++) {
            const ExplainedEdge *edge = explanation->edges.items[k];
            const ExplainedLayer *from = explanation->layers.items[edge->from];
            if (edge->to == i) text_add(text, "%s %s", told++ ? "," : "", from->path);
        }
        text_add(text, "\n");
    }
}

static void add_fused(const ExplainedUnit *unit, Text *text) {
    if (unit->statements.count < 2) return;
    size_t line = text->length;
    text_add(text, "      fused:");
    for (int i = 0; i < unit->statements.count; i++) {
        if (text->length - line > 90) {
            text_add(text, ",\n            ");
            line = text->length;
            text_add(text, " %s", result_of(unit->statements.items[i]));
            continue;
        }
        text_add(text, "%s %s", i ? "," : "", result_of(unit->statements.items[i]));
    }
    text_add(text, "\n");
}

static void add_units(const Explanation *explanation, Text *text) {
    Arena *arena = explanation->arena;
    text_add(text, "\n%-32s %5s  %-20s %8s %8s %11s  %s\n", "unit of work", "runs", "what", "FLOP",
             "bytes", "at least", "from");
    for (int i = 0; i < explanation->units.count; i++) {
        const ExplainedUnit *unit = explanation->units.items[i];
        text_add(text, "  %-30s %5.0f  %-20s %8s %8s %8.4f ms  %s%s\n", unit->name, unit->runs,
                 unit->kind, explain_number(arena, unit->flops), explain_number(arena, unit->bytes),
                 1e3 * unit->seconds, unit->by_memory ? "memory  " : "products  ",
                 place_of(arena, span_of(unit)));
        add_fused(unit, text);
    }
    text_add(text, "  %-30s %5s  %-20s %8s %8s %8.4f ms\n", "all", "", "",
             explain_number(arena, explanation->flops), explain_number(arena, explanation->bytes),
             1e3 * explanation->seconds);
}

static void add_scans(const Explanation *explanation, Text *text) {
    const List *scans = &explanation->schedule->program->scans;
    if (scans->count) text_add(text, "\nrecurrences\n");
    for (int i = 0; i < scans->count; i++) {
        const ScanForm *form = scans->items[i];
        text_add(text, "  %-30s ", form->name);
        if (form->slow)
            text_add(text, "place by place: %s", form->slow);
        else
            text_add(text, "by products, %ld places at a time", form->places);
        text_add(text, "  %s\n", place_of(explanation->arena, form->span));
    }
}

static const char *unit_at(const Explanation *explanation, int moment) {
    const char *name = "";
    for (int i = 0; i < explanation->units.count; i++) {
        const ExplainedUnit *unit = explanation->units.items[i];
        if (unit->at <= moment) name = unit->name;
    }
    return name;
}

static void add_memory(const Explanation *explanation, Text *text) {
    Arena *arena = explanation->arena;
    double most = explanation->memory[explanation->peak];
    int step = (explanation->moments + MAX_ROWS - 1) / MAX_ROWS;
    text_add(text, "\nmemory of temporaries over the step: %s bytes at most, in a block of %s\n",
             explain_number(arena, most),
             explain_number(arena, (double)explanation->schedule->arena_bytes));
    for (int from = 0; from < explanation->moments && most > 0; from += step) {
        int best = from;
        for (int t = from; t < from + step && t < explanation->moments; t++)
            if (explanation->memory[t] > explanation->memory[best]) best = t;
        int length = (int)(BAR * explanation->memory[best] / most + 0.5);
        text_add(text, "  %4d  %-28s %8s  %.*s\n", best, unit_at(explanation, best),
                 explain_number(arena, explanation->memory[best]), length,
                 "########################################");
    }
    List live = explain_peak(explanation);
    text_add(text, "  at the peak:");
    for (int i = 0; i < live.count && i < MAX_LIVE; i++) {
        const Tensor *tensor = live.items[i];
        text_add(text, "%s %s %s", i ? "," : "", tensor->name,
                 explain_number(arena, (double)explanation->schedule->places[tensor->id].bytes));
    }
    text_add(text, "%s\n", live.count > MAX_LIVE ? ", ..." : "");
}

const char *explain_text(const Explanation *explanation) {
    Arena *arena = explanation->arena;
    Text text = {.arena = arena};
    text_add(&text, "model %s, %s, on %s; at least: at %s FLOP and %s bytes a second\n\n",
             explanation->model, explanation->graph, explanation->machine,
             explain_number(arena, explanation->ceilings.products),
             explain_number(arena, explanation->ceilings.memory));
    add_layers(explanation, &text);
    add_units(explanation, &text);
    add_scans(explanation, &text);
    add_memory(explanation, &text);
    return text.text;
}

/* ---- JSON ---- */

static json_t *units_json(const Explanation *explanation) {
    json_t *list = json_array();
    for (int i = 0; i < explanation->units.count; i++) {
        const ExplainedUnit *unit = explanation->units.items[i];
        json_t *fused = json_array();
        for (int k = 0; k < unit->statements.count; k++)
            json_array_append_new(fused, json_text(result_of(unit->statements.items[k])));
        json_array_append_new(
            list, json_make("{s:i, s:s, s:s, s:f, s:f, s:f, s:f, s:s, s:s, s:o}", "at", unit->at,
                            "name", unit->name, "kind", unit->kind, "runs", unit->runs, "flops",
                            unit->flops, "bytes", unit->bytes, "seconds", unit->seconds, "bound",
                            unit->by_memory ? "memory" : "products", "from",
                            place_of(explanation->arena, span_of(unit)), "statements", fused));
    }
    return list;
}

static json_t *layers_json(const Explanation *explanation) {
    json_t *list = json_array();
    for (int i = 0; i < explanation->layers.count; i++) {
        const ExplainedLayer *layer = explanation->layers.items[i];
        json_t *reads = json_array();
        for (int k = 0; k < explanation->edges.count; k++) {
            const ExplainedEdge *edge = explanation->edges.items[k];
            const ExplainedLayer *from = explanation->layers.items[edge->from];
            if (edge->to == i) json_array_append_new(reads, json_text(from->path));
        }
        json_array_append_new(list,
                              json_make("{s:s, s:b, s:f, s:f, s:o}", "path", layer->path, "input",
                                        layer->input, "parameters", layer->parameters, "flops",
                                        layer->flops, "reads", reads));
    }
    return list;
}

const char *explain_json(const Explanation *explanation) {
    json_t *memory = json_array();
    for (int t = 0; t < explanation->moments; t++)
        json_array_append_new(memory, json_real(explanation->memory[t]));
    json_t *root = json_make(
        "{s:s, s:s, s:{s:f, s:f}, s:f, s:f, s:f, s:o, s:o, s:o}", "model", explanation->model,
        "graph", explanation->graph, "ceilings", "products", explanation->ceilings.products,
        "memory", explanation->ceilings.memory, "flops", explanation->flops, "bytes",
        explanation->bytes, "seconds", explanation->seconds, "layers", layers_json(explanation),
        "units", units_json(explanation), "memory", memory);
    char *text = json_write(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    const char *kept = arena_copy(explanation->arena, text, strlen(text));
    json_decref(root);
    free(text);
    return kept;
}
