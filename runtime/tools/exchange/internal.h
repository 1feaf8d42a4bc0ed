/* internal: declarations that only files of this folder use. */
#ifndef EXCHANGE_INTERNAL_H
#define EXCHANGE_INTERNAL_H

#include "data/shards.h"
#include "moec.h"
#include "tools/exchange/exchange.h"

/* gguf_rotation: RoPE scaling of Llama 3, which GGUF stores as a tensor: for each pair the divisor
 * of its frequency.
 *
 *     rope_freqs.weight[d/2]    <-->    "arch.rope.scaling.type" = "llama3", its factor,
 *                                       low_freq_factor, high_freq_factor, original_context_length
 * */

/* Adds the RoPE scaling of the tensor, if present, to a configuration. Only the ratios of low, high
 * and original are determined, so low is 1. False after a message if no Llama 3 scaling has these
 * factors. */
bool gguf_rotation_read(const GgufFile *file, json_t *config);
/* The factors for the pairs of a configuration, *count of them; the caller frees them. NULL if it
 * has no such scaling. */
float *gguf_rotation_factors(const MoecPair *pairs, int pair_count, int *count);
/* True if the tensor replaces this key. */
bool gguf_rotation_says(const float *factors, const char *key);

/* gguf_tokens: tokenizer definitions shared by GGUF import and export. */

/* Token types. */
enum { GGUF_NORMAL = 1, GGUF_UNKNOWN, GGUF_CONTROL, GGUF_USER_DEFINED, GGUF_UNUSED, GGUF_BYTE };

/* A pre-tokenizer. */
typedef struct GgufCut {
    const char *name;    /* name in llama.cpp */
    const char *mark;    /* text that occurs only in its pattern, as JSON */
    const char *pattern; /* NULL: default pattern of byte-level tokenizers */
    bool digits;         /* each digit is a word of its own */
    bool nfc;            /* with NFC normalization */
    bool whole;          /* a word that is a token is not split */
} GgufCut;
const GgufCut *gguf_cuts(int *count);
const GgufCut *gguf_cut_named(const char *name); /* NULL: not supported */

/* Merges derived from SentencePiece scores, best first, as a list of pairs: all splits of a token
 * into two tokens. `made`: tokens that merges may produce; `vocabulary`: all tokens, {"a": 0}. */
json_t *gguf_merges(const json_t *vocabulary, const float *scores, const json_t *made);

#endif
