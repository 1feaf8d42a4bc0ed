/* weights: reading and writing the file weights.bin of this folder, which holds the blocks of the
 * program as they lie in memory:
 *
 *     8 bytes   "MOECBIN1"
 *     8 bytes   size of the weights block    little-endian, like everything here
 *     8 bytes   size of the states block
 *     8 bytes   FNV-1a hash of both blocks, eight bytes at a time
 *     the weights block, then the states block: float32
 */
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

/* How bytes go to blocks and come from them: block_put and block_get of blocks.h; NULL where blocks
 * are the program's own memory. */
typedef void WeightsPut(void *block, size_t offset, const void *from, size_t bytes);
typedef void WeightsGet(const void *block, size_t offset, void *to, size_t bytes);

/* weights, states: the blocks of the program (table->weight_bytes, table->state_bytes). After
 * any result but WEIGHTS_FINE blocks hold nothing to use, and a file is what it was before. */
WeightsResult weights_read(const char *path, const MoecTable *table, WeightsPut *put,
                           float *weights, float *states);
WeightsResult weights_write(const char *path, const MoecTable *table, WeightsGet *get,
                            const float *weights, const float *states);

#endif
