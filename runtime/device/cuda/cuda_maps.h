/* cuda_maps: tensor maps, by which kernels of capability 9.0 ask for boxes of what they multiply.
 */
#ifndef CUDA_MAPS_H
#define CUDA_MAPS_H

#include "abi/abi.h"
#include "device/cuda/cuda_library.h"

/* A map of an operand, with boxes of MOEC_BOX elements of MOEC_BOX lines. False when the driver
 * makes none. */
bool cuda_map(const CudaDriver *driver, const MoecMatrices *operand, CudaMap *map);

#endif
