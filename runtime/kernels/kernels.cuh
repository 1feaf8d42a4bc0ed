/* kernels: what generated CUDA includes. Real files that can be read, compiled and run alone: by
 * NVRTC, by nvcc, and as C++ by the simulator.
 *
 * prelude.cuh    threads, barriers, sums of a block, the scalar functions of compiler/ir/op.def,
 *                random numbers
 * product.cuh    products in tiles: dense ones, for where the host has no library, and those over
 *                packed rows
 *                product_stored.cuh: those of operands that lie in memory as bf16
 *                product_row.cuh: those of a single row
 *                product_wgmma.cuh, wgmma.cuh, bulk.cuh: the same on capability 9.0, whose tensor
 *                cores read shared memory, to which boxes of tensors are copied
 * attention.cuh  attend forward, backward and one step, written for the sizes of each attention;
 *                attention_rounded.cuh, attention_grad.cuh, attention_step.cuh: the same with
 *                tensor cores
 *                attention_wgmma.cuh, attention_grad_wgmma.cuh: the same on capability 9.0
 * routing.cuh    choosing, sums of packed rows
 *
 * Here are functions alone; fixed.cuh has the kernels that are the same in every program.
 *
 * Nothing here adds up in an order that depends on chance: two runs give the same bits. */
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
