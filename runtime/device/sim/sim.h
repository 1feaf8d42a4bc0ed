/* sim: the interface between simulated kernels and the simulator. Included by the simulator (C)
 * and, through cuda_sim.h, by the kernels (C++).
 *
 * The threads of a block are fibers of one system thread: each runs until it waits or ends. The
 * compiled kernel calls the simulator at every memory access (see check.c). MOEC_SIM=unchecked
 * disables these calls: kernels run about five times faster, and only accesses through the wrappers
 * are checked. MOEC_SIM=hopper selects capability 9.0; MOEC_SIM=wrong makes its warpgroup products
 * wrong. Words are separated by commas. */
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

/* Position of the current thread. */
typedef struct SimPlace {
    SimIndex thread, block, block_size, grid_size;
    int lane;
} SimPlace;

/* Description of one kernel in the compiled object: "sim_kernel_NAME". */
typedef struct SimKernel {
    const char *name;
    void (*enter)(void **arguments); /* runs the kernel as the current thread */
    int checked;                     /* the compiler calls the simulator at its accesses */
    int argument_count;
    size_t argument_bytes[SIM_ARGUMENTS];
} SimKernel;

/* Values that the lanes of a warp exchange, by lane. */
typedef struct SimLanes {
    unsigned char bytes[SIM_WARP][SIM_SLOT];
} SimLanes;

extern SimPlace *sim_place;

/* Waits for the previous launch: see moec_begin. */
void sim_begin(void);
void sim_barrier(const char *file, int line);
/* Waits until all lanes of the mask have passed a value. synchronises: earlier writes of the lanes
 * become visible to each other. */
const SimLanes *sim_exchange(unsigned mask, const void *value, size_t bytes, int synchronises,
                             const char *file, int line);
unsigned char *sim_shared(void);
/* The word of an atomic access, valid for any thread. */
void *sim_atomic(void *word, size_t bytes);
void sim_copy_async(void *shared, const void *global, int bytes);
/* Copies the first `bytes` of `size`, then zeros. */
void sim_copy_async_filled(void *shared, const void *global, int bytes, int size);
void sim_copy_commit(void);
void sim_copy_wait(int groups_left);
void sim_read(const void *from, size_t bytes);
/* A read through the read-only cache. */
void sim_read_constant(const void *from, size_t bytes);
/* Warpgroups: see wgmma.c. */
unsigned sim_shared_place(const void *at); /* shared-memory address as in matrix descriptors */
void sim_fence_async(void);
void sim_wgmma_fence(void);
/* d[64,n] += a[64,16] b[16,n], n/2 sums per thread. */
typedef struct SimProduct {
    float *d;
    int n;
    const unsigned *kept; /* elements of a in registers of the thread, or NULL */
    uint64_t a, b;
    int transposed_a, transposed_b, fresh; /* fresh: d = a b */
} SimProduct;
void sim_wgmma_on(const SimProduct *product, const char *file, int line);
void sim_wgmma_commit(void);
void sim_wgmma_wait(int groups_left);
/* Tensor boxes: see bulk.c. A phase of arrivals ends after `count` threads and all bytes. */
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
