/* cuda_parts: splits the kernels of a program into parts for parallel compilation. */
#ifndef CUDA_PARTS_H
#define CUDA_PARTS_H

#include "moec.h"

/* Number of wanted pieces with a kernel, where each variant counts. wanted: by piece. */
int cuda_kernels(const MoecKernels *kernels, const bool *wanted);

/* Source of one part: the code shared by all kernels, and every `parts`-th wanted piece from number
 * `part` on. A new string. */
char *cuda_part(const MoecKernels *kernels, const bool *wanted, int part, int parts);

#endif
