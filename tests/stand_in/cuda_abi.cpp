// cuda_abi: a C++ compiler compares the declarations of runtime/device/cuda/cuda_library.h with CUDA's own headers.
// tests/checks/cuda_abi.sh writes `calls.h`: SAME(part, member, function) for every function that is looked up by name.
#define _Alignas(bytes) alignas(bytes)
#include <cublasLt.h>
#include <cuda.h>
#include <nvrtc.h>

#include <cstddef>
#include <type_traits>

#include "device/cuda/cuda_library.h"

// One argument: the targets of pointers may differ between both sides, and numbers of device memory count as pointers.
template <class Ours, class Theirs> constexpr bool same_argument() {
    if (sizeof(Ours) != sizeof(Theirs)) return false;
    return std::is_pointer_v<Ours> || std::is_pointer_v<Theirs> ||
           std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs>;
}

template <class Ours, class Theirs> struct Same;
template <class R, class... A, class S, class... B> struct Same<R (*)(A...), S (*)(B...)> {
    static constexpr bool arguments() {
        if constexpr (sizeof...(A) == sizeof...(B)) return (same_argument<A, B>() && ...);
        return false;
    }
    static constexpr bool value = sizeof(R) == sizeof(S) && arguments();
};

#define SAME(part, member, function)                                                               \
    static_assert(Same<decltype(part::member), decltype(&function)>::value, #function);
#include "calls.h"
#ifdef HAVE_NCCL
#include <nccl.h>
#include "nccl_calls.h"
SAME(CudaNccl, error_text, ncclGetErrorString)
static_assert(sizeof(NcclId) == sizeof(ncclUniqueId) && alignof(NcclId) == alignof(ncclUniqueId));
static_assert(int(NCCL_FLOAT) == int(ncclFloat32) && int(NCCL_SUM) == int(ncclSum));
static_assert(int(NCCL_IN_PROGRESS) == int(ncclInProgress) && int(ncclRemoteError) == 6 && int(ncclSuccess) == 0); // nccl.c
#endif

#define NUMBER(ours, theirs) static_assert(int(ours) == int(theirs), #ours);
NUMBER(CUDA_ATTRIBUTE_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
NUMBER(CUDA_ATTRIBUTE_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
NUMBER(CUDA_FUNCTION_SHARED, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
NUMBER(CUDA_CAPTURE_THREAD, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
NUMBER(CUDA_LAUNCH_OVERLAPS, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
NUMBER(CUDA_MAP_BF16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16)
NUMBER(CUDA_MAP_SWIZZLE_128, CU_TENSOR_MAP_SWIZZLE_128B)
NUMBER(CUDA_MAP_PROMOTE_256, CU_TENSOR_MAP_L2_PROMOTION_L2_256B)
NUMBER(BLAS_COMPUTE_F32, CUBLAS_COMPUTE_32F)
NUMBER(BLAS_COMPUTE_BF16, CUBLAS_COMPUTE_32F_FAST_16BF)
NUMBER(BLAS_F32, CUDA_R_32F)
NUMBER(BLAS_BF16, CUDA_R_16BF)
NUMBER(BLAS_TRANSPOSE_A, CUBLASLT_MATMUL_DESC_TRANSA)
NUMBER(BLAS_TRANSPOSE_B, CUBLASLT_MATMUL_DESC_TRANSB)
NUMBER(0, CUBLAS_OP_N)
NUMBER(1, CUBLAS_OP_T)
NUMBER(BLAS_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE)
NUMBER(BLAS_BIAS_POINTER, CUBLASLT_MATMUL_DESC_BIAS_POINTER)
NUMBER(BLAS_KEPT_POINTER, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER)
NUMBER(BLAS_KEPT_LEADING, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD)
NUMBER(BLAS_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BIAS)
NUMBER(BLAS_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU)
NUMBER(BLAS_EPILOGUE_GELU | BLAS_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU_BIAS)
NUMBER(BLAS_EPILOGUE_GELU | BLAS_EPILOGUE_KEEP, CUBLASLT_EPILOGUE_GELU_AUX)
NUMBER(BLAS_EPILOGUE_GELU | BLAS_EPILOGUE_KEEP | BLAS_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS)
NUMBER(BLAS_EPILOGUE_GELU_BACK, CUBLASLT_EPILOGUE_DGELU)
NUMBER(BLAS_LAYOUT_BATCH, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
NUMBER(BLAS_LAYOUT_BATCH_STRIDE, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
NUMBER(BLAS_PREFERENCE_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
NUMBER(BLAS_PREFERENCE_ALIGNMENT_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)
NUMBER(BLAS_PREFERENCE_ALIGNMENT_B, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES)
NUMBER(BLAS_PREFERENCE_ALIGNMENT_C, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES)
NUMBER(BLAS_PREFERENCE_ALIGNMENT_D, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)
NUMBER(2, CU_EVENT_DISABLE_TIMING)                // nccl.c
// Constants that the source contains as numbers.
NUMBER(1, CU_STREAM_NON_BLOCKING)                 // cuda.c
NUMBER(0, CU_TENSOR_MAP_INTERLEAVE_NONE)          // cuda_maps.c
NUMBER(0, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
NUMBER(0, CUDA_SUCCESS)
NUMBER(0, NVRTC_SUCCESS)
NUMBER(0, CUBLAS_STATUS_SUCCESS)
NUMBER(0, MAJOR_VERSION)                          // cuda_choice.c
NUMBER(1, MINOR_VERSION)
NUMBER(2, PATCH_LEVEL)

#define STRUCT(ours, theirs)                                                                       \
    static_assert(sizeof(ours) == sizeof(theirs) && alignof(ours) >= alignof(theirs), #ours);
#define MEMBER(ours, member, theirs, other)                                                        \
    static_assert(offsetof(ours, member) == offsetof(theirs, other) &&                             \
                      sizeof(((ours *)0)->member) >= sizeof(((theirs *)0)->other),                 \
                  #ours "." #member);
STRUCT(BlasChoice, cublasLtMatmulHeuristicResult_t)
MEMBER(BlasChoice, algorithm, cublasLtMatmulHeuristicResult_t, algo)
MEMBER(BlasChoice, workspace, cublasLtMatmulHeuristicResult_t, workspaceSize)
MEMBER(BlasChoice, status, cublasLtMatmulHeuristicResult_t, state)
MEMBER(BlasChoice, waves, cublasLtMatmulHeuristicResult_t, wavesCount)
STRUCT(CudaLaunchAttribute, CUlaunchAttribute)
MEMBER(CudaLaunchAttribute, kind, CUlaunchAttribute, id)
MEMBER(CudaLaunchAttribute, value, CUlaunchAttribute, value)
MEMBER(CudaLaunchAttribute, value.on, CUlaunchAttribute, value.programmaticStreamSerializationAllowed)
STRUCT(CudaLaunchShape, CUlaunchConfig)
MEMBER(CudaLaunchShape, grid, CUlaunchConfig, gridDimX)
MEMBER(CudaLaunchShape, block, CUlaunchConfig, blockDimX)
MEMBER(CudaLaunchShape, shared, CUlaunchConfig, sharedMemBytes)
MEMBER(CudaLaunchShape, stream, CUlaunchConfig, hStream)
MEMBER(CudaLaunchShape, attributes, CUlaunchConfig, attrs)
MEMBER(CudaLaunchShape, attribute_count, CUlaunchConfig, numAttrs)
STRUCT(CudaMap, CUtensorMap)
MEMBER(CudaMap, bytes, CUtensorMap, opaque)
static_assert(sizeof(CudaPointer) == sizeof(CUdeviceptr) && sizeof(int) == sizeof(CUdevice), "");
