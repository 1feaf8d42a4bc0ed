/* clocks: streams and events of the simulated device. Each unit of work has a number in its stream.
 * Each stream knows the last number of every other one that it has waited for: its clock.
 *
 * Kernels and copies run at once, collectives (collectives.c) when something waits for them. A
 * grain of device memory has the work that wrote and read it last. An access by work that has not
 * waited for that work is an error. Kernels compiled with checks report their accesses; copies and
 * collectives always do. */
#ifndef SIM_CLOCKS_H
#define SIM_CLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A grain is as large as the alignment of tensors, which different streams may use. */
enum { SIM_STREAMS = 16, SIM_TRACE_GRAIN = 64 };

typedef struct SimStream {
    int number;
    bool used;
    uint64_t seen[SIM_STREAMS]; /* by stream; the own one: the last work */
    /* the last work that had ended before the current launch and those that overlap it began */
    uint64_t settled;
} SimStream;

/* Work: its number times SIM_STREAMS, plus the stream; 0: none. */
typedef uint64_t SimWork;

/* The last work that wrote and read a grain of device memory. */
typedef struct SimTrace {
    SimWork written, read;
} SimTrace;

#pragma GCC visibility push(hidden)

/* ---- cuda_driver.c: captures ---- */

/* Work of a graph, which runs on this stream. Returns an error number. */
typedef int SimCall(SimStream *stream, void *data);
/* The current capture; NULL: none. */
const void *sim_capture(void);
/* Adds work to the capture, with a copy of its data. Returns its number. */
int sim_record(SimStream *stream, SimCall *call, const void *data, size_t bytes);
/* Later work of the stream follows that of another one up to this number. */
void sim_follow(const SimStream *stream, const SimStream *other, int number);

/* The current work, and its stream. */
extern SimWork stream_now;

/* A stream of a call; NULL is the default stream. */
SimStream *stream_of(void *stream);
/* The next work of the stream begins. It follows the collectives of the stream, and all work that
 * the stream or the host has waited for. */
void stream_begin(SimStream *stream);
/* The same for a kernel. overlaps: it can start before the previous launches have ended. */
void stream_launch(SimStream *stream, bool overlaps);
/* The host has waited for the stream. */
void stream_join_host(const SimStream *stream);
/* Whether the current work may access the grain, whose trace becomes this work. */
bool stream_touch(SimTrace *trace, bool writes);
/* Whether the work that wrote the grain, if it is another one, had ended before the first of the
 * launches in progress began. */
bool stream_is_settled(const SimTrace *trace);
/* The same for all grains of a range of device memory. Reports an access without a wait, with the
 * name `what` of the work. */
bool stream_touch_range(const void *at, size_t bytes, bool writes, const char *what);

/* ---- collectives.c ---- */

/* Runs the collectives of a stream that can run now; wait: until all have. Whether all have. */
bool nccl_progress(const SimStream *stream, bool wait);
/* Whether a collective that has not run uses the block; reports it. */
bool nccl_uses(const void *block);

#pragma GCC visibility pop

#endif
