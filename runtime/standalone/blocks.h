/* blocks: memory for a program: zeroed and 64-byte aligned. */
#ifndef BLOCKS_H
#define BLOCKS_H

#include "abi.h"

/* NULL when there is no memory; never NULL for 0 bytes. To be released with free. */
void *block_new(size_t bytes);
/* Elements of a tensor. */
size_t block_count(const MoecTensor *tensor);
/* One block for each of `count` tensors, every element four bytes; NULL when there is no memory. */
void **slots_new(const MoecTensor *tensors, int count);
void slots_free(void **slots, int count);
/* The slot of an input by its kind and, when that is not NULL, its name; -1 when there is none. */
int slot_find(const MoecTensor *inputs, int count, MoecInput kind, const char *name);

#endif
