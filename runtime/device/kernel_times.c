#include "device/device.h"

#include "base/memory.h"
#include "base/clock.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

double kernel_times_clock(void) {
    return omp_get_max_threads() > 1 ? seconds_now() : seconds_of_thread();
}

static KernelTime *row_of(KernelTimes *times, const char *name, int unit) {
    for (int i = 0; i < times->count; i++) {
        KernelTime *row = &times->rows[i];
        if (name ? row->name && strcmp(row->name, name) == 0 : row->unit == unit) return row;
    }
    times->rows = memory_grow(times->rows, sizeof *times->rows * (size_t)(times->count + 1));
    KernelTime *row = &times->rows[times->count++];
    *row = (KernelTime){.name = name ? memory_format("%s", name) : NULL, .unit = unit};
    return row;
}

/* The launch ends now, or follows the one before. */
static void add_event(KernelTimes *times, int row, double seconds) {
    times->events =
        memory_grow(times->events, sizeof *times->events * (size_t)(times->event_count + 1));
    const KernelEvent *last = times->event_count ? &times->events[times->event_count - 1] : NULL;
    const double start = times->began > 0 ? kernel_times_clock() - times->began - seconds
                         : last           ? last->start + last->seconds
                                          : 0;
    times->events[times->event_count++] = (KernelEvent){row, start, seconds, 0};
}

void kernel_times_add(KernelTimes *times, const char *name, int unit, double seconds,
                      double flops) {
    KernelTime *row = row_of(times, name, unit);
    if (times->traces) add_event(times, (int)(row - times->rows), seconds);
    row->launches++;
    row->seconds += seconds;
    row->flops += flops;
}

void kernel_times_threads(KernelTimes *times, double threads) {
    if (times->event_count) times->events[times->event_count - 1].threads = threads;
}

double kernel_times_sum(const KernelTimes *times) {
    double sum = 0;
    for (int i = 0; i < times->count; i++) sum += times->rows[i].seconds;
    return sum;
}

void kernel_times_free(KernelTimes *times) {
    for (int i = 0; i < times->count; i++) free(times->rows[i].name);
    free(times->rows);
    free(times->events);
    *times = (KernelTimes){.count = 0};
}
