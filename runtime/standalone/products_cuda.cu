/* products for a CUDA device: the dense ones by cuBLASLt. It counts in columns, the program in
 * rows: it is asked for c' = b' a', whose memory is that of c = a b. */
#include <cublasLt.h>
#include <cuda_runtime.h>

extern "C" {
#include "abi.h"

extern const MoecTable moec_table;
int moec_blas_product(void *self, int index, const void *a, const void *b, void *c,
                      const MoecEpilogue *epilogue);
}

#include <stdint.h>
#include <stdlib.h>

/* A product as the library is asked for it. */
typedef struct Task {
    enum { TASK_NEW, TASK_READY, TASK_DECLINED } state;
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t left, right, added, result; /* b', a', addend, c' */
    cublasLtMatmulAlgo_t algorithm;
    long calls; /* iterations over the batch dimension that cuBLASLt does not handle */
    size_t a_step, b_step, c_step;
} Task;

static cublasLtHandle_t handle;
static void *workspace;
static const size_t workspace_bytes = 32 << 20;

static size_t bytes_of(MoecType type, long elements) {
    return (type == MOEC_BF16 ? 2 : 4) * (size_t)elements;
}

/* `along` is the stride between neighbours in a row of ours, `across` that between rows. */
static bool make_layout(cublasLtMatrixLayout_t *layout, cublasOperation_t *transposed,
                        MoecType type, long rows, long columns, long across, long along, int batch,
                        int64_t step) {
    const cudaDataType_t kind = type == MOEC_BF16 ? CUDA_R_16BF : CUDA_R_32F;
    const bool flipped = along != 1;
    const long high = flipped ? rows : columns, wide = flipped ? columns : rows,
               leading = flipped ? along : across;
    *transposed = flipped ? CUBLAS_OP_T : CUBLAS_OP_N;
    return !cublasLtMatrixLayoutCreate(layout, kind, (uint64_t)high, (uint64_t)wide,
                                       leading < high ? high : leading) &&
           !cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                             sizeof batch) &&
           !cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                             &step, sizeof step);
}

/* Operations before the result is stored. */
static bool make_epilogue(Task *task, const MoecProduct *p) {
    const int64_t leading = p->kept_m;
    const uint32_t epilogue = (p->epilogue_ops & MOEC_BIAS ? CUBLASLT_EPILOGUE_BIAS : 0u) |
                              (p->epilogue_ops & MOEC_GELU ? CUBLASLT_EPILOGUE_GELU : 0u) |
                              (p->epilogue_ops & MOEC_KEEP ? CUBLASLT_EPILOGUE_GELU_AUX : 0u) |
                              (p->epilogue_ops & MOEC_GELU_BACK ? CUBLASLT_EPILOGUE_DGELU : 0u);
    return !epilogue ||
           (!cublasLtMatmulDescSetAttribute(task->product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                            sizeof epilogue) &&
            (!p->kept_m ||
             !cublasLtMatmulDescSetAttribute(task->product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
                                             &leading, sizeof leading)));
}

/* Sets the addresses of the epilogue operands. */
static bool place_epilogue(const Task *task, const MoecProduct *p, const MoecEpilogue *epilogue) {
    return (!(p->epilogue_ops & MOEC_BIAS) ||
            !cublasLtMatmulDescSetAttribute(task->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                            &epilogue->bias, sizeof epilogue->bias)) &&
           (!p->kept_m || !cublasLtMatmulDescSetAttribute(task->product,
                                                          CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
                                                          &epilogue->kept, sizeof epilogue->kept));
}

static bool choose(Task *task, uint32_t alignment) {
    static const cublasLtMatmulPreferenceAttributes_t names[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t chosen = {};
    int found = 0;
    if (cublasLtMatmulPreferenceCreate(&preference)) return false;
    bool good =
        !cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                              &workspace_bytes, sizeof workspace_bytes);
    for (int i = 0; i < 4; i++)
        good = good && !cublasLtMatmulPreferenceSetAttribute(preference, names[i], &alignment,
                                                             sizeof alignment);
    good = good && !cublasLtMatmulAlgoGetHeuristic(handle, task->product, task->left, task->right,
                                                   task->added, task->result, preference, 1,
                                                   &chosen, &found);
    cublasLtMatmulPreferenceDestroy(preference);
    task->algorithm = chosen.algo;
    return good && found == 1;
}

static bool make_task(Task *task, const MoecProduct *p, const MoecEpilogue *epilogue,
                      uint32_t alignment) {
    const bool on_the_way = p->rounded && p->b_type == MOEC_F32;
    const int inner = p->batch[1] > 1, batch = (int)p->batch[inner];
    cublasOperation_t left, right, result;
    task->calls = inner ? p->batch[0] : 1;
    task->a_step = bytes_of(p->a_type, p->a_batch[0]);
    task->b_step = bytes_of(p->b_type, p->b_batch[0]);
    task->c_step = bytes_of(p->c_type, p->c_batch[0]);
    return p->a_type == p->b_type &&
           make_layout(&task->left, &left, p->b_type, p->k, p->n, p->b_k, p->b_n, batch,
                       p->b_batch[inner]) &&
           make_layout(&task->right, &right, p->a_type, p->m, p->k, p->a_m, p->a_k, batch,
                       p->a_batch[inner]) &&
           make_layout(&task->added, &result, p->c_type, p->m, p->n,
                       p->epilogue_ops & MOEC_ADD ? p->add_m : p->c_m, 1, batch,
                       p->c_batch[inner]) &&
           make_layout(&task->result, &result, p->c_type, p->m, p->n, p->c_m, 1, batch,
                       p->c_batch[inner]) &&
           !cublasLtMatmulDescCreate(&task->product,
                                     on_the_way ? CUBLAS_COMPUTE_32F_FAST_16BF : CUBLAS_COMPUTE_32F,
                                     CUDA_R_32F) &&
           !cublasLtMatmulDescSetAttribute(task->product, CUBLASLT_MATMUL_DESC_TRANSA, &left,
                                           sizeof left) &&
           !cublasLtMatmulDescSetAttribute(task->product, CUBLASLT_MATMUL_DESC_TRANSB, &right,
                                           sizeof right) &&
           make_epilogue(task, p) && place_epilogue(task, p, epilogue) && choose(task, alignment);
}

/* The largest power of two, 16 at most, that all matrices of the operands start at multiples of. */
static uint32_t alignment_of(const MoecProduct *p, const void *a, const void *b, const void *c,
                             const MoecEpilogue *epilogue) {
    uintptr_t bits = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c | 16;
    if (epilogue)
        bits |= (uintptr_t)epilogue->add | (uintptr_t)epilogue->bias | (uintptr_t)epilogue->kept;
    bits |= bytes_of(p->c_type, p->add_m) | bytes_of(p->c_type, p->kept_m);
    for (int i = 0; i < 2; i++)
        bits |= bytes_of(p->a_type, p->a_batch[i]) | bytes_of(p->b_type, p->b_batch[i]) |
                bytes_of(p->c_type, p->c_batch[i]);
    return (uint32_t)(bits & -bits);
}

/* The task of a product for this alignment, or NULL if cuBLASLt refuses it. */
static Task *task_of(int index, const MoecEpilogue *epilogue, int alignment) {
    enum { ALIGNMENTS = 4 }; /* 2, 4, 8 and 16 bytes */
    static Task *tasks;
    int place = alignment == 16 ? 3 : alignment == 8 ? 2 : alignment == 4 ? 1 : 0;
    if (!handle && (cublasLtCreate(&handle) || cudaMalloc(&workspace, workspace_bytes)))
        return NULL;
    if (!tasks)
        tasks = (Task *)calloc((size_t)moec_table.product_count * ALIGNMENTS, sizeof *tasks);
    if (!tasks) return NULL;
    Task *task = &tasks[index * ALIGNMENTS + place];
    if (task->state == Task::TASK_NEW)
        task->state = make_task(task, &moec_table.products[index], epilogue, (uint32_t)alignment)
                          ? Task::TASK_READY
                          : Task::TASK_DECLINED;
    return task->state == Task::TASK_READY ? task : NULL;
}

extern "C" int moec_blas_product(void *, int index, const void *a, const void *b, void *c,
                                 const MoecEpilogue *epilogue) {
    const MoecProduct *product = &moec_table.products[index];
    const Task *task = task_of(index, epilogue, (int)alignment_of(product, a, b, c, epilogue));
    const bool adds = product->epilogue_ops & MOEC_ADD;
    const float scale = product->epilogue_ops & MOEC_SCALE ? product->scale : 1;
    const float start = adds || product->accumulate ? 1 : 0;
    if (task && !place_epilogue(task, product, epilogue)) return 1;
    for (size_t call = 0; task && call < (size_t)task->calls; call++) {
        char *result = (char *)c + call * task->c_step;
        if (cublasLtMatmul(handle, task->product, &scale, (const char *)b + call * task->b_step,
                           task->left, (const char *)a + call * task->a_step, task->right, &start,
                           adds ? epilogue->add : result, task->added, result, task->result,
                           &task->algorithm, workspace, workspace_bytes, 0))
            return 1;
    }
    return task == NULL;
}
