/* cuda: a CUDA device behind the functions of device.h. */
#ifndef CUDA_H
#define CUDA_H

#include "device/cuda/cuda_library.h"
#include "device/device.h"

typedef struct CudaDevice {
    Device base;
    const CudaLibrary *library;
    int number, major, minor;
    CudaContext *context;
    CudaStream *stream; /* all work of the process goes through it, in order */
    double seconds;     /* that opening it took, libraries included */
    bool failed; /* after the first error nothing can be done with the device, and nothing more is
                    said */
} CudaDevice;

/* NULL after a message. */
Device *cuda_open(int number);

/* True when `error` is none; else the first message about this device was printed. */
bool cuda_good(CudaDevice *device, int error, const char *doing);

/* Before anything else that a thread wants of the device: another may have opened it. */
void cuda_enter(const CudaDevice *device);

/* Pointers into the device's memory, as the runtime and as the driver write them. */
CudaPointer cuda_pointer(const void *there);

/* ---- cuda_ceiling.c ---- */

/* What this device does at most, measured: 1e9 operations a second in large products, 1e9 bytes a
 * second read and written in going through a block; NaN after a failure. */
void *cuda_products_open(Device *device, bool rounded);
double cuda_products_pass(Device *device, void *products);
void cuda_products_close(Device *device, void *products);
double cuda_read_pass(Device *device, void *block, size_t bytes);

/* ---- cuda_engine.c ---- */

/* The program of a table, its kernels compiled for the device; `keep`: in the cache, too. NULL
 * after a message; to be freed. The others: see Engine. */
Engine *cuda_engine_new(Device *device, const MoecTable *table, const MoecKernels *kernels,
                        bool keep);
void cuda_engine_free(Engine *engine);
bool cuda_engine_run(Engine *engine, const MoecGraphEntry *graph, MoecRun *run);
bool cuda_engine_square_sum(Engine *engine, const float *block, size_t count, double *sum);
bool cuda_engine_round(Engine *engine, const float *weights, void *rounded);
bool cuda_engine_time_kernels(Engine *engine, KernelTimes *times);
bool cuda_engine_update(Engine *engine, const BlockUpdate *update);

#endif
