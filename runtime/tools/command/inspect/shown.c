/* shown: chosen tensors with their slices, statistics and values. */
#include "inspect.h"

#include "abi/json_make.h"
#include "base/memory.h"
#include "base/message.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- slices ---- */

/* Reads "3", ":", "2:5" or ":5" of a dimension and advances *at. */
static bool read_range(const char **at, long size, long *first, long *end) {
    char *next;
    *first = strtol(*at, &next, 10);
    const bool begins = next != *at;
    *end = begins ? *first + 1 : size;
    if (!begins) *first = 0;
    bool good = begins || *next == ':';
    if (*next == ':') {
        const char *from = next + 1;
        *end = strtol(from, &next, 10);
        if (next == from) *end = size;
    }
    *at = next;
    return good && *first >= 0 && *first < *end && *end <= size;
}

static bool read_slice(const SelectedName *selection, const PublicTensor *tensor, long *first,
                       long *end) {
    const char *at = selection->rest;
    bool good = true;
    for (int i = 0; i < tensor->rank; i++) first[i] = 0, end[i] = tensor->shape[i];
    for (int i = 0; at && good && *at != ']'; i++) {
        good = i < tensor->rank && read_range(&at, tensor->shape[i], &first[i], &end[i]);
        if (good && *at == ',')
            at++;
        else
            good = good && *at == ']';
    }
    if (good && (!at || !at[1])) return true;
    AUTO_FREE char *shape = tensor_sizes_text(tensor->shape, tensor->rank, ",");
    error_message("write a number, a range 2:5 or : for each dimension, for example [0,:,2:5]",
                  "'[%s' does not fit %s[%s] of size [%s]", selection->rest, tensor->name,
                  tensor->axes, shape);
    return false;
}

bool shown_add(ShownList *list, const SelectedName *selection, const PublicTensor *tensor,
               const float *values) {
    ShownTensor shown = {.name = memory_format("%s", tensor->name),
                         .axes = memory_format("%s", tensor->axes),
                         .rank = tensor->rank,
                         .count = 1};
    long end[MOEC_MAX_RANK], at[MOEC_MAX_RANK] = {0};
    const bool good = read_slice(selection, tensor, shown.first, end);
    for (int i = 0; i < shown.rank && good; i++) {
        shown.shape[i] = end[i] - shown.first[i];
        shown.count *= (size_t)shown.shape[i];
    }
    shown.values = memory_new(sizeof(float) * (shown.count + 1));
    for (size_t j = 0; j < shown.count && good; j++) {
        size_t offset = 0;
        for (int i = 0; i < shown.rank; i++)
            offset = offset * (size_t)tensor->shape[i] + (size_t)(shown.first[i] + at[i]);
        shown.values[j] = values[offset];
        for (int i = shown.rank - 1; i >= 0 && ++at[i] == shown.shape[i]; i--) at[i] = 0;
    }
    list->items = memory_grow(list->items, sizeof shown * (size_t)(list->count + 1));
    list->items[list->count++] = shown;
    return good;
}

void shown_free(ShownList *list) {
    for (int i = 0; i < list->count; i++) {
        free(list->items[i].name);
        free(list->items[i].axes);
        free(list->items[i].values);
    }
    free(list->items);
}

/* ---- statistics ---- */

/* Of the finite values; NaN without any. */
typedef struct Statistics {
    double mean, deviation, least, most;
    size_t not_finite;
} Statistics;

static Statistics statistics_of(const ShownTensor *tensor) {
    Statistics found = {.least = INFINITY, .most = -INFINITY};
    double sum = 0, squares = 0;
    for (size_t i = 0; i < tensor->count; i++) {
        const double value = (double)tensor->values[i];
        if (!isfinite(value)) {
            found.not_finite++;
            continue;
        }
        sum += value;
        found.least = fmin(found.least, value);
        found.most = fmax(found.most, value);
    }
    const double count = (double)(tensor->count - found.not_finite);
    if (count == 0) return (Statistics){NAN, NAN, NAN, NAN, found.not_finite};
    found.mean = sum / count;
    for (size_t i = 0; i < tensor->count; i++) {
        const double away = (double)tensor->values[i] - found.mean;
        if (isfinite(away)) squares += away * away;
    }
    found.deviation = sqrt(squares / count);
    return found;
}

/* "block.0.ffn.level[1,16,64]" */
static char *title_of(const ShownTensor *tensor) {
    if (!tensor->rank) return memory_format("%s", tensor->name);
    char *sizes = tensor_sizes_text(tensor->shape, tensor->rank, ","),
         *title = memory_format("%s[%s]", tensor->name, sizes);
    free(sizes);
    return title;
}

/* A line per row of the last dimension, with its coordinates. */
static void print_rows(const ShownTensor *tensor) {
    const long width = tensor->rank ? tensor->shape[tensor->rank - 1] : 1;
    long at[MOEC_MAX_RANK];
    memcpy(at, tensor->first, sizeof at);
    for (size_t start = 0; start < tensor->count; start += (size_t)width) {
        printf("  ");
        for (int i = 0; i < tensor->rank - 1; i++) printf("%s%ld", i ? "," : "[", at[i]);
        if (tensor->rank > 1) printf("] ");
        for (long i = 0; i < width; i++) printf(" %.6g", (double)tensor->values[start + (size_t)i]);
        puts("");
        for (int i = tensor->rank - 2; i >= 0 && ++at[i] == tensor->first[i] + tensor->shape[i];
             i--)
            at[i] = tensor->first[i];
    }
}

void shown_print(const ShownList *list, bool with_values) {
    int widest = 6;
    for (int i = 0; i < list->count; i++) {
        AUTO_FREE char *title = title_of(&list->items[i]);
        if ((int)strlen(title) > widest) widest = (int)strlen(title);
    }
    printf("%-*s %11s %11s %11s %11s %10s  equation\n", widest, "tensor", "mean", "std", "min",
           "max", "not finite");
    for (int i = 0; i < list->count; i++) {
        const ShownTensor *tensor = &list->items[i];
        const Statistics found = statistics_of(tensor);
        AUTO_FREE char *title = title_of(tensor);
        printf("%-*s %11.4g %11.4g %11.4g %11.4g %10zu", widest, title, found.mean, found.deviation,
               found.least, found.most, found.not_finite);
        if (tensor->file) printf("  %s:%d", tensor->file, tensor->line);
        puts("");
        if (with_values) print_rows(tensor);
    }
}

json_t *shown_json(const ShownList *list, bool with_values) {
    json_t *array = json_array();
    for (int i = 0; i < list->count; i++) {
        const ShownTensor *tensor = &list->items[i];
        const Statistics found = statistics_of(tensor);
        json_auto_t *values = json_array();
        json_t *object =
            json_make("{s:s, s:s, s:o, s:f, s:f, s:f, s:f, s:I}", "name", tensor->name, "axes",
                      tensor->axes, "shape", json_integers(tensor->shape, tensor->rank), "mean",
                      found.mean, "std", found.deviation, "min", found.least, "max", found.most,
                      "not_finite", (json_int_t)found.not_finite);
        if (tensor->file) {
            json_object_set_new(object, "file", json_text(tensor->file));
            json_object_set_new(object, "line", json_integer(tensor->line));
        }
        for (size_t k = 0; with_values && k < tensor->count; k++)
            json_array_append_new(values, json_number((double)tensor->values[k]));
        if (with_values) json_object_set(object, "values", values);
        json_array_append_new(array, object);
    }
    return array;
}
