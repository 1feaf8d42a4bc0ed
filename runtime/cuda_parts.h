/* cuda_parts: CUDA text cut into parts that can be compiled side by side. */
#ifndef CUDA_PARTS_H
#define CUDA_PARTS_H

/* The text with every `parts`-th kernel, from number `part` on; `part` -1: with none. A kernel that
 * is left out stays as a template that nobody uses, so that all else keeps its place and its line:
 *
 *     extern "C" __global__ void __launch_bounds__(128) k(float *x)
 *     -->  template <int> static __device__ void k(float *x)
 *
 * A new string. */
char *cuda_part(const char *text, int part, int parts);

#endif
