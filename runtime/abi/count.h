/* count: sizes derived from a program table, for the runtime and for standalone exports. */
#ifndef COUNT_H
#define COUNT_H

#include "abi.h"

/* Number of elements of a tensor. */
static inline size_t tensor_count(const MoecTensor *tensor) {
    size_t count = 1;
    for (int i = 0; i < tensor->rank; i++) count *= (size_t)tensor->shape[i];
    return count;
}

/* trained_bytes: size of the gradient block. moment_bytes: size of one optimizer state of
 * MoecUpdate. */
static inline size_t trained_bytes(const MoecTable *table) {
    return table->weight_bytes - table->frozen_bytes;
}
static inline size_t moment_bytes(const MoecTable *table) {
    return trained_bytes(table) - table->whole_bytes;
}
/* The number of clip groups, without that of the global norm. */
static inline int table_clip_groups(const MoecTable *table) {
    int groups = 0;
    for (int i = 0; i < table->parameter_count; i++)
        if (table->parameters[i].clip_group > groups) groups = table->parameters[i].clip_group;
    return groups;
}
/* The largest norm of the gradients of a clip group; `global` for group 0. 0: no limit. */
static inline double table_clip_limit(const MoecTable *table, int group, double global) {
    for (int i = 0; i < table->parameter_count && group; i++)
        if (table->parameters[i].clip_group == group) return table->parameters[i].clip;
    return global;
}
/* Size of the weights that programs read in f32. */
static inline size_t kept_bytes(const MoecTable *table) {
    return table->weight_bytes - table->alone_bytes;
}
/* Size of MoecRun.rounded. */
static inline size_t rounded_bytes(const MoecTable *table) {
    return table->packed_count > 0 ? table->packed_bytes
           : table->round          ? table->weight_bytes / 2
                                   : 0;
}

#endif
