/* block: the threads of one thread block as fibers, and the access history of their memory. */
#ifndef SIM_BLOCK_H
#define SIM_BLOCK_H

#include "sim.h"
#include "clocks.h"

#include <stdbool.h>

typedef enum ThreadState {
    THREAD_READY,
    THREAD_AT_BARRIER,
    THREAD_IN_WARP,
    THREAD_AT_ARRIVALS,
    THREAD_DONE
} ThreadState;

/* An asynchronous copy that was requested and not yet awaited. */
typedef struct SimCopy {
    void *to;
    const void *from;
    int bytes, size, group; /* the rest after `bytes` becomes 0 */
} SimCopy;

/* Sums of this thread that asynchronous warpgroup products will write, with their future values. */
typedef struct SimSums {
    float *at;
    int count, group; /* the last group that adds to them */
    float values[SIM_SUMS];
} SimSums;

/* A product whose operands are still being read; recorded by the first lane of each warp. */
typedef struct SimReading {
    uint64_t a, b;
    int n, group;
    bool transposed_a, transposed_b, kept; /* kept: a is in registers */
} SimReading;

enum { COPY_LIMIT = 64, SUMS_LIMIT = 4, READING_LIMIT = 64, ARRIVALS_LIMIT = 16 };

typedef struct Thread {
    SimPlace place;
    ThreadState state;
    void *stack_pointer; /* saved at a context switch */
    unsigned char *stack;
    const char *file; /* source position of the wait */
    int line, number;
    SimCopy copies[COPY_LIMIT];
    int copy_count, copy_group;
    SimSums sums[SUMS_LIMIT];
    SimReading readings[READING_LIMIT];
    int sums_count, reading_count, product_group, product_count;
    bool begun;         /* has waited for the previous launch */
    bool product_fence; /* a fence since sums of this thread became accessible */
    const void *waiter; /* code address of the wait for arrivals; index of the arrivals and phase */
    int awaited;
    unsigned awaited_phase;
    /* last delivery of each arrivals object that the thread has observed */
    uint32_t seen[ARRIVALS_LIMIT];
} Thread;

/* One launch: kernel, arguments and memory. */
typedef struct SimLaunch {
    const SimKernel *kernel;
    void **arguments;
    SimIndex grid, block;
    const char *object;   /* path of the compiled object */
    unsigned char *image; /* its load address */
    unsigned char *image_end;
    unsigned char *statics, *statics_end; /* its variables: static shared memory */
    size_t dynamic_bytes;
    bool overlaps; /* its threads must wait for the previous kernel */
} SimLaunch;

/* One block of device memory. */
typedef struct MemoryRange {
    unsigned char *start, *end;
    SimTrace *traces; /* by grain */
} MemoryRange;

/* State that every access reads: plain variables for speed. */
typedef struct Now {
    Thread *thread; /* the current thread; NULL between launches */
    const SimLaunch *launch;
    unsigned char *shared; /* dynamic shared memory */
    uint32_t epoch;        /* increases at every barrier and every block */
    uint32_t warp_epoch[SIM_THREADS / SIM_WARP];
    /* number of proxy fences of all threads; number after the last fence of each thread */
    uint32_t fences;
    uint32_t fenced[SIM_THREADS];
    MemoryRange recent[2]; /* the memory blocks accessed last */
    bool endless;          /* a kernel never ends: see MOEC_SIM=hangs */
} Now;

/* A page and five cache lines more than a power of two: the stack tops of the lanes of a warp then
 * map to different cache sets. */
enum { STACK_BYTES = (128 << 10) + 4096 + 5 * 64 };

#pragma GCC visibility push(hidden)

extern Now sim_now;

/* Runs all blocks; false after a report on stderr. */
bool block_run(const SimLaunch *launch);

/* ---- block.c ---- */

/* True for memory of the simulator that kernels may read. */
bool block_owns(const unsigned char *at, size_t bytes);
/* Ends the launch after a report; does not return to the kernel. */
void block_fail(void) __attribute__((noreturn));
/* Suspends the current thread until another one makes it ready. */
void block_rest(ThreadState state);
/* The threads of the block. */
Thread *block_threads(int *count);

/* ---- check.c ---- */

/* Starts a new block: shared memory is uninitialized. */
void check_block(const SimLaunch *launch);
/* Checks an access of the current thread; reports an invalid one and ends the launch. */
void check_access(const void *at, size_t bytes, bool writes, const void *caller);
/* The current thread requested a copy to shared memory, which is uninitialized until the copy is
 * awaited. */
void check_pending(const void *at, size_t bytes, const void *caller);
/* The same for an atomic access, which is independent of the accesses of other threads. */
void check_atomic(const void *at, size_t bytes, const void *caller);
/* The tensor cores start to read shared memory for the current thread; check_read ends it. Returns
 * the error, or NULL. */
const char *check_reading(const void *at, size_t bytes);
void check_read(const void *at, size_t bytes);
/* The current thread requested a box copy to these bytes. Returns the error, or NULL. */
const char *check_box(const void *at, size_t bytes);
/* Delivery `number` of an arrivals object has written the bytes. */
void check_arrived(const void *at, size_t bytes, int arrivals, uint32_t number);
bool check_shared(const void *at, size_t bytes);
/* Prints "KERNEL: MESSAGE" with the source position and the thread. */
void check_report(const char *file, int line, const void *caller, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- wgmma.c ---- */

/* Ends the current thread: no product of it may be in flight. */
void wgmma_end(void);
/* At the end of a block: true if all threads of each warpgroup made the same products. */
bool wgmma_agree(Thread *threads, int count);
/* True if a product in flight adds to this address. */
bool wgmma_adds(const Thread *thread, const unsigned char *at);

/* ---- bulk.c ---- */

/* Starts a block without arrivals. */
void bulk_begin(void);
/* At the end of a block: true if all requested boxes have arrived. */
bool bulk_over(void);
/* True if the awaited phase has ended; the thread has then observed its deliveries. */
bool bulk_arrived(Thread *thread);
/* True if the thread has observed delivery `number` of this arrivals object. */
bool bulk_seen(const Thread *thread, int arrivals, uint32_t number);
/* At a barrier: all threads observe the deliveries that any of them has observed. */
void bulk_share(void);
/* Reports a wait that never ends. */
void bulk_report(const Thread *thread);

/* ---- device_memory.c ---- */

void *memory_take(size_t bytes);
bool memory_give(void *block);
/* True if all bytes are in one block of device memory. */
bool memory_holds(const void *at, size_t bytes);
/* The traces of a range within one block, and the index of its first grain; NULL elsewhere. */
SimTrace *memory_traces(const void *at, size_t bytes, size_t *grain);

/* ---- cuda_driver.c ---- */

bool sim_capturing(void);
int sim_device(void); /* the last one opened */

#pragma GCC visibility pop

#endif
