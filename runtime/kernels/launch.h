/* launch: what the C text of a program for a device includes. It computes nothing itself. */
#ifndef MOEC_LAUNCH_H
#define MOEC_LAUNCH_H

#include "prelude.h"
#include "shapes.h"

#include <math.h>

#define MOEC_OMP(...)

/* Only the device looks inside. */
typedef struct MoecBf16 {
    uint16_t bits;
} MoecBf16;

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
    run->host->launch(run->host->self, kernel, grid, 1, block, shared, (void **)(uintptr_t)arguments);
}

/* One dense product: the host's, or else our own kernel. Numbers from `kernel` on: exact; rounds f32 on its way; multiplies
 * bf16 to f32; to bf16. */
MOEC_FUNCTION void moec_product_or(const MoecRun *run, int kernel, int index,
                                   const MoecProduct *product, const void *a, const void *b,
                                   void *c) {
    const MoecHost *host = run->host;
    if (host->product != NULL && host->product(host->self, index, a, b, c) == 0) return;
    const long size = product->rounded ? 128 : 64; /* of a tile */
    const long tiles = (product->m + size - 1) / size * ((product->n + size - 1) / size) *
                       product->batch[0] * product->batch[1];
    const int rounds = product->rounded ? 1 : 0, stored = product->a_type == MOEC_BF16 ? 1 : 0;
    moec_launch(run, kernel + rounds + stored + (product->c_type == MOEC_BF16 ? 1 : 0), (unsigned)(tiles < 1 << 20 ? tiles : 1 << 20), 256,
                MOEC_ARGUMENTS(product, &a, &b, &c));
}

#endif
