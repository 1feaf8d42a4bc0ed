/* bench_kernels: what the single kernels of a step take, by events of the device. */
#include "command/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>

static int by_seconds(const void *a, const void *b) {
    double one = ((const KernelTime *)a)->seconds, other = ((const KernelTime *)b)->seconds;
    return (one < other) - (one > other);
}

static void tell_kernels(const Bench *bench, KernelTimes *times) {
    json_t *rows = json_array();
    double total = 0;
    qsort(times->rows, (size_t)times->count, sizeof times->rows[0], by_seconds);
    for (int i = 0; i < times->count; i++) total += times->rows[i].seconds;
    for (int i = 0; i < times->count; i++) {
        const KernelTime *one = &times->rows[i];
        json_t *row = json_pack("{s:s, s:I, s:f, s:f}", "name", one->name, "launches",
                                (json_int_t)one->launches, "microseconds", 1e6 * one->seconds,
                                "share", one->seconds / total);
        if (one->flops > 0)
            json_object_set_new(row, "gflops", json_real(one->flops / one->seconds / 1e9));
        json_array_append_new(rows, row);
    }
    bench_tell(bench, "kernels_seconds", total);
    json_object_set_new(bench->report, "kernels", rows);
}

bool bench_kernels(const Bench *bench, Engine *engine, bool (*work)(void *data), void *data) {
    KernelTimes times = {.count = 0};
    if (!bench->kernels) return true;
    bool good = bench->on->kind->time_kernels(engine, &times) && work(data);
    bench->on->kind->time_kernels(engine, NULL);
    if (good && times.count) tell_kernels(bench, &times);
    for (int i = 0; i < times.count; i++) free(times.rows[i].name);
    free(times.rows);
    return good;
}

void bench_print_kernels(const Bench *bench) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(bench->report, "kernels"), i, row) {
        double speed = json_number_value(json_object_get(row, "gflops"));
        printf("  %6.2f %%  %10.1f us  %5lld times  %s",
               100 * json_number_value(json_object_get(row, "share")),
               json_number_value(json_object_get(row, "microseconds")),
               (long long)json_integer_value(json_object_get(row, "launches")),
               json_string_value(json_object_get(row, "name")));
        if (speed > 0) printf("  %.1f TFLOP/s", speed / 1e3);
        puts("");
    }
}
