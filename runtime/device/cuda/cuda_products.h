/* cuda_products: dense products of a table by cuBLASLt. The algorithm of each product is selected
 * once. */
#ifndef CUDA_PRODUCTS_H
#define CUDA_PRODUCTS_H

#include "device/cuda/cuda.h"

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

#endif
