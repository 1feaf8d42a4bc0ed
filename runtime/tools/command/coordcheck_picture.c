/* coordcheck_picture: sizes and changes of activations over sizes of a model, as an SVG that can be
 * read on light and on dark ground. */
#include "tools/command/internal.h"

#include <math.h>

enum { WIDTH = 360, HEIGHT = 300, LEFT = 56, TOP = 40, GAP = 80 };

static const char style[] =
    "<style>text{font:12px sans-serif;fill:#222}.axis{stroke:#888}.line{fill:none;stroke:#3b6fb6;"
    "opacity:.6}.fault{fill:none;stroke:#c8352b;stroke-width:2}.ground{fill:#fff}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.line{stroke:#7fb2f0}.fault{stroke:#ff7b6e}"
    ".ground{fill:#16181c}}</style>\n";

static void bounds_of(const CoordinateCheck *check, int change, double *low, double *high) {
    *low = INFINITY;
    *high = -INFINITY;
    for (int i = 0; i < check->count; i++)
        for (int j = 0; j < check->sizes; j++) {
            double value = change ? check->all[i].change[j] : check->all[i].size[j];
            if (!(value > 0)) continue;
            *low = fmin(*low, floor(log10(value)));
            *high = fmax(*high, ceil(log10(value)));
        }
    if (*low >= *high) *high = *low + 1;
    if (!isfinite(*low)) *low = -1, *high = 1;
}

static void add_panel(const CoordinateCheck *check, int change, int left, FILE *file) {
    double low, high;
    bounds_of(check, change, &low, &high);
    fprintf(file, "<text x=\"%d\" y=\"%d\">%s</text>\n", left, TOP - 16,
            change ? "change by the steps" : "size after the steps");
    for (double tick = low; tick <= high; tick++) {
        double y = TOP + HEIGHT * (high - tick) / (high - low);
        fprintf(
            file,
            "<line class=\"axis\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" opacity=\".4\"/>\n",
            left, left + WIDTH, y, y);
        fprintf(file, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">1e%g</text>\n", left - 6,
                y + 4, tick);
    }
    for (int j = 0; j < check->sizes; j++)
        fprintf(file, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                left + (double)WIDTH * j / (check->sizes - 1), TOP + HEIGHT + 18, check->labels[j]);
    for (int i = 0; i < check->count; i++) {
        const double *numbers = change ? check->all[i].change : check->all[i].size;
        int fault = spread_of(numbers, check->sizes) > check->within;
        fprintf(file, "<polyline class=\"%s\" points=\"", fault ? "fault" : "line");
        for (int j = 0; j < check->sizes; j++)
            if (numbers[j] > 0)
                fprintf(file, "%.1f,%.1f ", left + (double)WIDTH * j / (check->sizes - 1),
                        TOP + HEIGHT * (high - log10(numbers[j])) / (high - low));
        fprintf(file, "\"><title>%s</title></polyline>\n", check->all[i].name);
    }
}

void coordcheck_picture(const CoordinateCheck *check, FILE *file) {
    int width = 2 * LEFT + 2 * WIDTH + GAP, height = TOP + HEIGHT + 48;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "height=\"%d\">\n",
            width, height, width, height);
    fprintf(file, "%s<rect class=\"ground\" width=\"100%%\" height=\"100%%\"/>\n", style);
    add_panel(check, 0, LEFT, file);
    add_panel(check, 1, LEFT + WIDTH + GAP, file);
    fprintf(file,
            "<text x=\"%d\" y=\"%d\">%s over %s; red: not within a factor %.3g</text>\n</svg>\n",
            LEFT, height - 8, check->model, check->over, check->within);
}
