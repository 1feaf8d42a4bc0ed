/* batch: texts side by side, a row of a decoder each. All rows stand at the same position; one
 * whose prompt is shorter begins earlier to make tokens of its own.
 *
 *     position   0  1  2  3  4  5  6  7
 *     row 0      p  p  p  p  p  p  .  .      p: of the prompt
 *     row 1      p  p  .  .  .  (ended)      .: made by the model
 */
#ifndef BATCH_H
#define BATCH_H

#include "model/decoder.h"
#include "model/sample.h"
#include "tokenizer/text/text.h"

typedef struct Row Row;

/* Called for each token from the second on, in order: that of `place`, of the prompt or just made,
 * with the logits that foretold it. Returns whether the row goes on. */
typedef bool RowTold(Row *row, size_t place, const float *logits);

struct Row {
    TokenList tokens; /* the prompt, at least one, then what was made */
    size_t prompt;    /* tokens of the prompt */
    size_t limit;     /* tokens to make at most */
    Sampling sampling;
    RowTold *told;
    void *context; /* of whoever told is */
    bool ended;    /* all was made, or told wanted no more */
    bool nonsense; /* ended because a logit was no number */
};

typedef struct Batch {
    Decoder *decoder;
    Row **rows; /* [count], count at most decoder->rows; NULL: dropped */
    int count;
    int32_t *tokens; /* [row, PREFILL_TOKENS] */
    float *logits;   /* [vocabulary], changed by penalties */
} Batch;

/* Without rows; the decoder must outlive it. batch_free leaves the decoder and the rows alone. */
Batch *batch_new(Decoder *decoder);
void batch_free(Batch *batch);
/* Begins with other rows, which must fit: prompt + limit is at most decoder->length + 1. False
 * after a message of the device. */
bool batch_begin(Batch *batch, Row *const *rows, int count);
/* A row that has ended is not looked at any more. */
void batch_drop(Batch *batch, const Row *row);
/* Whether a row goes on. */
bool batch_active(const Batch *batch);
/* One step for all. False after a message of the device. */
bool batch_step(Batch *batch);

#endif
