/* ceiling: what the processor can do, measured, with which every speed is told. */
#ifndef CEILING_H
#define CEILING_H

#include <stdbool.h>
#include <stddef.h>

/* GFLOP/s of products of 1024 to 2048, of f32 or of bf16, the best of oneDNN and our own kernel,
 * all threads. */
double ceiling_products(bool rounded);
/* The same from size 1024 alone, in about a tenth of a second. */
double ceiling_products_quick(bool rounded);

/* GB/s of reading a block of zeros once, all threads. */
double ceiling_read_pass(const void *block, size_t bytes);

#endif
