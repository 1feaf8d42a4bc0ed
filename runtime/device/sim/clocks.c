#include "clocks.h"

#include "block.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef int Result;
enum { GOOD = 0, INVALID_VALUE = 1, NO_MEMORY = 2 };

/* The first is the default stream. */
static SimStream streams[SIM_STREAMS] = {{.used = true}};
static uint64_t host_seen[SIM_STREAMS];
static SimStream *current = &streams[0];
SimWork stream_now;

static void join(uint64_t *seen, const uint64_t *other) {
    for (int i = 0; i < SIM_STREAMS; i++)
        if (other[i] > seen[i]) seen[i] = other[i];
}

SimStream *stream_of(void *stream) {
    return stream ? stream : &streams[0];
}

void stream_begin(SimStream *stream) {
    nccl_progress(stream, true);
    join(stream->seen, host_seen);
    stream->seen[stream->number]++;
    stream->settled = stream->seen[stream->number];
    current = stream;
    stream_now = stream->seen[stream->number] * SIM_STREAMS + (uint64_t)stream->number;
}

void stream_launch(SimStream *stream, bool overlaps) {
    const uint64_t settled = overlaps ? stream->settled : stream->seen[stream->number];
    stream_begin(stream);
    stream->settled = settled;
}

void stream_join_host(const SimStream *stream) {
    join(host_seen, stream->seen);
}

static bool has_waited_for(SimWork work) {
    return work / SIM_STREAMS <= current->seen[work % SIM_STREAMS];
}

bool stream_touch(SimTrace *trace, bool writes) {
    if (!has_waited_for(trace->written) || (writes && !has_waited_for(trace->read))) return false;
    *(writes ? &trace->written : &trace->read) = stream_now;
    return true;
}

bool stream_is_settled(const SimTrace *trace) {
    return trace->written == stream_now ||
           trace->written % SIM_STREAMS != (uint64_t)current->number ||
           trace->written / SIM_STREAMS <= current->settled;
}

bool stream_touch_range(const void *at, size_t bytes, bool writes, const char *what) {
    size_t grain;
    SimTrace *traces = memory_traces(at, bytes, &grain);
    const size_t first = grain,
                 last = grain + ((uintptr_t)at % SIM_TRACE_GRAIN + bytes - 1) / SIM_TRACE_GRAIN;
    for (size_t i = first; traces && bytes && i <= last; i++)
        if (!stream_touch(&traces[i], writes)) {
            fprintf(stderr,
                    "sim: error: stream %d (%s) %s device memory that work of stream %d uses, "
                    "without waiting for it\n",
                    current->number, what, writes ? "writes" : "reads",
                    (int)((has_waited_for(traces[i].written) ? traces[i].read : traces[i].written) %
                          SIM_STREAMS));
            return false;
        }
    return true;
}

/* ---- calls of the driver ---- */

#pragma GCC visibility push(default)

Result cuStreamCreate(SimStream **stream, unsigned flags);
Result cuStreamDestroy_v2(SimStream *stream);

Result cuStreamCreate(SimStream **stream, unsigned flags) {
    (void)flags;
    int number = 1;
    while (number < SIM_STREAMS && streams[number].used) number++;
    if (number == SIM_STREAMS) return NO_MEMORY;
    streams[number].number = number;
    streams[number].used = true;
    *stream = &streams[number];
    return GOOD;
}

Result cuStreamDestroy_v2(SimStream *stream) {
    stream_join_host(stream);
    stream->used = false;
    return GOOD;
}

/* An event has the clock of the host, since most work is synchronous, and those of its stream. */
typedef struct SimEvent {
    struct timespec time;
    SimStream *stream;
    uint64_t seen[SIM_STREAMS];
    const void *capture; /* in which it was recorded last, as work with this number */
    int number;
} SimEvent;

Result cuEventCreate(SimEvent **event, unsigned flags);
Result cuEventDestroy_v2(SimEvent *event);
Result cuEventRecord(SimEvent *event, void *stream);
Result cuEventElapsedTime(float *milliseconds, const SimEvent *first, const SimEvent *last);
Result cuStreamWaitEvent(void *stream, SimEvent *event, unsigned flags);

Result cuEventCreate(SimEvent **event, unsigned flags) {
    (void)flags;
    *event = calloc(1, sizeof **event);
    return *event ? GOOD : NO_MEMORY;
}

Result cuEventDestroy_v2(SimEvent *event) {
    free(event);
    return GOOD;
}

static int reach_event(SimStream *stream, void *data) {
    SimEvent *event = *(SimEvent **)data;
    event->stream = stream;
    for (int i = 0; i < SIM_STREAMS; i++) event->seen[i] = stream->seen[i];
    clock_gettime(CLOCK_MONOTONIC, &event->time);
    return GOOD;
}

Result cuEventRecord(SimEvent *event, void *stream) {
    event->capture = sim_capture();
    if (!event->capture) return reach_event(stream_of(stream), &event);
    event->stream = stream_of(stream);
    event->number = sim_record(event->stream, reach_event, &event, sizeof event);
    return GOOD;
}

Result cuEventElapsedTime(float *milliseconds, const SimEvent *first, const SimEvent *last) {
    *milliseconds = (float)(1e3 * (double)(last->time.tv_sec - first->time.tv_sec) +
                            1e-6 * (double)(last->time.tv_nsec - first->time.tv_nsec));
    return GOOD;
}

/* The collectives before the event run now, since later work of this stream does. */
static int follow_event(SimStream *stream, void *data) {
    const SimEvent *event = *(SimEvent **)data;
    if (!event->stream) return GOOD;
    nccl_progress(event->stream, true);
    join(stream->seen, event->seen);
    return GOOD;
}

/* An event is waited for in the capture in which it was recorded. */
Result cuStreamWaitEvent(void *stream, SimEvent *event, unsigned flags) {
    (void)flags;
    if (event->capture != sim_capture()) return INVALID_VALUE;
    if (!event->capture) return follow_event(stream_of(stream), &event);
    sim_follow(stream_of(stream), event->stream, event->number);
    sim_record(stream_of(stream), follow_event, &event, sizeof event);
    return GOOD;
}
