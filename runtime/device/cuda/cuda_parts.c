#include "device/cuda/cuda_parts.h"

#include "base/memory.h"

#include <string.h>

static bool is_shared(const MoecPiece *piece) {
    return piece->kernel == MOEC_EVERY_KERNEL;
}

int cuda_kernels(const MoecKernels *kernels, const bool *wanted) {
    int count = 0;
    for (int i = 0; i < kernels->count; i++) count += !is_shared(&kernels->pieces[i]) && wanted[i];
    return count;
}

char *cuda_part(const MoecKernels *kernels, const bool *wanted, int part, int parts) {
    char *text = memory_new(strlen(kernels->text) + 1), *to = text;
    size_t begin = 0;
    for (int i = 0, number = 0; i < kernels->count; i++) {
        const MoecPiece *piece = &kernels->pieces[i];
        if (is_shared(piece) || (wanted[i] && number++ % parts == part)) {
            memcpy(to, kernels->text + begin, piece->end - begin);
            to += piece->end - begin;
        }
        begin = piece->end;
    }
    return text;
}
