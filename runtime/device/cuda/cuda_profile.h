/* cuda_profile: what single kernels of a device take, by events around several launches of each. */
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

/* Something that the device is given to do; 0 when that went well. */
typedef int (*CudaWork)(void *data);

/* Does it several times and adds the median to the row of that name; gives what `work` gave. */
int cuda_profile_work(CudaProfile *profile, const char *name, double flops, CudaWork work,
                      void *data);

#endif
