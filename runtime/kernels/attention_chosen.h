/* attention_chosen: softmax attention to chosen pairs, forward and backward: see attention.h.
 *
 * chosen[batch or 1, query blocks, head blocks, key blocks] has one element for so many queries,
 * heads and keys, or one number for MOEC_WORD elements: element i of them is its bit i. A query
 * attends to the keys of the elements that are not 0, in addition to the mask. The queries that
 * attend to any of a few keys are listed and multiplied together, however far apart they are; the
 * cost is that of the chosen pairs if an element has MOEC_CHOSEN_KEYS keys or more. Otherwise,
 * queries that attend to few of the keys read those alone (attention_listed.h). The running
 * softmax of all queries of a span is in memory. Results do not depend on the number of threads.
 */
#ifndef MOEC_ATTENTION_CHOSEN_H
#define MOEC_ATTENTION_CHOSEN_H

#include "attention_listed.h"

enum {
    MOEC_CHOSEN_SPAN = 2048, /* queries of a task */
    MOEC_CHOSEN_KEYS = 16,   /* elements for fewer keys than these are treated together: */
    MOEC_CHOSEN_TILE = MOEC_ATTEND_KEYS / 4, /* at most so many keys of several elements, or */
    MOEC_CHOSEN_TILES = 8,                   /* the keys of so many tiles */
    MOEC_CHOSEN_AHEAD = 8,                   /* rows of elements from a prefetch to the use */
    MOEC_CHOSEN_ALONE = 3                    /* a pair alone costs as much as so many of a tile */
};

/* Buffers of one thread: the softmax of the queries of a span; the elements of some keys as bits;
 * the queries that see them. */
typedef struct MoecChosenScratch {
    float largest[MOEC_CHOSEN_SPAN], sum[MOEC_CHOSEN_SPAN], total[MOEC_CHOSEN_SPAN];
    uint32_t chosen[MOEC_CHOSEN_TILES][MOEC_CHOSEN_SPAN], any[MOEC_CHOSEN_SPAN];
    int list[MOEC_CHOSEN_SPAN];
    MoecSeen seen;
} MoecChosenScratch;

static _Thread_local MoecChosenScratch moec_chosen_scratch __attribute__((unused, aligned(64)));

/* Queries first .. first+count-1 of one head of one batch element. */
typedef struct MoecSpan {
    const MoecAttend *attend;
    const MoecHead *head;
    MoecHeadGrad *grad; /* NULL: forward */
    const float *chosen;
    long first, count, offset;
} MoecSpan;

/* Numbers of a row of elements. */
MOEC_INLINE long moec_chosen_numbers(const MoecAttend *attend) {
    const long elements = moec_ceil_div(attend->places, attend->chosen_block[2]);
    return attend->chosen_words ? moec_ceil_div(elements, MOEC_WORD) : elements;
}
MOEC_INLINE const float *moec_chosen_at(const MoecAttend *attend, const float *chosen, long b,
                                        long h) {
    const long *block = attend->chosen_block, heads = moec_ceil_div(attend->heads, block[1]),
               queries = moec_ceil_div(attend->queries, block[0]);
    return chosen + ((attend->chosen_all ? 0 : b) * queries * heads + h / block[1]) *
                        moec_chosen_numbers(attend);
}
MOEC_INLINE long moec_chosen_step(const MoecAttend *attend) {
    return moec_ceil_div(attend->heads, attend->chosen_block[1]) * moec_chosen_numbers(attend);
}

/* One bit for each element first .. end-1 of a row, at most 32. */
MOEC_INLINE uint32_t moec_row_bits(const MoecAttend *attend, const float *row, long first,
                                   long end) {
    if (!attend->chosen_words) {
        uint32_t bits = 0;
#pragma omp simd reduction(| : bits)
        for (int i = 0; i < (int)(end - first); i++)
            bits |= row[first + i] != 0.0f ? (uint32_t)1 << i : 0u;
        return bits;
    }
    const uint64_t wanted = ((uint64_t)1 << (end - first)) - 1;
    uint64_t all = 0;
    for (long w = first / MOEC_WORD; w * MOEC_WORD < end; w++)
        all |= (uint64_t)(uint32_t)row[w] << (w - first / MOEC_WORD) * MOEC_WORD;
    return (uint32_t)(all >> first % MOEC_WORD & wanted);
}

/* The same of each query, by tiles of so many elements. Rows are far apart in memory, so each is
 * read once, after a prefetch. Queries of the same block have the same bits. */
MOEC_FUNCTION void moec_span_bits(const MoecSpan *span, long first, long end, long tile) {
    MoecChosenScratch *scratch = &moec_chosen_scratch;
    const long side = span->attend->chosen_block[0], step = moec_chosen_step(span->attend),
               number = span->attend->chosen_words ? first / MOEC_WORD : first;
    const float *row = span->chosen + span->first / side * step;
    for (long i = 0, until = 0; i < span->count; i++) {
        const int same = i < until;
        uint32_t any = 0;
        if (!same) {
            if (i > 0) row += step;
            until = ((span->first + i) / side + 1) * side - span->first;
            if (until + MOEC_CHOSEN_AHEAD * side <= span->count)
                moec_ask(row + MOEC_CHOSEN_AHEAD * step + number);
        }
        for (long t = first, k = 0; t < end; t += tile, k++) {
            scratch->chosen[k][i] =
                same ? scratch->chosen[k][i - 1]
                     : moec_row_bits(span->attend, row, t, moec_least(t + tile, end));
            any |= scratch->chosen[k][i];
        }
        scratch->any[i] = any;
    }
}

/* The queries with one of the wanted bits that see one of the keys. */
MOEC_FUNCTION long moec_span_list(const MoecSpan *span, const uint32_t *bits, uint32_t wanted,
                                  MoecRange keys) {
    int *list = moec_chosen_scratch.list;
    const MoecAttend *attend = span->attend;
    const long none = attend->mask == MOEC_MASK_NONE, before = span->offset + span->first,
               least = none ? 0 : moec_within(keys.first - before, span->count),
               most = attend->mask == MOEC_MASK_WINDOW
                          ? moec_within(keys.end - 1 + attend->window - before, span->count)
                          : span->count;
    long count = 0;
    for (long i = least; i < most; i++) {
        list[count] = (int)(span->first + i);
        count += (bits[i] & wanted) != 0;
    }
    return count;
}

/* Elements of a tile, which are treated together. */
MOEC_INLINE long moec_tile_elements(const MoecAttend *attend) {
    return moec_least(MOEC_CHOSEN_TILE / attend->chosen_block[2], 32);
}

/* Finds the cells of a pair that are chosen; element `first` is the first bit. */
MOEC_FUNCTION void moec_pair_seen(const MoecSpan *span, const MoecBlockPair *pair, long first) {
    MoecChosenScratch *scratch = &moec_chosen_scratch;
    const long side = span->attend->chosen_block[2], tile = moec_tile_elements(span->attend);
    uint32_t bits[MOEC_ATTEND_QUERIES];
    long known = -1; /* the tile of these bits */
    for (long j = 0; j < pair->keys; j++) {
        const long element = (pair->key + j) / side - first, bit = element % tile;
        unsigned char *cell = scratch->seen.cell[j];
        if (element / tile != known) {
            known = element / tile;
            for (long i = 0; i < pair->queries; i++)
                bits[i] = scratch->chosen[known][pair->list[i] - span->first];
        }
#pragma omp simd
        for (long i = 0; i < pair->queries; i++) cell[i] = (unsigned char)(bits[i] >> bit & 1u);
    }
}

/* ---- forward ---- */

MOEC_FUNCTION void moec_chosen_pair(const MoecSpan *span, const MoecBlockPair *pair) {
    const MoecAttend *attend = span->attend;
    const MoecHead *head = span->head;
    MoecAttendScratch *scratch = &moec_attend_scratch;
    MoecChosenScratch *state = &moec_chosen_scratch;
    const MoecSoon soon = {NULL, NULL, NULL};
    float before[MOEC_ATTEND_QUERIES];
    for (long i = 0; i < pair->queries; i++) {
        before[i] = scratch->largest[i] = state->largest[pair->list[i] - span->first];
        scratch->sum[i] = state->sum[pair->list[i] - span->first];
    }
    moec_pair_scores(attend, head, pair);
    moec_pair_largest(attend, head, pair);
    moec_pair_fade(before, pair->queries);
    moec_pair_weights(attend, head, pair, &soon);
    const MoecOperand v =
        moec_columns_of(head->v, moec_row_of_key(attend, pair->key), head->v_step, attend->v_type);
    for (long c = 0, width; c < attend->value_width; c += width) {
        width = moec_least(attend->value_width - c, MOEC_ATTEND_WIDTH);
        const MoecOperand part = moec_from(v, c, 0);
        moec_pair_sums(attend, pair, scratch->score, 1, &part, width, &scratch->key_rows,
                       (MoecOutput){scratch->output, width, 0});
        for (long i = 0; i < pair->queries; i++) {
            float *to = (float *)head->o + pair->list[i] * head->o_step + c;
            const float *from = scratch->output + i * width, fade = scratch->fade[i];
#pragma omp simd
            for (long x = 0; x < width; x++) to[x] = to[x] * fade + from[x];
        }
    }
    for (long i = 0; i < pair->queries; i++) {
        state->largest[pair->list[i] - span->first] = scratch->largest[i];
        state->sum[pair->list[i] - span->first] = scratch->sum[i];
    }
}

/* ---- backward ---- */

MOEC_FUNCTION void moec_chosen_grad_pair(const MoecSpan *span, const MoecBlockPair *pair) {
    const MoecAttend *attend = span->attend;
    const MoecHead *head = span->head;
    const MoecHeadGrad *grad = span->grad;
    MoecAttendScratch *scratch = &moec_attend_scratch;
    const MoecChosenScratch *state = &moec_chosen_scratch;
    const MoecType grad_type = attend->grad_type;
    const MoecSoon soon = {NULL, NULL, NULL};
    const MoecOperand output = moec_query_rows(pair, grad->output_grad, head->o_step, grad_type),
                      value = moec_rows_of(head->v, pair->key, head->v_step, attend->v_type),
                      q = moec_query_columns(pair, head->q, head->q_step, attend->q_type),
                      k = moec_columns_of(head->k, pair->key, head->k_step, attend->k_type),
                      outputs =
                          moec_query_columns(pair, grad->output_grad, head->o_step, grad_type);
    const MoecOutput dk = {grad->dk.rows + pair->key * head->k_step, head->k_step, 1},
                     dv = {grad->dv.rows + pair->key * head->v_step, head->v_step, 1};
    for (long i = 0; i < pair->queries; i++) {
        scratch->less[i] = state->largest[pair->list[i] - span->first];
        scratch->total[i] = state->total[pair->list[i] - span->first];
    }
    moec_pair_scores(attend, head, pair);
    moec_pair_cells(attend, pair, &value, &output, attend->value_width, &scratch->grad,
                    scratch->slope);
    moec_pair_slopes(attend, head, grad, pair, &soon);
    moec_pair_sums(attend, pair, scratch->score, 0, &outputs, attend->value_width,
                   &scratch->grad_rows, dv);
    moec_pair_sums(attend, pair, scratch->slope, 0, &q, attend->width, &scratch->query_rows, dk);
    for (long c = 0, width; c < attend->width; c += width) {
        width = moec_least(attend->width - c, MOEC_ATTEND_WIDTH);
        const MoecOperand part = moec_from(k, c, 0);
        moec_pair_sums(attend, pair, scratch->slope, 1, &part, width, &scratch->key_rows,
                       (MoecOutput){scratch->output, width, 0});
        for (long i = 0; i < pair->queries; i++) {
            float *to = grad->dq + pair->list[i] * head->q_step + c;
            const float *from = scratch->output + i * width;
#pragma omp simd
            for (long x = 0; x < width; x++) to[x] += from[x];
        }
    }
}

/* ---- both ---- */

/* Some keys, with the listed queries of the span. first: the element of the first bit; -1: all
 * pairs are chosen. */
MOEC_FUNCTION void moec_span_keys(const MoecSpan *span, long queries, MoecRange range, long first) {
    MoecAttendScratch *scratch = &moec_attend_scratch;
    for (long key = range.first, keys; key < range.end; key += keys) {
        keys = moec_keys_behind(span->attend, key, range.end, MOEC_ATTEND_KEYS);
        for (long i = 0, count; i < queries; i += count) {
            count = moec_least(queries - i, MOEC_ATTEND_QUERIES);
            const MoecBlockPair pair = {0,
                                        count,
                                        key,
                                        keys,
                                        span->offset,
                                        moec_chosen_scratch.list + i,
                                        first >= 0 ? &moec_chosen_scratch.seen : NULL};
            scratch->query.data = scratch->grad.data = NULL; /* other queries */
            scratch->query_rows.data = scratch->grad_rows.data = NULL;
            if (first >= 0) moec_pair_seen(span, &pair, first);
            if (span->grad != NULL)
                moec_chosen_grad_pair(span, &pair);
            else
                moec_chosen_pair(span, &pair);
        }
    }
}

/* The keys of elements first .. end-1, within a range. */
MOEC_INLINE MoecRange moec_element_keys(const MoecAttend *attend, MoecRange range, long first,
                                        long end) {
    const long side = attend->chosen_block[2];
    return (MoecRange){first * side > range.first ? first * side : range.first,
                       moec_least(end * side, range.end)};
}

/* Elements for many keys, one by one. */
MOEC_FUNCTION void moec_span_elements(const MoecSpan *span, MoecRange range, long first, long end) {
    const uint32_t *bits = moec_chosen_scratch.chosen[0];
    moec_span_bits(span, first, end, 32);
    for (long t = first; t < end; t++) {
        const MoecRange keys = moec_element_keys(span->attend, range, t, t + 1);
        moec_span_keys(span, moec_span_list(span, bits, (uint32_t)1 << (t - first), keys), keys,
                       -1);
    }
}

MOEC_INLINE int moec_count_bits(uint32_t bits) {
    bits -= bits >> 1 & 0x55555555u;
    bits = (bits & 0x33333333u) + (bits >> 2 & 0x33333333u);
    return (int)(((bits + (bits >> 4)) & 0x0F0F0F0Fu) * 0x01010101u >> 24);
}

/* Chosen elements of the queries of a span in some tiles. */
MOEC_FUNCTION long moec_count_chosen(const MoecSpan *span, long tiles) {
    const MoecChosenScratch *scratch = &moec_chosen_scratch;
    long count = 0;
    for (long k = 0; k < tiles; k++)
        for (long i = 0; i < span->count; i++) count += moec_count_bits(scratch->chosen[k][i]);
    return count;
}

/* Writes the chosen elements of query i of the span, of elements first .. end-1, and up to two more
 * after them; returns their number. Most tiles have at most two: no branch depends on these. */
MOEC_FUNCTION long moec_list_elements(const MoecChosenScratch *scratch, long first, long end,
                                      long tile, long i, int *element) {
    const uint32_t top = (uint32_t)1 << 31;
    long count = 0;
    for (long k = 0, at = first; at < end; k++, at += tile) {
        uint32_t bits = scratch->chosen[k][i];
        const long after = count + moec_count_bits(bits);
        do {
            element[count++] = (int)at + __builtin_ctz(bits | top);
            bits &= bits - 1;
            element[count++] = (int)at + __builtin_ctz(bits | top);
            bits &= bits - 1;
        } while (count < after);
        count = after;
    }
    return count;
}

/* Lists the keys of the tiles from element `first` on that query i of the span attends to. */
MOEC_FUNCTION void moec_list_keys(const MoecSpan *span, const MoecChosenScratch *scratch,
                                  long first, long i, MoecListed *listed) {
    const MoecAttend *attend = span->attend;
    const float *documents = span->head->documents;
    const long tile = moec_tile_elements(attend), side = attend->chosen_block[2],
               place = span->offset + span->first + i;
    const MoecRange visible = moec_visible(attend, place), all = listed->keys,
                    seen = {visible.first > all.first ? visible.first : all.first,
                            moec_least(visible.end, all.end)};
    int element[MOEC_ATTEND_KEYS + 2];
    const long elements =
        moec_list_elements(scratch, first, moec_ceil_div(seen.end, side), tile, i, element);
    listed->count = 0;
    for (long n = 0; n < elements; n++) {
        const MoecRange keys = moec_element_keys(attend, seen, element[n], element[n] + 1);
        for (long key = keys.first; key < keys.end; key++) {
            listed->row[listed->count] = (int)(key - all.first);
            listed->count += documents == NULL || documents[key] == documents[place];
        }
    }
}

/* The keys of the tiles from element `first` on, for one listed query after the other. */
MOEC_FUNCTION void moec_span_listed(const MoecSpan *span, long queries, MoecRange keys,
                                    long first) {
    MoecChosenScratch *state = &moec_chosen_scratch;
    MoecListed *listed = &moec_listed;
    listed->attend = span->attend;
    listed->head = span->head;
    listed->grad = span->grad;
    listed->keys = keys;
    moec_listed_begin(listed);
    for (long n = 0; n < queries; n++) {
        const long query = state->list[n], i = query - span->first, place = span->offset + query;
        moec_listed_fetch(listed, state->list[moec_least(n + MOEC_LISTED_AHEAD, queries - 1)]);
        moec_list_keys(span, state, first, i, listed);
        if (listed->count == 0) continue;
        if (span->grad != NULL)
            moec_listed_grad(listed, query, place, state->largest[i], state->total[i]);
        else
            moec_listed_attend(listed, query, place, &state->largest[i], &state->sum[i]);
    }
    moec_listed_end(listed);
}

/* Elements for few keys: each query alone if it sees few of the keys of a tile; or tile by tile;
 * or, if most queries of the tiles see most of them, all together, which computes more pairs in
 * less time each. */
MOEC_FUNCTION void moec_span_tiles(const MoecSpan *span, MoecRange range, long first, long end) {
    const MoecChosenScratch *scratch = &moec_chosen_scratch;
    const MoecAttend *attend = span->attend;
    const long tile = moec_tile_elements(attend), tiles = moec_ceil_div(end - first, tile);
    const uint32_t all = ~(uint32_t)0;
    long apart = 0;
    moec_span_bits(span, first, end, tile);
    for (long i = 0; i < tiles; i++) {
        const long from = first + i * tile, to = moec_least(from + tile, end);
        apart += moec_span_list(span, scratch->chosen[i], all,
                                moec_element_keys(attend, range, from, to));
    }
    const MoecRange keys = moec_element_keys(attend, range, first, end);
    const long queries = moec_span_list(span, scratch->any, all, keys);
    if (moec_can_list(attend) &&
        moec_count_chosen(span, tiles) * MOEC_CHOSEN_ALONE < apart * tile) {
        moec_span_listed(span, queries, keys, first);
        return;
    }
    if (queries * tiles <= 2 * apart) {
        moec_span_keys(span, queries, keys, first);
        return;
    }
    for (long i = 0; i < tiles; i++) {
        const long from = first + i * tile, to = moec_least(from + tile, end);
        const MoecRange own = moec_element_keys(attend, range, from, to);
        moec_span_keys(span, moec_span_list(span, scratch->chosen[i], all, own), own, first);
    }
}

/* All keys, in order. */
MOEC_FUNCTION void moec_span_all_keys(const MoecSpan *span) {
    const MoecAttend *attend = span->attend;
    const MoecRange range = moec_block_range(attend, span->offset + span->first, span->count);
    const long side = attend->chosen_block[2], elements = moec_ceil_div(range.end, side),
               tile = side < MOEC_CHOSEN_KEYS ? moec_tile_elements(attend) : 0,
               step = tile > 0 ? tile * moec_least(MOEC_ATTEND_KEYS / (tile * side),
                                                   (long)MOEC_CHOSEN_TILES)
                               : 32;
    moec_keep_nothing(&moec_attend_scratch);
    for (long t = range.first / side; t < elements; t += step)
        (tile > 0 ? moec_span_tiles : moec_span_elements)(span, range, t,
                                                          moec_least(t + step, elements));
}

MOEC_FUNCTION void moec_chosen_span(const MoecSpan *span, const float *sink) {
    const MoecHead *head = span->head;
    const long width = span->attend->value_width;
    MoecChosenScratch *state = &moec_chosen_scratch;
    for (long i = 0; i < span->count; i++) {
        state->largest[i] = sink != NULL ? *sink : -__builtin_inff();
        state->sum[i] = sink != NULL ? 1.0f : 0.0f;
        memset((float *)head->o + (span->first + i) * head->o_step, 0,
               (size_t)width * sizeof(float));
    }
    moec_span_all_keys(span);
    for (long i = 0; i < span->count; i++) {
        const int none = state->largest[i] == -__builtin_inff();
        float *o = (float *)head->o + (span->first + i) * head->o_step;
        moec_row_scale(o, width, none ? 0.0f : 1.0f / state->sum[i]);
        head->lse[(span->first + i) * head->lse_step] =
            none ? MOEC_NO_KEY : state->largest[i] + moec_log(state->sum[i]);
    }
}

MOEC_FUNCTION void moec_chosen_grad_span(const MoecSpan *span) {
    const MoecAttend *attend = span->attend;
    const MoecHead *head = span->head;
    MoecChosenScratch *state = &moec_chosen_scratch;
    for (long i = 0; i < span->count; i++) {
        const long query = span->first + i;
        state->largest[i] = head->lse[query * head->lse_step];
        state->total[i] =
            moec_output_dot(attend, head->o, span->grad->output_grad, query * head->o_step);
        memset(span->grad->dq + query * head->q_step, 0, (size_t)attend->width * sizeof(float));
    }
    moec_span_all_keys(span);
}

MOEC_FUNCTION void moec_attend_spans(const MoecAttend *attend, const MoecAttendWork *work,
                                     long offset) {
    const long spans = moec_ceil_div(attend->queries, MOEC_CHOSEN_SPAN), heads = attend->heads,
               tasks = attend->batch * heads * spans;
#pragma omp parallel for schedule(dynamic) if (moec_attend_parallel(attend))
    for (long task = 0; task < tasks; task++) {
        const long h = task / spans % heads, b = task / spans / heads,
                   first = (spans - 1 - task % spans) * MOEC_CHOSEN_SPAN;
        const MoecHead head = moec_head(attend, work, b, h);
        const MoecSpan span = {attend, &head,
                               NULL,   moec_chosen_at(attend, work->chosen, b, h),
                               first,  moec_least(attend->queries - first, MOEC_CHOSEN_SPAN),
                               offset};
        moec_chosen_span(&span, work->sink != NULL ? work->sink + h : NULL);
    }
}

MOEC_ENTRY void moec_attend_chosen(const MoecAttend *attend, const MoecAttendWork *work) {
    moec_attend_spans(attend, work, 0);
}

/* Heads first .. end-1 of batch element b, which add to the same dk and dv. */
MOEC_FUNCTION void moec_chosen_grad_heads(const MoecAttend *attend, const MoecAttendSaved *saved,
                                          const MoecAttendWork *work, const MoecHeadGrad *all,
                                          long b, long first, long end) {
    const long keys = moec_key_head(attend, end) - moec_key_head(attend, first),
               values = moec_value_head(attend, end) - moec_value_head(attend, first);
    MoecHeadGrad grad = *all;
    grad.dk.rows += moec_at_key(attend, b, first);
    grad.dv.rows += moec_at_value(attend, b, first);
    for (long t = 0; t < attend->keys; t++) {
        memset(grad.dk.rows + t * grad.dk.step, 0, (size_t)(keys * attend->width) * sizeof(float));
        memset(grad.dv.rows + t * grad.dv.step, 0,
               (size_t)(values * attend->value_width) * sizeof(float));
    }
    for (long h = first; h < end; h++) {
        const MoecHead head = moec_head(attend, work, b, h);
        grad.output_grad =
            moec_at(saved->output_grad, moec_at_output(attend, b, h), attend->grad_type);
        grad.dq = all->dq + moec_at_query(attend, b, h);
        grad.dbias = moec_begin_bias(attend, all->dbias, b, h);
        grad.dk.rows = all->dk.rows + moec_at_key(attend, b, h);
        grad.dv.rows = all->dv.rows + moec_at_value(attend, b, h);
        for (long query = 0; query < attend->queries; query += MOEC_CHOSEN_SPAN) {
            const MoecSpan span = {attend, &head,
                                   &grad,  moec_chosen_at(attend, saved->chosen, b, h),
                                   query,  moec_least(attend->queries - query, MOEC_CHOSEN_SPAN),
                                   0};
            moec_chosen_grad_span(&span);
        }
    }
}

MOEC_ENTRY void moec_attend_chosen_grad(const MoecAttend *attend, const MoecAttendSaved *saved,
                                        float *dq, float *dk, float *dv, float *dsink,
                                        float *dbias) {
    const long heads = attend->heads;
    const MoecHeadGrad all = moec_all_grads(attend, saved, dq, dk, dv, dbias);
    const MoecAttendWork work = moec_saved_work(saved);
#pragma omp parallel for schedule(dynamic) if (moec_attend_parallel(attend))
    for (long task = 0; task < attend->batch * heads; task++) {
        const long first = task % heads;
        if (!moec_leads(attend, first)) continue;
        moec_chosen_grad_heads(attend, saved, &work, &all, task / heads, first,
                               moec_group_end(attend, first));
    }
    if (dsink != NULL) moec_attend_grad_sink(attend, saved, dsink);
}

#endif
