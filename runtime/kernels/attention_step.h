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

/* The products of query i of a pair with its keys become scores: scaled, capped, with bias, hidden
 * cells -infinity; cells that the mask hides hold anything. */
MOEC_LARGE void moec_step_scores(const MoecAttend *attend, const MoecHead *head,
                                 const MoecBlockPair *pair, long i, float *row) {
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
    moec_hide(head, pair, i, row, -__builtin_inff());
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

/* ---- rows of queries against a few keys ---- */

/* Queries against adjacent rows of keys or values, `weight` between them. */
typedef struct MoecStepProduct {
    long rows, keys, width;
    const float *query[MOEC_STEP_ROWS];
    const void *cache; /* the first of the keys or values */
    long step;         /* from one of them to the next */
    MoecType type;
    int add;       /* to the weights */
    float *weight; /* [rows, MOEC_STEP_KEYS] */
    float *output;
    long output_step;
} MoecStepProduct;

/* weight[i][j] = query i . key j for a tile of rows and keys. */
MOEC_INLINE void moec_step_dots(const MoecStepProduct *x, long i, long j, const long rows,
                                const long keys, const MoecType type) {
    const long whole = x->width - x->width % MOEC_LANES;
    MoecVector sum[MOEC_SIDE_ROWS][MOEC_SIDE_ROWS];
#pragma GCC unroll 4
    for (long r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (long q = 0; q < keys; q++) sum[r][q] = (MoecVector){0};
    for (long c = 0; c < whole; c += MOEC_LANES)
#pragma GCC unroll 4
        for (long q = 0; q < keys; q++) {
            const MoecVector key =
                moec_load_wide(moec_at(x->cache, (j + q) * x->step + c, type), type);
#pragma GCC unroll 4
            for (long r = 0; r < rows; r++)
                sum[r][q] += moec_load_vector(x->query[i + r] + c) * key;
        }
#pragma GCC unroll 4
    for (long r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (long q = 0; q < keys; q++) {
            float made = moec_vector_sum(sum[r][q]);
            for (long c = whole; c < x->width; c++)
                made += x->query[i + r][c] *
                        moec_value(moec_at(x->cache, (j + q) * x->step + c, type), type);
            float *to = x->weight + (i + r) * MOEC_STEP_KEYS + j + q;
            *to = x->add ? *to + made : made;
        }
}

MOEC_INLINE void moec_step_dots_of(const MoecStepProduct *x, long i, const long rows,
                                   const MoecType type) {
    long j = 0;
    for (; j + 4 <= x->keys; j += 4) moec_step_dots(x, i, j, rows, 4, type);
    for (; j < x->keys; j++) moec_step_dots(x, i, j, rows, 1, type);
}

/* output[i] += sum over the keys of weight[i][j] * value j, for a tile of rows and of vectors. */
MOEC_INLINE void moec_step_sums(const MoecStepProduct *x, long i, long c, const long rows,
                                const long wide, const MoecType type) {
    MoecVector sum[MOEC_SIDE_ROWS][4];
    float *to = x->output + i * x->output_step + c;
    const float *weight = x->weight + i * MOEC_STEP_KEYS;
#pragma GCC unroll 4
    for (long r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (long v = 0; v < wide; v++)
            sum[r][v] = moec_load_vector(to + r * x->output_step + v * MOEC_LANES);
    for (long j = 0; j < x->keys; j++)
#pragma GCC unroll 4
        for (long v = 0; v < wide; v++) {
            const MoecVector value =
                moec_load_wide(moec_at(x->cache, j * x->step + c + v * MOEC_LANES, type), type);
#pragma GCC unroll 4
            for (long r = 0; r < rows; r++) sum[r][v] += weight[r * MOEC_STEP_KEYS + j] * value;
        }
#pragma GCC unroll 4
    for (long r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (long v = 0; v < wide; v++)
            moec_store_vector(to + r * x->output_step + v * MOEC_LANES, sum[r][v]);
}

MOEC_INLINE void moec_step_sums_of(const MoecStepProduct *x, long i, const long rows,
                                   const MoecType type) {
    long c = 0;
    for (; c + 4 * MOEC_LANES <= x->width; c += 4 * MOEC_LANES)
        moec_step_sums(x, i, c, rows, 4, type);
    for (; c + MOEC_LANES <= x->width; c += MOEC_LANES) moec_step_sums(x, i, c, rows, 1, type);
    for (; c < x->width; c++)
        for (long r = i; r < i + rows; r++)
            for (long j = 0; j < x->keys; j++)
                x->output[r * x->output_step + c] +=
                    x->weight[r * MOEC_STEP_KEYS + j] *
                    moec_value(moec_at(x->cache, j * x->step + c, type), type);
}

/* All rows, as many at a time as there are registers for; `sums`: of values, else scores. */
MOEC_INLINE void moec_step_product(const MoecStepProduct *x, const int sums, const MoecType type) {
    const long high = MOEC_LANES == 16 ? 4 : 2, whole = x->rows - x->rows % high;
    for (long i = 0; i < whole; i += high)
        if (sums)
            moec_step_sums_of(x, i, high, type);
        else
            moec_step_dots_of(x, i, high, type);
    for (long i = whole; i < x->rows; i++)
        if (sums)
            moec_step_sums_of(x, i, 1, type);
        else
            moec_step_dots_of(x, i, 1, type);
}

MOEC_INLINE void moec_step_typed(const MoecStepProduct *x, const int sums) {
    if (moec_is_bf16(x->type))
        moec_step_product(x, sums, MOEC_BF16);
    else if (moec_is_bytes(x->type))
        moec_step_product(x, sums, MOEC_BYTE);
    else
        moec_step_product(x, sums, MOEC_F32);
}

MOEC_LARGE void moec_step_by_keys(const MoecStepProduct *x) { moec_step_typed(x, 0); }
MOEC_LARGE void moec_step_by_values(const MoecStepProduct *x) { moec_step_typed(x, 1); }

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

/* Prefetches the rows of a cache from `row` on. Inlined, because GCC removes calls of functions
 * that only prefetch. */
MOEC_INLINE void moec_step_fetch(const void *data, long row, long count, long step, long width,
                                 MoecType type) {
    const long size = moec_size(type);
    const char *from = moec_at(data, row * step, type);
    for (long i = 0; i < count; i++, from += step * size)
        for (long at = 0; at < width * size; at += 64) __builtin_prefetch(from + at, 0, 2);
}

/* The end of the heads from `first` on, before `end`, with the same of `shared` heads of keys or
 * values. */
MOEC_INLINE long moec_step_sharing(const MoecAttend *attend, long shared, long first, long end) {
    const long next = first * shared / attend->heads + 1;
    return moec_least(end, moec_ceil_div(next * attend->heads, shared));
}

/* Products of all queries of `heads`, which share a head of keys, with a few of its keys. */
MOEC_FUNCTION void moec_step_multiply(const MoecStep *step, long b, MoecRange heads, MoecRange keys,
                                      float *weight) {
    const MoecAttend *attend = step->attend;
    const MoecHead head = moec_head(attend, step->work, b, heads.first);
    const long rows = (heads.end - heads.first) * attend->queries;
    MoecStepProduct product = {.rows = rows,
                               .keys = keys.end - keys.first,
                               .step = head.k_step,
                               .type = attend->k_type,
                               .weight = weight};
    moec_step_fetch(head.k, moec_row_of_key(attend, keys.end), product.keys, head.k_step,
                    attend->width, attend->k_type);
    for (long c = 0; c < attend->width; c += MOEC_ATTEND_WIDTH) {
        product.width = moec_least(attend->width - c, MOEC_ATTEND_WIDTH);
        product.cache =
            moec_at(head.k, moec_row_of_key(attend, keys.first) * head.k_step + c, attend->k_type);
        product.add = c > 0;
        for (long r = 0; r < rows; r++) {
            const void *query = moec_at(
                head.q, r % attend->queries * head.q_step + r / attend->queries * attend->width + c,
                attend->q_type);
            float *wide = moec_attend_scratch.output + r * MOEC_ATTEND_WIDTH;
            product.query[r] = moec_is_bf16(attend->q_type) ? wide : query;
            for (long x = 0; x < product.width && moec_is_bf16(attend->q_type); x++)
                wide[x] = moec_value(moec_at(query, x, attend->q_type), attend->q_type);
        }
        moec_step_by_keys(&product);
    }
}

/* The scores of the queries of one head with a few keys become weights; sums and outputs so far
 * fade. */
MOEC_FUNCTION void moec_step_weights(const MoecStep *step, const MoecHead *head,
                                     const MoecBlockPair *pair, float *weight, float *state) {
    const MoecAttend *attend = step->attend;
    const long state_step = attend->value_width + 2;
    for (long i = 0; i < pair->queries; i++, weight += MOEC_STEP_KEYS, state += state_step) {
        moec_step_scores(attend, head, pair, i, weight);
        const MoecRange range =
            moec_visible_columns(attend, pair->offset + i, pair->key, pair->keys);
        const float before = state[0], largest = moec_row_max(weight, range, before);
        const float fade = largest > before ? moec_exp(before - largest) : 1.0f;
        const float less = largest == -__builtin_inff() ? 0.0f : largest;
        state[0] = largest;
        state[1] = state[1] * fade + moec_row_weights(weight, range, pair->keys, less);
        moec_row_scales(weight, pair->keys, head->v_scale, moec_row_of_key(attend, pair->key),
                        head->v_scale_step);
        if (fade != 1.0f) moec_row_scale(state + 2, attend->value_width, fade);
    }
}

/* Finds the cells of a pair that are chosen; returns their number. */
MOEC_FUNCTION long moec_step_seen(const MoecAttend *attend, const float *chosen,
                                  const MoecBlockPair *pair) {
    MoecSeen *seen = &moec_chosen_scratch.seen;
    const long *block = attend->chosen_block, step = moec_chosen_step(attend);
    long count = 0;
    for (long i = 0; i < pair->queries; i++)
        for (long j = 0; j < pair->keys; j++) {
            seen->cell[j][i] =
                chosen[(pair->query + i) / block[0] * step + (pair->key + j) / block[2]] != 0.0f;
            count += seen->cell[j][i];
        }
    return count;
}

/* Adds a few keys to the states of the queries of adjacent heads. */
MOEC_FUNCTION void moec_step_keys(const MoecStep *step, long part, long b, MoecRange heads,
                                  MoecRange keys) {
    const MoecAttend *attend = step->attend;
    MoecHead head = moec_head(attend, step->work, b, heads.first);
    MoecBlockPair pair = {.queries = attend->queries,
                          .key = keys.first,
                          .keys = keys.end - keys.first,
                          .offset = step->position};
    if (step->work->chosen != NULL) {
        const float *chosen = moec_chosen_at(attend, step->work->chosen, b, heads.first);
        if (moec_step_seen(attend, chosen, &pair) == 0) return;
        pair.seen = &moec_chosen_scratch.seen;
    }
    if (moec_apart(&head, &pair)) return;
    float *weight = moec_attend_scratch.score;
    const long head_weights = attend->queries * MOEC_STEP_KEYS;
    for (MoecRange some = {heads.first, 0}; some.first < heads.end; some.first = some.end) {
        some.end = moec_step_sharing(attend, attend->key_heads, some.first, heads.end);
        moec_step_multiply(step, b, some, keys, weight + (some.first - heads.first) * head_weights);
    }
    for (long h = heads.first; h < heads.end; h++) {
        head = moec_head(attend, step->work, b, h);
        moec_step_weights(step, &head, &pair, weight + (h - heads.first) * head_weights,
                          moec_step_state(step, part, b, h, 0));
    }
    for (MoecRange some = {heads.first, 0}; some.first < heads.end; some.first = some.end) {
        some.end = moec_step_sharing(attend, attend->value_heads, some.first, heads.end);
        head = moec_head(attend, step->work, b, some.first);
        const MoecStepProduct product = {
            .rows = (some.end - some.first) * attend->queries,
            .keys = pair.keys,
            .width = attend->value_width,
            .cache =
                moec_at(head.v, moec_row_of_key(attend, keys.first) * head.v_step, attend->v_type),
            .step = head.v_step,
            .type = attend->v_type,
            .weight = weight + (some.first - heads.first) * head_weights,
            .output = moec_step_state(step, part, b, some.first, 0) + 2,
            .output_step = attend->value_width + 2};
        moec_step_fetch(head.v, moec_row_of_key(attend, keys.end), pair.keys, head.v_step,
                        attend->value_width, attend->v_type);
        moec_step_by_values(&product);
    }
}

/* The end of the heads from `first` on that are treated together: they share keys or values, and
 * the row of `chosen`. */
MOEC_FUNCTION long moec_step_together(const MoecStep *step, long first, long end) {
    const MoecAttend *attend = step->attend;
    const long chosen = attend->chosen_block[1], most = MOEC_STEP_ROWS / attend->queries;
    end = moec_least(end, first + most);
    if (step->work->chosen != NULL) end = moec_least(end, (first / chosen + 1) * chosen);
    const long keys = moec_step_sharing(attend, attend->key_heads, first, end),
               values = moec_step_sharing(attend, attend->value_heads, first, end);
    return keys > values ? keys : values;
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
        for (MoecRange some = {heads.first, 0}; some.first < heads.end; some.first = some.end) {
            some.end = moec_step_together(step, some.first, heads.end);
            moec_step_keys(step, part, b, some, keys);
        }
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
        const MoecBlockProduct product = {
            1,
            pair.keys,
            attend->width,
            moec_rows_of(head.q, query, head.q_step, attend->q_type),
            moec_rows_of(head.k, moec_row_of_key(attend, key), head.k_step, attend->k_type),
            score,
            MOEC_ATTEND_KEYS,
            0,
            attend->rounded,
            MOEC_F32,
            NULL,
            0};
        moec_block_multiply(&product);
        moec_step_scores(attend, &head, &pair, 0, score);
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
