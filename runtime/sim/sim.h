/* sim: what a simulated kernel and the simulator know of each other. Included by the simulator (C)
 * and, through cuda_sim.h, by the kernels (C++).
 *
 * The threads of a block are fibers of one thread of the system: they run one after the other, each
 * until it waits or ends. The compiler calls the simulator at every access to memory (see check.c),
 * so that it knows who touched what, and when. With MOEC_SIM=unchecked in the environment it does
 * not: kernels run some five times as fast, and only what the wrappers touch is looked at. With
 * MOEC_SIM=hopper the device has capability 9.0, and with MOEC_SIM=wrong its warpgroups multiply
 * wrongly; words may be joined by commas.
 */
#ifndef SIM_H
#define SIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum {
    SIM_WARP = 32,
    SIM_SLOT = 64,
    SIM_SUMS = 128,
    SIM_SHARED = 232448,
    SIM_THREADS = 1024,
    SIM_ARGUMENTS = 512
};

typedef struct SimIndex {
    unsigned x, y, z;
} SimIndex;

/* The place of the thread that runs. */
typedef struct SimPlace {
    SimIndex thread, block, block_size, grid_size;
    int lane;
} SimPlace;

/* What the compiled text says of one kernel: "sim_kernel_NAME". */
typedef struct SimKernel {
    const char *name;
    void (*enter)(void **arguments); /* runs it as the current thread */
    int checked;                     /* the compiler calls the simulator at its accesses */
    int argument_count;
    size_t argument_bytes[SIM_ARGUMENTS];
} SimKernel;

/* The values that the lanes of a warp gave, by lane. */
typedef struct SimLanes {
    unsigned char bytes[SIM_WARP][SIM_SLOT];
} SimLanes;

extern SimPlace *sim_place;

/* What was launched before has ended: see moec_begin. */
void sim_begin(void);
void sim_barrier(const char *file, int line);
/* Waits until all lanes of the mask have given a value here. synchronises: what they wrote is seen
 * by each other. */
const SimLanes *sim_exchange(unsigned mask, const void *value, size_t bytes, int synchronises,
                             const char *file, int line);
unsigned char *sim_shared(void);
/* The word of an atomic access: any thread may touch it so. */
void *sim_atomic(void *word, size_t bytes);
void sim_copy_async(void *shared, const void *global, int bytes);
/* The first `bytes` of `size`, then zeros. */
void sim_copy_async_filled(void *shared, const void *global, int bytes, int size);
void sim_copy_commit(void);
void sim_copy_wait(int groups_left);
void sim_read(const void *from, size_t bytes);
/* Warpgroups: see wgmma.c. */
unsigned sim_shared_place(const void *at); /* an address as descriptors of matrices have it */
void sim_fence_async(void);
void sim_wgmma_fence(void);
/* d[64,n] += a[64,16] b[16,n], n/2 sums of each thread. */
typedef struct SimProduct {
    float *d;
    int n;
    const unsigned *kept; /* what the thread has of a in registers, or NULL */
    uint64_t a, b;
    int transposed_a, transposed_b, fresh; /* fresh: d = a b */
} SimProduct;
void sim_wgmma_on(const SimProduct *product, const char *file, int line);
void sim_wgmma_commit(void);
void sim_wgmma_wait(int groups_left);
/* Boxes of tensors: see bulk.c. A phase of arrivals ends with `count` threads and all bytes. */
void sim_arrivals_begin(uint64_t *arrivals, int count);
void sim_arrivals_end(uint64_t *arrivals);
void sim_arrivals_expect(uint64_t *arrivals, int bytes);
void sim_arrivals_arrive(uint64_t *arrivals);
void sim_arrivals_wait(uint64_t *arrivals, unsigned phase);
void sim_copy_box(void *to, const void *map, const int *at, int rank, uint64_t *arrivals);
void sim_trap(const char *file, int line);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
