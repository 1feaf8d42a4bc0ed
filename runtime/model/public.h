/* public: tensors of a table by their names in files. A tensor that is stacked over a repeat is one
 * tensor per step:
 *
 *     "block.{2*i+1}.ffn.up", "block,dim,hidden", [4, d, f]
 * -->
 *     "block.1.ffn.up" ... "block.7.ffn.up", "dim,hidden", [d, f] */
#ifndef PUBLIC_H
#define PUBLIC_H

#include "abi/count.h"

typedef struct PublicTensor {
    char *name, *axes;
    const MoecTensor *tensor;
    int rank;
    long shape[MOEC_MAX_RANK];
    size_t offset; /* in bytes from the start of its block */
    size_t count;  /* elements */
} PublicTensor;

/* A new array of *public_count tensors; free it with public_free. */
PublicTensor *public_tensors(const MoecTensor *tensors, int count, int *public_count);
void public_free(PublicTensor *tensors, int count);

#endif
