/* wgmma: products by a warpgroup, four warps whose first is a multiple of four: bf16 operands in shared memory, described by
 * numbers of 64 bits, sums in f32 in registers. Only where MOEC_WGMMA is defined: devices of capability 9.0, and no later ones.
 *
 * Sections below are those of the PTX ISA, version 9; the layouts are also CUTLASS's (cute/arch/mma_sm90_desc.hpp and
 * cute/atom/mma_traits_sm90_gmma.hpp, make_gmma_desc).
 */
#ifndef MOEC_WGMMA_CUH
#define MOEC_WGMMA_CUH

#include "prelude.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define MOEC_WGMMA
#endif

#ifdef MOEC_WGMMA

/* What tensor cores read by themselves are lines of 128 bytes, eight of them a block of 1024 bytes that begins at a multiple
 * of that. Its pieces of 16 bytes are permuted: piece p of line i of the block stands at p ^ i (9.7.15.5.1.2, the swizzle of
 * 128 bytes, Swizzle<3,4,3>). */
enum { MOEC_SWIZZLED = 64, MOEC_SWIZZLED_ALIGN = 1024 }; /* elements of a line */

/* An address in shared memory as descriptors have it. */
MOEC_DEVICE unsigned moec_shared_place(const void *at) {
#ifdef MOEC_SIM
    return sim_shared_place(at);
#else
    return (unsigned)__cvta_generic_to_shared(at);
#endif
}

/* How far it is to the next block. */
MOEC_DEVICE unsigned moec_to_block(const void *at) { return -moec_shared_place(at) % MOEC_SWIZZLED_ALIGN; }

/* The descriptor (9.7.15.5.1.2.2) of a matrix that begins at `at`: bits 0 to 13 the address, 16 to 29 the leading and 32 to 45
 * the stride byte offset, all without their last 4 bits; bits 62 and 63 the swizzle, 1 for 128 bytes.
 *
 * Lines along the sum (K-major): eight lines further on is `stride`; the leading offset has no meaning.
 * Lines across (MN-major): eight terms further on is `stride`, 64 rows or columns further on `leading`. */
MOEC_DEVICE uint64_t moec_matrix(const void *at, unsigned leading, unsigned stride) {
    const unsigned address = moec_shared_place(at);
    return (uint64_t)(address >> 4) | (uint64_t)(leading >> 4) << 16 | (uint64_t)(stride >> 4) << 32 | (uint64_t)1 << 62;
}

/* The same matrix so many bytes further on. */
MOEC_DEVICE uint64_t moec_matrix_at(uint64_t matrix, unsigned bytes) { return matrix + (bytes >> 4); }

/* What this thread has written to shared memory, and what its copies brought there, may be read by tensor cores after the
 * next barrier (9.7.13.4, a proxy fence). */
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

/* Until all groups but the last GROUPS are done: before that nobody may touch their sums, nor write what they read. */
template <int GROUPS> MOEC_DEVICE void moec_wgmma_wait() {
#ifdef MOEC_SIM
    sim_wgmma_wait(GROUPS);
#else
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(GROUPS) : "memory");
#endif
}

/* The compiler moves no use of the sums across this. */
template <int COUNT> MOEC_DEVICE void moec_hold(float (&sum)[COUNT]) {
#ifndef MOEC_SIM
#pragma unroll
    for (int i = 0; i < COUNT; i++) asm volatile("" : "+f"(sum[i]) : : "memory");
#endif
}

#define MOEC_EIGHT(d, i)                                                                                                   \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])

/* d[64,64] += a[64,16] b[16,64]. TURN_A, TURN_B: the lines of the operand lie across the sum (imm-trans-a, imm-trans-b).
 * Thread i of the warpgroup has of rows 16 (i / 32) + i % 32 / 4 + 8 h and columns 8 j + 2 (i % 4) + c the sums
 * d[4 j + 2 h + c] (9.7.15.5.1.1.1). */
template <bool TURN_A, bool TURN_B> MOEC_DEVICE void moec_wgmma(float (&d)[32], uint64_t a, uint64_t b) {
#ifdef MOEC_SIM
    sim_wgmma(d, 64, a, b, TURN_A, TURN_B);
#else
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "%32, %33, 1, 1, 1, %34, %35;"
                 : MOEC_EIGHT(d, 0), MOEC_EIGHT(d, 8), MOEC_EIGHT(d, 16), MOEC_EIGHT(d, 24)
                 : "l"(a), "l"(b), "n"((int)TURN_A), "n"((int)TURN_B));
#endif
}

/* d[64,128] += a[64,16] b[16,128]. */
template <bool TURN_A, bool TURN_B> MOEC_DEVICE void moec_wgmma(float (&d)[64], uint64_t a, uint64_t b) {
#ifdef MOEC_SIM
    sim_wgmma(d, 128, a, b, TURN_A, TURN_B);
#else
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "%64, %65, 1, 1, 1, %66, %67;"
                 : MOEC_EIGHT(d, 0), MOEC_EIGHT(d, 8), MOEC_EIGHT(d, 16), MOEC_EIGHT(d, 24), MOEC_EIGHT(d, 32),
                   MOEC_EIGHT(d, 40), MOEC_EIGHT(d, 48), MOEC_EIGHT(d, 56)
                 : "l"(a), "l"(b), "n"((int)TURN_A), "n"((int)TURN_B));
#endif
}

/* d[64,256] += a[64,16] b[16,256]. */
template <bool TURN_A, bool TURN_B> MOEC_DEVICE void moec_wgmma(float (&d)[128], uint64_t a, uint64_t b) {
#ifdef MOEC_SIM
    sim_wgmma(d, 256, a, b, TURN_A, TURN_B);
#else
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
                 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
                 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
                 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
                 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
                 "%128, %129, 1, 1, 1, %130, %131;"
                 : MOEC_EIGHT(d, 0), MOEC_EIGHT(d, 8), MOEC_EIGHT(d, 16), MOEC_EIGHT(d, 24), MOEC_EIGHT(d, 32),
                   MOEC_EIGHT(d, 40), MOEC_EIGHT(d, 48), MOEC_EIGHT(d, 56), MOEC_EIGHT(d, 64), MOEC_EIGHT(d, 72),
                   MOEC_EIGHT(d, 80), MOEC_EIGHT(d, 88), MOEC_EIGHT(d, 96), MOEC_EIGHT(d, 104), MOEC_EIGHT(d, 112),
                   MOEC_EIGHT(d, 120)
                 : "l"(a), "l"(b), "n"((int)TURN_A), "n"((int)TURN_B));
#endif
}

#undef MOEC_EIGHT

#endif
#endif
