/* gguf_rotation: RoPE scaling of Llama 3, which GGUF stores as a tensor: for each pair the divisor
 * of its frequency.
 *
 *     rope_freqs.weight[d/2]    <-->    "arch.rope.scaling.type" = "llama3", its factor,
 *                                       low_freq_factor, high_freq_factor, original_context_length
 * */
#ifndef EXCHANGE_GGUF_ROTATION_H
#define EXCHANGE_GGUF_ROTATION_H

#include "data/gguf_file.h"
#include "moec.h"

/* Adds the RoPE scaling of the tensor, if present, to a configuration. Only the ratios of low, high
 * and original are determined, so low is 1. False after a message if no Llama 3 scaling has these
 * factors. */
bool gguf_rotation_read(const GgufFile *file, json_t *config);
/* The factors for the pairs of a configuration, *count of them; the caller frees them. NULL if it
 * has no such scaling. */
float *gguf_rotation_factors(const MoecPair *pairs, int pair_count, int *count);
/* True if the tensor replaces this key. */
bool gguf_rotation_says(const float *factors, const char *key);

#endif
