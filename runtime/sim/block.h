/* block: the threads of one block as fibers, and what is known of the memory that they touch. */
#ifndef SIM_BLOCK_H
#define SIM_BLOCK_H

#include "sim.h"

#include <stdbool.h>

typedef enum ThreadState {
    THREAD_READY,
    THREAD_AT_BARRIER,
    THREAD_IN_WARP,
    THREAD_AT_ARRIVALS,
    THREAD_DONE
} ThreadState;

/* An asynchronous copy that has been asked for and not waited for. */
typedef struct SimCopy {
    void *to;
    const void *from;
    int bytes, size, group; /* what lies beyond `bytes` becomes 0 */
} SimCopy;

/* Products of a warpgroup that go on by themselves and add to the same sums of this thread: what
 * the sums will be. */
typedef struct SimSums {
    float *at;
    int count, group; /* the last group that adds to them */
    float values[SIM_SUMS];
} SimSums;

/* A product whose operands are still read, kept by the first lane of each warp. */
typedef struct SimReading {
    uint64_t a, b;
    int n, group;
    bool transposed_a, transposed_b, kept; /* kept: a lies in registers */
} SimReading;

enum { COPY_LIMIT = 64, SUMS_LIMIT = 4, READING_LIMIT = 64, ARRIVALS_LIMIT = 16 };

typedef struct Thread {
    SimPlace place;
    ThreadState state;
    void *stack_pointer; /* where it goes on */
    unsigned char *stack;
    const char *file; /* where it waits */
    int line, number;
    SimCopy copies[COPY_LIMIT];
    int copy_count, copy_group;
    SimSums sums[SUMS_LIMIT];
    SimReading readings[READING_LIMIT];
    int sums_count, reading_count, product_group, product_count;
    bool product_fence; /* since sums of this thread were last free to be touched */
    const void *waiter; /* the code that waits for arrivals; which ones, and what phase of them */
    int awaited;
    unsigned awaited_phase;
    uint32_t seen[ARRIVALS_LIMIT]; /* the last delivery of each arrivals that the thread knows of */
} Thread;

/* One launch: what runs, and where its memory is. */
typedef struct Launch {
    const SimKernel *kernel;
    void **arguments;
    SimIndex grid, block;
    const char *object;   /* path of the compiled text */
    unsigned char *image; /* where it was loaded */
    unsigned char *image_end;
    unsigned char *statics, *statics_end; /* its variables: static shared memory */
    size_t dynamic_bytes;
    bool overlaps; /* its threads have to wait for the kernel ahead of it */
} Launch;

/* One block of the device's memory. */
typedef struct Part {
    unsigned char *start, *end;
} Part;

/* What every access asks for: plain variables, because nothing else is asked for so often. */
typedef struct Now {
    Thread *thread; /* that runs; NULL between launches */
    const Launch *launch;
    unsigned char *shared; /* dynamic shared memory */
    uint32_t epoch;        /* goes up at every barrier and every block */
    uint32_t warp_epoch[SIM_THREADS / SIM_WARP];
    uint32_t fences; /* of proxies, by all threads; how many there were after the last of each */
    uint32_t fenced[SIM_THREADS];
    Part recent[2]; /* blocks of memory that were touched last */
} Now;

/* A page and five cache lines more than a power of two: the tops of a warp's stacks, which it goes
 * round at every exchange, lie in different sets of the caches. */
enum { STACK_BYTES = (128 << 10) + 4096 + 5 * 64 };

#pragma GCC visibility push(hidden)

extern Now sim_now;

/* Runs all blocks; false after a report on stderr. */
bool block_run(const Launch *launch);

/* ---- block.c ---- */

/* True for addresses of the simulator's own, that kernels may read. */
bool block_owns(const unsigned char *at, size_t bytes);
/* Ends the launch after a report; does not return to the kernel. */
void block_fail(void) __attribute__((noreturn));
/* The current thread rests until it is made ready. */
void block_rest(ThreadState state);
/* The threads of the block. */
Thread *block_threads(int *count);

/* ---- check.c ---- */

/* A new block starts: shared memory holds nothing. */
void check_block(const Launch *launch);
/* The current thread touches memory; reports and ends the launch when it must not. */
void check_access(const void *at, size_t bytes, bool writes, const void *caller);
/* The current thread has asked for a copy to a place in shared memory, which holds nothing until
 * the copy has been waited for. */
void check_pending(const void *at, size_t bytes, const void *caller);
/* The same for an atomic access, whatever other threads did. */
void check_atomic(const void *at, size_t bytes, const void *caller);
/* The tensor cores read shared memory on behalf of the current thread, from now on until the other
 * call. What is wrong with it, or NULL. */
const char *check_reading(const void *at, size_t bytes);
void check_read(const void *at, size_t bytes);
/* The current thread has asked for a box that comes to these bytes. What is wrong with it, or
 * NULL. */
const char *check_box(const void *at, size_t bytes);
/* Delivery `number` of some arrivals has brought the bytes. */
void check_arrived(const void *at, size_t bytes, int arrivals, uint32_t number);
bool check_shared(const void *at, size_t bytes);
/* Prints "KERNEL: MESSAGE" with the place in the text and the thread. */
void check_report(const char *file, int line, const void *caller, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- wgmma.c ---- */

/* The current thread ends: nothing that it asked for may go on. */
void wgmma_end(void);
/* A block has ended. Have the threads of each warpgroup made the same products? */
bool wgmma_agree(Thread *threads, int count);
/* True when a product in flight adds to what stands there. */
bool wgmma_adds(const Thread *thread, const unsigned char *at);

/* ---- bulk.c ---- */

/* A block begins: there are no arrivals. */
void bulk_begin(void);
/* A block has ended. Has all arrived that its threads asked for? */
bool bulk_over(void);
/* True when the phase has ended that the thread waits for; then it knows what arrived. */
bool bulk_arrived(Thread *thread);
/* True when the thread knows of delivery `number` of these arrivals. */
bool bulk_seen(const Thread *thread, int arrivals, uint32_t number);
/* All threads have met: each knows what the others know. */
void bulk_share(void);
/* What the thread waits for in vain. */
void bulk_report(const Thread *thread);

/* ---- device_memory.c ---- */

void *memory_take(size_t bytes);
bool memory_give(void *block);
/* True when all bytes lie in one block of the device. */
bool memory_holds(const void *at, size_t bytes);

#pragma GCC visibility pop

#endif
