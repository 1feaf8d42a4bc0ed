/* ceiling: measured peak of the CPU, the reference of all reported speeds. */
#ifndef CEILING_H
#define CEILING_H

#include <stdbool.h>
#include <stddef.h>

/* Products in f32 or bf16 with all threads, by oneDNN or by the own kernel if oneDNN cannot. The
 * fastest of the sizes 1024, 1536 and 2048; brief: 1024 only. NULL without memory. */
typedef struct ProductsTrial ProductsTrial;
ProductsTrial *products_trial_new(bool rounded, bool brief);
void products_trial_free(ProductsTrial *trial); /* or NULL */

/* GFLOP/s, measured for at least `seconds`. */
double products_trial_rate(const ProductsTrial *trial, double seconds);

/* GFLOP/s at size 1024: the best pass in 0.1 s. */
double ceiling_products_quick(bool rounded);

/* GB/s of one pass of reads over a zeroed block, all threads. */
double ceiling_read_pass(const void *block, size_t bytes);

#endif
