/* public: the tensors of a table as files know them. A tensor stacked over the steps of a repeat is
 * one tensor a step:
 *
 *     "block.{2*i+1}.ffn.up", "block,dim,hidden", [4, d, f]
 *   -->
 *     "block.1.ffn.up" ... "block.7.ffn.up", "dim,hidden", [d, f]
 */
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

/* An array of *public_count, to be released with public_free. */
PublicTensor *public_tensors(const MoecTensor *tensors, int count, int *public_count);
void public_free(PublicTensor *tensors, int count);

#endif
