/* bench_kernels: time of the kernels of a step: on a GPU by its events; on the CPU per kernel, as a
 * percentage of both peaks. */
#include "abi/json_make.h"
#include "abi/quantity.h"
#include "tools/command/bench/bench.h"
#include "training/spec.h"

#include <stdio.h>
#include <stdlib.h>

enum { TRIES = 5 }; /* on a processor: the fastest counts, others use the machine, too */

MoecCompiler *bench_open(const Bench *bench) {
    MoecCompiler *compiler = spec_open(bench->operand, &bench->sets);
    if (compiler && bench->kernels && !bench->on->apart) moec_mark_units(compiler);
    return compiler;
}

static int by_seconds(const void *a, const void *b) {
    double one = ((const KernelTime *)a)->seconds, other = ((const KernelTime *)b)->seconds;
    return (one < other) - (one > other);
}

/* ---- kernels of the CPU ---- */

typedef struct Limits {
    double products, memory; /* a second: FLOP, bytes; on the CPU */
    json_t *units;           /* of moec_explain */
} Limits;

static Limits limits_of(const Bench *bench) {
    Device *on = bench->on;
    Limits limits = {1, 1, NULL};
    if (!on->apart)
        limits = (Limits){.products = 1e9 * device_ceiling_products(on, bench->rounded),
                          .memory = 1e9 * device_ceiling_read(on)};
    AUTO(MoecCompiler) *compiler = spec_open(bench->operand, &bench->sets);
    MoecGraph graph = MOEC_TRAIN;
    if (!compiler || !graph_named(bench->graph, &graph)) return limits;
    if (graph == MOEC_TRAIN) moec_trains(compiler);
    const MoecCeilings ceilings = {limits.products, limits.memory};
    const GraphShape shape = {.graph = graph, .tokens = 1};
    MoecProgram *program;
    if (!compile_with_externs(on, compiler, &shape, 1, &program)) return limits;
    model_use_externs(on, compiler);
    const char *text =
        moec_explain(compiler, graph, device_target(on), ceilings, MOEC_EXPLAIN_JSON);
    json_auto_t *explained = text ? json_loads(text, 0, NULL) : NULL;
    limits.units = json_incref(json_object_get(explained, "units"));
    return limits;
}

static double kernel_number(const json_t *object, const char *name) {
    return json_number_value(json_object_get(object, name));
}

const json_t *bench_unit_of(const json_t *units, const KernelTime *row) {
    size_t i;
    const json_t *unit;
    json_array_foreach(units, i, unit) {
        if (!row->name && (int)kernel_number(unit, "at") == row->unit) return unit;
    }
    return NULL;
}

static void set(json_t *row, const char *name, double value) {
    json_object_set_new(row, name, json_real(value));
}

static void add_unit(json_t *row, const json_t *unit, const Limits *limits, double seconds) {
    const double flops = kernel_number(unit, "flops") / seconds,
                 bytes = kernel_number(unit, "bytes") / seconds;
    json_object_set(row, "kind", json_object_get(unit, "kind"));
    json_object_set(row, "operation", json_object_get(unit, "operation"));
    json_object_set(row, "from", json_object_get(unit, "from"));
    set(row, "gflops", flops / 1e9);
    set(row, "gbytes_per_second", bytes / 1e9);
    set(row, "share_of_products", flops / limits->products);
    set(row, "share_of_memory", bytes / limits->memory);
    set(row, "lost_microseconds", 1e6 * (seconds - kernel_number(unit, "seconds")));
}

/* ---- report ---- */

static void tell_kernels(const Bench *bench, KernelTimes *times, const Limits *limits) {
    json_t *rows = json_array();
    double total = kernel_times_sum(times);
    qsort(times->rows, (size_t)times->count, sizeof times->rows[0], by_seconds);
    for (int i = 0; i < times->count; i++) {
        const KernelTime *one = &times->rows[i];
        const json_t *unit = bench_unit_of(limits->units, one);
        const char *name = one->name ? one->name : json_field_text(unit, "name");
        json_t *row = json_make("{s:s, s:I, s:f, s:f}", "name", name ? name : "?", "launches",
                                (json_int_t)one->launches, "microseconds", 1e6 * one->seconds,
                                "share", one->seconds / total);
        if (one->flops > 0) set(row, "gflops", one->flops / one->seconds / 1e9);
        if (unit) add_unit(row, unit, limits, one->seconds);
        json_array_append_new(rows, row);
    }
    bench_tell(bench, "kernels_seconds", total);
    json_object_set_new(bench->report, "kernels", rows);
}

/* Runs the work once with each kernel timed; the time between CPU kernels is a row, too. */
static bool time_once(const Bench *bench, Engine *engine, bool (*work)(void *data), void *data,
                      KernelTimes *times) {
    if (!bench->on->kind->time_kernels(engine, times)) return false;
    double began = kernel_times_clock();
    if (!bench->on->apart) times->began = began;
    bool good = work(data);
    double rest = kernel_times_clock() - began - kernel_times_sum(times);
    bench->on->kind->time_kernels(engine, NULL);
    times->traces = false; /* the rest is no launch */
    if (good && !bench->on->apart) kernel_times_add(times, "between units", -1, rest, 0);
    return good;
}

bool bench_kernels(const Bench *bench, Engine *engine, bool (*work)(void *data), void *data) {
    KernelTimes best = {.count = 0};
    const int tries = bench->on->apart || bench->quick ? 1 : TRIES;
    bool good = true;
    if (!bench->kernels) return true;
    for (int i = 0; i < tries && good; i++) {
        KernelTimes times = {.traces = bench->trace != NULL};
        good = time_once(bench, engine, work, data, &times);
        if (!i || kernel_times_sum(&times) < kernel_times_sum(&best)) {
            KernelTimes other = best;
            best = times;
            times = other;
        }
        kernel_times_free(&times);
    }
    if (good && best.count) {
        Limits limits = bench->on->apart && !bench->trace ? (Limits){1, 1, NULL} : limits_of(bench);
        good = !bench->trace || bench_write_trace(bench, &best, limits.units);
        tell_kernels(bench, &best, &limits);
        json_decref(limits.units);
    }
    kernel_times_free(&best);
    return good;
}

/* ---- text ---- */

static void print_unit(const json_t *row) {
    printf("  %-30s %6lld  %-18s %9.3f  %6.1f  %15.3f  %8.1f  %6.1f  %7.1f  %6.1f  %s\n",
           json_field_text(row, "name"),
           (long long)json_integer_value(json_object_get(row, "launches")),
           json_field_text(row, "operation"), kernel_number(row, "microseconds") / 1e3,
           100 * kernel_number(row, "share"), kernel_number(row, "lost_microseconds") / 1e3,
           kernel_number(row, "gflops"), 100 * kernel_number(row, "share_of_products"),
           kernel_number(row, "gbytes_per_second"), 100 * kernel_number(row, "share_of_memory"),
           json_field_text(row, "from"));
}

static void print_kernel_time(const json_t *row) {
    double speed = kernel_number(row, "gflops");
    printf("  %-30s %6lld  %-18s %9.3f  %6.1f", json_field_text(row, "name"),
           (long long)json_integer_value(json_object_get(row, "launches")), "",
           kernel_number(row, "microseconds") / 1e3, 100 * kernel_number(row, "share"));
    if (speed > 0) printf("  %s", quantity(1e9 * speed, "FLOP/s").text);
    puts("");
}

static bool has_units(const json_t *rows) {
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) {
        if (json_object_get(row, "kind")) return true;
    }
    return false;
}

void bench_print_kernels(const Bench *bench) {
    size_t i;
    json_t *row;
    const json_t *rows = json_object_get(bench->report, "kernels");
    if (json_array_size(rows))
        printf("\n  %-30s %6s  %-18s %9s  %6s", "kernel", "count", "kind", "ms", "%");
    if (has_units(rows))
        printf("  %15s  %8s  %6s  %7s  %6s  source", "above bound ms", "GFLOP/s", "% peak", "GB/s",
               "% peak");
    if (json_array_size(rows)) puts("");
    json_array_foreach(rows, i, row) {
        if (json_object_get(row, "kind"))
            print_unit(row);
        else
            print_kernel_time(row);
    }
}
