#include "device/cuda/cuda.h"

#include "device/cuda/cuda_choice.h"
#include "base/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* cuBLASLt is column-major: it computes c' = b' a', which has the memory layout of c = a b. */

/* More calls are slower than the own kernel: one launch for both batch dimensions. */
enum { MAX_CALLS = 4 };

typedef enum BlasState { ENTRY_NEW, ENTRY_READY, ENTRY_DECLINED } BlasState;

typedef struct CublasProduct {
    BlasState state;
    int alignment; /* alignment in bytes of all operands so far */
    BlasTask task;
    BlasChoice choice;
} CublasProduct;

struct CudaProducts {
    BlasWork work;
    const MoecProduct *products;
    int count;
    CublasProduct entries[];
};

/* One operand in the form of cuBLASLt. */
typedef struct Side {
    MoecType type;
    long rows, columns, leading;
    int transposed;
} Side;

/* Operands with scales, which only kernels of the program multiply. */
static bool is_scaled_type(MoecType type) {
    return type == MOEC_E4M3 || type == MOEC_E5M2;
}

static size_t operand_bytes(MoecType type, long elements) {
    const size_t bytes = is_scaled_type(type) ? 1
                         : type == MOEC_BF16  ? sizeof(uint16_t)
                                              : sizeof(float);
    return bytes * (size_t)elements;
}

/* `along`: stride between adjacent elements of a row; `across`: stride between rows. */
static Side side_of(MoecType type, long rows, long columns, long across, long along) {
    Side side = {type, columns, rows, across, 0};
    if (along != 1) side = (Side){type, rows, columns, along, 1};
    if (side.leading < side.rows) side.leading = side.rows;
    return side;
}

static bool make_layout(const CudaBlas *blas, BlasLayout **layout, const Side *side, int batch,
                        long stride) {
    int64_t step = stride;
    return !blas->layout_new(layout, side->type == MOEC_BF16 ? BLAS_BF16 : BLAS_F32,
                             (unsigned long long)side->rows, (unsigned long long)side->columns,
                             side->leading) &&
           !blas->layout_set(*layout, BLAS_LAYOUT_BATCH, &batch, sizeof batch) &&
           !blas->layout_set(*layout, BLAS_LAYOUT_BATCH_STRIDE, &step, sizeof step);
}

/* Operands stored as bf16 are multiplied without conversion. */
static bool make_product(const CudaBlas *blas, BlasTask *task, const Side *left, const Side *right,
                         bool rounded) {
    int32_t transpose_left = left->transposed, transpose_right = right->transposed;
    bool on_the_way = rounded && left->type == MOEC_F32;
    return !blas->product_new(&task->product, on_the_way ? BLAS_COMPUTE_BF16 : BLAS_COMPUTE_F32,
                              BLAS_F32) &&
           !blas->product_set(task->product, BLAS_TRANSPOSE_A, &transpose_left,
                              sizeof transpose_left) &&
           !blas->product_set(task->product, BLAS_TRANSPOSE_B, &transpose_right,
                              sizeof transpose_right);
}

/* Operations before the result is stored; the addend has the layout of c. */
static bool make_epilogue(const CudaBlas *blas, BlasTask *task, const MoecProduct *product) {
    const int epilogue_ops = product->epilogue_ops;
    const int64_t leading = product->kept_m;
    const uint32_t epilogue = (epilogue_ops & MOEC_BIAS ? BLAS_EPILOGUE_BIAS : 0u) |
                              (epilogue_ops & MOEC_GELU ? BLAS_EPILOGUE_GELU : 0u) |
                              (epilogue_ops & MOEC_KEEP ? BLAS_EPILOGUE_KEEP : 0u) |
                              (epilogue_ops & MOEC_GELU_BACK ? BLAS_EPILOGUE_GELU_BACK : 0u);
    return !epilogue ||
           (!blas->product_set(task->product, BLAS_EPILOGUE, &epilogue, sizeof epilogue) &&
            (!leading ||
             !blas->product_set(task->product, BLAS_KEPT_LEADING, &leading, sizeof leading)));
}

static bool prefer(const BlasWork *work, int alignment) {
    static const int names[] = {BLAS_PREFERENCE_ALIGNMENT_A, BLAS_PREFERENCE_ALIGNMENT_B,
                                BLAS_PREFERENCE_ALIGNMENT_C, BLAS_PREFERENCE_ALIGNMENT_D};
    uint32_t bytes = (uint32_t)alignment;
    bool good = true;
    for (int i = 0; i < 4 && good; i++)
        good = !work->blas->preference_set(work->preference, names[i], &bytes, sizeof bytes);
    return good;
}

static bool make_entry(BlasWork *work, CublasProduct *entry, const MoecProduct *product) {
    const CudaBlas *blas = work->blas;
    BlasTask *task = &entry->task;
    /* cuBLASLt handles the longer batch dimension */
    const int inner = product->batch[1] > product->batch[0], outer = !inner;
    const int batch = (int)product->batch[inner];
    Side left = side_of(product->b_type, product->k, product->n, product->b_k, product->b_n);
    Side right = side_of(product->a_type, product->m, product->k, product->a_m, product->a_k);
    Side result = side_of(product->c_type, product->m, product->n, product->c_m, 1), added = result;
    if (product->epilogue_ops & MOEC_ADD) added.leading = product->add_m;
    /* a dummy address with the alignment of the later operands */
    CudaPointer some = work->operands.add ? work->operands.add : 1024;
    some += (CudaPointer)(entry->alignment & 15);
    const BlasOperands places = {.bias = some, .kept = some};
    task->calls = product->batch[outer];
    task->a_step = operand_bytes(product->a_type, product->a_batch[outer]);
    task->b_step = operand_bytes(product->b_type, product->b_batch[outer]);
    task->c_step = operand_bytes(product->c_type, product->c_batch[outer]);
    return task->calls <= MAX_CALLS && product->a_type == product->b_type &&
           !is_scaled_type(product->a_type) && prefer(work, entry->alignment) &&
           make_product(blas, task, &left, &right, product->rounded) &&
           make_epilogue(blas, task, product) && cuda_epilogue(work, task, product, &places) &&
           make_layout(blas, &task->added, &added, batch, product->c_batch[inner]) &&
           make_layout(blas, &task->left, &left, batch, product->b_batch[inner]) &&
           make_layout(blas, &task->right, &right, batch, product->a_batch[inner]) &&
           make_layout(blas, &task->result, &result, batch, product->c_batch[inner]) &&
           cuda_choose(work, task, product, entry->alignment, &entry->choice);
}

static void blas_entry_free(const CudaBlas *blas, CublasProduct *entry) {
    BlasLayout *layouts[] = {entry->task.left, entry->task.right, entry->task.added,
                             entry->task.result};
    for (int i = 0; i < 4; i++)
        if (layouts[i]) blas->layout_free(layouts[i]);
    if (entry->task.product) blas->product_free(entry->task.product);
    *entry = (CublasProduct){.state = ENTRY_DECLINED};
}

static void open_entry(CudaProducts *products, int index, int alignment) {
    CublasProduct *entry = &products->entries[index];
    *entry = (CublasProduct){.state = ENTRY_READY, .alignment = alignment};
    if (!make_entry(&products->work, entry, &products->products[index]))
        blas_entry_free(products->work.blas, entry);
}

/* ---- selection before the first run ---- */

/* Bytes from the first to the last element of an operand. */
static size_t extent_of(MoecType type, const long *batch, const long *batch_steps, long rows,
                        long row, long columns, long column) {
    long last = (rows - 1) * row + (columns - 1) * column;
    for (int i = 0; i < 2; i++) last += (batch[i] - 1) * batch_steps[i];
    return operand_bytes(type, last + 1);
}

/* Number of operands with memory for measurements; extra bytes after the largest operand. */
enum { TRIED = 5, SLACK = 16 };

static void tried_operands(BlasWork *work, CudaPointer *places[TRIED]) {
    BlasOperands *operands = &work->operands;
    CudaPointer *all[TRIED] = {&operands->a, &operands->b, &operands->c, &operands->add,
                               &operands->kept};
    memcpy(places, all, sizeof all);
}

/* Allocates operands of the largest size. Their bytes are nonzero, since zeros multiply faster. */
static bool take_operands(BlasWork *work, const MoecTable *table) {
    const CudaDriver *driver = &work->device->library->driver;
    size_t bytes[TRIED] = {0};
    CudaPointer *places[TRIED];
    tried_operands(work, places);
    for (int i = 0; i < table->product_count; i++) {
        const MoecProduct *p = &table->products[i];
        const long one[2] = {1, 1};
        size_t each[TRIED] = {
            extent_of(p->a_type, p->batch, p->a_batch, p->m, p->a_m, p->k, p->a_k),
            extent_of(p->b_type, p->batch, p->b_batch, p->k, p->b_k, p->n, p->b_n),
            extent_of(p->c_type, p->batch, p->c_batch, p->m, p->c_m, p->n, 1),
            extent_of(p->c_type, one, p->c_batch, p->m, p->add_m, p->n, 1),
            extent_of(p->c_type, one, p->c_batch, p->m, p->kept_m, p->n, 1)};
        for (int j = 0; j < (p->epilogue_ops ? TRIED : 3); j++)
            bytes[j] = each[j] > bytes[j] ? each[j] : bytes[j];
    }
    for (int j = 0; j < TRIED; j++)
        if (driver->allocate(places[j], bytes[j] + SLACK) ||
            driver->set(*places[j], 0x3c, bytes[j] + SLACK, work->device->stream))
            return false;
    work->operands.bias = work->operands.add;
    return true;
}

static void give_operands(BlasWork *work) {
    CudaPointer *places[TRIED];
    tried_operands(work, places);
    for (int j = 0; j < TRIED; j++) cuda_free(work->device, *places[j]);
    work->operands = (BlasOperands){0};
}

/* Alignment of all matrices of a product whose first matrices are aligned to 16 bytes. */
static int alignment_of(const MoecProduct *product, CudaPointer bits) {
    bits |= operand_bytes(product->c_type, product->add_m);
    bits |= operand_bytes(product->c_type, product->kept_m);
    for (int i = 0; i < 2; i++)
        bits |= operand_bytes(product->a_type, product->a_batch[i]) |
                operand_bytes(product->b_type, product->b_batch[i]) |
                operand_bytes(product->c_type, product->c_batch[i]);
    return bits % 16 == 0 ? 16 : bits % 8 == 0 ? 8 : bits % 4 == 0 ? 4 : 2;
}

static void choose_all(CudaProducts *products, const MoecTable *table) {
    BlasWork *work = &products->work;
    if (cuda_choices_are_fixed() || !take_operands(work, table)) give_operands(work);
    for (int i = 0; i < products->count; i++) {
        const CudaPointer least =
            table->own_products ? (CudaPointer)table->own_products[i].alignment : 0;
        open_entry(products, i, alignment_of(&products->products[i], least));
    }
    give_operands(work);
}

CudaProducts *cuda_products_new(CudaDevice *device, const MoecTable *table, bool keep) {
    const CudaBlas *blas = table->product_count ? cuda_blas() : NULL;
    if (!blas) return NULL;
    CudaProducts *products =
        memory_new(sizeof *products + sizeof(CublasProduct) * (size_t)table->product_count);
    BlasWork *work = &products->work;
    *work = (BlasWork){.device = device, .blas = blas, .keep = keep};
    products->products = table->products;
    products->count = table->product_count;
    size_t workspace = BLAS_WORKSPACE;
    if (!blas->create(&work->handle) && !blas->preference_new(&work->preference) &&
        !blas->preference_set(work->preference, BLAS_PREFERENCE_WORKSPACE, &workspace,
                              sizeof workspace) &&
        !device->library->driver.allocate(&work->workspace, workspace)) {
        choose_all(products, table);
        return products;
    }
    cuda_products_free(products);
    return NULL;
}

void cuda_products_free(CudaProducts *products) {
    if (!products) return;
    BlasWork *work = &products->work;
    for (int i = 0; i < products->count; i++) blas_entry_free(work->blas, &products->entries[i]);
    cuda_free(work->device, work->workspace);
    if (work->preference) work->blas->preference_free(work->preference);
    if (work->handle) work->blas->destroy(work->handle);
    free(products);
}

int cuda_products_timed(const CudaProducts *products) {
    return products->work.timed;
}

bool cuda_products_taken(const CudaProducts *products, int index) {
    return products->entries[index].state == ENTRY_READY;
}

int cuda_products_declined(const CudaProducts *products) {
    int count = 0;
    for (int i = 0; i < products->count; i++) count += products->entries[i].state == ENTRY_DECLINED;
    return count;
}

int cuda_products_run(CudaProducts *products, int index, const void *a, const void *b, void *c,
                      const MoecEpilogue *epilogue) {
    CublasProduct *entry = &products->entries[index];
    const MoecProduct *product = &products->products[index];
    BlasOperands at = {.a = cuda_pointer(a), .b = cuda_pointer(b), .c = cuda_pointer(c)};
    if (epilogue) {
        at.add = cuda_pointer(epilogue->add);
        at.bias = cuda_pointer(epilogue->bias);
        at.kept = cuda_pointer(epilogue->kept);
    }
    int alignment = alignment_of(product, at.a | at.b | at.c | at.add | at.bias | at.kept);
    if (entry->state == ENTRY_READY && alignment < entry->alignment) {
        blas_entry_free(products->work.blas, entry);
        open_entry(products, index, alignment);
    }
    if (entry->state != ENTRY_READY) return 1;
    return !cuda_multiply(&products->work, &entry->task, &entry->choice, product, &at);
}
