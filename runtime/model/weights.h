/* weights: reads and writes the file weights.bin of this folder, a copy of the memory blocks of the
 * program:
 *
 *     8 bytes   "MOECBIN1"
 *     8 bytes   size of the weights          little-endian, like everything here
 *     8 bytes   size of the states block
 *     8 bytes   FNV-1a hash of the blocks, eight bytes at a time
 *     the weights block, smaller weights (MoecTable.packed), the states block; others are f32 */
#ifndef WEIGHTS_H
#define WEIGHTS_H

#include "abi.h"

typedef enum WeightsResult {
    WEIGHTS_FINE,
    WEIGHTS_NO_FILE,
    WEIGHTS_NOT_OURS,
    WEIGHTS_DAMAGED,
    WEIGHTS_NOT_WRITTEN
} WeightsResult;

/* Copy functions between host and blocks: block_put and block_get of blocks.h; NULL if blocks are
 * in host memory. */
typedef void WeightsPut(void *block, size_t offset, const void *from, size_t bytes);
typedef void WeightsGet(const void *block, size_t offset, void *to, size_t bytes);

/* weights, states: blocks of kept_bytes and table->state_bytes bytes. rounded: of packed_bytes, if
 * the table has such weights. After an error the blocks are invalid; an existing file is
 * unchanged. */
WeightsResult weights_read(const char *path, const MoecTable *table, WeightsPut *put,
                           float *weights, void *rounded, float *states);
WeightsResult weights_write(const char *path, const MoecTable *table, WeightsGet *get,
                            const float *weights, const void *rounded, const float *states);

#endif
