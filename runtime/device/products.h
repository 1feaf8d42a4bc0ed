/* products: the matrix products that the host lends to generated programs, by oneDNN. */
#ifndef PRODUCTS_H
#define PRODUCTS_H

#include "abi/abi.h"

#include <stdbool.h>

/* The products of one table. Primitives are made on first use and kept. */
typedef struct Products Products;

/* NULL when there is no library or memory is short: the program's own kernels then do the work. */
Products *products_new(const MoecTable *table);
/* Makes the primitives of all products now; otherwise each is made on first use. Returns the bytes
 * that the library will take for its own when they run. */
size_t products_prepare(Products *products);
void products_free(Products *products);

/* MoecHost.product with self == Products: 0 when done, 1 when the caller's own kernel is the better
 * one. */
int products_run(void *self, int index, const void *a, const void *b, void *c,
                 const MoecEpilogue *epilogue);

/* Whether bf16 is multiplied faster than f32 on this processor: by the library, or where it is not
 * there by our own kernels. */
bool products_of_bf16(void);

/* c[m][n] = a[m][k] b[k][n], rows one behind the other. */
MoecProduct plain_product(long m, long n, long k);

#endif
