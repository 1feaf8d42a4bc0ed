/* kernels: includes all device functions of generated CUDA. They can be read, compiled and run
 * separately: by NVRTC, by nvcc, and as C++ by the simulator.
 *
 *     prelude.cuh    threads, barriers, sums over a thread block, the scalar functions of
 *                    compiler/ir/op.def, random numbers
 *     product.cuh    tiled products: dense ones, for hosts without a library, and those over
 *                    packed rows
 *                    product_stored.cuh: products of operands that are stored as bf16
 *                    product_row.cuh: products of a single row
 *                    product_wgmma.cuh, wgmma.cuh: the same on capability 9.0, where
 *                    tensor cores read shared memory and boxes of tensors are copied
 *     attention.cuh  attend forward, backward and for one step, specialized for the sizes of each
 *                    attention;
 *                    attention_rounded.cuh, attention_grad.cuh, attention_step.cuh: the same with
 *                    tensor cores
 *                    attention_wgmma.cuh, attention_grad_wgmma.cuh: the same on capability 9.0
 *     routing.cuh    top-k selection, sums of packed rows
 *
 * These files contain functions only; fixed.cuh has the kernels that are the same in every program.
 *
 * All sums have a fixed order: two runs produce identical bits. */
#ifndef MOEC_KERNELS_CUH
#define MOEC_KERNELS_CUH

#include "prelude.cuh"
#include "shapes.h"

#include "product.cuh"
#include "product_stored.cuh"
#include "product_row.cuh"
#include "product_wgmma.cuh"
#include "attention.cuh"
#include "attention_rounded.cuh"
#include "attention_grad.cuh"
#include "attention_step.cuh"
#include "attention_wgmma.cuh"
#include "attention_grad_wgmma.cuh"
#include "routing.cuh"

#endif
