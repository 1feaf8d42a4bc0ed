#include "cuda_products.h"

#include "memory.h"

#include <stdint.h>
#include <stdlib.h>

/* The library counts in columns, we in rows: it is asked for c' = b' a', whose memory is that of c
 * = a b. */

enum { WORKSPACE = 32 << 20 };

typedef enum EntryState { ENTRY_NEW, ENTRY_READY, ENTRY_DECLINED } EntryState;

typedef struct Entry {
    EntryState state;
    int alignment; /* bytes that all operands so far were multiples of */
    BlasProduct *product;
    BlasLayout *left, *right, *result; /* b', a', c' */
    BlasChoice choice;
    long turns; /* of the batch dimension that the library does not do itself */
    size_t a_turn, b_turn, c_turn; /* in bytes */
} Entry;

struct CudaProducts {
    CudaDevice *device;
    const CudaBlas *blas;
    const MoecProduct *products;
    int count;
    BlasHandle *handle;
    BlasPreference *preference;
    CudaPointer workspace;
    Entry entries[];
};

/* One operand as the library sees it. */
typedef struct Side {
    MoecType type;
    long rows, columns, leading;
    int transposed;
} Side;

static size_t bytes_of(MoecType type, long elements) {
    return (type == MOEC_BF16 ? sizeof(uint16_t) : sizeof(float)) * (size_t)elements;
}

/* `along` is the stride between neighbours in a row of ours, `across` that between rows. */
static Side side_of(MoecType type, long rows, long columns, long across, long along) {
    Side side = {type, columns, rows, across, 0};
    if (along != 1) side = (Side){type, rows, columns, along, 1};
    if (side.leading < side.rows) side.leading = side.rows;
    return side;
}

static bool make_layout(const CudaBlas *blas, BlasLayout **layout, const Side *side, int batch,
                        long stride) {
    int64_t step = stride;
    return !blas->layout_new(layout, side->type == MOEC_BF16 ? BLAS_BF16 : BLAS_F32, (unsigned long long)side->rows,
                             (unsigned long long)side->columns, side->leading) &&
           !blas->layout_set(*layout, BLAS_LAYOUT_BATCH, &batch, sizeof batch) &&
           !blas->layout_set(*layout, BLAS_LAYOUT_BATCH_STRIDE, &step, sizeof step);
}

/* What lies in memory as bf16 is multiplied as it is. */
static bool make_product(const CudaBlas *blas, Entry *entry, const Side *left, const Side *right,
                         bool rounded) {
    int32_t transpose_left = left->transposed, transpose_right = right->transposed;
    bool on_the_way = rounded && left->type == MOEC_F32;
    return !blas->product_new(&entry->product, on_the_way ? BLAS_COMPUTE_BF16 : BLAS_COMPUTE_F32,
                              BLAS_F32) &&
           !blas->product_set(entry->product, BLAS_TRANSPOSE_A, &transpose_left,
                              sizeof transpose_left) &&
           !blas->product_set(entry->product, BLAS_TRANSPOSE_B, &transpose_right,
                              sizeof transpose_right);
}

static bool prefer(CudaProducts *products, int alignment) {
    static const int names[] = {BLAS_PREFERENCE_ALIGNMENT_A, BLAS_PREFERENCE_ALIGNMENT_B,
                                BLAS_PREFERENCE_ALIGNMENT_C, BLAS_PREFERENCE_ALIGNMENT_D};
    uint32_t bytes = (uint32_t)alignment;
    bool good = true;
    for (int i = 0; i < 4 && good; i++)
        good =
            !products->blas->preference_set(products->preference, names[i], &bytes, sizeof bytes);
    return good;
}

static bool make_entry(CudaProducts *products, Entry *entry, const MoecProduct *product) {
    const CudaBlas *blas = products->blas;
    int inner = product->batch[1] > 1; /* the dimension that the library does */
    int batch = (int)product->batch[inner], found = 0;
    Side left = side_of(product->b_type, product->k, product->n, product->b_k, product->b_n);
    Side right = side_of(product->a_type, product->m, product->k, product->a_m, product->a_k);
    Side result = side_of(product->c_type, product->m, product->n, product->c_m, 1);
    entry->turns = inner ? product->batch[0] : 1;
    entry->a_turn = bytes_of(product->a_type, product->a_batch[0]);
    entry->b_turn = bytes_of(product->b_type, product->b_batch[0]);
    entry->c_turn = bytes_of(product->c_type, product->c_batch[0]);
    return product->a_type == product->b_type && prefer(products, entry->alignment) &&
           make_product(blas, entry, &left, &right, product->rounded) &&
           make_layout(blas, &entry->left, &left, batch, product->b_batch[inner]) &&
           make_layout(blas, &entry->right, &right, batch, product->a_batch[inner]) &&
           make_layout(blas, &entry->result, &result, batch, product->c_batch[inner]) &&
           !blas->choose(products->handle, entry->product, entry->left, entry->right, entry->result,
                         entry->result, products->preference, 1, &entry->choice, &found) &&
           found == 1;
}

static void entry_free(const CudaBlas *blas, Entry *entry) {
    BlasLayout *layouts[] = {entry->left, entry->right, entry->result};
    for (int i = 0; i < 3; i++)
        if (layouts[i]) blas->layout_free(layouts[i]);
    if (entry->product) blas->product_free(entry->product);
    *entry = (Entry){.state = ENTRY_DECLINED};
}

CudaProducts *cuda_products_new(CudaDevice *device, const MoecTable *table) {
    const CudaBlas *blas = table->product_count ? cuda_blas() : NULL;
    if (!blas) return NULL;
    CudaProducts *products =
        memory_new(sizeof *products + sizeof(Entry) * (size_t)table->product_count);
    products->device = device;
    products->blas = blas;
    products->products = table->products;
    products->count = table->product_count;
    size_t workspace = WORKSPACE;
    if (!blas->create(&products->handle) && !blas->preference_new(&products->preference) &&
        !blas->preference_set(products->preference, BLAS_PREFERENCE_WORKSPACE, &workspace,
                              sizeof workspace) &&
        !device->library->driver.allocate(&products->workspace, workspace))
        return products;
    cuda_products_free(products);
    return NULL;
}

void cuda_products_free(CudaProducts *products) {
    if (!products) return;
    for (int i = 0; i < products->count; i++) entry_free(products->blas, &products->entries[i]);
    if (products->workspace) products->device->library->driver.release(products->workspace);
    if (products->preference) products->blas->preference_free(products->preference);
    if (products->handle) products->blas->destroy(products->handle);
    free(products);
}

/* The largest power of two, 16 at most, that all matrices of the operands start at multiples of. */
static int alignment_of(const MoecProduct *product, const void *a, const void *b, const void *c) {
    CudaPointer bits = cuda_pointer(a) | cuda_pointer(b) | cuda_pointer(c);
    for (int i = 0; i < 2; i++)
        bits |= bytes_of(product->a_type, product->a_batch[i]) |
                bytes_of(product->b_type, product->b_batch[i]) |
                bytes_of(product->c_type, product->c_batch[i]);
    return bits % 16 == 0 ? 16 : bits % 8 == 0 ? 8 : bits % 4 == 0 ? 4 : 2;
}

int cuda_products_run(CudaProducts *products, int index, const void *a, const void *b, void *c) {
    Entry *entry = &products->entries[index];
    const MoecProduct *product = &products->products[index];
    int alignment = alignment_of(product, a, b, c);
    if (entry->state == ENTRY_READY && alignment < entry->alignment) {
        entry_free(products->blas, entry);
        entry->state = ENTRY_NEW;
    }
    if (entry->state == ENTRY_NEW) {
        *entry = (Entry){.state = ENTRY_READY, .alignment = alignment};
        if (!make_entry(products, entry, product)) entry_free(products->blas, entry);
    }
    if (entry->state != ENTRY_READY) return 1;
    const float one = 1, start = product->accumulate ? 1 : 0;
    for (size_t turn = 0; turn < (size_t)entry->turns; turn++) {
        CudaPointer result = cuda_pointer(c) + turn * entry->c_turn;
        if (products->blas->run(products->handle, entry->product, &one,
                                cuda_pointer(b) + turn * entry->b_turn, entry->left,
                                cuda_pointer(a) + turn * entry->a_turn, entry->right, &start,
                                result, entry->result, result, entry->result, &entry->choice,
                                products->workspace, WORKSPACE, products->device->stream))
            return 1;
    }
    return 0;
}
