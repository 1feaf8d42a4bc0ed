/* explain_text: an explanation as tables and as JSON. */
#include "explain/explain.h"

#include "analysis/contraction.h"
#include "abi/json_make.h"
#include "abi/quantity.h"
#include "ir/weight_type.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 24, BAR = 40, MAX_LIVE = 8, FUSED_WIDTH = 90 };

static const char *short_result_name(const Statement *statement) {
    if (statement->kind == STATEMENT_LOOP) return statement->target->tensor->name;
    return statement->outputs.count ? ((const Expr *)statement->outputs.items[0])->tensor->name
                                    : "";
}

/* "block.{i}.attention": the layer of the last result whose equation is in a layer. */
static const char *layer_path_of(Arena *arena, const ExplainedUnit *unit) {
    for (int i = unit->statements.count - 1; i >= 0; i--) {
        const Statement *statement = unit->statements.items[i];
        const Expr *result = statement->kind == STATEMENT_LOOP ? statement->target
                             : statement->outputs.count        ? statement->outputs.items[0]
                                                               : NULL;
        const Tensor *tensor = result && result->tensor->of ? result->tensor->of
                               : result                     ? result->tensor
                                                            : NULL;
        const char *name = !tensor             ? NULL
                           : tensor->spec_name ? tensor->spec_name
                                               : tensor->path,
                   *end = name ? strrchr(name, '.') : NULL;
        if (end) return arena_copy(arena, name, (size_t)(end - name));
    }
    return "";
}

/* "std/attention.moe:41" */
static const char *source_of(Arena *arena, Span span) {
    if (!span.source) return "";
    return arena_format(arena, "%s:%d", span.source->path, span_line(span));
}

static Span unit_span(const ExplainedUnit *unit) {
    return ((const Statement *)unit->statements.items[0])->span;
}

/* ---- layers ---- */

static void add_inputs(const Explanation *explanation, int layer, Text *text) {
    const char *separator = "";
    LIST_EACH(const ExplainedEdge, edge, &explanation->edges) {
        const ExplainedLayer *from = explanation->layers.items[edge->from];
        if (edge->to != layer) continue;
        text_add(text, "%s%s", separator, from->path);
        separator = ", ";
    }
    text_add(text, "\n");
}

static void print_layer_table(const Explanation *explanation, Text *text) {
    double parameters = 0, flops = 0;
    LIST_EACH(const ExplainedLayer, layer, &explanation->layers) {
        parameters = fmax(parameters, layer->parameters);
        flops = fmax(flops, layer->flops);
    }
    const QuantityScale sizes = quantity_counts(quantity_column(parameters)),
                        work = quantity_column(flops);
    text_add(text, "%-32s %5s  %10s  %11s  %s\n", "layer", "count", "parameters",
             arena_format(explanation->arena, "%sFLOP/token", work.prefix), "inputs");
    for (int i = 0; i < explanation->layers.count; i++) {
        const ExplainedLayer *layer = explanation->layers.items[i];
        if (layer->input) continue;
        text_add(text, "  %-30s %5d  %10s  %11s  ", layer->path, layer->count,
                 quantity_prefixed(layer->parameters, sizes).text,
                 quantity_in(layer->flops, work).text);
        add_inputs(explanation, i, text);
    }
}

/* ---- kernels ---- */

/* Equal kernels of equal layers. */
typedef struct FoldedUnit {
    const ExplainedUnit *first;
    double runs, flops, bytes, seconds;
} FoldedUnit;

/* The same names but for the numbers that make them unique: "attention_q_2", "attention_q_10". */
static bool similar_names(const char *a, const char *b) {
    for (;; a++, b++) {
        while (*a == '_' && isdigit((unsigned char)a[1])) a += 1 + strspn(a + 1, "0123456789");
        while (*b == '_' && isdigit((unsigned char)b[1])) b += 1 + strspn(b + 1, "0123456789");
        if (*a != *b || !*a) return *a == *b;
    }
}

static bool same_work(const ExplainedUnit *a, const ExplainedUnit *b) {
    Span one = unit_span(a), other = unit_span(b);
    return !strcmp(a->kind, b->kind) && one.source == other.source && one.start == other.start &&
           a->statements.count == b->statements.count && similar_names(a->name, b->name) &&
           a->flops / a->runs == b->flops / b->runs && a->bytes / a->runs == b->bytes / b->runs;
}

/* FoldedUnit *, in the order of the first ones. */
static List fold_units(const Explanation *explanation) {
    List rows = {0};
    LIST_EACH(const ExplainedUnit, unit, &explanation->units) {
        FoldedUnit *row = NULL;
        for (int k = 0; k < rows.count && !row; k++)
            if (same_work(((const FoldedUnit *)rows.items[k])->first, unit)) row = rows.items[k];
        if (!row) {
            row = arena_alloc(explanation->arena, sizeof *row);
            *row = (FoldedUnit){.first = unit};
            list_push(explanation->arena, &rows, row);
        }
        row->runs += unit->runs;
        row->flops += unit->flops;
        row->bytes += unit->bytes;
        row->seconds += unit->seconds;
    }
    return rows;
}

/* The axes of a product that are longer than those of its result: see pad.c. */
static void add_padded(const ExplainedUnit *unit, Text *text) {
    const Statement *product = unit->statements.count ? unit->statements.items[0] : NULL;
    for (int i = 0; product && product->kind == STATEMENT_LOOP && i < product->loop_count; i++) {
        const Axis *axis = product->loops[i]->axis;
        if (axis->padded)
            text_add(text, "      padded: %s from %ld to %ld\n", axis->name, axis->padded,
                     axis->size);
    }
}

/* The types of the operands of a product, if the model rounds some to a small format. */
static void add_operand_types(const Explanation *explanation, const ExplainedUnit *unit,
                              Text *text) {
    Expr *a, *b;
    const Statement *product = unit->statements.items[0];
    if (!explanation->schedule->program->formats || !strcmp(unit->kind, "loops") ||
        !product_of_reads(product, &a, &b))
        return;
    text_add(text, "      operands: %s, %s\n", real_type_name(a->tensor->type),
             real_type_name(b->tensor->type));
}

static void add_fused(const ExplainedUnit *unit, Text *text) {
    if (unit->statements.count < 2) return;
    size_t line = text->length;
    text_add(text, "      fused:");
    for (int i = 0; i < unit->statements.count; i++) {
        const char *comma = i ? "," : "";
        if (text->length - line > FUSED_WIDTH) {
            text_add(text, ",\n            ");
            line = text->length;
            comma = "";
        }
        text_add(text, "%s %s", comma, short_result_name(unit->statements.items[i]));
    }
    text_add(text, "\n");
}

/* Milliseconds with three or four digits of the total. */
static QuantityScale time_scale(double seconds) {
    double ms = 1e3 * seconds;
    return (QuantityScale){.size = 1e-3, .decimals = ms >= 1000 ? 1 : ms >= 10 ? 3 : 4};
}

static void print_unit_table(const Explanation *explanation, Text *text) {
    Arena *arena = explanation->arena;
    List rows = fold_units(explanation);
    const QuantityScale flops = quantity_column(explanation->flops),
                        bytes = quantity_column(explanation->bytes),
                        times = time_scale(explanation->seconds);
    text_add(text, "\n%-32s %5s  %-18s  %8s  %8s  %14s  %-10s  %s\n", "kernel", "count", "kind",
             arena_format(arena, "%sFLOP", flops.prefix), arena_format(arena, "%sB", bytes.prefix),
             "lower bound ms", "bottleneck", "source");
    LIST_EACH(const FoldedUnit, row, &rows) {
        text_add(text, "  %-30s %5.0f  %-18s  %8s  %8s  %14s  %-10s  %s\n", row->first->name,
                 row->runs, row->first->operation, quantity_in(row->flops, flops).text,
                 quantity_in(row->bytes, bytes).text, quantity_in(row->seconds, times).text,
                 row->first->by_memory ? "memory" : "compute",
                 source_of(arena, unit_span(row->first)));
        add_operand_types(explanation, row->first, text);
        add_fused(row->first, text);
        add_padded(row->first, text);
    }
    text_add(text, "  %-30s %5s  %-18s  %8s  %8s  %14s\n", "total", "", "",
             quantity_in(explanation->flops, flops).text,
             quantity_in(explanation->bytes, bytes).text,
             quantity_in(explanation->seconds, times).text);
}

/* Loop nests and scans that leave most of a GPU idle. */
static void add_few_threads(const Explanation *explanation, Text *text) {
    Arena *arena = explanation->arena;
    const List rows = fold_units(explanation);
    bool any = false;
    for (int i = 0; i < rows.count; i++) {
        const ExplainedUnit *unit = ((const FoldedUnit *)rows.items[i])->first;
        if (!explain_few_threads(explanation, unit)) continue;
        if (!any)
            text_add(text, "\n%-32s %9s  %21s  %s\n", "few threads for a GPU", "threads",
                     "operations per thread", "source");
        any = true;
        text_add(text, "  %-30s %9.0f  %21.0f  %s\n", unit->name, unit->threads, unit->serial,
                 source_of(arena, unit_span(unit)));
    }
}

static void add_scans(const Explanation *explanation, Text *text) {
    const List *scans = &explanation->schedule->program->scans;
    if (scans->count) text_add(text, "\nrecurrences\n");
    LIST_EACH(const ScanForm, form, scans) {
        text_add(text, "  %-30s ", form->name);
        if (form->slow)
            text_add(text, "sequential: %s", form->slow);
        else
            text_add(text, "chunkwise parallel, chunk size %ld", form->chunk_size);
        text_add(text, "  %s\n", source_of(explanation->arena, form->span));
    }
}

/* ---- memory ---- */

static const char *unit_at(const Explanation *explanation, int moment) {
    const char *name = "";
    LIST_EACH(const ExplainedUnit, unit, &explanation->units)
        if (unit->at <= moment) name = unit->name;
    return name;
}

static void print_memory_chart(const Explanation *explanation, Text *text) {
    double most = explanation->memory[explanation->peak];
    int step = (explanation->moments + MAX_ROWS - 1) / MAX_ROWS;
    text_add(text, "\nactivation memory over the step: peak %s, allocated %s\n",
             quantity(most, "B").text,
             quantity((double)explanation->schedule->arena_bytes, "B").text);
    for (int from = 0; from < explanation->moments && most > 0; from += step) {
        int best = from;
        for (int t = from; t < from + step && t < explanation->moments; t++)
            if (explanation->memory[t] > explanation->memory[best]) best = t;
        int length = (int)(BAR * explanation->memory[best] / most + 0.5);
        text_add(text, "  %4d  %-28s %8s  %.*s\n", best, unit_at(explanation, best),
                 quantity(explanation->memory[best], "B").text, length,
                 "########################################");
    }
    List live = explain_peak(explanation);
    text_add(text, "  largest tensors at the peak:");
    for (int i = 0; i < live.count && i < MAX_LIVE; i++) {
        const Tensor *tensor = live.items[i];
        text_add(text, "%s %s %s", i ? "," : "", tensor->name,
                 quantity((double)explanation->schedule->allocations[tensor->id].bytes, "B").text);
    }
    text_add(text, "%s\n", live.count > MAX_LIVE ? ", ..." : "");
}

const char *explain_text(const Explanation *explanation) {
    Text text = {.arena = explanation->arena};
    text_add(&text, "model %s, %s, for the %s; lower bounds at %s and %s\n\n", explanation->model,
             explanation->graph, explanation->machine,
             quantity(explanation->ceilings.products, "FLOP/s").text,
             quantity(explanation->ceilings.memory, "B/s").text);
    print_layer_table(explanation, &text);
    print_unit_table(explanation, &text);
    add_few_threads(explanation, &text);
    add_scans(explanation, &text);
    print_memory_chart(explanation, &text);
    return text.text;
}

/* ---- JSON ---- */

static json_t *units_json(const Explanation *explanation) {
    json_t *list = json_array();
    for (int i = 0; i < explanation->units.count; i++) {
        const ExplainedUnit *unit = explanation->units.items[i];
        json_t *fused = json_array();
        for (int k = 0; k < unit->statements.count; k++)
            json_array_append_new(fused, json_text(short_result_name(unit->statements.items[k])));
        json_array_append_new(
            list,
            json_make("{s:i, s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:s, s:s, s:s, s:s, s:f, s:f, s:o}",
                      "at", unit->at, "name", unit->name, "layer",
                      layer_path_of(explanation->arena, unit), "kind", unit->kind, "runs",
                      unit->runs, "flops", unit->flops, "bytes", unit->bytes, "seconds",
                      unit->seconds, "bound", unit->by_memory ? "memory" : "products", "bottleneck",
                      unit->by_memory ? "memory" : "compute", "operation", unit->operation, "from",
                      source_of(explanation->arena, unit_span(unit)), "threads", unit->threads,
                      "operations_per_thread", unit->serial, "statements", fused));
    }
    return list;
}

static json_t *explained_layers_json(const Explanation *explanation) {
    json_t *list = json_array();
    for (int i = 0; i < explanation->layers.count; i++) {
        const ExplainedLayer *layer = explanation->layers.items[i];
        json_t *reads = json_array();
        LIST_EACH(const ExplainedEdge, edge, &explanation->edges) {
            const ExplainedLayer *from = explanation->layers.items[edge->from];
            if (edge->to == i) json_array_append_new(reads, json_text(from->path));
        }
        json_array_append_new(list,
                              json_make("{s:s, s:b, s:i, s:f, s:f, s:o}", "path", layer->path,
                                        "input", layer->input, "count", layer->count, "parameters",
                                        layer->parameters, "flops", layer->flops, "reads", reads));
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
        explanation->bytes, "seconds", explanation->seconds, "layers",
        explained_layers_json(explanation), "units", units_json(explanation), "memory", memory);
    return arena_take(explanation->arena,
                      json_write_new(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15)));
}
