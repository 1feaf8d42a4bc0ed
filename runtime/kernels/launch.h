/* launch: declarations for the host C code of a device program. It contains no computation. */
#ifndef MOEC_LAUNCH_H
#define MOEC_LAUNCH_H

#include "prelude.h"
#include "shapes.h"

#include <math.h>

#define MOEC_OMP(...)

/* Arguments of a kernel are pointers to values; these make them of values that have no name. */
#define MOEC_ARGUMENTS(...) ((const void *const[]){__VA_ARGS__})
#define MOEC_POINTER(pointer) (&(const void *const){pointer})
#define MOEC_NUMBER(number) (&(const long){number})

MOEC_FUNCTION void moec_launch_on(const MoecHost *host, int kernel, unsigned grid, unsigned block,
                                  const void *const *arguments) {
    host->launch(host->self, kernel, grid, 1, block, 0, (void **)(uintptr_t)arguments);
}

MOEC_FUNCTION void moec_launch(const MoecRun *run, int kernel, unsigned grid, unsigned block,
                               const void *const *arguments) {
    moec_launch_on(run->host, kernel, grid, block, arguments);
}

/* With that many bytes of shared memory. */
MOEC_FUNCTION void moec_launch_with(const MoecRun *run, int kernel, unsigned grid, unsigned block,
                                    unsigned shared, const void *const *arguments) {
    run->host->launch(run->host->self, kernel, grid, 1, block, shared,
                      (void **)(uintptr_t)arguments);
}

/* Size of the fields of MoecGroupedOnDevice, without padding at the end. */
enum { MOEC_GROUPED_BYTES = offsetof(MoecGroupedOnDevice, accumulate) + sizeof(int) };

/* One of the variants of a kernel. */
#define MOEC_VARIANTS(...) ((const MoecKernelVariant[MOEC_VARIANT_COUNT]){__VA_ARGS__})
#define MOEC_WRITTEN(...) ((const MoecWritten[]){__VA_ARGS__, {NULL, 0, MOEC_F32, 0}})
#define MOEC_MATRICES(...) ((const MoecMatrices[]){__VA_ARGS__, {NULL, 0, 0, 0, 0, 0}})
MOEC_FUNCTION void moec_launch_variant(const MoecRun *run, int kernel,
                                       const MoecKernelVariant *variants, size_t size_bytes,
                                       const MoecWritten *written, const MoecMatrices *matrices,
                                       const void *const *arguments) {
    const MoecHost *host = run->host;
    if (host->launch_variant != NULL)
        host->launch_variant(host->self, kernel, variants, size_bytes, written, matrices,
                             (void **)(uintptr_t)arguments);
    else
        host->launch(host->self, kernel, variants->grid, 1, variants->block, variants->shared_bytes,
                     (void **)(uintptr_t)arguments);
}

/* One dense product: the host's, or else our own kernel with a block for each of its tiles. */
MOEC_FUNCTION void moec_product(const MoecRun *run, int index, const MoecProduct *product,
                                const void *a, const void *b, void *c, const MoecEpilogue *epilogue,
                                int kernel, unsigned tiles) {
    const MoecHost *host = run->host;
    const MoecEpilogue none = {NULL, NULL, NULL};
    if (host->product != NULL && host->product(host->self, index, a, b, c, epilogue) == 0) return;
    moec_launch(run, kernel, tiles, 256,
                MOEC_ARGUMENTS(product, epilogue != NULL ? epilogue : &none, &a, &b, &c));
}

#endif
