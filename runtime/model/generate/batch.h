/* batch: sequences decoded in one batch, one row per sequence. All rows are at the same position. A
 * row with a shorter prompt starts to sample earlier.
 *
 *     position   0  1  2  3  4  5  6  7
 *     row 0      p  p  p  p  p  p  .  .      p: of the prompt
 *     row 1      p  p  .  .  .  (ended)      .: made by the model */
#ifndef BATCH_H
#define BATCH_H

#include "model/decoder.h"
#include "model/generate/sample.h"
#include "tokenizer/text/text.h"

typedef struct Row Row;

/* Called for each token from the second on, in order: token number `place`, from the prompt or
 * sampled, with the logits that predict it, or NULL. Returns false to end the row. */
typedef bool RowTold(Row *row, size_t place, const float *logits);

struct Row {
    TokenList tokens; /* the prompt (at least one token), then the sampled tokens */
    size_t prompt;    /* tokens of the prompt */
    size_t limit;     /* maximum number of sampled tokens */
    Sampling sampling;
    RowTold *told;
    void *context;       /* data for the callback */
    bool ignores_logits; /* the callback accepts NULL */
    bool ended;          /* limit reached, or the callback returned false */
    bool nonsense;       /* ended because a logit is not finite */
};

typedef struct Batch {
    Decoder *decoder;
    Row **rows; /* [count], count at most decoder->rows; NULL: dropped */
    int count;
    int32_t *tokens; /* [row, PREFILL_TOKENS] */
    int32_t *likely; /* the most likely tokens after these */
    float *logits;   /* [vocabulary], changed by penalties */
} Batch;

/* A batch without rows. The decoder must outlive it; batch_free frees neither the decoder nor the
 * rows. */
Batch *batch_new(Decoder *decoder);
void batch_free(Batch *batch);
/* Starts with new rows. prompt + limit of each may be at most decoder->length + 1. False after a
 * device error, which was printed. */
bool batch_begin(Batch *batch, Row *const *rows, int count);
/* Removes a row. */
void batch_drop(Batch *batch, const Row *row);
/* True if at least one row has not ended. */
bool batch_active(const Batch *batch);
/* One decoding step for all rows. False after a device error, which was printed. */
bool batch_step(Batch *batch);
/* The token that a row samples after a text from its logits. */
int32_t batch_choose(Batch *batch, const Row *row, const TokenList *text, const float *logits);
/* The result of a step of the only row that was computed elsewhere: the logits after its tokens. */
void batch_tell(Batch *batch, const float *logits);

/* together: one step of several batches on one model, each with its own decoder and position.
 *
 * On the CPU, reading the matrix dominates the time of a product of one row. Batches
 * that reach the same product share one pass over it: each batch is a coroutine, which waits at the
 * product for the others.
 *
 *     batch 0:  kernels  a0 * w  kernels  ...          a0
 *     batch 1:  kernels  a1 * w  kernels  ...   -->    a1  * w
 *
 * The result of a row does not depend on the number of rows. */
typedef struct Together Together;

/* For up to `most` batches over decoders of the model, of one row each. Until it is freed, the
 * products of the model belong to it. NULL after a message. */
Together *together_new(Model *model, int most);
void together_free(Together *together);
/* Runs work(data[i]), which uses decoders[i], for up to `most` decoders. At every product work i
 * waits for all others; up to it, work i runs before work i + 1. good[i]: the results. */
typedef bool TogetherWork(void *data);
void together_run(Together *together, TogetherWork *work, void *const *data,
                  Decoder *const *decoders, bool *good, int count);
/* Steps `count` different active batches. good[i]: false after a device error of batch i, which was
 * printed. */
void together_step(Together *together, Batch *const *batches, bool *good, int count);

#endif
