/* kernels: includes all device functions of generated CUDA. They can be read, compiled and run
 * separately: by NVRTC, by nvcc, and as C++ by the simulator.
 *
 * These files contain functions only; fixed.cuh has the kernels that are the same in every program.
 *
 * All sums have a fixed order: two runs produce identical bits. */
#ifndef MOEC_KERNELS_CUH
#define MOEC_KERNELS_CUH

#include "prelude.cuh" /* threads, barriers, sums over a thread block, the scalar functions of
                          compiler/ir/op.def, random numbers */
#include "shapes.h"

#include "product.cuh"        /* tiled products: dense ones, for hosts without a library, and those
                                 over packed rows */
#include "product_stored.cuh" /* products of operands that are stored as bf16 */
#include "product_units.cuh"  /* products of units in 8 bits and their scales */
#include "product_row.cuh"    /* products of a single row */
#include "product_wgmma.cuh"  /* products on capability 9.0, by wgmma.cuh */
#include "attention.cuh"      /* attend forward, backward and for one step in f32, specialized for
                                 the sizes of each attention */
#include "attention_bias.cuh" /* the gradient of a bias */
#include "attention_rounded.cuh"    /* attention by tensor cores: forward */
#include "attention_grad.cuh"       /* backward */
#include "attention_step.cuh"       /* over a cache */
#include "attention_wgmma.cuh"      /* attention on capability 9.0: forward */
#include "attention_grad_wgmma.cuh" /* backward */
#include "routing.cuh"              /* top-k selection, sums of packed rows */

#endif
