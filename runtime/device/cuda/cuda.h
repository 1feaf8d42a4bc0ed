/* cuda: the CUDA device, an implementation of device.h. */
#ifndef CUDA_H
#define CUDA_H

#include "device/cuda/cuda_library.h"
#include "device/device.h"

typedef struct CudaDevice {
    Device base;
    const CudaLibrary *library;
    int number, major, minor;
    CudaContext *context;
    CudaStream *stream; /* the stream of all work of the process, in order */
    double seconds;     /* time to open the device, libraries included */
    bool failed; /* an error occurred: the device is unusable and later errors are not reported */
} CudaDevice;

/* NULL after a message. */
Device *cuda_open(int number);

/* ---- cuda_context.c ---- */

/* True if `error` is 0. Otherwise prints the first error of this device: "NAME: cannot DOING:
 * REASON". */
bool cuda_good(CudaDevice *device, int error, const char *doing);

/* Must precede all other calls of a thread, since another thread may have opened the device. */
void cuda_enter(const CudaDevice *device);

/* Converts a device pointer of the runtime to the type of the driver. */
CudaPointer cuda_pointer(const void *there);

/* ---- cuda_ceiling.c ---- */

/* Measured peak of the device: GFLOP/s of large products; GB/s read and written in one pass over a
 * block. NaN after a failure. */
void *cuda_products_open(Device *device, bool rounded);
double cuda_products_pass(Device *device, void *products);
void cuda_products_close(Device *device, void *products);
double cuda_read_pass(Device *device, void *block, size_t bytes);

/* ---- cuda_engine.c ---- */

/* Compiles the kernels of a table for the device; keep: use the cache. NULL after a message; the
 * caller frees it. The other functions: see Engine. */
Engine *cuda_engine_new(Device *device, const MoecTable *table, const MoecKernels *kernels,
                        bool keep);
void cuda_engine_free(Engine *engine);
bool cuda_engine_run(Engine *engine, const MoecGraphEntry *graph, MoecRun *run);
bool cuda_engine_square_sum(Engine *engine, const float *block, size_t count, double *sum);
bool cuda_engine_round(Engine *engine, const float *weights, void *rounded);
bool cuda_engine_time_kernels(Engine *engine, KernelTimes *times);
bool cuda_engine_update(Engine *engine, const BlockUpdate *update);

#endif
