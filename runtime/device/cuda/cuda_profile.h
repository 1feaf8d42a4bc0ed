/* cuda_profile: time of single kernels, measured by events around several launches. */
#ifndef CUDA_PROFILE_H
#define CUDA_PROFILE_H

#include "device/cuda/cuda.h"

typedef struct CudaProfile {
    CudaDevice *device;
    CudaEvent *first, *last;
    KernelTimes *times;
} CudaProfile;

/* NULL after a message. */
CudaProfile *cuda_profile_new(CudaDevice *device, KernelTimes *times);
void cuda_profile_free(CudaProfile *profile);

/* Work for the device; returns 0 on success. */
typedef int (*CudaWork)(void *data);

/* Runs the work several times and adds the median time to the row `name`; returns the result of
 * `work`. */
int cuda_profile_work(CudaProfile *profile, const char *name, double flops, CudaWork work,
                      void *data);

#endif
