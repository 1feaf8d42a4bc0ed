/* check: access checks, called by the compiled kernel at every memory access, and error reports.
 *
 * Valid addresses are on the stack of the thread, in a block of device memory, among the constants
 * of the kernel, or in shared memory. Shared memory records the last writer and reader of each byte
 * and their time. Between two barriers, a byte that one thread writes may not be accessed by
 * another thread. */
#include "block.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* History of two bytes, the smallest element in shared memory. */
typedef struct AccessTrace {
    uint32_t write_epoch, read_epoch, write_warp_epoch, read_warp_epoch;
    /* proxy fences at the time of the write; for a box: number of its delivery */
    uint32_t fences;
    int16_t writer, reader; /* reader: MANY if several threads have read in this epoch */
    int16_t reading;        /* number of products in flight that read it */
    int16_t arrivals;       /* arrivals object of a box */
} AccessTrace;

/* Special writers: a box that has arrived, a box in flight. */
enum { MANY = -2, BOX = -3, BOX_ON_ITS_WAY = -4, GRAIN = 2 };

static AccessTrace *dynamic_traces, *static_traces;
static size_t static_count;
static uint32_t first_epoch; /* first epoch of the block */

void check_block(const SimLaunch *launch) {
    size_t count = (size_t)(launch->statics_end - launch->statics) / GRAIN + 1;
    if (!dynamic_traces) dynamic_traces = calloc(SIM_SHARED / GRAIN, sizeof *dynamic_traces);
    if (count > static_count) {
        free(static_traces);
        static_traces = calloc(count, sizeof *static_traces);
        static_count = static_traces ? count : 0;
    }
    first_epoch = sim_now.epoch;
    if (!dynamic_traces || !static_traces) abort();
}

/* Prints the source position "k12.cu:34" of a code address, by addr2line. */
static void print_place(const void *caller) {
    const SimLaunch *launch = sim_now.launch;
    char command[4200], line[512], name[1 << 14]; /* long enough for nested templates */
    snprintf(command, sizeof command, "addr2line -f -C -s -i -e '%s' %#zx 2>/dev/null",
             launch->object, (size_t)((const unsigned char *)caller - launch->image) - 1);
    FILE *pipe = popen(command, "r");
    for (int i = 0;
         pipe && i < 8 && fgets(name, sizeof name, pipe) && fgets(line, sizeof line, pipe); i++) {
        line[strcspn(line, " \n")] = 0;
        name[strcspn(name, "(\n")] = 0;
        if (i == 0 || strncmp(line, "cuda_sim.h", 10) != 0)
            fprintf(stderr, "%s%s", i ? ", called at " : "  at ", line);
    }
    if (pipe) pclose(pipe);
}

void check_report(const char *file, int line, const void *caller, const char *format, ...) {
    va_list arguments;
    const SimLaunch *launch = sim_now.launch;
    const Thread *thread = sim_now.thread;
    fprintf(stderr, "sim: error: kernel %s: ", launch->kernel->name);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputs("\n", stderr);
    if (caller)
        print_place(caller);
    else
        fprintf(stderr, "  at %s:%d", file, line);
    const SimPlace *place = &thread->place;
    fprintf(stderr, ", thread %u of block (%u, %u), grid (%u, %u) of %u threads\n",
            thread->place.thread.x, place->block.x, place->block.y, place->grid_size.x,
            place->grid_size.y, place->block_size.x);
}

static void check_fail(const void *at, size_t bytes, const void *caller, const char *what) {
    check_report(NULL, 0, caller, "%s: %zu bytes at %p", what, bytes, at);
    block_fail();
}

/* Accesses of two lanes of one warp are ordered if the warp has synchronized since. */
static bool ordered(const Thread *thread, int other, uint32_t warp_epoch) {
    int warp = thread->number / SIM_WARP;
    return other >= 0 && other / SIM_WARP == warp && warp_epoch != sim_now.warp_epoch[warp];
}

/* The error of an access to memory that a box writes, or NULL. */
static const char *touch_box(const AccessTrace *trace, const Thread *thread) {
    if (trace->writer == BOX_ON_ITS_WAY) return "access to shared memory with a box in flight";
    if (trace->write_epoch >= first_epoch && !bulk_seen(thread, trace->arrivals, trace->fences))
        return "access to a box by a thread that has not waited for it";
    return NULL;
}

static const char *touch(AccessTrace *trace, const Thread *thread, bool writes) {
    uint32_t now = sim_now.epoch, warp_now = sim_now.warp_epoch[thread->number / SIM_WARP];
    const char *wrong = trace->writer <= BOX ? touch_box(trace, thread) : NULL;
    if (wrong) return wrong;
    if (trace->writer > BOX && trace->write_epoch == now && trace->writer != thread->number &&
        !ordered(thread, trace->writer, trace->write_warp_epoch))
        return writes ? "two threads write the same shared memory without a barrier"
                      : "read of shared memory that another thread writes without a barrier";
    if (!writes && trace->write_epoch < first_epoch) return "read of uninitialized shared memory";
    if (writes) {
        if (trace->reading) return "write to shared memory that a product in flight reads";
        if (trace->read_epoch == now && trace->reader != thread->number &&
            !ordered(thread, trace->reader, trace->read_warp_epoch))
            return "write to shared memory that another thread reads without a barrier";
        trace->write_epoch = now;
        trace->writer = (int16_t)thread->number;
        trace->write_warp_epoch = warp_now;
        trace->fences = sim_now.fences;
        return NULL;
    }
    bool again = trace->read_epoch == now && trace->reader != thread->number;
    /* Reads by several lanes of one warp count as one reader, the last lane. */
    trace->reader =
        again && (trace->reader == MANY || trace->reader / SIM_WARP != thread->number / SIM_WARP)
            ? MANY
            : (int16_t)thread->number;
    trace->read_epoch = now;
    trace->read_warp_epoch = warp_now;
    return NULL;
}

/* First trace of an address in shared memory, or NULL. */
static AccessTrace *traces_of(const unsigned char *at, size_t bytes) {
    const SimLaunch *launch = sim_now.launch;
    size_t place = (size_t)(at - sim_now.shared);
    if (place < launch->dynamic_bytes)
        return place + bytes <= launch->dynamic_bytes ? dynamic_traces + place / GRAIN : NULL;
    if (at >= launch->statics && at + bytes <= launch->statics_end)
        return static_traces + (at - launch->statics) / GRAIN;
    return NULL;
}

/* Number of grains that the bytes overlap. */
static size_t grains_of(const unsigned char *at, size_t bytes) {
    return ((uintptr_t)at % GRAIN + bytes + GRAIN - 1) / GRAIN;
}

/* The block of device memory if it is one of those accessed last, or NULL. */
static const MemoryRange *recently(const unsigned char *at, size_t bytes) {
    const MemoryRange *part = sim_now.recent;
    return at >= part[0].start && at + bytes <= part[0].end   ? &part[0]
           : at >= part[1].start && at + bytes <= part[1].end ? &part[1]
                                                              : NULL;
}

static SimTrace *clock_of(const MemoryRange *part, const unsigned char *at) {
    return &part->traces[(size_t)(at - part->start) / SIM_TRACE_GRAIN];
}

/* Checks the order of an access to device memory, whose bytes are in one grain. */
static void check_clock(const MemoryRange *part, const unsigned char *at, size_t bytes, bool writes,
                        const void *caller) {
    SimTrace *trace = clock_of(part, at);
    if (sim_now.launch->overlaps && !sim_now.thread->begun && (writes || !stream_is_settled(trace)))
        check_fail(at, bytes, caller,
                   "access to memory of a launch in progress without waiting for it");
    if (!stream_touch(trace, writes))
        check_fail(at, bytes, caller, "access to memory of another stream without waiting for it");
}

static bool misaligned(const unsigned char *at, size_t bytes) {
    return bytes <= 16 && !(bytes & (bytes - 1)) && (uintptr_t)at % bytes;
}

/* Checks an address outside of the stack and of shared memory. */
static void check_far(const unsigned char *at, size_t bytes, bool writes, const void *caller) {
    const SimLaunch *launch = sim_now.launch;
    if (memory_holds(at, bytes)) {
        if (misaligned(at, bytes)) check_fail(at, bytes, caller, "misaligned access");
        check_clock(&sim_now.recent[0], at, bytes, writes, caller);
    } else if (!block_owns(at, bytes) &&
               (writes || at < launch->image || at + bytes > launch->image_end))
        check_fail(at, bytes, caller, writes ? "write out of bounds" : "read out of bounds");
}

void check_access(const void *address, size_t bytes, bool writes, const void *caller) {
    const unsigned char *at = address;
    const Thread *thread = sim_now.thread;
    if (!thread) return;
    if ((size_t)(at - thread->stack) < STACK_BYTES) {
        if (thread->sums_count && wgmma_adds(thread, at))
            check_fail(at, bytes, caller, "access to sums of a product in flight");
        return;
    }
    const MemoryRange *part = recently(at, bytes);
    if (part && !misaligned(at, bytes)) {
        check_clock(part, at, bytes, writes, caller);
        return;
    }
    AccessTrace *traces = traces_of(at, bytes);
    if (!traces) {
        check_far(at, bytes, writes, caller);
        return;
    }
    if (misaligned(at, bytes)) check_fail(at, bytes, caller, "misaligned access");
    if (!sim_now.launch->kernel->checked) return;
    for (size_t i = 0, count = grains_of(at, bytes); i < count; i++) {
        const char *wrong = touch(&traces[i], thread, writes);
        if (wrong) check_fail(at, bytes, caller, wrong);
    }
}

void sim_read_constant(const void *from, size_t bytes) {
    if (memory_holds(from, bytes) && !stream_is_settled(clock_of(&sim_now.recent[0], from)))
        check_fail(from, bytes, __builtin_return_address(0),
                   "read through the read-only cache of memory that a launch in progress writes");
}

void check_pending(const void *at, size_t bytes, const void *caller) {
    check_access(at, bytes, true, caller);
    AccessTrace *traces = traces_of(at, bytes);
    if (!traces || !sim_now.launch->kernel->checked) return;
    for (size_t i = 0, count = grains_of(at, bytes); i < count; i++) traces[i].write_epoch = 0;
}

const char *check_reading(const void *at, size_t bytes) {
    AccessTrace *traces = traces_of(at, bytes);
    if (!traces) return "a product reads outside of shared memory";
    if (!sim_now.launch->kernel->checked) return NULL;
    for (size_t i = 0, count = grains_of(at, bytes); i < count; i++) {
        AccessTrace *trace = &traces[i];
        const char *wrong = touch(trace, sim_now.thread, false);
        if (wrong) return wrong;
        if (trace->writer >= 0 && trace->fences >= sim_now.fenced[trace->writer])
            return "a product reads memory that was written without a fence for the tensor cores";
        trace->reading++;
    }
    return NULL;
}

void check_read(const void *at, size_t bytes) {
    AccessTrace *traces = traces_of(at, bytes);
    if (!traces || !sim_now.launch->kernel->checked) return;
    for (size_t i = 0, count = grains_of(at, bytes); i < count; i++) traces[i].reading--;
}

/* Box copies use another proxy: earlier writes of threads need a fence. */
const char *check_box(const void *at, size_t bytes) {
    AccessTrace *traces = traces_of(at, bytes);
    if (!traces) return "destination of a box copy is outside of shared memory";
    if (!sim_now.launch->kernel->checked) return NULL;
    for (size_t i = 0, count = grains_of(at, bytes); i < count; i++) {
        AccessTrace *trace = &traces[i];
        if (trace->writer >= 0 && trace->write_epoch >= first_epoch &&
            trace->fences >= sim_now.fenced[trace->writer])
            return "destination of a box copy was written without a later fence";
        const char *wrong = touch(trace, sim_now.thread, true);
        if (wrong) return wrong;
        trace->writer = BOX_ON_ITS_WAY;
        trace->write_epoch = 0;
    }
    return NULL;
}

void check_arrived(const void *at, size_t bytes, int arrivals, uint32_t number) {
    AccessTrace *traces = traces_of(at, bytes);
    if (!traces || !sim_now.launch->kernel->checked) return;
    for (size_t i = 0, count = grains_of(at, bytes); i < count; i++) {
        traces[i].writer = BOX;
        traces[i].write_epoch = sim_now.epoch;
        traces[i].fences = number;
        traces[i].arrivals = (int16_t)arrivals;
    }
}

bool check_shared(const void *at, size_t bytes) {
    return traces_of(at, bytes) != NULL;
}

void check_atomic(const void *at, size_t bytes, const void *caller) {
    AccessTrace *traces = traces_of(at, bytes);
    if (!traces) check_access(at, bytes, true, caller);
    if (!traces || !sim_now.launch->kernel->checked) return;
    for (size_t i = 0, count = grains_of(at, bytes); i < count; i++) {
        if (traces[i].write_epoch < first_epoch)
            check_fail(at, bytes, caller, "read of uninitialized shared memory");
        traces[i].writer = traces[i].reader = (int16_t)sim_now.thread->number;
        traces[i].write_epoch = traces[i].read_epoch = sim_now.epoch;
        traces[i].fences = sim_now.fences;
    }
}

/* ---- entry points for the compiler ---- */

/* One per size and direction. Kernels are linked with --wrap, so that an address sanitizer in the
 * process keeps its own functions. */

#define ENTRY(name, size)                                                                          \
    void __wrap___asan_load##name(const void *at) {                                                \
        check_access(at, size, false, __builtin_return_address(0));                                \
    }                                                                                              \
    void __wrap___asan_store##name(const void *at) {                                               \
        check_access(at, size, true, __builtin_return_address(0));                                 \
    }
#define ENTRY_N(name)                                                                              \
    void __wrap___asan_load##name(const void *at, size_t bytes) {                                  \
        if (bytes) check_access(at, bytes, false, __builtin_return_address(0));                    \
    }                                                                                              \
    void __wrap___asan_store##name(const void *at, size_t bytes) {                                 \
        if (bytes) check_access(at, bytes, true, __builtin_return_address(0));                     \
    }
#pragma GCC visibility push(default)
#define DECLARE(name)                                                                              \
    void __wrap___asan_load##name(const void *at);                                                 \
    void __wrap___asan_store##name(const void *at);
DECLARE(1_noabort)
DECLARE(2_noabort)
DECLARE(4_noabort)
DECLARE(8_noabort)
DECLARE(16_noabort) void __wrap___asan_loadN_noabort(const void *at, size_t bytes);
void __wrap___asan_storeN_noabort(const void *at, size_t bytes);
void __wrap___asan_handle_no_return(void);
void __wrap___asan_before_dynamic_init(const char *module);
void __wrap___asan_after_dynamic_init(void);
void *__wrap___asan_memcpy(void *to, const void *from, size_t bytes);
void *__wrap___asan_memset(void *to, int value, size_t bytes);
void *__wrap___asan_memmove(void *to, const void *from, size_t bytes);
#pragma GCC visibility pop
ENTRY(1_noabort, 1)
ENTRY(2_noabort, 2)
ENTRY(4_noabort, 4)
ENTRY(8_noabort, 8)
ENTRY(16_noabort, 16)
ENTRY_N(N_noabort)

/* Not needed. */
void __wrap___asan_handle_no_return(void) {
}
void __wrap___asan_before_dynamic_init(const char *module) {
    (void)module;
}
void __wrap___asan_after_dynamic_init(void) {
}

void *__wrap___asan_memcpy(void *to, const void *from, size_t bytes) {
    check_access(from, bytes, false, __builtin_return_address(0));
    check_access(to, bytes, true, __builtin_return_address(0));
    return memcpy(to, from, bytes);
}

void *__wrap___asan_memmove(void *to, const void *from, size_t bytes) {
    check_access(from, bytes, false, __builtin_return_address(0));
    check_access(to, bytes, true, __builtin_return_address(0));
    return memmove(to, from, bytes);
}

void *__wrap___asan_memset(void *to, int value, size_t bytes) {
    check_access(to, bytes, true, __builtin_return_address(0));
    return memset(to, value, bytes);
}
