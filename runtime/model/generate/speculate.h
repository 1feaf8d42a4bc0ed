/* speculate: speculative decoding (Leviathan et al. 2023). A draft, a smaller model with the same
 * tokens, or the model itself (moec_speculate) proposes the next tokens. The model computes the
 * logits after each of them in one pass over its weights. A proposal that is the token which the
 * model chooses saves a step.
 *
 *     text          In the beginning
 *     proposed                        God  made  the
 *     chosen by the model             God  created          after "God made": not used
 *
 * The text is that of decoding without a draft, bit for bit, with sampling as well. The logits of a
 * row do not depend on the number of rows (together.c), and a token depends on logits, seed and
 * its number alone. The draft samples with the same random numbers. Steps with and without
 * proposals can alternate: they fill the caches of the model alike, and the draft catches up. */
#ifndef SPECULATE_H
#define SPECULATE_H

#include "model/decoder.h"
#include "tokenizer/text/text.h"

enum { SPECULATE_MOST = 7, SPECULATE_DEFAULT = 3 }; /* proposals of a step */

/* The token after a text, from its logits. False: there is none, a logit is not finite. */
typedef bool SpeculationChoice(void *data, const float *logits, const TokenList *text,
                               int32_t *token);

typedef struct Speculation {
    Decoder *decoder, *draft;  /* draft: NULL: the model itself proposes */
    const Decoder *source;     /* that computed the logits of the last token: the model or a row */
    struct Together *together; /* of the caller */
    Decoder *rows[SPECULATE_MOST + 1]; /* on the caches of `decoder` */
    int most, row_count;
    SpeculationChoice *choose;
    void *data;
    TokenList drafted; /* the tokens in the caches of the draft */
    /* of the last step: tokens[0] was the last one of the text, at position `start` */
    int32_t tokens[SPECULATE_MOST + 1];
    const float *logits[SPECULATE_MOST + 1];
    int count, taken;
    long start;
    int now; /* proposals of the next step, 1 .. most: fewer after a step without use */
    long proposed, accepted;
} Speculation;

/* True if decoding of the model can return to an earlier position: it keeps no state of a
 * recurrence and no buffer of the last few positions. False after a message. */
bool speculation_possible(MoecCompiler *compiler);
/* The decoders have one row and equal lengths and vocabularies, and outlive it, as does `together`,
 * for most + 1 decoders. draft: NULL for a model that proposes tokens itself. NULL after a
 * message. */
Speculation *speculation_new(Decoder *decoder, Decoder *draft, struct Together *together, int most,
                             SpeculationChoice *choose, void *data);
void speculation_free(Speculation *speculation);
/* Starts a new text. False after a device error, which was printed. */
bool speculation_reset(Speculation *speculation);
/* Continues with a decoder of the same model that has processed all but the last token of its text,
 * without proposals. */
void speculation_take(Speculation *speculation, Decoder *decoder);
/* Feeds the draft a block of the text; false if it lacks less than a block. *good: false after a
 * device error, which was printed. */
bool speculation_catches_up(Speculation *speculation, const TokenList *text, bool *good);
/* The logits after a text, which is the one of the last call with one more token, or a new one.
 * wanted: the number of tokens that may follow, at least 1. NULL after a device error, which was
 * printed. */
const float *speculation_next(Speculation *speculation, const TokenList *text, long wanted);

#endif
