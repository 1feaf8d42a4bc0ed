#include "device/cuda/cuda.h"

#include <stdlib.h>

bool cuda_launch_once(Device *device, const DeviceKernel *kernel) {
    CudaDevice *cuda = (CudaDevice *)(void *)device;
    const CudaDriver *driver = &cuda->library->driver;
    const CudaText text = {.name = kernel->title,
                           .text = kernel->text,
                           .major = cuda->major,
                           .minor = cuda->minor,
                           .keep = true,
                           .help = kernel->help};
    CudaImage image;
    CudaModule *module = NULL;
    CudaFunction *function = NULL;
    cuda_enter(cuda);
    if (!cuda_compile(cuda->library, &text, &image)) return false;
    const bool good =
        cuda_good(cuda, driver->module_load(&module, image.bytes), "load the kernel") &&
        cuda_good(cuda, driver->function_get(&function, module, kernel->name), kernel->name) &&
        cuda_good(cuda,
                  driver->launch(function, (unsigned)kernel->blocks, 1, 1,
                                 (unsigned)kernel->threads, 1, 1, (unsigned)kernel->shared,
                                 cuda->stream, kernel->arguments, NULL),
                  "launch the kernel") &&
        cuda_good(cuda, driver->stream_wait(cuda->stream), "run the kernel");
    if (module && !cuda->failed) driver->module_free(module);
    free(image.bytes);
    return good;
}
