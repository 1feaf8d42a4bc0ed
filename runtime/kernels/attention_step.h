/* attention_step: softmax attention of new tokens over a cache, see attention.h.
 *
 * A cache stores all positions. With a sliding window it is a ring: row p % keys holds the key of
 * position p, and no block of keys crosses the end of the ring. */
#ifndef MOEC_ATTENTION_STEP_H
#define MOEC_ATTENTION_STEP_H

#include "attention_chosen.h"

/* ---- a few queries against a few keys: rows of scores ---- */

/* The same, as columns of the block of `count` keys from `first_key` on. */
MOEC_INLINE MoecRange moec_visible_columns(const MoecAttend *attend, long place, long first_key,
                                           long count) {
    MoecRange range = moec_visible(attend, place);
    range.first = range.first > first_key ? range.first - first_key : 0;
    range.end = moec_least(range.end - first_key, count);
    return range;
}

/* Writes `hidden` to the cells of row i of a pair whose keys belong to another document, or that
 * are not chosen. */
MOEC_LARGE void moec_hide(const MoecHead *head, const MoecBlockPair *pair, long i, float *row,
                          float hidden) {
    for (long j = 0; j < pair->keys && pair->seen != NULL; j++)
        row[j] = pair->seen->cell[j][i] ? row[j] : hidden;
    if (head->documents == NULL) return;
    const float *document = head->documents + pair->key;
    const float own = head->documents[pair->offset + pair->query + i];
#pragma omp simd
    for (long j = 0; j < pair->keys; j++) row[j] = document[j] == own ? row[j] : hidden;
}

/* row[j] *= scale of row first + j of k or v. */
MOEC_LARGE void moec_row_scales(float *row, long count, const float *scales, long first,
                                long step) {
    if (scales == NULL) return;
    scales += first * step;
#pragma omp simd
    for (long j = 0; j < count; j++) row[j] *= scales[j * step];
}

/* row[j] += bias of query i of a pair and key j, of the keys that are not after it. */
MOEC_LARGE void moec_query_bias(const float *bias, const MoecBlockPair *pair, long i, float *row) {
    const long distance = pair->offset + pair->query + i - pair->key,
               count = moec_least(pair->keys, distance + 1);
#pragma omp simd
    for (long j = 0; j < count; j++) row[j] += bias[distance - j];
}

/* score[query][key] of a block, scaled, capped, with bias; cells that the mask hides hold
 * anything. */
MOEC_LARGE void moec_scores(const MoecAttend *attend, const MoecHead *head,
                            const MoecBlockPair *pair, float *score) {
    const MoecBlockProduct product = {
        pair->queries,
        pair->keys,
        attend->width,
        moec_rows_of(head->q, pair->query, head->q_step, attend->q_type),
        moec_rows_of(head->k, moec_row_of_key(attend, pair->key), head->k_step, attend->k_type),
        score,
        MOEC_ATTEND_KEYS,
        0,
        attend->rounded,
        MOEC_F32,
        NULL,
        0};
    moec_block_multiply(&product);
    for (long i = 0; i < pair->queries; i++) {
        float *row = score + i * MOEC_ATTEND_KEYS;
        moec_row_scales(row, pair->keys, head->k_scale, moec_row_of_key(attend, pair->key),
                        head->k_scale_step);
        if (attend->cap == 0.0f) {
#pragma omp simd
            for (long j = 0; j < pair->keys; j++) row[j] *= attend->scale;
        } else {
#pragma omp simd
            for (long j = 0; j < pair->keys; j++)
                row[j] = attend->cap * moec_tanh(row[j] * attend->scale / attend->cap);
        }
        if (head->bias != NULL) moec_query_bias(head->bias, pair, i, row);
    }
}

MOEC_LARGE float moec_row_max(const float *row, MoecRange range, float largest) {
#pragma omp simd reduction(max : largest)
    for (long j = range.first; j < range.end; j++) largest = row[j] > largest ? row[j] : largest;
    return largest;
}

/* row = exp(row - less) inside the range, 0 outside; returns the sum. */
MOEC_LARGE float moec_row_weights(float *row, MoecRange range, long count, float less) {
    float sum = 0.0f;
    for (long j = 0; j < range.first && j < count; j++) row[j] = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (long j = range.first; j < range.end; j++) {
        row[j] = moec_exp(row[j] - less);
        sum += row[j];
    }
    for (long j = range.end > 0 ? range.end : 0; j < count; j++) row[j] = 0.0f;
    return sum;
}

/* Adds one block of keys to the running softmax and output of a block of queries. */
MOEC_LARGE void moec_attend_pair(const MoecAttend *attend, const MoecHead *head,
                                 const MoecBlockPair *pair, MoecOutput output) {
    MoecAttendScratch *scratch = &moec_attend_scratch;
    if (moec_apart(head, pair)) return;
    moec_scores(attend, head, pair, scratch->score);
    for (long i = 0; i < pair->queries; i++) {
        float *row = scratch->score + i * MOEC_ATTEND_KEYS;
        moec_hide(head, pair, i, row, -__builtin_inff());
        const MoecRange range =
            moec_visible_columns(attend, pair->offset + pair->query + i, pair->key, pair->keys);
        const float before = scratch->largest[i], largest = moec_row_max(row, range, before);
        const float fade = largest > before ? moec_exp(before - largest) : 1.0f;
        const float less = largest == -__builtin_inff() ? 0.0f : largest;
        scratch->largest[i] = largest;
        scratch->sum[i] = scratch->sum[i] * fade + moec_row_weights(row, range, pair->keys, less);
        moec_row_scales(row, pair->keys, head->v_scale, moec_row_of_key(attend, pair->key),
                        head->v_scale_step);
        if (fade != 1.0f) moec_row_scale(output.rows + i * output.step, attend->value_width, fade);
    }
    const MoecBlockProduct product = {
        pair->queries,
        attend->value_width,
        pair->keys,
        moec_rows_of(scratch->score, 0, MOEC_ATTEND_KEYS, MOEC_F32),
        moec_columns_of(head->v, moec_row_of_key(attend, pair->key), head->v_step, attend->v_type),
        output.rows,
        output.step,
        1,
        attend->rounded,
        MOEC_F32,
        NULL,
        0};
    moec_block_multiply(&product);
}

/* ---- parts of the keys ---- */

/* Unfinished softmax and output of one query and head over one part of the keys: largest, sum,
 * output[value_width]. */
typedef struct MoecStep {
    const MoecAttend *attend;
    const MoecAttendWork *work;
    long position, first, end; /* the keys that any of the queries sees */
    long parts, part_keys;
    float *buffer; /* [part, batch, head, query] of value_width + 2 */
} MoecStep;

/* Worth several threads: reading the keys and values of the cache. */
MOEC_INLINE int moec_step_parallel(const MoecStep *step) {
    const MoecAttend *attend = step->attend;
    const long width =
        attend->key_heads * attend->width + attend->value_heads * attend->value_width;
    const double elements = (double)((step->end - step->first) * attend->batch * width);
    return moec_worth_threads(0.0, elements) && moec_threads() > 1;
}

static _Thread_local float moec_step_buffer[MOEC_STEP_BUFFER] __attribute__((unused, aligned(64)));

MOEC_INLINE float *moec_step_state(const MoecStep *step, long part, long b, long h, long query) {
    const MoecAttend *attend = step->attend;
    const long number = ((part * attend->batch + b) * attend->heads + h) * attend->queries + query;
    return step->buffer + number * (attend->value_width + 2);
}

/* Prefetches as many keys of a head after these, while these are in use. Inlined, because GCC
 * removes calls of functions that only prefetch. */
MOEC_INLINE void moec_step_fetch(const MoecAttend *attend, const MoecHead *head, MoecRange keys) {
    for (long key = keys.end; key < 2 * keys.end - keys.first; key++) {
        const long row = moec_row_of_key(attend, key);
        moec_fetch_row(head->k, row, head->k_step, attend->width, attend->k_type, 0);
        moec_fetch_row(head->v, row, head->v_step, attend->value_width, attend->v_type, 0);
    }
}

/* Adds a few keys to the states of the queries of one head. */
MOEC_FUNCTION void moec_step_keys(const MoecStep *step, long part, long b, long h, MoecRange keys) {
    const MoecAttend *attend = step->attend;
    MoecAttendScratch *scratch = &moec_attend_scratch;
    const MoecHead head = moec_head(attend, step->work, b, h);
    const MoecOutput output = {moec_step_state(step, part, b, h, 0) + 2, attend->value_width + 2,
                               1};
    for (long i = 0; i < attend->queries; i++) {
        scratch->largest[i] = output.rows[i * output.step - 2];
        scratch->sum[i] = output.rows[i * output.step - 1];
    }
    MoecBlockPair pair = {.queries = attend->queries,
                          .key = keys.first,
                          .keys = keys.end - keys.first,
                          .offset = step->position};
    if (step->work->chosen != NULL) {
        const float *chosen = moec_chosen_at(attend, step->work->chosen, b, h);
        if (moec_pair_seen(attend, chosen, &pair) == 0) return;
        pair.seen = &moec_chosen_scratch.seen;
    }
    moec_step_fetch(attend, &head, keys);
    moec_attend_pair(attend, &head, &pair, output);
    for (long i = 0; i < attend->queries; i++) {
        output.rows[i * output.step - 2] = scratch->largest[i];
        output.rows[i * output.step - 1] = scratch->sum[i];
    }
}

/* One part of the keys for some heads: a few keys for all of them, then the next few, so that
 * memory is read once and side by side. */
MOEC_FUNCTION void moec_step_part(const MoecStep *step, long part, long b, MoecRange heads) {
    const long first = step->first + part * step->part_keys;
    const long end = moec_least(first + step->part_keys, step->end);
    for (long h = heads.first; h < heads.end; h++) {
        for (long query = 0; query < step->attend->queries; query++) {
            float *state = moec_step_state(step, part, b, h, query);
            memset(state, 0, (size_t)(step->attend->value_width + 2) * sizeof *state);
            state[0] = -__builtin_inff();
        }
    }
    for (MoecRange keys = {first, first}; keys.first < end; keys.first = keys.end) {
        keys.end += moec_keys_behind(step->attend, keys.first, end, MOEC_STEP_KEYS);
        for (long h = heads.first; h < heads.end; h++) moec_step_keys(step, part, b, h, keys);
    }
}

/* Joins the parts of one query and head, and the sink. */
MOEC_FUNCTION void moec_step_join(const MoecStep *step, long b, long h, long query) {
    const MoecAttend *attend = step->attend;
    const float *sink = step->work->sink != NULL ? step->work->sink + h : NULL;
    const MoecHead head = moec_head(attend, step->work, b, h);
    float *o = moec_step_state(step, 0, b, h, query) + 2; /* the first part becomes the whole */
    float largest = sink != NULL                 ? *sink
                    : step->work->chosen != NULL ? MOEC_NO_KEY
                                                 : -__builtin_inff(),
          sum = 0.0f;
    for (long part = 0; part < step->parts; part++)
        largest = moec_max(largest, moec_step_state(step, part, b, h, query)[0]);
    if (sink != NULL) sum = moec_exp(*sink - largest);
    for (long part = 0; part < step->parts; part++) {
        const float *state = moec_step_state(step, part, b, h, query);
        const float factor = moec_exp(state[0] - largest);
        sum += factor * state[1];
        if (part == 0) {
            moec_row_scale(o, attend->value_width, factor);
            continue;
        }
#pragma omp simd
        for (long c = 0; c < attend->value_width; c++) o[c] += factor * state[2 + c];
    }
    const int none = largest == MOEC_NO_KEY; /* of the chosen ones */
    moec_attend_finish(attend, &head, query, o, none ? 0.0f : 1.0f / sum);
    head.lse[query * head.lse_step] = none ? largest : largest + moec_log(sum);
}

/* Heads are divided among threads only where there are few parts; the result does not depend on it.
 */
MOEC_FUNCTION void moec_step_parts(const MoecStep *step) {
    const MoecAttend *attend = step->attend;
    const long parts = step->parts * attend->batch, heads = attend->heads;
    const long threads = moec_step_parallel(step) ? moec_threads() : 1;
    const long shares = moec_least(heads, moec_ceil_div(threads, parts));
#pragma omp parallel for schedule(dynamic) if (threads > 1)
    for (long task = 0; task < parts * shares; task++) {
        const long share = task % shares, part = task / shares;
        const MoecRange range = {heads * share / shares, heads * (share + 1) / shares};
        moec_step_part(step, part / attend->batch, part % attend->batch, range);
    }
    for (long b = 0; b < attend->batch; b++)
        for (long h = 0; h < heads; h++)
            for (long query = 0; query < attend->queries; query++)
                moec_step_join(step, b, h, query);
}

/* ---- only the best values ---- */

typedef struct MoecBest {
    long count;
    float score[MOEC_STEP_BEST];
    int key[MOEC_STEP_BEST];
} MoecBest;

static _Thread_local MoecBest moec_best __attribute__((unused));

/* True when a is to leave before b: smaller, or equal and later. */
MOEC_INLINE int moec_worse(const MoecBest *best, long a, long b) {
    return best->score[a] < best->score[b] ||
           (best->score[a] == best->score[b] && best->key[a] > best->key[b]);
}

MOEC_INLINE void moec_best_swap(MoecBest *best, long a, long b) {
    const float score = best->score[a];
    const int key = best->key[a];
    best->score[a] = best->score[b];
    best->key[a] = best->key[b];
    best->score[b] = score;
    best->key[b] = key;
}

/* A heap with the worst on top, of at most `most`; keys come in ascending order. */
MOEC_FUNCTION void moec_best_offer(MoecBest *best, long most, float score, long key) {
    if (best->count < most) {
        long at = best->count++;
        best->score[at] = score;
        best->key[at] = (int)key;
        for (; at > 0 && moec_worse(best, at, (at - 1) / 2); at = (at - 1) / 2)
            moec_best_swap(best, at, (at - 1) / 2);
        return;
    }
    if (!(score > best->score[0])) return;
    best->score[0] = score;
    best->key[0] = (int)key;
    for (long at = 0, child = 1; child < best->count; at = child, child = 2 * at + 1) {
        child += child + 1 < best->count && moec_worse(best, child + 1, child);
        if (!moec_worse(best, child, at)) break;
        moec_best_swap(best, at, child);
    }
}

/* Processes one query of one head: all scores for the softmax denominator, then the values of the
 * best. */
MOEC_FUNCTION void moec_step_best(const MoecStep *step, long b, long h, long query) {
    const MoecAttend *attend = step->attend;
    const MoecHead head = moec_head(attend, step->work, b, h);
    const MoecRange range = moec_visible(attend, step->position + query);
    const long most = moec_least(attend->best, MOEC_STEP_BEST);
    float *score = moec_attend_scratch.score;
    float largest = step->work->sink != NULL ? step->work->sink[h] : -__builtin_inff();
    float sum = step->work->sink != NULL ? 1.0f : 0.0f;
    MoecBest *best = &moec_best;
    best->count = 0;
    for (long key = range.first, keys; key < range.end; key += keys) {
        keys = moec_keys_behind(attend, key, range.end, MOEC_ATTEND_KEYS);
        const MoecBlockPair pair = {
            .query = query, .queries = 1, .key = key, .keys = keys, .offset = step->position};
        const MoecRange all = {0, pair.keys};
        moec_scores(attend, &head, &pair, score);
        moec_hide(&head, &pair, 0, score, -__builtin_inff());
        for (long j = 0; j < pair.keys; j++) moec_best_offer(best, most, score[j], key + j);
        const float before = largest;
        largest = moec_row_max(score, all, before);
        if (largest == -__builtin_inff()) continue; /* all of other documents */
        sum = sum * (largest > before ? moec_exp(before - largest) : 1.0f);
        sum += moec_row_weights(score, all, pair.keys, largest);
    }
    const float lse = largest + moec_log(sum);
    const MoecRange kept = {0, best->count};
    for (long i = 0; i < best->count; i++)
        best->key[i] = (int)moec_row_of_key(attend, best->key[i]);
    moec_row_weights(best->score, kept, best->count, lse);
    for (long i = 0; i < best->count; i++)
        best->score[i] *= moec_scale_at(head.v_scale, best->key[i], head.v_scale_step);
    const MoecBlockProduct product = {1,
                                      attend->value_width,
                                      best->count,
                                      {best->score, 0, 1, NULL, NULL, MOEC_F32},
                                      {head.v, 1, head.v_step, NULL, best->key, attend->v_type},
                                      moec_to(head.o, query * head.o_step, attend->o_type),
                                      head.o_step,
                                      0,
                                      0,
                                      attend->o_type,
                                      NULL,
                                      0};
    moec_block_multiply(&product);
    head.lse[query * head.lse_step] = lse;
}

MOEC_FUNCTION void moec_step_all_best(const MoecStep *step) {
    const MoecAttend *attend = step->attend;
    const long tasks = attend->batch * attend->heads * attend->queries;
#pragma omp parallel for schedule(dynamic) if (moec_step_parallel(step))
    for (long task = 0; task < tasks; task++)
        moec_step_best(step, task / attend->queries / attend->heads,
                       task / attend->queries % attend->heads, task % attend->queries);
}

MOEC_ENTRY void moec_attend_step(const MoecAttend *options, long position,
                                 const MoecAttendWork *work) {
    MoecAttend attend = *options;
    attend.mask = attend.mask == MOEC_MASK_NONE ? MOEC_MASK_CAUSAL : attend.mask;
    const MoecRange range = moec_block_range(&attend, position, attend.queries);
    const long states = attend.batch * attend.heads * attend.queries * (attend.value_width + 2);
    const long room = MOEC_STEP_BUFFER / states, keys = range.end - range.first;
    MoecStep step = {&attend, work, position, range.first, range.end, 1, keys, moec_step_buffer};
    if (attend.best > 0) {
        moec_step_all_best(&step);
    } else if (attend.queries > MOEC_STEP_QUERIES || room == 0) {
        (work->chosen != NULL ? moec_attend_spans : moec_attend_blocks)(&attend, work, position);
    } else {
        step.parts = moec_least(room, moec_ceil_div(keys, MOEC_STEP_PART));
        step.part_keys = moec_ceil_div(keys, step.parts);
        moec_step_parts(&step);
    }
}

#endif
