/* wgmma: products by a warpgroup, four warps whose first is a multiple of four: bf16 operands in
 * shared memory, described by numbers of 64 bits, sums in f32 in registers. Only where MOEC_WGMMA
 * is defined: devices of capability 9.0, and no later ones.
 *
 * Sections below are those of the PTX ISA, version 9; the layouts are also CUTLASS's
 * (cute/arch/mma_sm90_desc.hpp and cute/atom/mma_traits_sm90_gmma.hpp, make_gmma_desc). */
#ifndef MOEC_WGMMA_CUH
#define MOEC_WGMMA_CUH

#include "prelude.cuh"
#include "shapes.h"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define MOEC_WGMMA
#endif

#ifdef MOEC_WGMMA

/* Memory layout for tensor cores: lines of 128 bytes, eight of them in a block of 1024 bytes that
 * begins at a multiple of its size. Its vectors of 16 bytes are permuted: vector p of line i of the
 * block is at p ^ i (9.7.15.5.1.2, the swizzle of 128 bytes, Swizzle<3,4,3>). */

/* An address in shared memory as descriptors have it. */
MOEC_DEVICE unsigned moec_shared_place(const void *at) {
#ifdef MOEC_SIM
    return sim_shared_place(at);
#else
    return (unsigned)__cvta_generic_to_shared(at);
#endif
}

/* How far it is to the next block. */
MOEC_DEVICE unsigned moec_to_block(const void *at) {
    return -moec_shared_place(at) % MOEC_SWIZZLED_ALIGN;
}

/* The descriptor (9.7.15.5.1.2.2) of a matrix that begins at `at`. Bits 0 to 13 are the address, 16
 * to 29 the leading and 32 to 45 the stride byte offset, all without their last 4 bits. Bits 62 and
 * 63 are the swizzle, 1 for 128 bytes.
 *
 * Lines along the sum (K-major): `stride` is the offset of eight lines; the leading offset has no
 * meaning. Lines across it (MN-major): `stride` is the offset of eight terms, `leading` that of 64
 * rows or columns. */
MOEC_DEVICE uint64_t moec_matrix(const void *at, unsigned leading, unsigned stride) {
    const unsigned address = moec_shared_place(at);
    return (uint64_t)(address >> 4) | (uint64_t)(leading >> 4) << 16 |
           (uint64_t)(stride >> 4) << 32 | (uint64_t)1 << 62;
}

/* The same matrix so many bytes further on. */
MOEC_DEVICE uint64_t moec_matrix_at(uint64_t matrix, unsigned bytes) {
    return matrix + (bytes >> 4);
}

/* Makes this thread's writes to shared memory, and the data from its copies, visible to tensor
 * cores after the next barrier (9.7.13.4, a proxy fence). */
MOEC_DEVICE void moec_fence_async() {
#ifdef MOEC_SIM
    sim_fence_async();
#else
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
#endif
}

/* Before the first product after other instructions have touched its sums (9.7.15.7.1). */
MOEC_DEVICE void moec_wgmma_fence() {
#ifdef MOEC_SIM
    sim_wgmma_fence();
#else
    asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
#endif
}

/* Closes a group of products. */
MOEC_DEVICE void moec_wgmma_commit() {
#ifdef MOEC_SIM
    sim_wgmma_commit();
#else
    asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
#endif
}

/* Waits until all but the last GROUPS groups are done. Before that, no thread may access their sums
 * or overwrite their operands. */
template <int GROUPS> MOEC_DEVICE void moec_wgmma_wait() {
#ifdef MOEC_SIM
    sim_wgmma_wait(GROUPS);
#else
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(GROUPS) : "memory");
#endif
}

/* The compiler moves no use of the sums, no making of the operands across this. */
template <int COUNT> MOEC_DEVICE void moec_hold(float (&sum)[COUNT]) {
#ifndef MOEC_SIM
#pragma unroll
    for (int i = 0; i < COUNT; i++) asm volatile("" : "+f"(sum[i]) : : "memory");
#endif
}
template <int COUNT> MOEC_DEVICE void moec_hold(unsigned (&operand)[COUNT][4]) {
#ifndef MOEC_SIM
#pragma unroll
    for (int i = 0; i < 4 * COUNT; i++) asm volatile("" : "+r"(operand[i / 4][i % 4]) : : "memory");
#endif
}

/* Reads four floats of shared memory here, not ahead of their use. */
MOEC_DEVICE void moec_read_here(float (&x)[4], const float *from) {
#ifdef MOEC_SIM
    moec_read(x, from);
#else
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
                 : "r"(moec_shared_place(from))
                 : "memory");
#endif
}

/* ---- products ---- */

/* Sums as operands 0, 1, ... of an instruction. */
#define MOEC_EIGHT(d, i)                                                                           \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]),    \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define MOEC_HALF(d, i)                                                                            \
    MOEC_EIGHT(d, i), MOEC_EIGHT(d, i + 8), MOEC_EIGHT(d, i + 16), MOEC_EIGHT(d, i + 24)
#define MOEC_NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define MOEC_NAMES_16 MOEC_NAMES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define MOEC_NAMES_24 MOEC_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define MOEC_NAMES_32 MOEC_NAMES_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define MOEC_NAMES_64                                                                              \
    MOEC_NAMES_32                                                                                  \
    ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "           \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define MOEC_NAMES_128                                                                             \
    MOEC_NAMES_64                                                                                  \
    ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "           \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "             \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, "       \
    "%111, "                                                                                       \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, "         \
    "%126, %127"
#define MOEC_PRODUCT(columns) "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32.bf16.bf16 "

/* d[64,N] += a[64,16] b[16,N]; with FRESH, = instead of +=. TRANSPOSED_A, TRANSPOSED_B: the lines
 * of the operand run across the sum (imm-trans-a, imm-trans-b). Thread i of the warpgroup has the
 * sums d[4 j + 2 h + c] of rows 16 (i / 32) + i % 32 / 4 + 8 h and columns 8 j + 2 (i % 4) + c
 * (9.7.15.5.1.1.1). */
#ifdef MOEC_SIM
template <bool TRANSPOSED_A, bool TRANSPOSED_B, bool FRESH = false, int COUNT>
MOEC_DEVICE void moec_wgmma(float (&d)[COUNT], uint64_t a, uint64_t b) {
    sim_wgmma(d, 2 * COUNT, a, b, TRANSPOSED_A, TRANSPOSED_B, FRESH);
}
#else
#define MOEC_WGMMA_FORM(columns, sums, operands, ...)                                              \
    template <bool TRANSPOSED_A, bool TRANSPOSED_B, bool FRESH = false>                            \
    MOEC_DEVICE void moec_wgmma(float(&d)[sums], uint64_t a, uint64_t b) {                         \
        asm volatile(MOEC_PRODUCT(columns) "{" MOEC_NAMES_##sums "}, " operands ";"                \
                     : __VA_ARGS__                                                                 \
                     : "l"(a), "l"(b), "n"((int)!FRESH), "n"((int)TRANSPOSED_A),                   \
                       "n"((int)TRANSPOSED_B));                                                    \
    }
MOEC_WGMMA_FORM(64, 32, "%32, %33, %34, 1, 1, %35, %36", MOEC_HALF(d, 0))
MOEC_WGMMA_FORM(128, 64, "%64, %65, %66, 1, 1, %67, %68", MOEC_HALF(d, 0), MOEC_HALF(d, 32))
MOEC_WGMMA_FORM(256, 128, "%128, %129, %130, 1, 1, %131, %132", MOEC_HALF(d, 0), MOEC_HALF(d, 32),
                MOEC_HALF(d, 64), MOEC_HALF(d, 96))
#undef MOEC_WGMMA_FORM
#endif

/* The same into the sums from FROM, with a in registers. Thread i has rows as above. Element a[2 j
 * + h] has the halves c of terms 8 j + 2 (i % 4) + c (9.7.15.5.1.1): two adjacent results of the
 * above, rounded. N: 16, 32, 48, 64 or 128. */
template <int N, int FROM, bool TRANSPOSED_B, int COUNT>
MOEC_DEVICE void moec_wgmma_kept(float (&d)[COUNT], const unsigned (&a)[4], uint64_t b) {
    static_assert(FROM + N / 2 <= COUNT, "sums");
#ifdef MOEC_SIM
    sim_wgmma_kept(d + FROM, N, a, b, TRANSPOSED_B);
#else
    static_assert(N == 16 || N == 32 || N == 48 || N == 64 || N == 128, "columns");
#define MOEC_KEPT(columns, sums, operands, ...)                                                    \
    if constexpr (N == columns)                                                                    \
    asm volatile(MOEC_PRODUCT(columns) "{" MOEC_NAMES_##sums "}, " operands ";"                    \
                 : __VA_ARGS__                                                                     \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"((int)TRANSPOSED_B))
    MOEC_KEPT(16, 8, "{%8, %9, %10, %11}, %12, 1, 1, 1, %13", MOEC_EIGHT(d, FROM));
    MOEC_KEPT(32, 16, "{%16, %17, %18, %19}, %20, 1, 1, 1, %21", MOEC_EIGHT(d, FROM),
              MOEC_EIGHT(d, FROM + 8));
    MOEC_KEPT(48, 24, "{%24, %25, %26, %27}, %28, 1, 1, 1, %29", MOEC_EIGHT(d, FROM),
              MOEC_EIGHT(d, FROM + 8), MOEC_EIGHT(d, FROM + 16));
    MOEC_KEPT(64, 32, "{%32, %33, %34, %35}, %36, 1, 1, 1, %37", MOEC_HALF(d, FROM));
    MOEC_KEPT(128, 64, "{%64, %65, %66, %67}, %68, 1, 1, 1, %69", MOEC_HALF(d, FROM),
              MOEC_HALF(d, FROM + 32));
#undef MOEC_KEPT
#endif
}

#undef MOEC_HALF
#undef MOEC_EIGHT
#undef MOEC_PRODUCT

#endif

/* bulk: copies of boxes of tensors into shared memory. One thread requests a box. A hardware unit
 * (TMA) computes the addresses, fills elements outside of the tensor with 0, permutes vectors for
 * tensor cores and counts the bytes that have arrived.
 *
 * PTX ISA, version 9: "Tensors" (tensor maps, swizzling modes), "cp.async.bulk.tensor", "mbarrier".
 * CUTLASS does the same in cute/arch/copy_sm90_tma.hpp and cutlass/arch/barrier.h. */

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
