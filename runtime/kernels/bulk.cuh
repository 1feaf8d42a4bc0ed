/* bulk: copies of boxes of tensors into shared memory. One thread requests a box. A hardware unit
 * (TMA) computes the addresses, fills elements outside of the tensor with 0, permutes vectors for
 * tensor cores and counts the bytes that have arrived. Available if MOEC_WGMMA is defined, see
 * wgmma.cuh.
 *
 * PTX ISA, version 9: "Tensors" (tensor maps, swizzling modes), "cp.async.bulk.tensor", "mbarrier".
 * CUTLASS does the same in cute/arch/copy_sm90_tma.hpp and cutlass/arch/barrier.h. */
#ifndef MOEC_BULK_CUH
#define MOEC_BULK_CUH

#include "wgmma.cuh"

#ifdef MOEC_WGMMA

/* Tensor descriptor from the host: a parameter `const __grid_constant__ MoecMap` that is used at
 * its address. */
struct __align__(128) MoecMap {
    uint64_t words[16];
};

#ifndef MOEC_SIM
/* Arrivals: an mbarrier. A phase ends when one thread has arrived and all bytes that it announced
 * before have been copied. */
MOEC_DEVICE unsigned moec_arrivals_place(const uint64_t *arrivals) {
    return (unsigned)__cvta_generic_to_shared(arrivals);
}
#endif

/* Before the first use; copies and other threads know of it after a proxy fence (moec_fence_async)
 * and a barrier. */
MOEC_DEVICE void moec_arrivals_begin(uint64_t *arrivals) {
#ifdef MOEC_SIM
    sim_arrivals_begin(arrivals, 1);
#else
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;"
                 :
                 : "r"(moec_arrivals_place(arrivals))
                 : "memory");
#endif
}

/* After the last use, before any other use of the memory, including a new initialization. */
MOEC_DEVICE void moec_arrivals_end(uint64_t *arrivals) {
#ifdef MOEC_SIM
    sim_arrivals_end(arrivals);
#else
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];"
                 :
                 : "r"(moec_arrivals_place(arrivals))
                 : "memory");
#endif
}

/* This phase lasts until so many bytes more have arrived. */
MOEC_DEVICE void moec_arrivals_expect(uint64_t *arrivals, int bytes) {
#ifdef MOEC_SIM
    sim_arrivals_expect(arrivals, bytes);
#else
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;"
                 :
                 : "r"(moec_arrivals_place(arrivals)), "r"(bytes)
                 : "memory");
#endif
}

/* Announces that all copies of this phase have been requested. */
MOEC_DEVICE void moec_arrivals_arrive(uint64_t *arrivals) {
#ifdef MOEC_SIM
    sim_arrivals_arrive(arrivals);
#else
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
                 :
                 : "r"(moec_arrivals_place(arrivals))
                 : "memory");
#endif
}

/* A copy is lost after this time in ns and this number of polls. While a debugger stops the kernel,
 * time passes without polls. */
#define MOEC_PATIENCE 10000000000ull
#define MOEC_POLLS 1000

/* Waits until the phase has ended: 0 for the first phase, the third, ..., else 1. Threads and
 * tensor cores may then read the copied data. Tensor cores need no fence, because copies use the
 * same proxy. */
MOEC_DEVICE void moec_arrivals_wait(uint64_t *arrivals, unsigned phase) {
#ifdef MOEC_SIM
    sim_arrivals_wait(arrivals, phase);
#else
    const unsigned place = moec_arrivals_place(arrivals);
    unsigned long long now, began = 0;
    for (unsigned ended = 0, polls = 0; !ended; polls++) {
        asm volatile("{\n"
                     ".reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n"
                     "}"
                     : "=r"(ended)
                     : "r"(place), "r"(phase)
                     : "memory");
        if (ended) break;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
        if (!polls) began = now;
        if (polls > MOEC_POLLS && now - began > MOEC_PATIENCE) __trap();
    }
#endif
}

/* A box from element x of line y of matrix z on, to a multiple of 128 bytes. */
MOEC_DEVICE void moec_copy_box(void *to, const MoecMap &map, int x, int y, int z,
                               uint64_t *arrivals) {
#ifdef MOEC_SIM
    const int at[3] = {x, y, z};
    sim_copy_box(to, &map, at, 3, arrivals);
#else
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];"
                 :
                 : "r"((unsigned)__cvta_generic_to_shared(to)), "l"(&map), "r"(x), "r"(y), "r"(z),
                   "r"(moec_arrivals_place(arrivals))
                 : "memory");
#endif
}

#endif
#endif
