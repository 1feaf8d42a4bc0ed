/* prefix: caches of prompts, kept in host memory. A prompt with the same first tokens starts with
 * a copy of them instead of computing them again.
 *
 * Caches are saved after a whole number of prefill blocks: the values of later tokens depend on
 * whether a block or single steps computed them, and a reused prefix must not change an answer.
 * Caches with an entry per position can be cut at any block; the other ones (states of
 * recurrences, ring buffers of sliding windows) fit only the prefix at whose end they were saved.
 *
 *     saved:   p p p p p p p p|                |: end of a block
 *     prompt:  p p p p q q q q q q q  -->  the first 4 tokens are copied, the rest is computed */
#ifndef PREFIX_H
#define PREFIX_H

#include "model/decoder.h"

typedef struct Prefixes Prefixes;

/* Prefixes of decoders of one row that are like `decoder`, in at most `limit` bytes: the least
 * recently used ones are dropped. */
Prefixes *prefixes_new(const Decoder *decoder, size_t limit);
void prefixes_free(Prefixes *prefixes);
/* Bytes in use. */
size_t prefixes_bytes(const Prefixes *prefixes);

/* A prompt and its relation to the saved ones. */
typedef struct CachedPrompt {
    const int32_t *tokens;
    long count;
    long branch; /* where it leaves a saved prompt whose state there is not known; 0: nowhere */
} CachedPrompt;

/* Fills the caches of a decoder at position 0 with the longest saved prefix that leaves at least
 * one token of the prompt, and sets the position. Sets prompt->branch. False after a device error,
 * which was printed. */
bool prefixes_load(Prefixes *prefixes, Decoder *decoder, CachedPrompt *prompt);
/* Saves the caches if the position is the last whole block of the prompt or its branch. False after
 * a device error, which was printed. */
bool prefixes_save(Prefixes *prefixes, const Decoder *decoder, const CachedPrompt *prompt);

#endif
