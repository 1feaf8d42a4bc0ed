/* heat_map: tensors as an SVG picture: the last two dimensions as a map, such as the attention of
 * each query to each key, one map per element of the other dimensions. The color goes from the
 * smallest value of the map to its largest one. A tensor of one dimension, such as the load of each
 * expert, is a row of bars from 0. */
#include "inspect.h"

#include "base/files.h"
#include "base/message.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 192, SPACE = 24, ACROSS = 5, CELLS = 96, MAPS = 200, CAPTION = 34 };

typedef struct Map {
    const ShownTensor *tensor;
    const float *values; /* [rows, columns] */
    long rows, columns;
    size_t number; /* among the maps of the tensor */
} Map;

/* The mean of the part of the map that a cell covers. */
static double cell_value(const Map *map, long row, long column, long rows, long columns) {
    double sum = 0;
    long count = 0;
    for (long i = row * map->rows / rows; i < (row + 1) * map->rows / rows; i++)
        for (long j = column * map->columns / columns; j < (column + 1) * map->columns / columns;
             j++) {
            sum += (double)map->values[i * map->columns + j];
            count++;
        }
    return count ? sum / (double)count : 0;
}

static void bounds_of_map(const Map *map, double *low, double *high) {
    *low = INFINITY, *high = -INFINITY;
    for (long i = 0; i < map->rows * map->columns; i++) {
        const double value = (double)map->values[i];
        if (!isfinite(value)) continue;
        *low = fmin(*low, value);
        *high = fmax(*high, value);
    }
}

/* From white to dark blue; red: not finite. */
static void put_cell(FILE *file, double x, double y, double width, double height, double share) {
    const int red = (int)(247 - share * 239), green = (int)(251 - share * 203),
              blue = (int)(255 - share * 148);
    fprintf(file, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"", x, y, width,
            height);
    if (isfinite(share))
        fprintf(file, "#%02x%02x%02x\"/>", (unsigned)red, (unsigned)green, (unsigned)blue);
    else
        fputs("#c8352b\"/>", file);
}

/* "block.0.attention.weights [0,1]  0 .. 0.93" */
static void put_caption(FILE *file, const Map *map, double x, double y, double low, double high) {
    const ShownTensor *tensor = map->tensor;
    long at[MOEC_MAX_RANK];
    size_t rest = map->number;
    for (int i = tensor->rank - 3; i >= 0; i--) {
        at[i] = tensor->first[i] + (long)(rest % (size_t)tensor->shape[i]);
        rest /= (size_t)tensor->shape[i];
    }
    fprintf(file, "<text x=\"%.0f\" y=\"%.0f\">%s</text><text x=\"%.0f\" y=\"%.0f\">", x, y,
            tensor->name, x, y + 13);
    for (int i = 0; i < tensor->rank - 2; i++) fprintf(file, "%s%ld", i ? "," : "[", at[i]);
    fprintf(file, "%s%.3g .. %.3g</text>\n", tensor->rank > 2 ? "]  " : "", low, high);
}

/* A bar per value, or per part of the values. */
static void put_bars(FILE *file, const Map *map, double x, double y) {
    const long bars = map->columns < CELLS ? map->columns : CELLS;
    double low, high;
    bounds_of_map(map, &low, &high);
    put_caption(file, map, x, y + 12, low, high);
    const double least = fmin(low, 0), most = fmax(high, 0), width = (double)SIDE / (double)bars,
                 zero = y + CAPTION + SIDE * (most > least ? most / (most - least) : 1);
    for (long j = 0; j < bars; j++) {
        const double value = cell_value(map, 0, j, 1, bars), share = value / (most - least),
                     height = isfinite(share) ? SIDE * fabs(share) : SIDE;
        put_cell(file, x + width * (double)j, isfinite(share) && share < 0 ? zero : zero - height,
                 0.9 * width, height, isfinite(share) ? 0.7 : share);
    }
    fprintf(file, "<line x1=\"%.0f\" y1=\"%.2f\" x2=\"%.0f\" y2=\"%.2f\" stroke=\"#222\"/>\n", x,
            zero, x + SIDE, zero);
}

static void put_map(FILE *file, const Map *map, double x, double y) {
    const long rows = map->rows < CELLS ? map->rows : CELLS,
               columns = map->columns < CELLS ? map->columns : CELLS;
    const double larger = (double)(map->rows > map->columns ? map->rows : map->columns),
                 height = SIDE * fmax((double)map->rows / larger, 0.05),
                 width = SIDE * fmax((double)map->columns / larger, 0.05);
    double low, high;
    bounds_of_map(map, &low, &high);
    put_caption(file, map, x, y + 12, low, high);
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < columns; j++) {
            const double value = cell_value(map, i, j, rows, columns);
            put_cell(file, x + width * (double)j / (double)columns,
                     y + CAPTION + height * (double)i / (double)rows, width / (double)columns,
                     height / (double)rows, high > low ? (value - low) / (high - low) : value * 0);
        }
    fputs("\n", file);
}

/* Puts all maps, or counts them if the file is NULL. */
static int put_all_maps(FILE *file, const ShownList *list) {
    int count = 0;
    for (int i = 0; i < list->count; i++) {
        const ShownTensor *tensor = &list->items[i];
        Map map = {.tensor = tensor,
                   .rows = tensor->rank > 1 ? tensor->shape[tensor->rank - 2] : 1,
                   .columns = tensor->rank ? tensor->shape[tensor->rank - 1] : 1};
        const size_t each = (size_t)(map.rows * map.columns);
        for (; map.number * each < tensor->count && count < MAPS; map.number++, count++) {
            map.values = tensor->values + map.number * each;
            if (file)
                (tensor->rank == 1 ? put_bars
                                   : put_map)(file, &map, SPACE + (count % ACROSS) * (SIDE + SPACE),
                                              SPACE + count / ACROSS * (SIDE + SPACE + CAPTION));
        }
    }
    return count;
}

bool heat_map_write(const char *path, const ShownList *list) {
    const int count = put_all_maps(NULL, list), across = count < ACROSS ? count : ACROSS,
              width = SPACE + across * (SIDE + SPACE),
              height = SPACE + (count + ACROSS - 1) / ACROSS * (SIDE + SPACE + CAPTION);
    AUTO_FREE char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    if (!file) return error_message("free some memory", "out of memory");
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "height=\"%d\">\n<style>text{font:11px sans-serif;fill:#222}</style>\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            width, height, width, height);
    put_all_maps(file, list);
    fputs("</svg>\n", file);
    fclose(file);
    if (count == MAPS) note_message("%s has the first %d maps", path, MAPS);
    return file_write(path, text, length);
}
