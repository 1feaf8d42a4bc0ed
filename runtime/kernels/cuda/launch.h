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

/* One dense product: the host's, or else our own kernel with a block for each of its tiles. */
MOEC_FUNCTION void moec_product(const MoecRun *run, int index, const MoecProduct *product,
                                const void *a, const void *b, void *c, const MoecEpilogue *epilogue,
                                int kernel, unsigned tiles) {
    const MoecHost *host = run->host;
    const MoecEpilogue none = {NULL, NULL, NULL, NULL, NULL};
    if (host->product != NULL && host->product(host->self, index, a, b, c, epilogue) == 0) return;
    moec_launch(run, kernel, tiles, 256,
                MOEC_ARGUMENTS(product, epilogue != NULL ? epilogue : &none, &a, &b, &c));
}

#endif
