#include "device/cuda/cuda_maps.h"

#include "device/cuda/cuda.h"
#include "abi/shapes.h"

bool cuda_map(const CudaDriver *driver, const MoecMatrices *operand, CudaMap *map) {
    enum { RANK = 3, ELEMENT = 2 };
    const long matrix = operand->matrices > 1 ? operand->matrix : operand->lines * operand->line;
    const unsigned long long sizes[RANK] = {(unsigned long long)operand->length,
                                            (unsigned long long)operand->lines,
                                            (unsigned long long)operand->matrices},
                             strides[RANK - 1] = {(unsigned long long)operand->line * ELEMENT,
                                                  (unsigned long long)matrix * ELEMENT};
    const unsigned box[RANK] = {MOEC_BOX, MOEC_BOX, 1}, steps[RANK] = {1, 1, 1};
    return driver->map_new &&
           driver->map_new(map, CUDA_MAP_BF16, RANK, cuda_pointer(operand->at), sizes, strides, box,
                           steps, 0, CUDA_MAP_SWIZZLE_128, CUDA_MAP_PROMOTE_256, 0) == 0;
}
