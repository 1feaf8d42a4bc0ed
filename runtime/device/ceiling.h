/* ceiling: what the processor can do, measured, with which every speed is told. */
#ifndef CEILING_H
#define CEILING_H

#include <stdbool.h>
#include <stddef.h>

/* Products of f32 or of bf16 by oneDNN, or by our own kernel where that does not do them, all
 * threads: of sizes 1024, 1536 and 2048 the fastest; brief: 1024. NULL without memory. */
typedef struct ProductsTrial ProductsTrial;
ProductsTrial *products_trial_new(bool rounded, bool brief);
void products_trial_free(ProductsTrial *trial); /* or NULL */

/* GFLOP/s over so many seconds at least. */
double products_trial_rate(const ProductsTrial *trial, double seconds);

/* GFLOP/s of the best of a tenth of a second, at size 1024. */
double ceiling_products_quick(bool rounded);

/* GB/s of reading a block of zeros once, all threads. */
double ceiling_read_pass(const void *block, size_t bytes);

#endif
