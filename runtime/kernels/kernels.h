/* kernels: what generated C calls and the compiler does not derive. Real files that can be read,
 * linted and tested alone; the generated text includes them (hosted) or carries a copy
 * (stand-alone). All functions are static.
 *
 * prelude.h    scalar functions of compiler/ir/op.def (moec_exp, ...), vectorisable, within 2 ulp
 *              or so of libm; random numbers
 * calls.h      what generated programs call, and the structures that they hand over
 * operands.h   what products multiply, f32 and bf16, and how it is packed
 * tile.h       the part of a product that lives in registers, by vectors or by AMX
 * matmul.h     our own product for static and run-time shapes, packed and blocked, vector
 *              extensions of gcc and clang
 * attention.h, attention_grad.h, attention_step.h
 *              attend forward, backward and one step
 * routing.h    top, pack, grouped products over packed rows: of groups with few rows is read only
 *              what they touch
 */
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

#include "calls.h"
#ifndef MOEC_KERNELS_APART
#include "matmul.h"
#include "attention.h"
#include "attention_grad.h"
#include "attention_step.h"
#include "routing.h"
#endif

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

#endif
