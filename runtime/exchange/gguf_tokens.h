/* gguf_tokens: what writing and reading the tokenizer of a GGUF file share.
 */
#ifndef EXCHANGE_GGUF_TOKENS_H
#define EXCHANGE_GGUF_TOKENS_H

#include "exchange/gguf.h"

/* Types of tokens. */
enum { GGUF_NORMAL = 1, GGUF_UNKNOWN, GGUF_CONTROL, GGUF_USER_DEFINED, GGUF_UNUSED, GGUF_BYTE };

/* How a text is cut into words. */
typedef struct GgufCut {
    const char *name;    /* that llama.cpp has for it */
    const char *mark;    /* what only its pattern has, as JSON */
    const char *pattern; /* NULL: the one that byte-level tokenizers have by themselves */
    bool nfc;            /* texts are brought to normal form C */
    bool whole;          /* a word that is a token needs no merges */
} GgufCut;
const GgufCut *gguf_cuts(int *count);
const GgufCut *gguf_cut_named(const char *name); /* NULL: not known here */

/* The merges that SentencePiece's scores mean, the best first, as a list of pairs: each way to
 * make one token of two others. `made`: the tokens that may be made; `vocabulary`: all, {"a": 0}.
 */
json_t *gguf_merges(const json_t *vocabulary, const float *scores, const json_t *made);

#endif
