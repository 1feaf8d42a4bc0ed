/* cuda_variants: kernels that a program has in several variants, others for the warpgroups of
 * capability 9.0, each with a grid of its own. The first time a kernel is launched with a shape all
 * run on what it is given: another variant is taken when its results are those of the first within
 * rounding and it is faster. What was found is kept in the cache, one file for each program and
 * device. */
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
    CudaFunction *const *functions; /* by the table's kernel numbers */
    const char *text;               /* of all kernels */
    bool keep;                      /* use the cache */
} CudaProgram;

typedef struct CudaLaunch {
    CudaFunction *function;
    const char *name;
    unsigned grid_x, grid_y, block, shared;
    void **arguments;
    bool overlaps; /* it waits for the kernel ahead of it: see moec_begin */
} CudaLaunch;

/* What is launched. */
int cuda_launch(const CudaDevice *device, const CudaLaunch *launch);

/* NULL when no kernel has another variant here. */
CudaVariants *cuda_variants_new(const CudaProgram *program);
void cuda_variants_free(CudaVariants *variants);
/* What a program says of a kernel that may have several variants: see MoecHost.launch_variant. */
typedef struct CudaVariantLaunch {
    int kernel;
    const MoecKernelVariant *variants;
    size_t size_bytes;
    const MoecWritten *written;
    const MoecMatrices *matrices;
} CudaVariantLaunch;

/* Makes *launch, of the first variant, one of the fastest variant, to be launched before the next
 * call. may_try: all may run now, else the first variant is taken when nothing is known. */
void cuda_variants_take(CudaVariants *variants, const CudaVariantLaunch *variant, bool may_try,
                        CudaLaunch *launch);
/* Lets a kernel have the shared memory that it is launched with. */
int cuda_launch_allow(const CudaDevice *device, const CudaLaunch *launch);

#endif
