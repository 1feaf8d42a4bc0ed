/* kernels: functions that generated C calls and the compiler does not derive. They can be read,
 * linted and tested separately. Hosted programs include them; stand-alone programs contain a copy.
 * All functions are static. A kernel with its own declaration declares
 * itself; the others are in calls.h. */
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

#include "prelude.h" /* scalar functions of compiler/ir/op.def, vectorizable, within about 2 ulp of
                        libm; random numbers */
#include "calls.h"   /* functions that generated programs call, and their arguments; hosted
                        programs include only this, the prelude and declarations */
#include "top.h"     /* top-k selection */
#ifndef MOEC_KERNELS_APART
#include "operands.h"         /* operands of products */
#include "panels.h"           /* their packing for tiles */
#include "tile.h"             /* the part of a product in registers, by vectors or by AMX */
#include "few_rows.h"         /* products of a few rows, without packing */
#include "few_panels.h"       /* the same with weights in panels */
#include "round_weights.h"    /* weights in smaller types */
#include "matmul.h"           /* matrix products of static and run-time shapes, packed, blocked */
#include "attention.h"        /* softmax attention: forward */
#include "attention_grad.h"   /* its backward pass */
#include "attention_listed.h" /* a query and listed keys */
#include "attention_chosen.h" /* attention to chosen pairs, forward and backward */
#include "attention_step.h"   /* attention over a cache, for one step */
#include "packing.h"          /* dispatch */
#include "routing.h"          /* grouped products over packed rows */
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
