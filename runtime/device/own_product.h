/* own_product: the GEMM kernel of generated programs, precompiled for several instruction sets. It
 * measures the peak if oneDNN is missing. */
#ifndef OWN_PRODUCT_H
#define OWN_PRODUCT_H

#include "abi/abi.h"

#include <stddef.h>

typedef struct OwnProduct {
    size_t scratch; /* bytes per thread for operand packing */
    void (*multiply)(const MoecProduct *product, const void *a, const void *b, void *c,
                     void *scratch);
} OwnProduct;

/* The variant for this processor. */
const OwnProduct *own_product(void);

#endif
