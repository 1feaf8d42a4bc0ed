/* cuda_context: errors, the current context and pointers of a CUDA device. */
#include "device/cuda/cuda.h"

#include "base/message.h"
#include "abi/json_make.h"
#include "abi/shapes.h"

#include <stdint.h>

const char *cuda_error(const CudaDevice *device, int error) {
    const char *text = NULL;
    device->library->driver.error_text(error, &text);
    return text ? text : "unknown error";
}

bool cuda_good(CudaDevice *device, int error, const char *doing) {
    if (!error) return !device->failed;
    if (!device->failed)
        error_message("run nvidia-smi to check the driver and the GPU", "%s: cannot %s: %s",
                      device->base.name, doing, cuda_error(device, error));
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

void cuda_free(const CudaDevice *device, CudaPointer block) {
    if (!block || device->hung) return;
    device->library->driver.stream_wait(device->stream);
    device->library->driver.release(block);
}

/* ---- cuda_maps ---- */

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

const char *cuda_recorded_choice(CudaDevice *device, const char *name) {
    Device *base = &device->base;
    const char *choice = json_field_text(base->choices, name);
    if (!choice && base->is_resumed) {
        base->is_resumed = false;
        note_message("%s: the kernels of the checkpoint were selected for another device, driver, "
                     "library or program; new ones are selected, and the results can differ in the "
                     "last digits",
                     base->name);
    }
    return choice;
}

void cuda_record_choice(CudaDevice *device, const char *name, const char *choice) {
    json_t *choices = device->base.choices;
    if (choices) json_object_set_new(choices, name, json_text(choice));
}
