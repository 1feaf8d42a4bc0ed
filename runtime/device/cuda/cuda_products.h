/* cuda_products: the dense products of a table by cuBLASLt. The algorithm of a product is chosen
 * once. */
#ifndef CUDA_PRODUCTS_H
#define CUDA_PRODUCTS_H

#include "device/cuda/cuda.h"

typedef struct CudaProducts CudaProducts;

/* NULL without cuBLASLt: the program's own kernel then does the work. keep: use the cache. */
CudaProducts *cuda_products_new(CudaDevice *device, const MoecTable *table, bool keep);
void cuda_products_free(CudaProducts *products);

/* As MoecHost.product: 0 when it was done. */
int cuda_products_run(CudaProducts *products, int index, const void *a, const void *b, void *c,
                      const MoecEpilogue *epilogue);
/* How many products had their algorithms timed, because the cache did not know them. */
int cuda_products_timed(const CudaProducts *products);
/* Whether the library takes a product, wherever its operands lie. */
bool cuda_products_taken(const CudaProducts *products, int index);
/* How many the library does not take: the program's own kernels, which are slower, do them. */
int cuda_products_declined(const CudaProducts *products);

#endif
