/* block: the threads of one block as fibers, and what is known of the memory that they touch. */
#ifndef SIM_BLOCK_H
#define SIM_BLOCK_H

#include "sim.h"

#include <stdbool.h>

typedef enum ThreadState {
    THREAD_READY,
    THREAD_AT_BARRIER,
    THREAD_IN_WARP,
    THREAD_DONE
} ThreadState;

/* An asynchronous copy that has been asked for and not waited for. */
typedef struct SimCopy {
    void *to;
    const void *from;
    int bytes, size, group; /* what lies beyond `bytes` becomes 0 */
} SimCopy;

enum { COPY_LIMIT = 64 };

typedef struct Thread {
    SimPlace place;
    ThreadState state;
    void *stack_pointer; /* where it goes on */
    unsigned char *stack;
    const char *file; /* where it waits */
    int line, number;
    SimCopy copies[COPY_LIMIT];
    int copy_count, copy_group;
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
    Part recent[2]; /* blocks of memory that were touched last */
} Now;

enum { STACK_BYTES = 128 << 10 };

#pragma GCC visibility push(hidden)

extern Now sim_now;

/* Runs all blocks; false after a report on stderr. */
bool block_run(const Launch *launch);

/* ---- block.c ---- */

/* True for addresses of the simulator's own, that kernels may read. */
bool block_owns(const unsigned char *at, size_t bytes);
/* Ends the launch after a report; does not return to the kernel. */
void block_fail(void) __attribute__((noreturn));

/* ---- check.c ---- */

/* A new block starts: shared memory holds nothing. */
void check_block(const Launch *launch);
/* The current thread touches memory; reports and ends the launch when it must not. */
void check_access(const void *at, size_t bytes, bool writes, const void *caller);
/* The current thread has asked for a copy to a place in shared memory, which holds nothing until the
 * copy has been waited for. */
void check_pending(const void *at, size_t bytes, const void *caller);
/* The same for an atomic access, whatever other threads did. */
void check_atomic(const void *at, size_t bytes, const void *caller);
/* Prints "KERNEL: MESSAGE" with the place in the text and the thread. */
void check_report(const char *file, int line, const void *caller, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- memory.c ---- */

void *memory_take(size_t bytes);
bool memory_give(void *block);
/* True when all bytes lie in one block of the device. */
bool memory_holds(const void *at, size_t bytes);

#pragma GCC visibility pop

#endif
