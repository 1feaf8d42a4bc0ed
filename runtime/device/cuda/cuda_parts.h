/* cuda_parts: CUDA text cut into parts that can be compiled side by side. */
#ifndef CUDA_PARTS_H
#define CUDA_PARTS_H

#include <stdbool.h>

/* How many kernels a text has. */
int cuda_kernels(const char *text);

/* The text with those of its kernels that are wanted. One that is left out stays as a template that
 * nobody uses, so that all else keeps its place and its line:
 *
 *     extern "C" __global__ void __launch_bounds__(128) k(float *x)    and so for __grid_constant__
 *     -->  template <int> static __device__ void k(float *x)
 *
 * A new string. */
char *cuda_only(const char *text, const bool *wanted);

/* The same with those of these names, or with the others; NULL among the names names none. */
char *cuda_named(const char *text, const char *const *names, int count, bool named);

/* The same with every `parts`-th kernel, from number `part` on; `part` -1: with none. */
char *cuda_part(const char *text, int part, int parts);

#endif
