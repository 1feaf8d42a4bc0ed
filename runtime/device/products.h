/* products: matrix products of generated programs by oneDNN. */
#ifndef PRODUCTS_H
#define PRODUCTS_H

#include "abi/abi.h"

#include <stdbool.h>

/* The products of one table. Primitives are created at first use and kept. */
typedef struct Products Products;

/* NULL without oneDNN or memory: the program's own kernels then compute the products. */
Products *products_new(const MoecTable *table);
/* Creates the primitives of all products now instead of at first use. Returns the bytes that oneDNN
 * will allocate to run them. */
size_t products_prepare(Products *products);
void products_free(Products *products);

/* MoecHost.product with self == Products: 0 = computed, 1 = the program's own kernel is faster. */
int products_run(void *self, int index, const void *a, const void *b, void *c,
                 const MoecEpilogue *epilogue);

/* True if this processor multiplies bf16 faster than f32, by oneDNN or, without it, by the own
 * kernels. */
bool products_of_bf16(void);

/* c[m][n] = a[m][k] b[k][n], all matrices contiguous. */
MoecProduct plain_product(long m, long n, long k);

#endif
