/* matmul: c = a * b in f32 for any shape, packed, register-blocked and threaded.
 *
 * The order of additions over k depends on the shape only, so results do not depend on the number of threads. Every function
 * may be called from inside a parallel region; it then runs in the calling thread alone.
 */
#ifndef MOEC_MATMUL_H
#define MOEC_MATMUL_H

#include "abi.h"
#include "prelude.h"

/* The product as `product` says, by our own kernels. */
MOEC_FUNCTION void moec_multiply(const MoecProduct *product, const float *a, const float *b, float *c);

/* Product `index` of the table: lent to the host when it has one for it, else ours. */
MOEC_FUNCTION void moec_product(const MoecRun *run, int index, const MoecProduct *product, const float *a,
                                const float *b, float *c);

#endif
