/* decoder: autoregressive decoding: computes the logits of the next token, step by step with
 * caches. */
#ifndef DECODER_H
#define DECODER_H

#include "model/call.h"

typedef struct Decoder {
    Model *model;
    bool owns_model;
    Call *step; /* one token of each row */
    /* PREFILL_TOKENS tokens per call, on the caches of `step`; NULL if not needed or not
     * possible */
    Call *prefill;
    long rows; /* sequences in the batch, all at the same position */
    long position, length;
    int logits;    /* output slot */
    int proposals; /* the same, or -1 */
    Call *fed;     /* the last call that ran */
} Decoder;

enum { PREFILL_TOKENS = MOEC_STEP_TOKENS };

/* Opens a model that decoders share, each with `rows` sequences. length: positions of the caches.
 * NULL after a message. The caller reads the weights. */
Model *decoder_model(Device *device, MoecCompiler *compiler, long rows, long length);
/* A decoder of such a model with new caches. Close it before the model. NULL after a message. */
Decoder *decoder_over(Model *model, long length);
/* The same for graphs of any model; prefill: may be NULL. */
Decoder *decoder_of(Model *model, const MoecGraphEntry *step, const MoecGraphEntry *prefill,
                    long length);

/* A decoder with the caches of another one, whose model it uses, for single tokens. Close it before
 * that one. NULL after a message. */
Decoder *decoder_beside(const Decoder *other);

/* Opens model and decoder. rows: sequences; expected: number of prompt tokens (0: no prefill
 * graph); length: positions of the caches, at least the context length of the spec. NULL after a
 * message. The caller reads the weights. */
Decoder *decoder_open(Device *device, MoecCompiler *compiler, long rows, long expected,
                      long length);
void decoder_close(Decoder *decoder);
AUTO_POINTER(Decoder, decoder_close)
long decoder_vocabulary(const Decoder *decoder);
/* Values per position of an output of the decoding step of such a model; 0: it has none. */
long decoder_model_width(const Model *model, const char *output);
/* Clears the caches: the next token has position 0. False after a device error, which was
 * printed. */
bool decoder_reset(Decoder *decoder);
/* Processes `count` >= 1 tokens of the only row. Returns the logits after the last one, valid until
 * the next call. */
const float *decoder_feed(Decoder *decoder, const int32_t *tokens, long count);
/* Processes one token per row, or PREFILL_TOKENS if there is a prefill graph: tokens [row, count].
 * next: the token after those of the only row; -1: unknown, or several rows. Returns logits [row,
 * count, vocabulary], valid until the next call; NULL after a device error, which was printed. */
const float *decoder_advance(Decoder *decoder, const int32_t *tokens, long count, int32_t next);
/* The tokens that the last position of the last row proposes after the most likely next one: see
 * moec_speculate; valid until the next call. NULL after a device error, which was printed. */
const float *decoder_proposals(const Decoder *decoder);
/* The same two for a device that finds the most likely token itself: see DeviceKind.most_likely.
 * `likely` receives one token, or [row, count]. False after a device error. */
bool decoder_finds_likely(const Decoder *decoder);
bool decoder_feed_likely(Decoder *decoder, const int32_t *tokens, long count, int32_t *likely);
bool decoder_advance_likely(Decoder *decoder, const int32_t *tokens, long count, int32_t *likely);

#endif
