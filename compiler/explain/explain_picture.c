/* explain_picture: the layer graph as DOT; with memory and the slowest kernels as SVG. The picture
 * is one file without scripts and fonts, for light and dark backgrounds.
 */
#include "explain/explain.h"

#include "abi/quantity.h"

#include <math.h>
#include <stdlib.h>

enum {
    BOX_WIDTH = 300,
    BOX_HEIGHT = 34,
    BOX_STEP = 56,
    BOX_LEFT = 150,
    TOP = 60,
    CHART_LEFT = 620,
    CHART_WIDTH = 520,
    CHART_HEIGHT = 200,
    MAX_BARS = 12
};

/* ---- DOT ---- */

const char *explain_dot(const Explanation *explanation) {
    Arena *arena = explanation->arena;
    Text text = {.arena = arena};
    text_add(&text, "digraph \"%s\" {\n  node [shape=box, fontname=\"sans-serif\"];\n",
             explanation->model);
    for (int i = 0; i < explanation->layers.count; i++) {
        const ExplainedLayer *layer = explanation->layers.items[i];
        if (layer->input)
            text_add(&text, "  n%d [label=\"%s\", shape=oval];\n", i, layer->path);
        else
            text_add(&text, "  n%d [label=\"%s\\n%s parameters, %s\"];\n", i, layer->path,
                     quantity_count(layer->parameters).text,
                     quantity(layer->flops, "FLOP/token").text);
    }
    LIST_EACH(const ExplainedEdge, edge, &explanation->edges)
        text_add(&text, "  n%d -> n%d;\n", edge->from, edge->to);
    text_add(&text, "}\n");
    return text.text;
}

/* ---- SVG ---- */

static const char *const style =
    "<style>svg{font:12px sans-serif;background:#fff;color:#1b1b1b}"
    "text{fill:currentColor}.small{font-size:10px;opacity:.75}.title{font-size:15px}"
    ".box{fill:#eef2f7;stroke:#48607a}.input{fill:#fff6e0;stroke:#8a6d1f}"
    ".edge{fill:none;stroke:#48607a;opacity:.7}.bar{fill:#3b75af}.other{fill:#c8702a}"
    ".area{fill:#3b75af;opacity:.35;stroke:#3b75af}.axis{stroke:currentColor}"
    "@media(prefers-color-scheme:dark){svg{background:#15181c;color:#e6e6e6}"
    ".box{fill:#243040;stroke:#8fb0d4}.input{fill:#3a3218;stroke:#d8b95a}"
    ".edge{stroke:#8fb0d4}.bar{fill:#6fa8dc}.other{fill:#e69a5b}"
    ".area{fill:#6fa8dc;stroke:#6fa8dc}}</style>\n";

static int box_top(int number) {
    return TOP + number * BOX_STEP;
}

/* The name with the special characters of XML escaped. */
static const char *escaped(Arena *arena, const char *name) {
    Text text = {.arena = arena};
    for (const char *at = name; *at; at++) {
        if (*at == '<' || *at == '>' || *at == '&' || *at == '"')
            text_add(&text, "&#%d;", *at);
        else
            text_add_bytes(&text, at, 1);
    }
    return text.length ? text.text : "";
}

static void draw_layers(const Explanation *explanation, Text *text) {
    Arena *arena = explanation->arena;
    for (int i = 0; i < explanation->layers.count; i++) {
        const ExplainedLayer *layer = explanation->layers.items[i];
        int top = box_top(i);
        text_add(text,
                 "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"5\"/>\n",
                 layer->input ? "input" : "box", BOX_LEFT, top, BOX_WIDTH, BOX_HEIGHT);
        text_add(text, "<text x=\"%d\" y=\"%d\">%s</text>\n", BOX_LEFT + 10,
                 top + (layer->input ? 21 : 15), escaped(arena, layer->path));
        if (!layer->input)
            text_add(text, "<text class=\"small\" x=\"%d\" y=\"%d\">%s parameters, %s</text>\n",
                     BOX_LEFT + 10, top + 28, quantity_count(layer->parameters).text,
                     quantity(layer->flops, "FLOP/token").text);
    }
}

/* A straight line to the next box, else an arc: forward on the left, back on the right. */
static void draw_edge(const ExplainedEdge *edge, Text *text) {
    int from = box_top(edge->from) + BOX_HEIGHT, to = box_top(edge->to),
        middle = BOX_LEFT + BOX_WIDTH / 2, jump = abs(edge->to - edge->from);
    if (edge->to == edge->from + 1) {
        text_add(text, "<path class=\"edge\" marker-end=\"url(#arrow)\" d=\"M%d %dV%d\"/>\n",
                 middle, from, to - 2);
        return;
    }
    bool back = edge->to < edge->from;
    int side = back ? BOX_LEFT + BOX_WIDTH : BOX_LEFT, reach = jump > 9 ? 120 : 20 + 11 * jump,
        bend = back ? side + reach : side - reach;
    text_add(text,
             "<path class=\"edge\" marker-end=\"url(#arrow)\" d=\"M%d %dC%d %d %d %d %d %d\"/>\n",
             side, from - BOX_HEIGHT / 2, bend, from - BOX_HEIGHT / 2, bend, to + BOX_HEIGHT / 2,
             side, to + BOX_HEIGHT / 2);
}

static void draw_memory(const Explanation *explanation, Text *text) {
    double most = explanation->memory[explanation->peak];
    int bottom = TOP + CHART_HEIGHT;
    text_add(text, "<text x=\"%d\" y=\"%d\">activation memory over the step: peak %s</text>\n",
             CHART_LEFT, TOP - 12, quantity(most, "B").text);
    text_add(text, "<path class=\"area\" d=\"M%d %d", CHART_LEFT, bottom);
    for (int t = 0; t < explanation->moments && most > 0; t++)
        text_add(text, "L%.1f %.1fH%.1f",
                 CHART_LEFT + CHART_WIDTH * (double)t / explanation->moments,
                 bottom - CHART_HEIGHT * explanation->memory[t] / most,
                 CHART_LEFT + CHART_WIDTH * (double)(t + 1) / explanation->moments);
    text_add(text, "V%dZ\"/>\n<path class=\"axis\" d=\"M%d %dH%d\"/>\n", bottom, CHART_LEFT, bottom,
             CHART_LEFT + CHART_WIDTH);
    List live = explain_peak(explanation);
    for (int i = 0; i < live.count && i < 5; i++) {
        const Tensor *tensor = live.items[i];
        text_add(text, "<text class=\"small\" x=\"%d\" y=\"%d\">%s%s %s</text>\n", CHART_LEFT,
                 bottom + 18 + 14 * i, i ? "" : "at the peak: ", tensor->name,
                 quantity((double)explanation->schedule->allocations[tensor->id].bytes, "B").text);
    }
}

/* The slowest kernels as bars. */
static void draw_units(const Explanation *explanation, Text *text) {
    Arena *arena = explanation->arena;
    int top = TOP + CHART_HEIGHT + 120, count = explanation->units.count;
    bool *drawn = arena_alloc(arena, (size_t)count + 1);
    double most = 0;
    text_add(text,
             "<text x=\"%d\" y=\"%d\">lower bound: %s; bottleneck: blue compute, orange memory"
             "</text>\n",
             CHART_LEFT, top - 12, quantity_seconds(explanation->seconds).text);
    for (int bar = 0; bar < MAX_BARS && bar < count; bar++) {
        int best = -1;
        for (int i = 0; i < count; i++) {
            const ExplainedUnit *unit = explanation->units.items[i], *other;
            other = best >= 0 ? explanation->units.items[best] : NULL;
            if (!drawn[i] && (!other || unit->seconds > other->seconds)) best = i;
        }
        drawn[best] = true;
        const ExplainedUnit *unit = explanation->units.items[best];
        if (!bar) most = unit->seconds;
        text_add(text, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"14\"/>\n",
                 unit->by_memory ? "other" : "bar", CHART_LEFT, top + 22 * bar,
                 fmax(1, 220 * unit->seconds / most));
        text_add(text, "<text class=\"small\" x=\"%d\" y=\"%d\">%s, %s: %s</text>\n",
                 CHART_LEFT + 228, top + 22 * bar + 11, unit->name, unit->operation,
                 quantity_seconds(unit->seconds).text);
    }
}

const char *explain_svg(const Explanation *explanation) {
    Text text = {.arena = explanation->arena};
    int height = box_top(explanation->layers.count) + 20, least = TOP + CHART_HEIGHT + 120 + 300;
    if (height < least) height = least;
    text_add(&text,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1180 %d\" role=\"img\">\n"
             "<title>%s, %s</title>\n",
             height, escaped(explanation->arena, explanation->model), explanation->graph);
    text_add(&text, "%s", style);
    text_add(
        &text,
        "<defs><marker id=\"arrow\" viewBox=\"0 0 6 6\" refX=\"5\" refY=\"3\" "
        "markerWidth=\"6\" markerHeight=\"6\" orient=\"auto\"><path d=\"M0 0L6 3L0 6Z\" "
        "fill=\"#7890a8\"/></marker></defs>\n<text class=\"title\" x=\"20\" y=\"28\">%s, %s, for "
        "the %s</text>\n",
        escaped(explanation->arena, explanation->model), explanation->graph, explanation->machine);
    for (int i = 0; i < explanation->edges.count; i++)
        draw_edge(explanation->edges.items[i], &text);
    draw_layers(explanation, &text);
    draw_memory(explanation, &text);
    draw_units(explanation, &text);
    text_add(&text, "</svg>\n");
    return text.text;
}
