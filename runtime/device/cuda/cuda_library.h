/* cuda_library: the CUDA driver, NVRTC, cuBLASLt and NCCL, loaded at first use. The build needs no
 * CUDA headers, and a run on the CPU needs no CUDA libraries.
 *
 * MOEC_CUDA names another location: a folder, or one library with all functions (tests: the
 * simulated driver). If the folder has no driver, the system's driver is used. */
#ifndef CUDA_LIBRARY_H
#define CUDA_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

typedef unsigned long long CudaPointer;
typedef struct CudaContext CudaContext;
typedef struct CudaStream CudaStream;
typedef struct CudaModule CudaModule;
typedef struct CudaFunction CudaFunction;
typedef struct CudaEvent CudaEvent;
typedef struct CudaGraph CudaGraph;
typedef struct CudaReady CudaReady; /* an executable graph */
typedef struct CudaCompilation CudaCompilation;
typedef struct NcclComm NcclComm;
typedef struct BlasHandle BlasHandle;
typedef struct BlasProduct BlasProduct;
typedef struct BlasLayout BlasLayout;
typedef struct BlasPreference BlasPreference;

enum { BLAS_ALGORITHM_WORDS = 8 };

/* cublasLtMatmulHeuristicResult_t */
typedef struct BlasChoice {
    unsigned long long algorithm[BLAS_ALGORITHM_WORDS];
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
} BlasChoice;

/* CUlaunchAttribute, CUlaunchConfig */
typedef struct CudaLaunchAttribute {
    int kind;
    union {
        int on;
        long long room[8];
    } value;
} CudaLaunchAttribute;

typedef struct CudaLaunchShape {
    unsigned grid[3], block[3], shared;
    CudaStream *stream;
    CudaLaunchAttribute *attributes;
    unsigned attribute_count;
} CudaLaunchShape;

/* CUtensorMap */
typedef struct CudaMap {
    _Alignas(128) unsigned char bytes[128];
} CudaMap;

/* Constants of the CUDA headers. */
enum {
    CUDA_ATTRIBUTE_MAJOR = 75,
    CUDA_ATTRIBUTE_MINOR = 76,
    CUDA_FUNCTION_SHARED = 8,
    CUDA_FUNCTION_SHARED_SHARE = 9, /* % of the memory that L1 and shared memory have in common */
    CUDA_CAPTURE_THREAD = 1,
    NCCL_ID = 128, /* bytes */
    NCCL_FLOAT = 7,
    NCCL_SUM = 0,
    NCCL_IN_PROGRESS = 7, /* of NCCL's error numbers */
    CUDA_NOT_READY = 600, /* error numbers */
    CUDA_NOT_IN_CAPTURE = 900,
    /* programmatic dependent launch: the kernel may start before its predecessor ends and waits
     * itself */
    CUDA_LAUNCH_OVERLAPS = 6,
    CUDA_MAP_BF16 = 9,
    CUDA_MAP_SWIZZLE_128 = 3,
    CUDA_MAP_PROMOTE_256 = 3,
    BLAS_COMPUTE_F32 = 68,
    BLAS_COMPUTE_BF16 = 75, /* f32 in memory, rounded to bf16 on load, f32 sums */
    BLAS_F32 = 0,
    BLAS_BF16 = 14,
    BLAS_TRANSPOSE_A = 3,
    BLAS_TRANSPOSE_B = 4,
    BLAS_EPILOGUE = 7,
    BLAS_BIAS_POINTER = 8,
    BLAS_KEPT_POINTER = 11,
    BLAS_KEPT_LEADING = 12,
    BLAS_EPILOGUE_BIAS = 4,  /* epilogues are sums of these */
    BLAS_EPILOGUE_GELU = 32, /* tanh approximation of GELU */
    BLAS_EPILOGUE_KEEP = 128,
    BLAS_EPILOGUE_GELU_BACK = 192,
    BLAS_LAYOUT_BATCH = 5,
    BLAS_LAYOUT_BATCH_STRIDE = 6,
    BLAS_PREFERENCE_WORKSPACE = 1,
    BLAS_PREFERENCE_ALIGNMENT_A = 5,
    BLAS_PREFERENCE_ALIGNMENT_B = 6,
    BLAS_PREFERENCE_ALIGNMENT_C = 7,
    BLAS_PREFERENCE_ALIGNMENT_D = 8
};

/* ncclUniqueId */
typedef struct NcclId {
    char bytes[NCCL_ID];
} NcclId;

/* CALL(member, "symbol", arguments): all functions return 0 on success. */
#define CUDA_DRIVER_CALLS(CALL)                                                                    \
    CALL(init, "cuInit", (unsigned flags))                                                         \
    CALL(version, "cuDriverGetVersion", (int *version))                                            \
    CALL(device_count, "cuDeviceGetCount", (int *count))                                           \
    CALL(device_get, "cuDeviceGet", (int *device, int number))                                     \
    CALL(device_name, "cuDeviceGetName", (char *name, int length, int device))                     \
    CALL(device_bus, "cuDeviceGetPCIBusId", (char *text, int length, int device))                  \
    CALL(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))        \
    CALL(context_retain, "cuDevicePrimaryCtxRetain", (CudaContext * *context, int device))         \
    CALL(context_release, "cuDevicePrimaryCtxRelease_v2", (int device))                            \
    CALL(context_set, "cuCtxSetCurrent", (CudaContext * context))                                  \
    CALL(allocate, "cuMemAlloc_v2", (CudaPointer * block, size_t bytes))                           \
    CALL(release, "cuMemFree_v2", (CudaPointer block))                                             \
    CALL(pin, "cuMemHostRegister_v2", (void *block, size_t bytes, unsigned flags))                 \
    CALL(unpin, "cuMemHostUnregister", (void *block))                                              \
    CALL(put, "cuMemcpyHtoDAsync_v2",                                                              \
         (CudaPointer to, const void *from, size_t bytes, CudaStream *stream))                     \
    CALL(get, "cuMemcpyDtoHAsync_v2",                                                              \
         (void *to, CudaPointer from, size_t bytes, CudaStream *stream))                           \
    CALL(copy, "cuMemcpyDtoDAsync_v2",                                                             \
         (CudaPointer to, CudaPointer from, size_t bytes, CudaStream * stream))                    \
    CALL(set, "cuMemsetD8Async",                                                                   \
         (CudaPointer to, unsigned char value, size_t bytes, CudaStream *stream))                  \
    CALL(stream_new, "cuStreamCreate", (CudaStream * *stream, unsigned flags))                     \
    CALL(stream_free, "cuStreamDestroy_v2", (CudaStream * stream))                                 \
    CALL(stream_wait, "cuStreamSynchronize", (CudaStream * stream))                                \
    CALL(stream_query, "cuStreamQuery", (CudaStream * stream))                                     \
    CALL(event_new, "cuEventCreate", (CudaEvent * *event, unsigned flags))                         \
    CALL(stream_follow, "cuStreamWaitEvent",                                                       \
         (CudaStream * stream, CudaEvent * event, unsigned flags))                                 \
    CALL(event_free, "cuEventDestroy_v2", (CudaEvent * event))                                     \
    CALL(event_record, "cuEventRecord", (CudaEvent * event, CudaStream * stream))                  \
    CALL(event_time, "cuEventElapsedTime",                                                         \
         (float *milliseconds, CudaEvent *first, CudaEvent *last))                                 \
    CALL(capture_begin, "cuStreamBeginCapture_v2", (CudaStream * stream, int mode))                \
    CALL(capture_end, "cuStreamEndCapture", (CudaStream * stream, CudaGraph * *graph))             \
    CALL(graph_ready, "cuGraphInstantiateWithFlags",                                               \
         (CudaReady * *ready, CudaGraph * graph, unsigned long long flags))                        \
    CALL(graph_launch, "cuGraphLaunch", (CudaReady * ready, CudaStream * stream))                  \
    CALL(graph_free, "cuGraphDestroy", (CudaGraph * graph))                                        \
    CALL(ready_free, "cuGraphExecDestroy", (CudaReady * ready))                                    \
    CALL(module_load, "cuModuleLoadData", (CudaModule * *module, const void *image))               \
    CALL(module_free, "cuModuleUnload", (CudaModule * module))                                     \
    CALL(function_get, "cuModuleGetFunction",                                                      \
         (CudaFunction * *function, CudaModule * module, const char *name))                        \
    CALL(function_set, "cuFuncSetAttribute", (CudaFunction * function, int attribute, int value))  \
    CALL(launch, "cuLaunchKernel",                                                                 \
         (CudaFunction * function, unsigned grid_x, unsigned grid_y, unsigned grid_z,              \
          unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,                   \
          CudaStream *stream, void **arguments, void **extra))                                     \
    CALL(launch_shaped, "cuLaunchKernelEx",                                                        \
         (const CudaLaunchShape *shape, CudaFunction *function, void **arguments, void **extra))   \
    CALL(error_text, "cuGetErrorString", (int error, const char **text))

/* Missing in older drivers: NULL then. */
#define CUDA_NEW_DRIVER_CALLS(CALL)                                                                \
    CALL(map_new, "cuTensorMapEncodeTiled",                                                        \
         (CudaMap * map, int type, unsigned rank, CudaPointer address,                             \
          const unsigned long long *sizes, const unsigned long long *strides, const unsigned *box, \
          const unsigned *steps, int interleave, int swizzle, int promotion, int fill))

#define CUDA_COMPILER_CALLS(CALL)                                                                  \
    CALL(version, "nvrtcVersion", (int *major, int *minor))                                        \
    CALL(create, "nvrtcCreateProgram",                                                             \
         (CudaCompilation * *made, const char *text, const char *name, int count,                  \
          const char *const *headers, const char *const *names))                                   \
    CALL(compile, "nvrtcCompileProgram",                                                           \
         (CudaCompilation * program, int count, const char *const *options))                       \
    CALL(architecture_count, "nvrtcGetNumSupportedArchs", (int *count))                            \
    CALL(architectures, "nvrtcGetSupportedArchs", (int *architectures))                            \
    CALL(image_bytes, "nvrtcGetCUBINSize", (CudaCompilation * program, size_t * bytes))            \
    CALL(image, "nvrtcGetCUBIN", (CudaCompilation * program, char *image))                         \
    CALL(assembly_bytes, "nvrtcGetPTXSize", (CudaCompilation * program, size_t * bytes))           \
    CALL(assembly, "nvrtcGetPTX", (CudaCompilation * program, char *assembly))                     \
    CALL(log_bytes, "nvrtcGetProgramLogSize", (CudaCompilation * program, size_t * bytes))         \
    CALL(log, "nvrtcGetProgramLog", (CudaCompilation * program, char *log))                        \
    CALL(destroy, "nvrtcDestroyProgram", (CudaCompilation * *program))

#define CUDA_BLAS_CALLS(CALL)                                                                      \
    CALL(create, "cublasLtCreate", (BlasHandle * *handle))                                         \
    CALL(destroy, "cublasLtDestroy", (BlasHandle * handle))                                        \
    CALL(product_new, "cublasLtMatmulDescCreate",                                                  \
         (BlasProduct * *product, int compute, int scale))                                         \
    CALL(product_set, "cublasLtMatmulDescSetAttribute",                                            \
         (BlasProduct * product, int attribute, const void *value, size_t bytes))                  \
    CALL(product_free, "cublasLtMatmulDescDestroy", (BlasProduct * product))                       \
    CALL(layout_new, "cublasLtMatrixLayoutCreate",                                                 \
         (BlasLayout * *layout, int type, unsigned long long rows, unsigned long long columns,     \
          long long leading))                                                                      \
    CALL(layout_set, "cublasLtMatrixLayoutSetAttribute",                                           \
         (BlasLayout * layout, int attribute, const void *value, size_t bytes))                    \
    CALL(layout_free, "cublasLtMatrixLayoutDestroy", (BlasLayout * layout))                        \
    CALL(preference_new, "cublasLtMatmulPreferenceCreate", (BlasPreference * *preference))         \
    CALL(preference_set, "cublasLtMatmulPreferenceSetAttribute",                                   \
         (BlasPreference * preference, int attribute, const void *value, size_t bytes))            \
    CALL(preference_free, "cublasLtMatmulPreferenceDestroy", (BlasPreference * preference))        \
    CALL(choose, "cublasLtMatmulAlgoGetHeuristic",                                                 \
         (BlasHandle * handle, BlasProduct * product, BlasLayout * a, BlasLayout * b,              \
          BlasLayout * c, BlasLayout * d, BlasPreference * preference, int wanted,                 \
          BlasChoice *choices, int *found))                                                        \
    CALL(check, "cublasLtMatmulAlgoCheck",                                                         \
         (BlasHandle * handle, BlasProduct * product, BlasLayout * a, BlasLayout * b,              \
          BlasLayout * c, BlasLayout * d, const void *algorithm, BlasChoice *checked))             \
    CALL(property, "cublasLtGetProperty", (int part, int *value))                                  \
    CALL(run, "cublasLtMatmul",                                                                    \
         (BlasHandle * handle, BlasProduct * product, const void *alpha, CudaPointer a,            \
          BlasLayout *a_layout, CudaPointer b, BlasLayout *b_layout, const void *beta,             \
          CudaPointer c, BlasLayout *c_layout, CudaPointer d, BlasLayout *d_layout,                \
          const void *algorithm, CudaPointer workspace, size_t workspace_bytes,                    \
          CudaStream *stream))

/* Here and below, int is an enumeration of the library. */
#define CUDA_NCCL_CALLS(CALL)                                                                      \
    CALL(version, "ncclGetVersion", (int *version))                                                \
    CALL(id_new, "ncclGetUniqueId", (NcclId * id))                                                 \
    CALL(start, "ncclCommInitRank", (NcclComm * *comm, int size, NcclId id, int rank))             \
    CALL(end, "ncclCommDestroy", (NcclComm * comm))                                                \
    CALL(state, "ncclCommGetAsyncError", (NcclComm * comm, int *error))                            \
    CALL(group_start, "ncclGroupStart", (void))                                                    \
    CALL(group_end, "ncclGroupEnd", (void))                                                        \
    CALL(send, "ncclSend",                                                                         \
         (const void *from, size_t count, int type, int peer, NcclComm *comm, CudaStream *stream)) \
    CALL(receive, "ncclRecv",                                                                      \
         (void *to, size_t count, int type, int peer, NcclComm *comm, CudaStream *stream))         \
    CALL(sum, "ncclAllReduce",                                                                     \
         (const void *from, void *to, size_t count, int type, int operation, NcclComm *comm,       \
          CudaStream *stream))                                                                     \
    CALL(broadcast, "ncclBroadcast",                                                               \
         (const void *from, void *to, size_t count, int type, int root, NcclComm *comm,            \
          CudaStream *stream))

#define CUDA_MEMBER(member, symbol, arguments) int(*member) arguments;
typedef struct CudaDriver {
    CUDA_DRIVER_CALLS(CUDA_MEMBER)
    CUDA_NEW_DRIVER_CALLS(CUDA_MEMBER)
} CudaDriver;
typedef struct CudaCompiler {
    CUDA_COMPILER_CALLS(CUDA_MEMBER)
} CudaCompiler;
typedef struct CudaBlas {
    CUDA_BLAS_CALLS(CUDA_MEMBER)
} CudaBlas;
typedef struct CudaNccl {
    CUDA_NCCL_CALLS(CUDA_MEMBER)
    const char *(*error_text)(int error); /* ncclGetErrorString */
} CudaNccl;
#undef CUDA_MEMBER

typedef struct CudaLibrary {
    CudaDriver driver;
    CudaCompiler compiler;
    const char *place; /* value of MOEC_CUDA, or "" */
} CudaLibrary;

/* Loads driver and NVRTC; NULL after a message that names the missing one. */
const CudaLibrary *cuda_library(void);
/* Loads cuBLASLt, a large library, at the first product. NULL if it is missing or disabled by
 * MOEC_BLAS=off: the own kernels are then used. */
const CudaBlas *cuda_blas(void);
/* Loads NCCL: from MOEC_NCCL if it is set, else as the other libraries. NULL after a message. */
const CudaNccl *cuda_nccl(void);
/* True if this environment variable is "off". */
bool cuda_off(const char *variable);
/* Later choices are fixed. */
void cuda_fix_choices(void);
/* True after that, or with MOEC_CHOICE=first: algorithms and variants are selected without
 * measurements, the same in every run. */
bool cuda_choices_are_fixed(void);

#endif
