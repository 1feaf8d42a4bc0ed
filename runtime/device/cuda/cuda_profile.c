#include "device/cuda/cuda.h"

#include "base/clock.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* Launches between two events, which hides the cost of an event; number of repetitions. */
enum { LAUNCHES = 8, TRIES = 5 };

CudaProfile *cuda_profile_new(CudaDevice *device, KernelTimes *times) {
    const CudaDriver *driver = &device->library->driver;
    CudaProfile *profile = memory_new(sizeof *profile);
    *profile = (CudaProfile){.device = device, .times = times};
    if (cuda_good(device, driver->event_new(&profile->first, 0), "create an event") &&
        cuda_good(device, driver->event_new(&profile->last, 0), "create an event"))
        return profile;
    cuda_profile_free(profile);
    return NULL;
}

void cuda_profile_free(CudaProfile *profile) {
    if (!profile) return;
    const CudaDriver *driver = &profile->device->library->driver;
    if (profile->first) driver->event_free(profile->first);
    if (profile->last) driver->event_free(profile->last);
    free(profile);
}

/* Seconds per launch over `launches` launches between two events; negative after an error with a
 * message. */
static double time_kernel_once(const CudaProfile *profile, const char *name, CudaWork work,
                               void *data, int launches) {
    CudaDevice *device = profile->device;
    const CudaDriver *driver = &device->library->driver;
    float milliseconds = 0;
    int error = driver->event_record(profile->first, device->stream);
    for (int i = 0; i < launches && !error; i++) error = work(data);
    if (!error) error = driver->event_record(profile->last, device->stream);
    if (!error) error = driver->stream_wait(device->stream);
    if (!error) error = driver->event_time(&milliseconds, profile->first, profile->last);
    AUTO_FREE char *what = memory_format("time %s", name);
    bool good = cuda_good(device, error, what);
    return good ? 1e-3 * (double)milliseconds / launches : -1;
}

/* Another launch of such a kernel would compute something else. */
static bool is_in_place(const char *name) {
    static const char ending[] = "_in_place";
    size_t length = strlen(name), most = sizeof ending - 1;
    return length >= most && strcmp(name + length - most, ending) == 0;
}

int cuda_profile_work(CudaProfile *profile, const char *name, double flops, CudaWork work,
                      void *data) {
    bool brief = profile->device->base.brief || is_in_place(name);
    int tries = brief ? 1 : TRIES, launches = brief ? 1 : LAUNCHES;
    double seconds[TRIES];
    int result = brief ? 0 : work(data);
    for (int i = 0; i < tries && !result; i++) {
        seconds[i] = time_kernel_once(profile, name, work, data, launches);
        if (seconds[i] < 0) return 1;
    }
    if (result) return result;
    kernel_times_add(profile->times, name, -1, median(seconds, (size_t)tries), flops);
    return 0;
}
