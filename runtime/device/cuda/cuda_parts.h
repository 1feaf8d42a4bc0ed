/* cuda_parts: the kernels of a program in parts that can be compiled side by side. */
#ifndef CUDA_PARTS_H
#define CUDA_PARTS_H

#include "moec.h"

/* How many of the wanted pieces hold a kernel, each of its variants one. wanted: by piece. */
int cuda_kernels(const MoecKernels *kernels, const bool *wanted);

/* What all kernels need and, of those that are wanted, every `parts`-th one from number `part` on.
 * A new string. */
char *cuda_part(const MoecKernels *kernels, const bool *wanted, int part, int parts);

#endif
