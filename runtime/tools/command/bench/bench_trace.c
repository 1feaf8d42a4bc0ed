/* bench_trace: the launches of a step in the JSON trace format of Chrome, which Perfetto reads:
 *
 *     {"traceEvents": [{"ph": "M", ...},                          names of process and thread
 *                      {"ph": "X", "name": "step", ...},          the step
 *                      {"ph": "X", "name": "attention_q", "ts": 12.5, "dur": 3.1, ...}, ...]}
 *
 * Times are in microseconds. On the CPU launches have the time at which they ran. On a GPU each
 * lasts its median of several launches, one after the other. */
#include "tools/command/bench/bench.h"

#include "abi/json_make.h"
#include "base/files.h"
#include "base/memory.h"

#include <ctype.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { PROCESS = 1, THREAD = 1 };

static json_t *named_event(const char *what, const char *name) {
    return json_make("{s:s, s:s, s:i, s:i, s:{s:s}}", "ph", "M", "name", what, "pid", PROCESS,
                     "tid", THREAD, "args", "name", name);
}

static json_t *span_event(const char *name, const char *kind, double start, double seconds,
                          json_t *arguments) {
    return json_make("{s:s, s:s, s:s, s:f, s:f, s:i, s:i, s:o}", "ph", "X", "name", name, "cat",
                     kind, "ts", 1e6 * start, "dur", 1e6 * seconds, "pid", PROCESS, "tid", THREAD,
                     "args", arguments);
}

/* ---- the units of launches on a GPU ----
 *
 * A kernel of one unit has its name: "kernel_train_3_attention_norm_y" is an anchor, as is one of
 * attention. Products of many units share a kernel. Those between two anchors belong to the product
 * units between them, if both are equally many. */

typedef struct UnitSearch {
    const json_t *units;
    const KernelTimes *times;
    const json_t **found; /* by event; NULL: unknown */
} UnitSearch;

static const char *unit_text(const UnitSearch *search, long unit, const char *key) {
    return json_field_text(json_array_get(search->units, (size_t)unit), key);
}

static double unit_runs(const UnitSearch *search, long unit) {
    return json_number_value(json_object_get(json_array_get(search->units, (size_t)unit), "runs"));
}

/* The first unit from `from` on, around the end, that the kernel is named after, or -1. */
static long anchor_of(const UnitSearch *search, const char *kernel, long from) {
    const long count = (long)json_array_size(search->units);
    const bool backward = kernel && !strncmp(kernel, "attend_grad", 11),
               attends = kernel && !strncmp(kernel, "attend_", 7);
    for (long i = attends && from ? -1 : 0; kernel && i < count; i++) {
        const long unit = (from + i) % count;
        const char *kind = unit_text(search, unit, "kind");
        if (attends && !strncmp(kind, "attention", 9) && backward == (kind[9] != 0)) return unit;
        const char *name = unit_text(search, unit, "name");
        const size_t length = strlen(kernel), own = strlen(name);
        if (!strncmp(kernel, "kernel_", 7) && length > own && kernel[length - own - 1] == '_' &&
            isdigit((unsigned char)kernel[length - own - 2]) &&
            !strcmp(kernel + length - own, name))
            return unit;
    }
    return -1;
}

static bool is_product_kernel(const char *kernel) {
    return !strncmp(kernel, "dense", 5) || !strncmp(kernel, "rows_by", 7) ||
           !strncmp(kernel, "product_", 8) || strstr(kernel, "product(s)");
}

/* Appends the product units from `first` to before `end`. */
static int add_product_units(const UnitSearch *search, long first, long end, long *list,
                             int count) {
    for (long i = first; i < end; i++)
        if (strstr(unit_text(search, i, "kind"), "product")) list[count++] = i;
    return count;
}

/* Those that run between unit `from` and the next run of unit `to`. */
static int products_between(const UnitSearch *search, long from, long to, long *list) {
    if (to > from) return add_product_units(search, from + 1, to, list, 0);
    long end = from + 1, first = to; /* another iteration of a repeat */
    const long all = (long)json_array_size(search->units);
    while (end < all && unit_runs(search, end) == unit_runs(search, from)) end++;
    while (first > 0 && unit_runs(search, first - 1) == unit_runs(search, to)) first--;
    return add_product_units(search, first, to, list,
                             add_product_units(search, from + 1, end, list, 0));
}

static void find_units_between(UnitSearch *search, int first, int end, long from, long to) {
    AUTO_FREE long *units = memory_new(sizeof *units * (json_array_size(search->units) * 2 + 1));
    const int count = products_between(search, from, to, units);
    int launches = 0;
    for (int pass = 0; pass < 2; pass++) {
        if (pass && launches != count) break;
        launches = 0;
        for (int i = first; i < end; i++) {
            if (!is_product_kernel(search->times->rows[search->times->events[i].row].name))
                continue;
            if (pass) search->found[i] = json_array_get(search->units, (size_t)units[launches]);
            launches++;
        }
    }
}

static void find_device_units(UnitSearch *search) {
    const KernelTimes *times = search->times;
    long last = -1;
    int since = 0;
    for (int i = 0; i < times->event_count; i++) {
        const long unit = anchor_of(search, times->rows[times->events[i].row].name, last + 1);
        if (unit < 0) continue;
        search->found[i] = json_array_get(search->units, (size_t)unit);
        find_units_between(search, since, i, last, unit);
        last = unit;
        since = i + 1;
    }
}

/* ---- events ---- */

/* Layer, source line, threads, bytes and FLOPs; which run of the kernel in this step. */
static json_t *launch_arguments(const Bench *bench, const KernelTime *row, const json_t *unit,
                                const KernelEvent *event, long run) {
    const double seconds = event->seconds;
    static const char *const texts[] = {"layer", "operation", "from", "statements"};
    json_t *arguments = json_object();
    for (size_t i = 0; unit && i < sizeof texts / sizeof *texts; i++)
        json_object_set(arguments, texts[i], json_object_get(unit, texts[i]));
    const double threads = bench->on->apart ? event->threads : omp_get_max_threads();
    if (threads > 0) json_object_set_new(arguments, "threads", json_real(threads));
    const double runs = unit ? json_number_value(json_object_get(unit, "runs")) : 1,
                 flops = unit ? json_number_value(json_object_get(unit, "flops")) / runs
                              : row->flops / (double)row->launches,
                 bytes = unit ? json_number_value(json_object_get(unit, "bytes")) / runs : 0;
    if (flops > 0) {
        json_object_set_new(arguments, "flops", json_real(flops));
        json_object_set_new(arguments, "gflops_per_second", json_real(flops / seconds / 1e9));
    }
    if (bytes > 0) {
        json_object_set_new(arguments, "bytes", json_real(bytes));
        json_object_set_new(arguments, "gbytes_per_second", json_real(bytes / seconds / 1e9));
    }
    if (row->name) json_object_set_new(arguments, "kernel", json_text(row->name));
    json_object_set_new(arguments, "run", json_integer(run));
    json_object_set_new(arguments, "runs", json_integer(row->launches));
    return arguments;
}

static json_t *launch_event(const Bench *bench, const KernelTime *row, const json_t *unit,
                            const KernelEvent *event, long run) {
    const char *own = json_field_text(unit, "name"), *name = own ? own : row->name,
               *kind = json_field_text(unit, "kind");
    return span_event(name ? name : "?", kind ? kind : "other", event->start, event->seconds,
                      launch_arguments(bench, row, unit, event, run));
}

bool bench_write_trace(const Bench *bench, const KernelTimes *times, const json_t *units) {
    json_t *events = json_array();
    AUTO_FREE long *runs = memory_new(sizeof *runs * (size_t)(times->count + 1));
    UnitSearch search = {units, times,
                         memory_new(sizeof *search.found * (size_t)(times->event_count + 1))};
    double end = 0;
    if (bench->on->apart) find_device_units(&search);
    for (int i = 0; i < times->event_count && !bench->on->apart; i++)
        search.found[i] = bench_unit_of(units, &times->rows[times->events[i].row]);
    for (int i = 0; i < times->event_count; i++)
        end = times->events[i].start + times->events[i].seconds;
    json_array_append_new(events, named_event("process_name", bench->on->name));
    json_array_append_new(events, named_event("thread_name", "kernels"));
    json_array_append_new(events, span_event(bench->graph, "step", 0, end, json_object()));
    for (int i = 0; i < times->event_count; i++)
        json_array_append_new(events, launch_event(bench, &times->rows[times->events[i].row],
                                                   search.found[i], &times->events[i],
                                                   runs[times->events[i].row]++));
    json_auto_t *trace =
        json_make("{s:o, s:s, s:{s:O}}", "traceEvents", events, "displayTimeUnit", "ns",
                  "otherData", "model", json_object_get(bench->report, "model"));
    AUTO_FREE char *text = json_write(trace, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    const bool good = text && file_write(bench->trace, text, strlen(text));
    if (good) written_message(bench->trace, "open it in https://ui.perfetto.dev");
    free(search.found);
    return good;
}
