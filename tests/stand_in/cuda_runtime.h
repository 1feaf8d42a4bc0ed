/* cuda_runtime: the part of CUDA's runtime that blocks_cuda.cu uses, on the simulated driver. Replaces the header with that
 * name; see cuda_runtime.cpp. */
#ifndef CUDA_RUNTIME_H
#define CUDA_RUNTIME_H

#include "cuda_sim.h"

#include <stdlib.h>

typedef int cudaError_t;
enum { cudaSuccess, cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost };

const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaMalloc(void **block, size_t bytes);
cudaError_t cudaFree(void *block);
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemsetAsync(void *block, int value, size_t bytes, void *stream);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaFuncSetAttribute(const void *function, int attribute, int value);
/* function: a kernel of the calling program, or a string with the name of a kernel of kernels.cu. */
cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                             size_t shared, void *stream);

#endif
