/* gguf_tokens: tokenizer definitions shared by GGUF import and export. */
#ifndef EXCHANGE_GGUF_TOKENS_H
#define EXCHANGE_GGUF_TOKENS_H

#include "tools/exchange/gguf.h"

/* Token types. */
enum { GGUF_NORMAL = 1, GGUF_UNKNOWN, GGUF_CONTROL, GGUF_USER_DEFINED, GGUF_UNUSED, GGUF_BYTE };

/* A pre-tokenizer. */
typedef struct GgufCut {
    const char *name;    /* name in llama.cpp */
    const char *mark;    /* text that occurs only in its pattern, as JSON */
    const char *pattern; /* NULL: default pattern of byte-level tokenizers */
    bool nfc;            /* with NFC normalization */
    bool whole;          /* a word that is a token is not split */
} GgufCut;
const GgufCut *gguf_cuts(int *count);
const GgufCut *gguf_cut_named(const char *name); /* NULL: not supported */

/* Merges derived from SentencePiece scores, best first, as a list of pairs: all splits of a token
 * into two tokens. `made`: tokens that merges may produce; `vocabulary`: all tokens, {"a": 0}. */
json_t *gguf_merges(const json_t *vocabulary, const float *scores, const json_t *made);

#endif
