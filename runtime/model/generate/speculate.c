#include "model/generate/speculate.h"

#include "base/memory.h"
#include "base/message.h"
#include "model/generate/batch.h"

#include <stdlib.h>

bool speculation_possible(MoecCompiler *compiler) {
    MoecProgram *step = moec_compile(compiler, MOEC_DECODE, 1, 0, 1);
    if (!step) return moec_failed(compiler);
    return moec_step_returns(step) ||
           error_message("leave --draft out; attention and feed-forward layers can use it",
                         "--draft: decoding of model '%s' keeps a state that cannot return to an "
                         "earlier position: a recurrence or the last few positions",
                         moec_model(compiler));
}

Speculation *speculation_new(Decoder *decoder, Decoder *draft, Together *together, int most,
                             SpeculationChoice *choose, void *data) {
    Speculation *made = memory_new(sizeof *made);
    made->decoder = decoder;
    made->draft = draft;
    const int own = (int)decoder_model_width(decoder->model, "proposals");
    if (!draft && most > own) most = own;
    made->most = most;
    made->choose = choose;
    made->data = data;
    made->together = together;
    bool good = true;
    for (; made->row_count <= most && good; made->row_count += good) {
        made->rows[made->row_count] = decoder_beside(decoder);
        good = made->rows[made->row_count] != NULL;
    }
    if (good) return made;
    speculation_free(made);
    return NULL;
}

void speculation_free(Speculation *speculation) {
    if (!speculation) return;
    for (int i = 0; i < speculation->row_count; i++) decoder_close(speculation->rows[i]);
    tokens_free(&speculation->drafted);
    free(speculation);
}

void speculation_take(Speculation *speculation, Decoder *decoder) {
    speculation->decoder = decoder;
    speculation->source = decoder;
    speculation->now = speculation->most;
    speculation->count = speculation->taken = 0;
    for (int i = 0; i < speculation->row_count; i++)
        speculation->rows[i]->step->cache = decoder->step->cache;
}

bool speculation_reset(Speculation *speculation) {
    speculation_take(speculation, speculation->decoder);
    speculation->drafted.count = 0;
    return decoder_reset(speculation->decoder) &&
           (!speculation->draft || decoder_reset(speculation->draft));
}

/* ---- the draft ---- */

/* Returns the draft to the last position where it has the tokens of the text, which is before the
 * last one; the number of tokens that it lacks. */
static size_t return_draft(Speculation *speculation, const TokenList *text) {
    TokenList *drafted = &speculation->drafted;
    size_t same = 0;
    while (same < drafted->count && same + 1 < text->count &&
           drafted->items[same] == text->items[same])
        same++;
    drafted->count = same;
    speculation->draft->position = (long)same;
    return text->count - same;
}

/* Feeds the draft the next `count` tokens of the text; the logits after them. */
static const float *feed_draft(Speculation *speculation, const TokenList *text, size_t count) {
    const int32_t *tokens = text->items + speculation->drafted.count;
    tokens_append(&speculation->drafted, tokens, count);
    return decoder_feed(speculation->draft, tokens, (long)count);
}

bool speculation_catches_up(Speculation *speculation, const TokenList *text, bool *good) {
    *good = true;
    if (!speculation->draft || return_draft(speculation, text) <= PREFILL_TOKENS) return false;
    *good = feed_draft(speculation, text, PREFILL_TOKENS) != NULL;
    return true;
}

/* Proposes up to `most` tokens after the text; false after a device error. */
static bool propose_by_draft(Speculation *speculation, const TokenList *text, int most) {
    AUTO(TokenList) longer = {0};
    const float *logits =
        most > 0 ? feed_draft(speculation, text, return_draft(speculation, text)) : NULL;
    bool good = most <= 0 || logits;
    tokens_append(&longer, text->items, text->count);
    while (good && speculation->count <= most) {
        int32_t token;
        if (!speculation->choose(speculation->data, logits, &longer, &token)) break;
        speculation->tokens[speculation->count++] = token;
        if (speculation->count > most) break;
        tokens_add(&longer, token);
        tokens_add(&speculation->drafted, token);
        logits = decoder_feed(speculation->draft, &token, 1);
        good = logits != NULL;
    }
    return good;
}

/* ---- the predictions of the model itself ---- */

/* The model assumed that its most likely token became the last one of the text. */
static bool propose_by_model(Speculation *speculation, int most) {
    const float *tokens = decoder_proposals(speculation->source);
    const float vocabulary = (float)decoder_vocabulary(speculation->decoder);
    for (int i = 0; tokens && i < most && tokens[i] >= 0 && tokens[i] < vocabulary; i++)
        speculation->tokens[speculation->count++] = (int32_t)tokens[i];
    return tokens != NULL;
}

static bool propose(Speculation *speculation, const TokenList *text, int most) {
    return speculation->draft ? propose_by_draft(speculation, text, most)
                              : propose_by_model(speculation, most);
}

/* ---- the model ---- */

typedef struct SpeculationRow {
    Speculation *speculation;
    int number;
} SpeculationRow;

static bool advance_row(void *data) {
    const SpeculationRow *row = data;
    Speculation *all = row->speculation;
    Decoder *decoder = all->rows[row->number];
    all->logits[row->number] = decoder_advance(decoder, &all->tokens[row->number], 1, -1);
    return all->logits[row->number] != NULL;
}

/* A row runs up to a product before the next one does: it reads the cache entries of the rows
 * before it, as in steps one after the other. */
static bool verify_rows(Speculation *speculation) {
    SpeculationRow rows[SPECULATE_MOST + 1];
    void *data[SPECULATE_MOST + 1];
    bool done[SPECULATE_MOST + 1], good = true;
    for (int i = 0; i < speculation->count; i++) {
        rows[i] = (SpeculationRow){speculation, i};
        data[i] = &rows[i];
        speculation->rows[i]->position = speculation->start + i;
    }
    together_run(speculation->together, advance_row, data, speculation->rows, done,
                 speculation->count);
    for (int i = 0; i < speculation->count; i++) good &= done[i];
    return good;
}

/* More proposals after a step whose proposals were all used, fewer after one without use. */
static void adapt(Speculation *speculation) {
    if (speculation->count < 2) return;
    if (speculation->taken == speculation->count - 1 && speculation->now < speculation->most)
        speculation->now++;
    if (speculation->taken == 0 && speculation->now > 1) speculation->now--;
}

/* The prompt as without a draft: its blocks have a program of their own. */
static bool read_prompt(Speculation *speculation, const TokenList *text) {
    speculation->logits[0] = decoder_feed(speculation->decoder, text->items, (long)text->count);
    speculation->start = (long)text->count - 1;
    speculation->count = 1;
    speculation->source = speculation->decoder;
    return speculation->logits[0] != NULL;
}

static bool speculate(Speculation *speculation, const TokenList *text, long wanted) {
    Decoder *decoder = speculation->decoder;
    const long last = (long)text->count - 1;
    adapt(speculation);
    if (decoder->position == 0) return read_prompt(speculation, text);
    long most = speculation->now;
    if (most > wanted - 1) most = wanted - 1;
    if (most > decoder->length - (long)text->count) most = decoder->length - (long)text->count;
    speculation->start = last;
    speculation->count = 1;
    speculation->taken = 0;
    speculation->tokens[0] = text->items[last];
    if (!propose(speculation, text, (int)most)) return false;
    speculation->proposed += speculation->count - 1;
    decoder->position = last + 1; /* later tokens that are accepted are in the caches, too */
    speculation->source = speculation->rows[0];
    return verify_rows(speculation);
}

const float *speculation_next(Speculation *speculation, const TokenList *text, long wanted) {
    const long row = (long)text->count - 1 - speculation->start;
    const bool follows = speculation->count > 0 && row == speculation->taken + 1 &&
                         row < speculation->count &&
                         text->items[text->count - 1] == speculation->tokens[row];
    if (!follows) return speculate(speculation, text, wanted) ? speculation->logits[0] : NULL;
    speculation->taken = (int)row;
    speculation->accepted++;
    speculation->source = speculation->rows[row];
    speculation->decoder->position = speculation->start + row + 1;
    return speculation->logits[row];
}
