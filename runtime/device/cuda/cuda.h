/* cuda: the CUDA device, an implementation of device.h. */
#ifndef CUDA_H
#define CUDA_H

#include "abi/abi.h"
#include "base/hashing.h"
#include "device/cuda/cuda_library.h"
#include "device/device.h"
#include "moec.h"

/* cuda: the CUDA device, an implementation of device.h. */

typedef struct CudaDevice {
    Device base;
    const CudaLibrary *library;
    int number, major, minor;
    CudaContext *context;
    CudaStream *stream; /* the stream of all work of the process, in order */
    double seconds;     /* time to open the device, libraries included */
    bool hung;          /* a kernel does not end; every call that waits for it would not return */
    bool failed; /* an error occurred: the device is unusable and later errors are not reported */
} CudaDevice;

/* NULL after a message. */
Device *cuda_open(int number);
/* The GPU of a process of several on this host. If a launcher shows each one only its own GPU, that
 * one. */
Device *cuda_open_local(int process, int processes);

/* ---- cuda_context.c ---- */

/* True if `error` is 0. Otherwise prints the first error of this device: "NAME: cannot DOING:
 * REASON". */
bool cuda_good(CudaDevice *device, int error, const char *doing);

/* The driver's text of an error number. */
const char *cuda_error(const CudaDevice *device, int error);

/* Must precede all other calls of a thread, since another thread may have opened the device. */
void cuda_enter(const CudaDevice *device);

/* Waits for the device and frees the block, unless it is 0. */
void cuda_free(const CudaDevice *device, CudaPointer block);

/* Converts a device pointer of the runtime to the type of the driver. */
CudaPointer cuda_pointer(const void *there);

/* See Device.choices; NULL: there is none of this name. */
const char *cuda_recorded_choice(CudaDevice *device, const char *name);
void cuda_record_choice(CudaDevice *device, const char *name, const char *choice);

/* ---- cuda_ceiling.c ---- */

/* Measured peak of the device: GFLOP/s of large products; GB/s read and written in one pass over a
 * block. NaN after a failure. */
void *cuda_products_open(Device *device, bool rounded);
double cuda_products_pass(Device *device, void *products);
void cuda_products_close(Device *device, void *products);
double cuda_read_pass(Device *device, void *block, size_t bytes);

/* ---- cuda_engine.c ---- */

/* Compiles the kernels of a program for the device: see DeviceKind; the caller frees it. */
Engine *cuda_engine_new(Device *device, const MoecTable *table, MoecDeviceProgram *program,
                        bool keep);
void cuda_engine_free(Engine *engine);
bool cuda_engine_run(Engine *engine, const MoecGraphEntry *graph, MoecRun *run);
bool cuda_engine_square_sums(Engine *engine, const float *block, size_t count, double *sums);
bool cuda_engine_most_likely(Engine *engine, const float *logits, long rows, long width,
                             int32_t *tokens);
bool cuda_engine_add_tree(Engine *engine, float *const *parts, int count, size_t length, float *to);
bool cuda_engine_round(Engine *engine, const float *weights, void *rounded);
double cuda_engine_rate(const Engine *engine, double step, double steps);
bool cuda_engine_time_kernels(Engine *engine, KernelTimes *times);
bool cuda_engine_update(Engine *engine, const BlockUpdate *update);
/* A kernel that is the same in every program; NULL after a message. */
CudaFunction *cuda_engine_function(Engine *engine, const char *name);

/* cuda_compile: compiles CUDA source to an image for one architecture by NVRTC, and caches it by a
 * hash of all inputs. */

typedef struct CudaText {
    const char *name; /* name of the source in messages: "program.cu" */
    const char *text;
    int major, minor; /* the device's compute capability */
    bool keep;        /* use the cache */
    const char *help; /* of the message that NVRTC rejects the text; NULL: it is generated */
} CudaText;

typedef struct CudaImage {
    char *bytes; /* the caller frees it */
    size_t length;
    bool cached; /* from the cache */
} CudaImage;

/* False after a message. Several threads can call it concurrently. */
bool cuda_compile(const CudaLibrary *library, const CudaText *text, CudaImage *image);

/* The architecture that kernels are compiled for, 90 for capability 9.0: that of the device, or the
 * next older one if NVRTC does not know it. */
int cuda_architecture(const CudaLibrary *library, int major, int minor);

/* Adds the NVRTC version and the library in MOEC_CUDA, which determine the code of a text. */
void cuda_hash_library(XXH3_state_t *state, const CudaLibrary *library);

/* cuda_launch_once: see DeviceKind.launch. */
bool cuda_launch_once(Device *device, const DeviceKernel *kernel);

/* cuda_maps: tensor maps, which describe operands for the asynchronous box copies of compute
 * capability 9.0. */

/* Creates a map of an operand with boxes of MOEC_BOX x MOEC_BOX elements. False if the driver
 * refuses. */
bool cuda_map(const CudaDriver *driver, const MoecMatrices *operand, CudaMap *map);

/* cuda_parts: splits the kernels of a program into parts for parallel compilation. */

/* The pieces with a spare kernel, or those with another kernel. spare: by kernel. A new array. */
bool *cuda_pieces(const MoecKernels *kernels, const bool *spare, bool wants_spare);

/* Number of wanted pieces with a kernel, where each variant counts. wanted: by piece. */
int cuda_kernels(const MoecKernels *kernels, const bool *wanted);

/* Source of one part: the code shared by all kernels, and every `parts`-th wanted piece from number
 * `part` on. A new string. */
char *cuda_part(const MoecKernels *kernels, const bool *wanted, int part, int parts);

/* cuda_products: dense products of a table by cuBLASLt. The algorithm of each product is selected
 * once. */

typedef struct CudaProducts CudaProducts;

/* NULL without cuBLASLt: the program's own kernels then compute the products. keep: use the
 * cache. */
CudaProducts *cuda_products_new(CudaDevice *device, const MoecTable *table, bool keep);
void cuda_products_free(CudaProducts *products);

/* As MoecHost.product: 0 = computed. */
int cuda_products_run(CudaProducts *products, int index, const void *a, const void *b, void *c,
                      const MoecEpilogue *epilogue);
/* Number of products measured because the cache had no entry. */
int cuda_products_timed(const CudaProducts *products);
/* True if cuBLASLt computes the product at every alignment of its operands. */
bool cuda_products_taken(const CudaProducts *products, int index);
/* Number of products that cuBLASLt refuses; the slower kernels of the program compute them. */
int cuda_products_declined(const CudaProducts *products);

/* cuda_profile: time of single kernels, measured by events around several launches. */

typedef struct CudaProfile {
    CudaDevice *device;
    CudaEvent *first, *last;
    KernelTimes *times;
} CudaProfile;

/* NULL after a message. */
CudaProfile *cuda_profile_new(CudaDevice *device, KernelTimes *times);
void cuda_profile_free(CudaProfile *profile);

/* Work for the device; returns 0 on success. */
typedef int (*CudaWork)(void *data);

/* Runs the work several times and adds the median time to the row `name`; returns the result of
 * `work`. */
int cuda_profile_work(CudaProfile *profile, const char *name, double flops, CudaWork work,
                      void *data);

/* cuda_ranges: ranges for a profiler; no effect unless MOEC_NVTX is set. */
bool cuda_ranges_on(void);
void cuda_range_push(const char *name);
void cuda_range_pop(void);

#endif
