/* kernels: what generated C calls and the compiler does not derive. Real files that can be read,
 * linted and tested alone; the generated text includes them (hosted) or carries a copy
 * (stand-alone). All functions are static.
 *
 * prelude.h    scalar functions of compiler/ir/op.def (moec_exp, ...), vectorisable, within 2 ulp
 *              or so of libm; random numbers
 * operands.h   what products multiply, f32 and bf16, and how it is packed
 * tile.h       the part of a product that lives in registers, by vectors or by AMX
 * matmul.h     our own product for static and run-time shapes, packed and blocked, vector
 *              extensions of gcc and clang
 * attention.h, attention_step.h
 *              attend forward, backward and one step
 * routing.h    top, pack, grouped products over packed rows
 *
 * moec_product(run, index, product, a, b, c)
 *     one static product: lent to the host when it has one, else ours.
 *
 * moec_grouped_product(grouped, rows, a, b, c)
 *     products over packed rows, rows of a and b gathered on the way; see MoecGrouped. A group with
 *     few rows is read in place, so that decoding pays only for what it touches. */
#ifndef MOEC_KERNELS_H
#define MOEC_KERNELS_H

/* A hosted program may be compiled in two parts side by side, of which each knows the other's
 * kernels: MOEC_PART says which one this is. Else it is one. */
#ifdef MOEC_PART
#define MOEC_KERNELS_APART
#define MOEC_HAS_PART(part) (MOEC_PART == (part))
#define MOEC_KERNEL __attribute__((visibility("hidden")))
#else
#define MOEC_HAS_PART(part) 1
#define MOEC_KERNEL static
#endif

#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed" /* a loop that stays scalar is no mistake */
#endif

#include "prelude.h"
#include "matmul.h"
#include "attention.h"
#include "attention_step.h"
#include "routing.h"

#include <math.h>

/* Loops of generated code say what may run side by side; without OpenMP they say nothing. */
#define MOEC_PRAGMA(...) _Pragma(#__VA_ARGS__)
#ifdef _OPENMP
#define MOEC_OMP(...) MOEC_PRAGMA(omp __VA_ARGS__)
#else
#define MOEC_OMP(...)
#endif

/* In programs whose units of work are timed. */
MOEC_INLINE void moec_mark(const MoecRun *run, int unit) {
    if (run->host != NULL && run->host->mark != NULL) run->host->mark(run->host->marked, unit);
}

/* Hosted programs do not compile the kernels again for every model: MOEC_KERNELS_HERE makes the one
 * object that has them, and a program compiled with MOEC_KERNELS_APART calls those. */
#define MOEC_ENTRIES(ENTRY)                                                                        \
    ENTRY(product)                                                                                 \
    ENTRY(grouped_product)                                                                         \
    ENTRY(attend) ENTRY(attend_grad) ENTRY(attend_step) ENTRY(top) ENTRY(pack) ENTRY(combine)
#ifdef MOEC_KERNELS_HERE
#define MOEC_ENTRY(name)                                                                           \
    extern __typeof__(moec_##name) moec_kernel_##name __attribute__((alias("moec_" #name)));
MOEC_ENTRIES(MOEC_ENTRY)
#endif
#ifdef MOEC_KERNELS_APART
#define MOEC_ENTRY(name) extern __typeof__(moec_##name) moec_kernel_##name;
MOEC_ENTRIES(MOEC_ENTRY)
#define moec_product moec_kernel_product
#define moec_grouped_product moec_kernel_grouped_product
#define moec_attend moec_kernel_attend
#define moec_attend_grad moec_kernel_attend_grad
#define moec_attend_step moec_kernel_attend_step
#define moec_top moec_kernel_top
#define moec_pack moec_kernel_pack
#define moec_combine moec_kernel_combine
#endif

#endif
