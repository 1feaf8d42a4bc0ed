/* gguf_rotation: Llama 3's rotation, which files of llama.cpp hold as a tensor: the factor of each
 * pair's wave, by which its frequency is divided.
 *
 *     rope_freqs.weight[d/2]    <-->    "arch.rope.scaling.type" = "llama3", its factor,
 *                                       low_freq_factor, high_freq_factor, original_context_length
 */
#ifndef EXCHANGE_GGUF_ROTATION_H
#define EXCHANGE_GGUF_ROTATION_H

#include "data/gguf_file.h"
#include "moec.h"

/* Adds to a configuration what the tensor means, where there is one. Only the ratios of low, high
 * and original show: low is 1. False after a message: no such rotation has these factors. */
bool gguf_rotation_read(const GgufFile *file, json_t *config);
/* The factors that the pairs of a configuration ask for, *count of them, to be freed; NULL where
 * they ask for none. */
float *gguf_rotation_factors(const MoecPair *pairs, int pair_count, int *count);
/* Whether the tensor says what the key does. */
bool gguf_rotation_says(const float *factors, const char *key);

#endif
