/* numbers: what runtime/device/cuda/cuda_library.h says of CUDA is what CUDA's own headers say. Only compiled. */
#include "device/cuda/cuda_library.h"

#include <cublasLt.h>
#include <cuda.h>
#include <stddef.h>

#define SAME(ours, theirs) _Static_assert((long)(ours) == (long)(theirs), #ours " is not " #theirs)

SAME(CUDA_ATTRIBUTE_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(CUDA_ATTRIBUTE_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(CUDA_FUNCTION_SHARED, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(CUDA_CAPTURE_THREAD, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME(BLAS_COMPUTE_F32, CUBLAS_COMPUTE_32F);
SAME(BLAS_COMPUTE_BF16, CUBLAS_COMPUTE_32F_FAST_16BF);
SAME(BLAS_F32, CUDA_R_32F);
SAME(BLAS_BF16, CUDA_R_16BF);
SAME(BLAS_TRANSPOSE_A, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(BLAS_TRANSPOSE_B, CUBLASLT_MATMUL_DESC_TRANSB);
SAME(BLAS_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME(BLAS_BIAS_POINTER, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME(BLAS_KEPT_POINTER, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
SAME(BLAS_KEPT_LEADING, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
SAME(BLAS_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BIAS);
SAME(BLAS_EPILOGUE_GELU | BLAS_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU_BIAS);
SAME(BLAS_EPILOGUE_GELU | BLAS_EPILOGUE_KEEP | BLAS_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
SAME(BLAS_EPILOGUE_GELU_BACK, CUBLASLT_EPILOGUE_DGELU);
SAME(BLAS_LAYOUT_BATCH, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
SAME(BLAS_LAYOUT_BATCH_STRIDE, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
SAME(BLAS_PREFERENCE_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(BLAS_PREFERENCE_ALIGNMENT_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME(BLAS_PREFERENCE_ALIGNMENT_B, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME(BLAS_PREFERENCE_ALIGNMENT_C, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME(BLAS_PREFERENCE_ALIGNMENT_D, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
SAME(MAJOR_VERSION, 0);
SAME(PATCH_LEVEL, 2);
SAME(CUBLAS_OP_T, 1);
SAME(sizeof(BlasChoice), sizeof(cublasLtMatmulHeuristicResult_t));
SAME(sizeof(((BlasChoice *)0)->algorithm), sizeof(cublasLtMatmulAlgo_t));
SAME(offsetof(BlasChoice, workspace), offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
SAME(offsetof(BlasChoice, status), offsetof(cublasLtMatmulHeuristicResult_t, state));

/* Every call has the arguments that are given to it. */
int all(void *p, size_t bytes, const void *value, int *number);
int all(void *p, size_t bytes, const void *value, int *number) {
    return cublasLtMatmulAlgoCheck(p, p, p, p, p, p, value, p) || cublasLtGetProperty(MAJOR_VERSION, number) ||
           cublasLtMatmulAlgoGetHeuristic(p, p, p, p, p, p, p, *number, p, number) ||
           cublasLtMatmul(p, p, value, value, p, value, p, value, value, p, p, p, value, p, bytes, p) ||
           cublasLtMatrixLayoutCreate(p, CUDA_R_32F, bytes, bytes, *number) ||
           cublasLtMatmulDescCreate(p, CUBLAS_COMPUTE_32F, CUDA_R_32F);
}
