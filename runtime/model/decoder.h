/* decoder: a model that takes tokens and gives the logits of the next, step by step with its
 * caches. */
#ifndef DECODER_H
#define DECODER_H

#include "model/call.h"

typedef struct Decoder {
    Model *model;
    bool owns_model;
    Call *step;    /* one token of each row */
    Call *prefill; /* PREFILL_TOKENS at once, on the caches of step; NULL when there was no need or
                      no way */
    long rows;     /* texts side by side, all at the same position */
    long position, length;
    int logits; /* output slot */
} Decoder;

enum { PREFILL_TOKENS = MOEC_STEP_TOKENS };

/* A model that decoders of several widths share: rows[i] texts side by side in those of width i.
 * length: places of the caches. NULL after a message. The weights are still to be read. */
Model *decoder_model(Device *device, MoecCompiler *compiler, const long *rows, int widths,
                     long length);
/* A decoder over such a model, with caches of its own. Closed before the model. NULL after a
 * message. */
Decoder *decoder_over(Model *model, int width, long length);
/* The same over graphs of any model; prefill: NULL for none. */
Decoder *decoder_of(Model *model, const MoecGraphEntry *step, const MoecGraphEntry *prefill,
                    long length);

/* rows: texts side by side; expected: tokens that will be fed at once at the start (0: none worth a
 * graph of its own); length: places of the caches, at least the spec's context. NULL after a
 * message. The weights are still to be read. */
Decoder *decoder_open(Device *device, MoecCompiler *compiler, long rows, long expected,
                      long length);
void decoder_close(Decoder *decoder);
long decoder_vocabulary(const Decoder *decoder);
/* Forgets what was fed: the next token is the first. False after a message of the device. */
bool decoder_reset(Decoder *decoder);
/* Feeds `count` >= 1 tokens to the one row; the logits after the last one, valid until the next
 * call. */
const float *decoder_feed(Decoder *decoder, const int32_t *tokens, long count);
/* Feeds every row 1 token, or PREFILL_TOKENS where there is a prefill: tokens [row, count]. The
 * logits [row, count, vocabulary], valid until the next call; NULL after a message of the device.
 */
const float *decoder_advance(Decoder *decoder, const int32_t *tokens, long count);

#endif
