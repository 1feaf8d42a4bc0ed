#include "block.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

enum {
    GROUP_LIMIT = 33,
    WARPS = SIM_THREADS / SIM_WARP,
    ARGUMENT_BYTES = 8192,
    ARGUMENT_ALIGN = 128
};

/* Lanes that synchronize under one mask. Two sets of values: a lane can reach the next meeting
 * while others still read. */
typedef struct Meeting {
    unsigned mask, arrived;
    int half;
    const char *file;
    int line;
    SimLanes lanes[2];
} Meeting;

typedef struct Warp {
    Meeting meetings[GROUP_LIMIT];
    int count;
    unsigned existing;
} Warp;

typedef struct SimBlock {
    Thread threads[SIM_THREADS];
    Warp warps[WARPS];
    int thread_count, arrived, done;
    const Thread *first; /* first thread at the barrier */
    bool failed;
    void *arguments[SIM_ARGUMENTS]; /* pointers into values; kernels may read them */
    unsigned char values[ARGUMENT_BYTES] __attribute__((aligned(ARGUMENT_ALIGN)));
    void *scheduler; /* its stack pointer */
#if !defined(__x86_64__)
    ucontext_t contexts[SIM_THREADS], home;
#endif
} SimBlock;

SimPlace *sim_place;
Now sim_now;

static SimBlock *block;
static unsigned char *stacks;

/* ---- context switches ---- */

#if defined(__x86_64__)

/* Saves the callee-saved registers on the stack of the current fiber. */
void sim_switch(void **from, void *to);
__asm__(".text\n"
        ".globl sim_switch\n"
        ".hidden sim_switch\n"
        ".type sim_switch, @function\n"
        "sim_switch:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq "
        "%r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
        "    ret\n"
        ".size sim_switch, .-sim_switch\n");

static void to_scheduler(Thread *thread) {
    sim_switch(&thread->stack_pointer, block->scheduler);
}

static void to_thread(Thread *thread) {
    sim_switch(&block->scheduler, thread->stack_pointer);
}

static void prepare(Thread *thread, void (*entry)(void)) {
    void **top = (void **)(void *)(thread->stack + STACK_BYTES);
    *--top = NULL; /* the entry function finds the stack as after a call */
    memcpy(--top, &entry, sizeof entry);
    for (int i = 0; i < 6; i++) *--top = NULL;
    thread->stack_pointer = top;
}

#else

static void to_scheduler(Thread *thread) {
    swapcontext(&block->contexts[thread->number], &block->home);
}

static void to_thread(Thread *thread) {
    swapcontext(&block->home, &block->contexts[thread->number]);
}

static void prepare(Thread *thread, void (*entry)(void)) {
    ucontext_t *context = &block->contexts[thread->number];
    getcontext(context);
    context->uc_stack.ss_sp = thread->stack;
    context->uc_stack.ss_size = STACK_BYTES;
    context->uc_link = &block->home;
    makecontext(context, entry, 0);
}

#endif

static void thread_entry(void) {
    sim_now.launch->kernel->enter(block->arguments);
    wgmma_end();
    sim_now.thread->state = THREAD_DONE;
    block->done++;
    to_scheduler(sim_now.thread);
    abort();
}

/* ---- requests of threads ---- */

static void release_barrier(void) {
    for (int i = 0; i < block->thread_count; i++)
        if (block->threads[i].state == THREAD_AT_BARRIER) block->threads[i].state = THREAD_READY;
    block->arrived = 0;
    sim_now.epoch++;
    bulk_share();
}

void block_rest(ThreadState state) {
    sim_now.thread->state = state;
    to_scheduler(sim_now.thread);
}

Thread *block_threads(int *count) {
    *count = block->thread_count;
    return block->threads;
}

static void wait_here(ThreadState state, const char *file, int line) {
    sim_now.thread->file = file;
    sim_now.thread->line = line;
    block_rest(state);
}

static bool same_source_line(const char *file, int line, const char *other, int other_line) {
    return line == other_line && (file == other || strcmp(file, other) == 0);
}

void sim_barrier(const char *file, int line) {
    const Thread *first = block->arrived ? block->first : NULL;
    if (first && !same_source_line(first->file, first->line, file, line)) {
        check_report(file, line, NULL, "divergent barrier: thread %d waits at the barrier of %s:%d",
                     first->number, first->file, first->line);
        block_fail();
    }
    if (!first) block->first = sim_now.thread;
    block->arrived++;
    if (block->arrived == block->thread_count)
        release_barrier();
    else
        wait_here(THREAD_AT_BARRIER, file, line);
}

static Meeting *meeting_of(Warp *warp, unsigned mask) {
    for (int i = 0; i < warp->count; i++)
        if (warp->meetings[i].mask == mask) return &warp->meetings[i];
    if (warp->count == GROUP_LIMIT) return NULL;
    Meeting *meeting = &warp->meetings[warp->count++];
    meeting->mask = mask;
    meeting->arrived = 0;
    return meeting;
}

const SimLanes *sim_exchange(unsigned mask, const void *value, size_t bytes, int synchronises,
                             const char *file, int line) {
    Warp *warp = &block->warps[sim_now.thread->number / SIM_WARP];
    unsigned own = 1u << sim_now.thread->place.lane;
    mask &= warp->existing;
    Meeting *meeting = mask & own ? meeting_of(warp, mask) : NULL;
    if (!meeting) {
        check_report(file, line, NULL, "the mask %08x does not include the calling lane", mask);
        block_fail();
    }
    if (meeting->arrived && !same_source_line(meeting->file, meeting->line, file, line)) {
        check_report(file, line, NULL, "divergent warp: other lanes wait at %s:%d", meeting->file,
                     meeting->line);
        block_fail();
    }
    meeting->file = file;
    meeting->line = line;
    SimLanes *lanes = &meeting->lanes[meeting->half];
    if (bytes) memcpy(lanes->bytes[sim_now.thread->place.lane], value, bytes);
    meeting->arrived |= own;
    if (meeting->arrived != mask) {
        wait_here(THREAD_IN_WARP, file, line);
        return lanes;
    }
    int first = sim_now.thread->number / SIM_WARP * SIM_WARP;
    for (int lane = 0; lane < SIM_WARP; lane++)
        if (mask >> lane & 1 && lane != sim_now.thread->place.lane)
            block->threads[first + lane].state = THREAD_READY;
    meeting->arrived = 0;
    meeting->half ^= 1;
    sim_now.warp_epoch[sim_now.thread->number / SIM_WARP] += synchronises != 0;
    return lanes;
}

unsigned char *sim_shared(void) {
    return sim_now.shared;
}

void *sim_atomic(void *word, size_t bytes) {
    check_atomic(word, bytes, __builtin_return_address(0));
    return word;
}

void sim_read(const void *from, size_t bytes) {
    check_access(from, bytes, false, __builtin_return_address(0));
}

void sim_trap(const char *file, int line) {
    check_report(file, line, NULL, "the kernel trapped");
    block_fail();
}

/* Copies complete at the wait, as late as the hardware allows. */
void sim_copy_async_filled(void *to, const void *from, int bytes, int size) {
    Thread *thread = sim_now.thread;
    if (thread->copy_count == COPY_LIMIT) sim_copy_wait(0);
    if (bytes) check_access(from, (size_t)bytes, false, __builtin_return_address(0));
    if ((uintptr_t)to % (size_t)size || (bytes && (uintptr_t)from % (size_t)size)) {
        check_report(NULL, 0, __builtin_return_address(0), "misaligned copy of %d bytes", size);
        block_fail();
    }
    check_pending(to, (size_t)size, __builtin_return_address(0));
    thread->copies[thread->copy_count++] = (SimCopy){to, from, bytes, size, thread->copy_group};
}

void sim_copy_async(void *to, const void *from, int bytes) {
    sim_copy_async_filled(to, from, bytes, bytes);
}

void sim_copy_commit(void) {
    sim_now.thread->copy_group++;
}

void sim_copy_wait(int groups_left) {
    int kept = 0;
    for (int i = 0; i < sim_now.thread->copy_count; i++) {
        SimCopy *copy = &sim_now.thread->copies[i];
        if (copy->group >= sim_now.thread->copy_group - groups_left) {
            sim_now.thread->copies[kept++] = *copy;
            continue;
        }
        check_access(copy->to, (size_t)copy->size, true, __builtin_return_address(0));
        memcpy(copy->to, copy->from, (size_t)copy->bytes);
        memset((char *)copy->to + copy->bytes, 0, (size_t)(copy->size - copy->bytes));
    }
    sim_now.thread->copy_count = kept;
}

/* ---- the scheduler ---- */

bool block_owns(const unsigned char *at, size_t bytes) {
    const unsigned char *own = (const unsigned char *)block;
    return (at >= own && at + bytes <= own + sizeof *block) ||
           at == (const unsigned char *)&sim_place;
}

void block_fail(void) {
    block->failed = true;
    to_scheduler(sim_now.thread);
    abort();
}

/* The first waiting thread. Threads that wait for arrivals come first, since others may wait for
 * them. */
static Thread *stuck_thread(void) {
    Thread *first = NULL;
    for (int i = 0; i < block->thread_count; i++) {
        Thread *thread = &block->threads[i];
        if (thread->state == THREAD_AT_ARRIVALS) return thread;
        if (!first && thread->state != THREAD_DONE) first = thread;
    }
    return first;
}

/* Deadlock: reports the waiting threads. */
static void report_stuck(void) {
    sim_now.thread = stuck_thread();
    if (sim_now.thread) {
        if (sim_now.thread->state == THREAD_AT_ARRIVALS)
            bulk_report(sim_now.thread);
        else if (sim_now.thread->state == THREAD_AT_BARRIER)
            check_report(sim_now.thread->file, sim_now.thread->line, NULL,
                         "divergent barrier: %d of %d threads wait here, %d have left the kernel",
                         block->arrived, block->thread_count, block->done);
        else
            check_report(sim_now.thread->file, sim_now.thread->line, NULL,
                         "lanes wait here for other lanes of their warp that never arrive");
    }
    block->failed = true;
}

static void run_threads(void) {
    while (block->done < block->thread_count && !block->failed) {
        bool moved = false;
        for (int i = 0; i < block->thread_count && !block->failed; i++) {
            sim_now.thread = &block->threads[i];
            if (sim_now.thread->state == THREAD_AT_ARRIVALS && bulk_arrived(sim_now.thread))
                sim_now.thread->state = THREAD_READY;
            if (sim_now.thread->state != THREAD_READY) continue;
            moved = true;
            sim_place = &sim_now.thread->place;
            to_thread(sim_now.thread);
        }
        if (!moved) report_stuck();
    }
}

static SimIndex index_of(unsigned number, SimIndex size) {
    return (SimIndex){number % size.x, number / size.x % size.y, number / size.x / size.y};
}

static void start_block(const SimLaunch *launch, SimIndex place) {
    block->thread_count = (int)(launch->block.x * launch->block.y * launch->block.z);
    block->arrived = block->done = 0;
    sim_now.epoch++;
    check_block(launch);
    bulk_begin();
    for (int i = 0; i < block->thread_count; i++) {
        Thread *thread = &block->threads[i];
        thread->number = i;
        thread->state = THREAD_READY;
        thread->stack = stacks + (size_t)i * STACK_BYTES;
        thread->copy_count = thread->copy_group = 0;
        thread->sums_count = thread->reading_count = 0;
        thread->product_group = thread->product_count = 0;
        thread->begun = thread->product_fence = false;
        memset(thread->seen, 0, sizeof thread->seen);
        thread->place = (SimPlace){index_of((unsigned)i, launch->block), place, launch->block,
                                   launch->grid, i % SIM_WARP};
        prepare(thread, thread_entry);
    }
    for (int i = 0; i * SIM_WARP < block->thread_count; i++) {
        int lanes = block->thread_count - i * SIM_WARP;
        block->warps[i].count = 0;
        block->warps[i].existing = lanes >= SIM_WARP ? 0xffffffffu : (1u << lanes) - 1;
    }
}

static bool take_block_memory(void) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    if (!block) {
        void *parts[3] = {
            mmap(NULL, sizeof *block, PROT_READ | PROT_WRITE, flags, -1, 0),
            mmap(NULL, (size_t)SIM_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0),
            mmap(NULL, SIM_SHARED, PROT_READ | PROT_WRITE, flags, -1, 0)};
        if (parts[0] == MAP_FAILED || parts[1] == MAP_FAILED || parts[2] == MAP_FAILED)
            return false;
        block = parts[0];
        stacks = parts[1];
        sim_now.shared = parts[2];
    }
    return true;
}

static bool copy_arguments(const SimLaunch *launch) {
    size_t used = 0;
    for (int i = 0; i < launch->kernel->argument_count; i++) {
        size_t bytes = launch->kernel->argument_bytes[i];
        if (i == SIM_ARGUMENTS || used + bytes > ARGUMENT_BYTES) return false;
        block->arguments[i] = block->values + used;
        memcpy(block->arguments[i], launch->arguments[i], bytes);
        used += (bytes + ARGUMENT_ALIGN - 1) / ARGUMENT_ALIGN * ARGUMENT_ALIGN;
    }
    return true;
}

static unsigned long begun; /* threads of the launch that have waited for the previous launch */

void sim_begin(void) {
    sim_now.thread->begun = true;
    begun++;
}

/* A kernel that can start early must wait in every thread. */
static bool all_began(const SimLaunch *launch, unsigned blocks) {
    const SimIndex *size = &launch->block;
    if (!launch->overlaps || begun == (unsigned long)blocks * size->x * size->y * size->z)
        return true;
    fprintf(stderr, "sim: error: kernel %s: does not wait for the previous launch\n",
            launch->kernel->name);
    return false;
}

bool block_run(const SimLaunch *launch) {
    if (!take_block_memory() || !copy_arguments(launch)) return false;
    begun = 0;
    sim_now.launch = launch;
    block->failed = false;
    unsigned blocks = launch->grid.x * launch->grid.y * launch->grid.z;
    for (unsigned i = 0; i < blocks && !block->failed; i++) {
        start_block(launch, index_of(i, launch->grid));
        run_threads();
        if (!block->failed && (!wgmma_agree(block->threads, block->thread_count) || !bulk_over()))
            block->failed = true;
    }
    return !block->failed && all_began(launch, blocks);
}
