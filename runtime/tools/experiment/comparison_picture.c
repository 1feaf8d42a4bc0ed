/* comparison_picture: a comparison as an SVG: the loss of every seed, the mean of each model. It
 * can be read on light and on dark ground. */
#include "tools/experiment/experiment.h"

#include "abi/json_make.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LEFT = 220, WIDTH = 460, RIGHT = 100, TOP = 44, ROW = 20, TICKS = 4 };

static const char style[] =
    "<style>text{font:12px sans-serif;fill:#222}.axis{stroke:#888;opacity:.4}.seed{fill:none;"
    "stroke:#0072b2}.mean{stroke:#0072b2;stroke-width:3}.best text{font-weight:bold}"
    ".best .mean{stroke:#d55e00}.ground{fill:#fff}@media(prefers-color-scheme:dark){text{fill:#ddd}"
    ".seed,.mean{stroke:#56b4e9}.best .mean{stroke:#ff8c42}.ground{fill:#16181c}}</style>\n";

/* From left to right: losses from low to high. */
typedef struct Scale {
    double low, high;
} Scale;

static double row_loss(const json_t *object) {
    const json_t *loss = json_object_get(object, "loss");
    return json_is_number(loss) ? json_number_value(loss) : NAN;
}

static Scale scale_of(const json_t *rows) {
    Scale scale = {INFINITY, -INFINITY};
    size_t i, k;
    json_t *row, *run;
    json_array_foreach(rows, i, row) {
        json_array_foreach(json_object_get(row, "runs"), k, run) {
            scale.low = fmin(scale.low, row_loss(run));
            scale.high = fmax(scale.high, row_loss(run));
        }
    }
    if (!(scale.low <= scale.high)) scale = (Scale){0, 1};
    if (scale.low == scale.high) scale = (Scale){scale.low - 1, scale.high + 1};
    return scale;
}

static double x_of(Scale scale, double loss) {
    return LEFT + WIDTH * (loss - scale.low) / (scale.high - scale.low);
}

static void put_escaped(FILE *file, const char *text) {
    for (; text && *text; text++) {
        if (strchr("<>&", *text))
            fprintf(file, "&#%d;", *text);
        else
            fputc(*text, file);
    }
}

static void draw_axis(FILE *file, Scale scale, const json_t *comparison, int bottom) {
    fprintf(file, "<text x=\"%d\" y=\"16\">", LEFT);
    put_escaped(file, json_field_text(comparison, "metric"));
    fprintf(file, ": a ring for each seed, a stroke for the mean</text>\n");
    for (int i = 0; i <= TICKS; i++) {
        double loss = scale.low + (scale.high - scale.low) * i / TICKS, x = x_of(scale, loss);
        fprintf(file,
                "<path class=\"axis\" d=\"M%.1f %dV%d\"/>"
                "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.4g</text>\n",
                x, TOP - 6, bottom, x, TOP - 12, loss);
    }
}

static void draw_row(FILE *file, Scale scale, const json_t *row, double y) {
    size_t k;
    json_t *run;
    double mean = row_loss(row);
    long diverged = (long)json_integer_value(json_object_get(row, "diverged"));
    fprintf(file, "<g%s><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">",
            json_is_true(json_object_get(row, "best")) ? " class=\"best\"" : "", LEFT - 12, y + 4);
    put_escaped(file, json_field_text(row, "variant"));
    fprintf(file, "</text>");
    json_array_foreach(json_object_get(row, "runs"), k, run) if (isfinite(row_loss(run)))
        fprintf(file, "<circle class=\"seed\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>",
                x_of(scale, row_loss(run)), y);
    if (isfinite(mean))
        fprintf(file, "<path class=\"mean\" d=\"M%.1f %.1fv14\"/>", x_of(scale, mean), y - 7);
    if (diverged)
        fprintf(file, "<text x=\"%d\" y=\"%.1f\">%ld diverged</text>", LEFT + WIDTH + 12, y + 4,
                diverged);
    fprintf(file, "</g>\n");
}

char *comparison_svg(const json_t *comparison) {
    const json_t *rows = json_object_get(comparison, "variants");
    int count = (int)json_array_size(rows), bottom = TOP + ROW * count,
        width = LEFT + WIDTH + RIGHT;
    Scale scale = scale_of(rows);
    char *text = NULL;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    if (!file) return memory_format("%s", "");
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\">\n%s"
            "<rect class=\"ground\" width=\"100%%\" height=\"100%%\"/>\n",
            width, bottom + 12, style);
    draw_axis(file, scale, comparison, bottom);
    for (int i = 0; i < count; i++)
        draw_row(file, scale, json_array_get(rows, (size_t)i), TOP + ROW * (i + 0.5));
    fprintf(file, "</svg>\n");
    fclose(file);
    return text;
}
