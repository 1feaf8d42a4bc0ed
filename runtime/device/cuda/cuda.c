#include "device/cuda/cuda.h"

#include "base/message.h"
#include "base/memory.h"
#include "base/clock.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    MIN_MAJOR = 8, /* compute capability 8.0: products of bf16, asynchronous copies */
    MAX_PINNED = 16 << 20
};

static CudaDevice *device_of(Device *device) {
    CudaDevice *cuda = (CudaDevice *)(void *)device;
    cuda_enter(cuda);
    return cuda;
}

static void *cuda_allocate(Device *device, size_t bytes) {
    CudaDevice *cuda = device_of(device);
    const CudaDriver *driver = &cuda->library->driver;
    CudaPointer block = 0;
    if (cuda->failed || driver->allocate(&block, bytes ? bytes : 1)) return NULL;
    if (bytes && !cuda_good(cuda, driver->set(block, 0, bytes, cuda->stream), "clear memory"))
        return NULL;
    return (void *)(uintptr_t)block;
}

static void cuda_release(Device *device, void *block, size_t bytes) {
    (void)bytes;
    cuda_free(device_of(device), cuda_pointer(block));
}

static bool put_on_device(Device *device, void *to, const void *from, size_t bytes) {
    CudaDevice *cuda = device_of(device);
    return !bytes ||
           cuda_good(cuda, cuda->library->driver.put(cuda_pointer(to), from, bytes, cuda->stream),
                     "copy to the device");
}

static bool get(Device *device, void *to, const void *from, size_t bytes) {
    CudaDevice *cuda = device_of(device);
    const CudaDriver *driver = &cuda->library->driver;
    return !bytes || (cuda_good(cuda, driver->get(to, cuda_pointer(from), bytes, cuda->stream),
                                "copy from the device") &&
                      cuda_good(cuda, driver->stream_wait(cuda->stream), "wait for the device"));
}

static bool copy_there(Device *device, void *to, const void *from, size_t bytes) {
    CudaDevice *cuda = device_of(device);
    return !bytes || cuda_good(cuda,
                               cuda->library->driver.copy(cuda_pointer(to), cuda_pointer(from),
                                                          bytes, cuda->stream),
                               "copy on the device");
}

static bool cuda_zero(Device *device, void *block, size_t bytes) {
    CudaDevice *cuda = device_of(device);
    return !bytes ||
           cuda_good(cuda, cuda->library->driver.set(cuda_pointer(block), 0, bytes, cuda->stream),
                     "clear memory");
}

/* Larger blocks are copied rarely, and pinning is slower than a copy. */
static bool cuda_pin(Device *device, void *block, size_t bytes) {
    CudaDevice *cuda = device_of(device);
    return bytes && bytes <= MAX_PINNED && !cuda->failed &&
           cuda->library->driver.pin(block, bytes, 0) == 0;
}

static void cuda_unpin(Device *device, void *block) {
    CudaDevice *cuda = device_of(device);
    if (cuda->hung) return;
    cuda->library->driver.stream_wait(cuda->stream);
    cuda->library->driver.unpin(block);
}

static void close_device(Device *device) {
    CudaDevice *cuda = device_of(device);
    const CudaDriver *driver = &cuda->library->driver;
    if (cuda->stream && !cuda->hung) driver->stream_free(cuda->stream);
    if (cuda->context && !cuda->hung) driver->context_release(cuda->number);
    free(cuda);
}

static const DeviceKind kind = {
    .allocate = cuda_allocate,
    .release = cuda_release,
    .put = put_on_device,
    .get = get,
    .copy = copy_there,
    .zero = cuda_zero,
    .pin = cuda_pin,
    .unpin = cuda_unpin,
    .close = close_device,
    .engine_new = cuda_engine_new,
    .engine_free = cuda_engine_free,
    .run = cuda_engine_run,
    .square_sums = cuda_engine_square_sums,
    .most_likely = cuda_engine_most_likely,
    .add_tree = cuda_engine_add_tree,
    .update = cuda_engine_update,
    .round = cuda_engine_round,
    .rate = cuda_engine_rate,
    .time_kernels = cuda_engine_time_kernels,
    .launch = cuda_launch_once,
    .products_open = cuda_products_open,
    .products_pass = cuda_products_pass,
    .products_close = cuda_products_close,
    .read_pass = cuda_read_pass,
};

static bool can_run_kernels(const CudaDevice *device) {
    return device->major >= MIN_MAJOR ||
           error_message("choose a newer GPU, or use device cpu",
                         "%s has compute capability %d.%d; the kernels require %d.0 or newer",
                         device->base.name, device->major, device->minor, MIN_MAJOR);
}

/* A GPU that is newer than NVRTC. */
static void report_architecture(const CudaDevice *device) {
    const int used = cuda_architecture(device->library, device->major, device->minor);
    int version[2] = {0};
    if (used == 10 * device->major + device->minor) return;
    device->library->compiler.version(&version[0], &version[1]);
    note_message("%s has compute capability %d.%d, which NVRTC %d.%d does not know: kernels are "
                 "compiled for %d.%d, and the driver adapts them; a newer NVRTC avoids this",
                 device->base.name, device->major, device->minor, version[0], version[1], used / 10,
                 used % 10);
}

static bool begin_device(CudaDevice *device, int number) {
    const CudaDriver *driver = &device->library->driver;
    int count = 0;
    if (!cuda_good(device, driver->init(0), "start the driver") ||
        !cuda_good(device, driver->device_count(&count), "count the devices"))
        return false;
    if (number >= count)
        return error_message("choose a device from cuda:0 on, or use device cpu",
                             "unknown device 'cuda:%d': the driver reports %d devices", number,
                             count);
    char name[96] = "";
    bool good = cuda_good(device, driver->device_get(&device->number, number), "open the device") &&
                cuda_good(device, driver->device_name(name, sizeof name, device->number),
                          "read the device name");
    snprintf(device->base.name, sizeof device->base.name, "cuda:%d %s", number, name);
    return good &&
           cuda_good(device,
                     driver->device_attribute(&device->major, CUDA_ATTRIBUTE_MAJOR, device->number),
                     "read the compute capability") &&
           cuda_good(device,
                     driver->device_attribute(&device->minor, CUDA_ATTRIBUTE_MINOR, device->number),
                     "read the compute capability") &&
           can_run_kernels(device) &&
           cuda_good(device, driver->context_retain(&device->context, device->number),
                     "retain the context") &&
           cuda_good(device, driver->context_set(device->context), "set the context") &&
           cuda_good(device, driver->stream_new(&device->stream, 1), "create a stream");
}

Device *cuda_open(int number) {
    double began = seconds_now();
    const CudaLibrary *library = cuda_library();
    if (!library) return NULL;
    CudaDevice *device = memory_new(sizeof *device);
    *device =
        (CudaDevice){.base = {.kind = &kind, .apart = true, .name = "cuda"}, .library = library};
    bool good = begin_device(device, number);
    device->seconds = seconds_now() - began;
    if (good) {
        report_architecture(device);
        return &device->base;
    }
    close_device(&device->base);
    return NULL;
}

Device *cuda_open_local(int process, int processes) {
    const CudaLibrary *library = cuda_library();
    int count = 0;
    if (!library) return NULL;
    if (library->driver.init(0) || library->driver.device_count(&count)) count = 0;
    if (process < count || count <= 1) return cuda_open(process < count ? process : 0);
    AUTO_FREE char *help = memory_format("start at most %d processes on this host", count);
    error_message(help, "%d processes on this host need as many GPUs, but the driver reports %d",
                  processes, count);
    return NULL;
}
