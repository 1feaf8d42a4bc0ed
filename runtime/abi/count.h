/* count: the size of a tensor of a table. */
#ifndef COUNT_H
#define COUNT_H

#include "abi/abi.h"

/* Elements. */
static inline size_t tensor_count(const MoecTensor *tensor) {
    size_t count = 1;
    for (int i = 0; i < tensor->rank; i++) count *= (size_t)tensor->shape[i];
    return count;
}

#endif
