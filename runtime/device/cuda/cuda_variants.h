/* cuda_variants: autotuning between variants of a kernel, such as warpgroup kernels for compute
 * capability 9.0, each with its own grid. The first launch of a kernel with a new shape runs all
 * variants on its arguments. A variant is selected if it is faster and its results equal those of
 * the first within rounding. Decisions are cached, one file per program and device. */
#ifndef CUDA_VARIANTS_H
#define CUDA_VARIANTS_H

#include "device/cuda/cuda.h"

typedef struct CudaVariants CudaVariants;

/* The kernels of a loaded program. */
typedef struct CudaProgram {
    CudaDevice *device;
    const MoecTable *table;
    CudaModule *const *modules;
    int module_count;
    CudaFunction *const *functions; /* by kernel number of the table */
    const char *text;               /* source of all kernels */
    bool keep;                      /* use the cache */
} CudaProgram;

typedef struct CudaLaunch {
    CudaFunction *function;
    const char *name;
    unsigned grid_x, grid_y, block, shared;
    void **arguments;
    bool overlaps; /* the kernel waits for its predecessor itself: see moec_begin */
} CudaLaunch;

/* Launches a kernel; returns the error number of the driver. */
int cuda_launch(const CudaDevice *device, const CudaLaunch *launch);

/* The variant that MOEC_VARIANT forces, and its name; negative and NULL if there is none. */
int cuda_forced_variant(const char **name);
/* NULL if no kernel has another variant on this device. forced: see cuda_forced_variant. */
CudaVariants *cuda_variants_new(const CudaProgram *program, int forced);
void cuda_variants_free(CudaVariants *variants);
/* Description of a kernel with several variants: see MoecHost.launch_variant. */
typedef struct CudaVariantLaunch {
    int kernel;
    const MoecKernelVariant *variants;
    size_t size_bytes;
    const MoecWritten *written;
    const MoecMatrices *matrices;
} CudaVariantLaunch;

/* Replaces *launch, the first variant, by the fastest variant; valid until the next call. Returns
 * the variant. may_try: measurements may run now, otherwise unknown kernels keep the first
 * variant. */
int cuda_variants_take(CudaVariants *variants, const CudaVariantLaunch *variant, bool may_try,
                       CudaLaunch *launch);
/* Permits the shared-memory size of the launch. */
int cuda_launch_allow(const CudaDevice *device, const CudaLaunch *launch);

/* ---- cuda_trial.c: comparison and timing of the variants of a kernel ---- */

/* Instead of a variant: none is selected; a trial has begun and not ended. */
enum { FIRST = MOEC_VARIANT_FIRST, VARIANTS = MOEC_VARIANT_COUNT, UNDECIDED = -1, TRYING = -2 };

typedef struct CudaTrial CudaTrial;

/* NULL without memory. compare: the kernel moec_compare. */
CudaTrial *cuda_trial_new(CudaDevice *device, CudaFunction *compare);
void cuda_trial_free(CudaTrial *trial);
/* Runs all variants on the current memory of the written elements, which it restores. Returns the
 * fastest variant whose results equal those of the first within rounding, or UNDECIDED. seconds:
 * infinite if missing or refused. */
int cuda_trial_run(CudaTrial *trial, const MoecWritten *written,
                   const CudaLaunch launches[VARIANTS], double seconds[VARIANTS]);

#endif
