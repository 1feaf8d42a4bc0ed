/* kernels: functions that generated C calls and the compiler does not derive. They can be read,
 * linted and tested separately. Hosted programs include them; stand-alone programs contain a copy.
 * All functions are static.
 *
 *     prelude.h    scalar functions of compiler/ir/op.def (moec_exp, ...), vectorizable, within
 *                  about 2 ulp of libm; random numbers
 *     calls.h      functions that generated programs call, and the structures of their arguments
 *     operands.h   operands of products, f32 and bf16, and their packing
 *     tile.h       the part of a product that is kept in registers, by vectors or by AMX
 *     matmul.h     matrix product for static and run-time shapes, packed and blocked, with vector
 *                  extensions of gcc and clang
 *     attention.h, attention_grad.h, attention_chosen.h, attention_step.h
 *                  attend forward, backward, to chosen pairs and for one step
 *     routing.h    top-k selection, grouped products over packed rows; for groups with few rows,
 *                  only the used elements are read
 *     packing.h    dispatch
 */
#ifndef MOEC_KERNELS_H
#define MOEC_KERNELS_H

/* A hosted program may be compiled in two parts in parallel; each part declares the kernels of the
 * other. MOEC_PART is the number of this part. Without it the program has one part. */
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

#include "calls.h"
#ifndef MOEC_KERNELS_APART
#include "matmul.h"
#include "attention.h"
#include "attention_grad.h"
#include "attention_chosen.h"
#include "attention_step.h"
#include "routing.h"
#endif

#include <math.h>

/* Annotation of parallel loops in generated code; without OpenMP it is empty. */
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

/* In programs of a mesh. */
MOEC_INLINE void moec_exchange_begin(const MoecRun *run, const MoecExchange *exchange,
                                     const void *from, const int *table, void *const *to) {
    run->host->exchange_begin(run->host->mesh, exchange, from, table, to);
}

MOEC_INLINE void moec_exchange_end(const MoecRun *run, const MoecExchange *exchange) {
    run->host->exchange_end(run->host->mesh, exchange);
}

#endif
