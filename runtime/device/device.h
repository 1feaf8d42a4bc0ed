/* device: where a program's memory lies and its work is done: the CPU, or a CUDA device. What
 * differs between them is the table of functions below; everything else of the runtime goes through
 * it.
 *
 * Pointers into a device's memory are ordinary pointers that only the device may follow. On the CPU
 * they are the host's own: put and get then have nothing to copy when both sides are the same
 * place.
 */
#ifndef DEVICE_H
#define DEVICE_H

#include "device/kernel_times.h"
#include "device/products.h"
#include "moec.h"

#include <stdatomic.h>
#include <stdbool.h>

typedef struct Device Device;

/* A loaded table ready to run on a device: its kernels and its products. A kind of device may have
 * more behind it. */
typedef struct Engine {
    Device *device;
    const MoecTable *table;
    MoecHost host;      /* what it lends to the program */
    Products *products; /* the CPU's */
    KernelTimes *times; /* the same: receives what units of work take, or NULL */
    double since;       /* when the last of them ended */
    double seconds;     /* that loading took */
    bool cached;        /* nothing had to be compiled */
    bool slow;          /* the CPU's: it rounds to bf16, which saves no time here */
    char startup[256];  /* what starting took, by phase; empty where there is nothing to tell */
} Engine;

/* One optimizer step over whole blocks; all pointers but `parameters` are the device's. */
typedef struct BlockUpdate {
    float *weights;
    const float *gradients;
    float *const *moments; /* the optimizer's states, a host array */
    void *rounded;         /* receives the new weights as bf16, where that is not NULL */
    const float *
        scalars; /* host: by MoecUpdate.scalars; what parameters have for themselves is not in it */
} BlockUpdate;

typedef struct DeviceKind {
    void *(*allocate)(Device *device,
                      size_t bytes); /* zeroed, 64-byte aligned; NULL when refused */
    void (*release)(Device *device, void *block, size_t bytes);
    bool (*put)(Device *device, void *to, const void *from, size_t bytes); /* host to device */
    bool (*get)(Device *device, void *to, const void *from,
                size_t bytes); /* device to host, after all work before */
    bool (*zero)(Device *device, void *block, size_t bytes);
    void (*close)(Device *device);

    /* kernels: read where programs have kernels apart. keep: use the cache. NULL after a message.
     */
    Engine *(*engine_new)(Device *device, const MoecTable *table, const MoecKernels *kernels,
                          bool keep);
    void (*engine_free)(Engine *engine);
    bool (*run)(Engine *engine, const MoecGraphEntry *graph, MoecRun *run); /* fills in run->host */
    bool (*square_sum)(Engine *engine, const float *block, size_t count, double *sum);
    bool (*update)(Engine *engine, const BlockUpdate *update);
    bool (*round)(Engine *engine, const float *weights, void *rounded); /* see MoecTable.round */

    /* From now on what every kernel takes goes to a row of `times`. On a device it is run several
     * times: what is computed is then of no use. On the CPU rows are units of work, of programs
     * that were compiled with moec_mark_units. NULL ends it. False after a message. */
    bool (*time_kernels)(Engine *engine, KernelTimes *times);

    /* What it can do, measured: GFLOP/s of doing a large product for some moments, its operands
     * rounded to bf16 or not, products NULL where there is none; GB/s of going once through a
     * zeroed block of its memory, which stays as it is. NaN where that cannot be measured. */
    void *(*products_open)(Device *device, bool rounded);
    double (*products_pass)(Device *device, void *products);
    void (*products_close)(Device *device, void *products);
    double (*read_pass)(Device *device, void *block, size_t bytes);
} DeviceKind;

/* Memory to be read in passes: a zeroed block beyond every cache, smaller where measurements are
 * brief. `block` is NULL without memory. */
typedef struct DeviceReading {
    Device *device;
    void *block;
    size_t bytes;
} DeviceReading;

DeviceReading device_reading_open(Device *device);
double device_reading_pass(const DeviceReading *reading); /* GB/s of one; 0 without memory */
void device_reading_close(DeviceReading *reading);

/* A product that is done in passes. */
typedef struct DeviceMultiplying {
    Device *device;
    void *products;
} DeviceMultiplying;

DeviceMultiplying device_multiplying_open(Device *device, bool rounded);
double device_multiplying_pass(const DeviceMultiplying *multiplying); /* GFLOP/s, or NaN */
void device_multiplying_close(DeviceMultiplying *multiplying);

/* GB/s, GFLOP/s of the best of some passes. */
double device_ceiling_read(Device *device);
double device_ceiling_products(Device *device, bool rounded);

/* What each group of parameters is given, from what a run gives: group_count rows of scalar_count.
 * To be freed. */
float *update_numbers(const MoecUpdate *update, const float *scalars);

struct Device {
    const DeviceKind *kind;
    bool apart;        /* its memory is not the host's, and programs for it come with kernels */
    bool brief;        /* measurements on small sizes, not repeated: for trying out what measures */
    atomic_bool noted; /* what it is slow at has been said */
    char name[128];
};

/* "cpu", "cuda" or "cuda:N". NULL after a message that names what is missing. */
Device *device_open(const char *name);
/* The device that is always there; closing it is allowed and does nothing. */
Device *device_cpu(void);
void device_close(Device *device);

#endif
