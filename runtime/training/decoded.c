#include "training/evaluation.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

static double nats_of(const float *logits, long vocabulary, int32_t next) {
    float most = logits[0];
    double sum = 0;
    for (long i = 1; i < vocabulary; i++)
        if (logits[i] > most) most = logits[i];
    for (long i = 0; i < vocabulary; i++) sum += exp((double)logits[i] - (double)most);
    return (double)most + log(sum) - (double)logits[next];
}

/* Processes the next `part` tokens of every row; windows: [row, length + 1]. Adds the loss in nats
 * of the first `counted` rows. */
static bool feed(Decoder *decoder, const int32_t *windows, long part, long counted, double *nats) {
    const long first = decoder->position, line = decoder->length + 1;
    const long vocabulary = decoder_vocabulary(decoder);
    AUTO_FREE int32_t *tokens = memory_new(sizeof *tokens * (size_t)(decoder->rows * part));
    for (long row = 0; row < decoder->rows; row++)
        for (long i = 0; i < part; i++) tokens[row * part + i] = windows[row * line + first + i];
    const float *logits = decoder_advance(decoder, tokens, part, -1);
    for (long row = 0; logits && row < counted; row++)
        for (long i = 0; i < part; i++)
            *nats += nats_of(logits + (row * part + i) * vocabulary, vocabulary,
                             windows[row * line + first + i + 1]);
    return logits != NULL;
}

bool measure_decoded(Decoder *decoder, const Data *data, uint64_t count, Evaluation *result) {
    const long rows = decoder->rows, length = decoder->length;
    AUTO_FREE int32_t *windows = memory_new(sizeof *windows * (size_t)(rows * (length + 1)));
    double nats = 0;
    bool good = true;
    for (uint64_t done = 0; done < count && good; done += (uint64_t)rows) {
        /* The last batch is padded with the last sample, which is counted once. */
        for (long row = 0; row < rows && good; row++) {
            uint64_t window = done + (uint64_t)row < count ? done + (uint64_t)row : count - 1;
            good = data_read(data, window * (uint64_t)length, (size_t)(length + 1),
                             windows + row * (length + 1));
        }
        const long counted = count - done < (uint64_t)rows ? (long)(count - done) : rows;
        good = good && decoder_reset(decoder);
        while (good && decoder->position < length) {
            bool many = decoder->prefill && length - decoder->position >= PREFILL_TOKENS;
            good = feed(decoder, windows, many ? PREFILL_TOKENS : 1, counted, &nats);
        }
    }
    result->tokens = count * (uint64_t)length;
    result->weight = (double)result->tokens;
    result->nats = result->tokens ? nats / result->weight : NAN;
    return good;
}
