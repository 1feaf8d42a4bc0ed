/* own_product: the kernel that programs multiply with, compiled ahead for what the processor may
 * be: it is the ceiling where there is no library. */
#ifndef OWN_PRODUCT_H
#define OWN_PRODUCT_H

#include "abi/abi.h"

#include <stddef.h>

typedef struct OwnProduct {
    size_t scratch; /* bytes that each thread packs into */
    void (*multiply)(const MoecProduct *product, const void *a, const void *b, void *c,
                     void *scratch);
} OwnProduct;

/* For the instructions of this processor. */
const OwnProduct *own_product(void);

#endif
