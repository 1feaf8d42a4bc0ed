#include "model/generate/batch.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

Batch *batch_new(Decoder *decoder) {
    Batch *batch = memory_new(sizeof *batch);
    batch->decoder = decoder;
    batch->rows = memory_new(sizeof(Row *) * (size_t)decoder->rows);
    batch->tokens = memory_new(sizeof(int32_t) * (size_t)decoder->rows * PREFILL_TOKENS);
    batch->likely = memory_new(sizeof(int32_t) * (size_t)decoder->rows * PREFILL_TOKENS);
    batch->logits = memory_new(sizeof(float) * (size_t)decoder_vocabulary(decoder));
    return batch;
}

void batch_free(Batch *batch) {
    if (!batch) return;
    free(batch->rows);
    free(batch->tokens);
    free(batch->likely);
    free(batch->logits);
    free(batch);
}

bool batch_begin(Batch *batch, Row *const *rows, int count) {
    memcpy(batch->rows, rows, sizeof(Row *) * (size_t)count);
    batch->count = count;
    return decoder_reset(batch->decoder);
}

void batch_drop(Batch *batch, const Row *row) {
    for (int i = 0; i < batch->count; i++)
        if (batch->rows[i] == row) batch->rows[i] = NULL;
}

static bool row_goes_on(const Row *row) {
    return row && !row->ended;
}

bool batch_active(const Batch *batch) {
    for (int i = 0; i < batch->count; i++)
        if (row_goes_on(batch->rows[i])) return true;
    return false;
}

/* True if all rows can process a block of prompt tokens, and none has to sample within it. Rows
 * past their end receive arbitrary tokens, which do not affect earlier positions. */
static bool prefills(const Batch *batch) {
    const Decoder *decoder = batch->decoder;
    size_t end = (size_t)decoder->position + PREFILL_TOKENS;
    if (!decoder->prefill || end > (size_t)decoder->length) return false;
    for (int i = 0; i < batch->count; i++) {
        const Row *row = batch->rows[i];
        if (row_goes_on(row) && row->limit > 1 && row->prompt < end) return false;
    }
    return true;
}

int32_t batch_choose(Batch *batch, const Row *row, const TokenList *text, const float *logits) {
    long vocabulary = decoder_vocabulary(batch->decoder);
    const Said said = {text->items, text->count, row->prompt};
    logits = sample_adjust(&row->sampling, logits, batch->logits, vocabulary, &said);
    return sample_token(&row->sampling, logits, vocabulary, text->count - row->prompt);
}

/* Handles the logits that predict the token at index `place`; NULL: `likely` is the most likely
 * token, or -1 if a logit is not finite. */
static void tell_rows(Batch *batch, Row *row, size_t place, const float *logits, int32_t likely) {
    if (place >= row->prompt + row->limit) {
        row->ended = true;
        return;
    }
    if (logits ? !sample_possible(logits, decoder_vocabulary(batch->decoder)) : likely < 0) {
        row->ended = row->nonsense = true;
        return;
    }
    if (place >= row->prompt)
        tokens_add(&row->tokens, logits ? batch_choose(batch, row, &row->tokens, logits) : likely);
    row->ended = !row->told(row, place, logits) || place + 1 >= row->prompt + row->limit;
}

void batch_tell(Batch *batch, const float *logits) {
    tell_rows(batch, batch->rows[0], batch->rows[0]->tokens.count, logits, -1);
}

/* The token of the only row at an index, -1 if it is not known. */
static int32_t known_token(const Batch *batch, size_t index) {
    const Row *row = batch->decoder->rows == 1 ? batch->rows[0] : NULL;
    return row && index < row->tokens.count ? row->tokens.items[index] : -1;
}

/* True if the most likely token of every row is enough. */
static bool needs_no_logits(const Batch *batch) {
    if (!decoder_finds_likely(batch->decoder)) return false;
    for (int i = 0; i < batch->count; i++) {
        const Row *row = batch->rows[i];
        if (row_goes_on(row) && (!row->ignores_logits || !sample_is_greedy(&row->sampling)))
            return false;
    }
    return true;
}

bool batch_step(Batch *batch) {
    Decoder *decoder = batch->decoder;
    size_t position = (size_t)decoder->position, vocabulary = (size_t)decoder_vocabulary(decoder);
    size_t count = prefills(batch) ? PREFILL_TOKENS : 1;
    memset(batch->tokens, 0, sizeof(int32_t) * (size_t)decoder->rows * PREFILL_TOKENS);
    for (int i = 0; i < batch->count; i++) {
        if (!row_goes_on(batch->rows[i])) continue;
        const TokenList *tokens = &batch->rows[i]->tokens;
        for (size_t k = 0; k < count && position + k < tokens->count; k++)
            batch->tokens[(size_t)i * count + k] = tokens->items[position + k];
    }
    const bool likely = needs_no_logits(batch);
    const float *logits = NULL;
    const bool good =
        likely ? decoder_advance_likely(decoder, batch->tokens, (long)count, batch->likely)
               : (logits = decoder_advance(decoder, batch->tokens, (long)count,
                                           known_token(batch, position + count))) != NULL;
    for (int i = 0; good && i < batch->count; i++)
        for (size_t k = 0; k < count && row_goes_on(batch->rows[i]); k++) {
            const size_t at = (size_t)i * count + k;
            tell_rows(batch, batch->rows[i], position + k + 1,
                      likely ? NULL : logits + at * vocabulary, likely ? batch->likely[at] : -1);
        }
    return good;
}
