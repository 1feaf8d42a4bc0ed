/* cuda_context: errors, the current context and pointers of a CUDA device. */
#include "device/cuda/cuda.h"

#include "base/message.h"

#include <stdint.h>

bool cuda_good(CudaDevice *device, int error, const char *doing) {
    if (!error) return !device->failed;
    const char *text = NULL;
    device->library->driver.error_text(error, &text);
    if (!device->failed)
        error_message(NULL, "%s: cannot %s: %s", device->base.name, doing,
                      text ? text : "unknown error");
    device->failed = true;
    return false;
}

CudaPointer cuda_pointer(const void *there) {
    return (CudaPointer)(uintptr_t)there;
}

/* Makes the context current in this thread; the CUDA context is a per-thread setting. */
void cuda_enter(const CudaDevice *device) {
    if (device->context) device->library->driver.context_set(device->context);
}
