/* cuda_maps: tensor maps, which describe operands for the asynchronous box copies of compute
 * capability 9.0. */
#ifndef CUDA_MAPS_H
#define CUDA_MAPS_H

#include "abi/abi.h"
#include "device/cuda/cuda_library.h"

/* Creates a map of an operand with boxes of MOEC_BOX x MOEC_BOX elements. False if the driver
 * refuses. */
bool cuda_map(const CudaDriver *driver, const MoecMatrices *operand, CudaMap *map);

#endif
