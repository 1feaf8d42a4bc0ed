/* device: memory and execution of programs, on the CPU or on a CUDA device. */
#ifndef DEVICE_H
#define DEVICE_H

#include "abi/abi.h"
#include "base/memory.h"
#include "moec.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* kernel_times: time per device kernel, or per CPU unit of work, in a run. */

/* Sum over all launches; flops: 0 if unknown. */
typedef struct KernelTime {
    char *name; /* NULL: see `unit` */
    int unit;   /* number of the unit, see MoecHost.mark; negative: none */
    long launches;
    double seconds, flops;
} KernelTime;

/* One launch, in seconds from the start. */
typedef struct KernelEvent {
    int row;
    double start, seconds, threads; /* threads: of a GPU; 0: unknown */
} KernelEvent;

typedef struct KernelTimes {
    KernelTime *rows;
    int count;
    bool traces;  /* keep every launch */
    double began; /* by kernel_times_clock; 0: launches follow each other without gaps */
    KernelEvent *events;
    int event_count;
} KernelTimes;

/* Clock for CPU units of work. With a single thread it counts processor time of that thread,
 * unaffected by other processes. */
double kernel_times_clock(void);
/* Adds one launch to the row of this name or unit. */
void kernel_times_add(KernelTimes *times, const char *name, int unit, double seconds, double flops);
/* The threads of the launch that was added last. */
void kernel_times_threads(KernelTimes *times, double threads);
double kernel_times_sum(const KernelTimes *times);
void kernel_times_free(KernelTimes *times);

/* products: matrix products of generated programs by oneDNN. */

/* The products of one table. Primitives are created at first use and kept. */
typedef struct Products Products;

/* NULL without oneDNN or memory: the program's own kernels then compute the products. */
Products *products_new(const MoecTable *table);
/* Creates the primitives of all products now instead of at first use. Returns the bytes that oneDNN
 * will allocate to run them. */
size_t products_prepare(Products *products);
void products_free(Products *products);

/* MoecHost.product with self == Products: 0 = computed, 1 = the program's own kernel is faster. */
int products_run(void *self, int index, const void *a, const void *b, void *c,
                 const MoecEpilogue *epilogue);

/* True if this processor multiplies bf16 faster than f32, by oneDNN or, without it, by the own
 * kernels. */
bool products_of_bf16(void);

/* c[m][n] = a[m][k] b[k][n], all matrices contiguous. */
MoecProduct plain_product(long m, long n, long k);

/* own_product: the GEMM kernel of generated programs, precompiled for several instruction sets. It
 * measures the peak if oneDNN is missing, and multiplies rows of several sequences
 * (model/generate/together.c). */

typedef struct OwnProduct {
    size_t scratch; /* bytes per thread for operand packing */
    void (*multiply)(const MoecProduct *product, const void *a, const void *b, void *c,
                     void *scratch);
    /* The same for a product of several rows, each of which has the result of a product of one row.
     * Only for at most so many rows; 1: rows cannot share a product. */
    void (*multiply_rows)(const MoecProduct *product, const void *a, const void *b, void *c,
                          void *scratch);
    long (*most_rows)(const MoecProduct *product); /* of a product with m = 1 */
} OwnProduct;

/* The variant for this processor. */
const OwnProduct *own_product(void);

/* ceiling: measured peak of the CPU, the reference of all reported speeds. */

/* Products in f32 or bf16 with all threads, by oneDNN or by the own kernel if oneDNN cannot. The
 * fastest of the sizes 1024, 1536 and 2048; brief: 1024 only. NULL without memory. */
typedef struct ProductsTrial ProductsTrial;
ProductsTrial *products_trial_new(bool rounded, bool brief);
void products_trial_free(ProductsTrial *trial); /* or NULL */

/* GFLOP/s, measured for at least `seconds`. */
double products_trial_rate(const ProductsTrial *trial, double seconds);

/* GFLOP/s at size 1024: the best pass in 0.1 s. */
double ceiling_products_quick(bool rounded);

/* GB/s of one pass of reads over a zeroed block, all threads. */
double ceiling_read_pass(const void *block, size_t bytes);

/* step_list: executes a step list; every pointer of the run is one of the device. */

void steps_run(const MoecSteps *steps, const MoecRun *run);
/* Whether an exchange needs numbers of rows that depend on the data. */
bool steps_wait(const MoecSteps *steps);

/* device: memory and execution of programs, on the CPU or on a CUDA device. The table of functions
 * below contains all differences between devices; the rest of the runtime uses only this table.
 *
 * Pointers into device memory are ordinary pointers that only the device can dereference. On the
 * CPU they are host pointers; put and get copy nothing if source and destination are equal. */

typedef struct Device Device;

/* A loaded program table on a device: kernels and matrix products. Devices can extend this
 * structure. */
typedef struct Engine {
    Device *device;
    const MoecTable *table;
    MoecHost host;      /* services for the program */
    Products *products; /* CPU only */
    KernelTimes *times; /* CPU only: receives the time of each unit of work, or NULL */
    double since;       /* CPU only: end of the last unit */
    double seconds;     /* time to load the engine */
    bool cached;        /* nothing was compiled */
    bool slow;          /* CPU only: the program uses bf16, which saves no time on this processor */
    char startup[256];  /* startup time by phase; empty if nothing is notable */
    /* CUDA only: the variant that MOEC_VARIANT names, or NULL; numbers of kernels launched in it,
     * and of kernels with variants that lack it */
    const char *variant;
    int variant_launched, variant_missing;
} Engine;

/* One optimizer step over whole blocks. All pointers except `parameters` are device pointers. */
typedef struct BlockUpdate {
    float *weights;
    const float *gradients;
    float *const *moments; /* the optimizer's states, a host array */
    void *rounded;         /* receives the new weights as bf16; may be NULL */
    const float
        *scalars; /* host: in the order of MoecUpdate.scalars, without the per-group factors */
    const double *clips; /* host: the factor of each clip group from 1; its scalar is replaced */
    size_t start, end;   /* the elements to update */
} BlockUpdate;

/* A kernel of a text and one launch of it; arguments: pointers to their values. */
typedef struct DeviceKernel {
    const char *text, *title, *name; /* title: of the text in messages */
    const char *help;                /* if the text does not compile */
    long blocks;                     /* 0: it is compiled only */
    int threads;
    long shared; /* bytes */
    void **arguments;
} DeviceKernel;

enum { DEVICE_CHUNK = 1 << 16, DEVICE_LIKELY_ROWS = 1 << 10 };

typedef struct DeviceKind {
    void *(*allocate)(Device *device,
                      size_t bytes); /* zeroed, aligned to 64 bytes; NULL if refused */
    void (*release)(Device *device, void *block, size_t bytes);
    bool (*put)(Device *device, void *to, const void *from, size_t bytes); /* host to device */
    bool (*get)(Device *device, void *to, const void *from,
                size_t bytes); /* device to host, after all earlier work */
    bool (*copy)(Device *device, void *to, const void *from, size_t bytes); /* on the device */
    bool (*zero)(Device *device, void *block, size_t bytes);
    /* Host memory that receives copies from the device: pinned memory receives them without an
     * intermediate copy. pin returns false if the memory stays as it is. Devices apart only. */
    bool (*pin)(Device *device, void *block, size_t bytes);
    void (*unpin)(Device *device, void *block);
    void (*close)(Device *device);

    /* program: for devices whose programs have separate kernels; must outlive the engine, which
     * sets the functions of its table. keep: use the cache. NULL after a message. */
    Engine *(*engine_new)(Device *device, const MoecTable *table, MoecDeviceProgram *program,
                          bool keep);
    void (*engine_free)(Engine *engine);
    bool (*run)(Engine *engine, const MoecGraphEntry *graph, MoecRun *run); /* fills in run->host */
    /* The sum of squares of each chunk of DEVICE_CHUNK elements; a multiple of 4 of them. */
    bool (*square_sums)(Engine *engine, const float *block, size_t count, double *sums);
    /* tokens[row] = the index of the largest of logits[row, width], the lowest of equal ones; -1 if
     * one is NaN or the largest is infinite. At most DEVICE_LIKELY_ROWS rows. NULL: the host reads
     * the logits. */
    bool (*most_likely)(Engine *engine, const float *logits, long rows, long width,
                        int32_t *tokens);
    /* to = the sum of the parts as a tree: neighbors are added in pairs, then pairs of pairs; a
     * last part without a neighbor moves up. Two parts at least, which are overwritten; `to` may be
     * one of them. */
    bool (*add_tree)(Engine *engine, float *const *parts, int count, size_t length, float *to);
    bool (*update)(Engine *engine, const BlockUpdate *update);
    bool (*round)(Engine *engine, const float *weights, void *rounded); /* see MoecTable.round */
    double (*rate)(const Engine *engine, double step, double steps);    /* see MoecUpdate.rate */

    /* Adds the time of each kernel to a row of `times` from now on; NULL ends it. A CUDA device
     * repeats each kernel, so the results are invalid. On the CPU the rows are units of work of
     * programs compiled with moec_mark_units. False after a message. */
    bool (*time_kernels)(Engine *engine, KernelTimes *times);

    /* Compiles the kernel, runs it and waits for its end; false after a message. NULL: the device
     * has no kernels. */
    bool (*launch)(Device *device, const DeviceKernel *kernel);

    /* Measured peak. products_pass: GFLOP/s of one large product with bf16 or f32 operands;
     * products is NULL if not supported. read_pass: GB/s of one pass over a zeroed block, which
     * stays unchanged. NaN if it cannot be measured. */
    void *(*products_open)(Device *device, bool rounded);
    double (*products_pass)(Device *device, void *products);
    void (*products_close)(Device *device, void *products);
    double (*read_pass)(Device *device, void *block, size_t bytes);
} DeviceKind;

/* Block for memory-read passes: zeroed and larger than every cache; smaller in brief measurements.
 * `block` is NULL without memory. */
typedef struct DeviceReading {
    Device *device;
    void *block;
    size_t bytes;
} DeviceReading;

DeviceReading device_reading_open(Device *device);
/* GB/s of one pass, or 0 without memory */
double device_reading_pass(const DeviceReading *reading);
void device_reading_close(DeviceReading *reading);
AUTO_OBJECT(DeviceReading, device_reading_close)

/* A matrix product for measurement passes. */
typedef struct DeviceMultiplying {
    Device *device;
    void *products;
} DeviceMultiplying;

DeviceMultiplying device_multiplying_open(Device *device, bool rounded);
double device_multiplying_pass(const DeviceMultiplying *multiplying); /* GFLOP/s, or NaN */
void device_multiplying_close(DeviceMultiplying *multiplying);
AUTO_OBJECT(DeviceMultiplying, device_multiplying_close)

/* GB/s and GFLOP/s: the best of several passes. */
double device_ceiling_read(Device *device);
double device_ceiling_products(Device *device, bool rounded);

/* Scalars of each parameter group: group_count rows of scalar_count, `scalars` of the run times the
 * factors of the group. The caller frees it. */
float *update_numbers(const MoecTable *table, const BlockUpdate *given);

/* The sum of squares of a block; false after a message. */
bool device_square_sum(Engine *engine, const float *block, size_t count, double *sum);

struct Device {
    const DeviceKind *kind;
    /* device memory is separate from host memory, and its programs have kernels */
    bool apart;
    bool brief;        /* small sizes and no repetitions, to test the measurements */
    atomic_bool noted; /* the note about slow bf16 was printed */
    /* Kernels and algorithms that the device has selected by measurement, by name; they determine
     * the rounding errors. Those of a checkpoint are selected again. NULL: not recorded. */
    json_t *choices;
    bool is_resumed; /* they are those of a checkpoint: the first new one is reported */
    char name[128];
};

/* Opens "cpu", "cuda" or "cuda:N". NULL after a message that names the missing part. */
Device *device_open(const char *name);
/* The CPU device. Closing it has no effect. */
Device *device_cpu(void);
void device_close(Device *device);
AUTO_POINTER(Device, device_close)
/* The machine that its programs are compiled for. */
static inline const MoecTarget *device_target(const Device *device) {
    return moec_target(device->apart ? "cuda" : "c");
}

#endif
