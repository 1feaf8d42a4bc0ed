/* attention: softmax attention forward, backward and against a cache.
 *
 * Tensors are contiguous: q[batch, queries, heads, width], k[batch, keys, key_heads, width],
 * v[batch, keys, value_heads, value_width], o[batch, queries, heads, value_width], lse[batch,
 * queries, heads], sink[heads]. Query head h reads key head h*key_heads/heads and value head
 * h*value_heads/heads. documents[batch, keys], where it is given: a query sees, besides what the
 * mask says, only keys whose number is that of its own place.
 *
 * The scores of a block of queries against a block of keys are the only ones in memory at a time; a
 * running maximum and sum of each query make the softmax of blocks seen so far exact. The backward
 * pass makes the weights again from lse. Results do not depend on the number of threads.
 */
#ifndef MOEC_ATTENTION_H
#define MOEC_ATTENTION_H

#include "matmul.h"

typedef struct MoecAttend {
    long batch; /* all leading dimensions in one */
    long queries, keys;
    long heads, key_heads, value_heads;
    long width, value_width;
    int mask;
    long window; /* MOEC_MASK_WINDOW: query i sees keys i-window+1 .. i */
    float scale;
    float cap; /* scores become cap*tanh(score/cap); 0: none */
    long best; /* moec_attend_step: read only the `best` largest-weight values, weights not
                  renormalised; 0: all */
} MoecAttend;

enum {
    MOEC_ATTEND_QUERIES = 128, /* of a block */
    MOEC_ATTEND_KEYS = 128,
    MOEC_STEP_QUERIES = 8,      /* more new tokens than these are treated in blocks */
    MOEC_STEP_KEYS = 16,        /* keys read by one head before the next head reads them */
    MOEC_STEP_PART = 128,       /* keys a task takes at least */
    MOEC_STEP_BUFFER = 1 << 17, /* floats for unfinished sums */
    MOEC_STEP_BEST = 4096       /* `best` is at most this */
};

/* What one thread has on its way. */
typedef struct MoecAttendScratch {
    float score[MOEC_ATTEND_QUERIES * MOEC_ATTEND_KEYS],
        slope[MOEC_ATTEND_QUERIES * MOEC_ATTEND_KEYS];
    float largest[MOEC_ATTEND_QUERIES], sum[MOEC_ATTEND_QUERIES], total[MOEC_ATTEND_QUERIES];
} MoecAttendScratch;

static _Thread_local MoecAttendScratch moec_attend_scratch __attribute__((unused, aligned(64)));

/* One head of one batch element: first elements and steps from place to place. */
typedef struct MoecHead {
    const float *q, *k, *v, *documents;
    float *o, *lse;
    long q_step, k_step, v_step, o_step, lse_step;
} MoecHead;

MOEC_INLINE long moec_key_head(const MoecAttend *attend, long h) {
    return h * attend->key_heads / attend->heads;
}
MOEC_INLINE long moec_value_head(const MoecAttend *attend, long h) {
    return h * attend->value_heads / attend->heads;
}

/* Where the elements of (batch b, head h) begin in a tensor of queries, keys, values or outputs. */
MOEC_INLINE long moec_at_query(const MoecAttend *attend, long b, long h) {
    return (b * attend->queries * attend->heads + h) * attend->width;
}
MOEC_INLINE long moec_at_key(const MoecAttend *attend, long b, long h) {
    return (b * attend->keys * attend->key_heads + moec_key_head(attend, h)) * attend->width;
}
MOEC_INLINE long moec_at_value(const MoecAttend *attend, long b, long h) {
    return (b * attend->keys * attend->value_heads + moec_value_head(attend, h)) *
           attend->value_width;
}
MOEC_INLINE long moec_at_output(const MoecAttend *attend, long b, long h) {
    return (b * attend->queries * attend->heads + h) * attend->value_width;
}
MOEC_INLINE long moec_at_lse(const MoecAttend *attend, long b, long h) {
    return b * attend->queries * attend->heads + h;
}

/* Worth several threads: a whole pass. */
MOEC_INLINE int moec_attend_parallel(const MoecAttend *attend) {
    const long rows = attend->batch * attend->heads * attend->queries;
    return moec_worth_threads((double)rows * (double)(attend->keys * attend->width), 0.0) &&
           moec_threads() > 1;
}

/* Heads that share a key head or a value head, directly or by way of others, lie side by side; the
 * first of them leads. */
MOEC_INLINE int moec_leads(const MoecAttend *attend, long h) {
    return h == 0 || (moec_key_head(attend, h) != moec_key_head(attend, h - 1) &&
                      moec_value_head(attend, h) != moec_value_head(attend, h - 1));
}

MOEC_FUNCTION long moec_group_end(const MoecAttend *attend, long h) {
    do h++;
    while (h < attend->heads && !moec_leads(attend, h));
    return h;
}

typedef struct MoecRange {
    long first, end;
} MoecRange;

/* The keys that a query at this place sees. */
MOEC_INLINE MoecRange moec_visible(const MoecAttend *attend, long place) {
    MoecRange range = {0, attend->mask == MOEC_MASK_NONE ? attend->keys
                                                         : moec_least(place + 1, attend->keys)};
    if (attend->mask == MOEC_MASK_WINDOW && place - attend->window + 1 > 0)
        range.first = place - attend->window + 1;
    return range;
}

/* The same, as columns of the block of `count` keys from `first_key` on. */
MOEC_INLINE MoecRange moec_visible_columns(const MoecAttend *attend, long place, long first_key,
                                           long count) {
    MoecRange range = moec_visible(attend, place);
    range.first = range.first > first_key ? range.first - first_key : 0;
    range.end = moec_least(range.end - first_key, count);
    return range;
}

/* A block of queries against a block of keys. `offset`: place of query 0. */
typedef struct MoecPair {
    long query, queries, key, keys, offset;
} MoecPair;

/* Gives the cells of row i of a pair that are of another document that value. */
MOEC_LARGE void moec_hide(const MoecHead *head, const MoecPair *pair, long i, float *row,
                          float hidden) {
    if (head->documents == NULL) return;
    const float *document = head->documents + pair->key;
    const float own = head->documents[pair->offset + pair->query + i];
#pragma omp simd
    for (long j = 0; j < pair->keys; j++) row[j] = document[j] == own ? row[j] : hidden;
}

/* Whether the numbers of documents of queries and keys lie apart: no query sees any of the keys. */
MOEC_FUNCTION int moec_apart(const MoecHead *head, const MoecPair *pair) {
    if (head->documents == NULL) return 0;
    const float *own = head->documents + pair->offset + pair->query;
    const float *document = head->documents + pair->key;
    float low = own[0], high = own[0], least = document[0], most = document[0];
    for (long i = 1; i < pair->queries; i++) {
        low = own[i] < low ? own[i] : low;
        high = own[i] > high ? own[i] : high;
    }
    for (long j = 1; j < pair->keys; j++) {
        least = document[j] < least ? document[j] : least;
        most = document[j] > most ? document[j] : most;
    }
    return most < low || high < least;
}

/* score[query][key] of a block, scaled and capped; cells that the mask hides hold anything. */
MOEC_LARGE void moec_scores(const MoecAttend *attend, const MoecHead *head, const MoecPair *pair,
                            float *score) {
    const MoecBlockProduct product = {
        pair->queries,
        pair->keys,
        attend->width,
        {head->q + pair->query * head->q_step, head->q_step, 1, NULL, NULL},
        {head->k + pair->key * head->k_step, head->k_step, 1, NULL, NULL},
        score,
        MOEC_ATTEND_KEYS,
        0};
    moec_block_multiply(&product);
    for (long i = 0; i < pair->queries; i++) {
        float *row = score + i * MOEC_ATTEND_KEYS;
        if (attend->cap == 0.0f) {
#pragma omp simd
            for (long j = 0; j < pair->keys; j++) row[j] *= attend->scale;
        } else {
#pragma omp simd
            for (long j = 0; j < pair->keys; j++)
                row[j] = attend->cap * moec_tanh(row[j] * attend->scale / attend->cap);
        }
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

MOEC_INLINE void moec_row_scale(float *row, long count, float factor) {
#pragma omp simd
    for (long j = 0; j < count; j++) row[j] *= factor;
}

/* ---- forward ---- */

/* Takes one block of keys into the running softmax and output of a block of queries. */
MOEC_LARGE void moec_attend_pair(const MoecAttend *attend, const MoecHead *head,
                                 const MoecPair *pair) {
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
        if (fade != 1.0f)
            moec_row_scale(head->o + (pair->query + i) * head->o_step, attend->value_width, fade);
    }
    const MoecBlockProduct product = {
        pair->queries,
        attend->value_width,
        pair->keys,
        {scratch->score, MOEC_ATTEND_KEYS, 1, NULL, NULL},
        {head->v + pair->key * head->v_step, 1, head->v_step, NULL, NULL},
        head->o + pair->query * head->o_step,
        head->o_step,
        1};
    moec_block_multiply(&product);
}

/* All keys that a block of queries sees, as places first .. end-1. */
MOEC_FUNCTION MoecRange moec_block_range(const MoecAttend *attend, long first_place, long count) {
    const MoecRange low = moec_visible(attend, first_place),
                    high = moec_visible(attend, first_place + count - 1);
    return (MoecRange){low.first, high.end};
}

MOEC_FUNCTION void moec_attend_block(const MoecAttend *attend, const MoecHead *head, long query,
                                     long offset, const float *sink) {
    MoecAttendScratch *scratch = &moec_attend_scratch;
    const long queries = moec_least(attend->queries - query, MOEC_ATTEND_QUERIES);
    for (long i = 0; i < queries; i++) {
        scratch->largest[i] = sink != NULL ? *sink : -__builtin_inff();
        scratch->sum[i] = sink != NULL ? 1.0f : 0.0f;
        memset(head->o + (query + i) * head->o_step, 0,
               (size_t)attend->value_width * sizeof *head->o);
    }
    const MoecRange range = moec_block_range(attend, offset + query, queries);
    for (long key = range.first; key < range.end; key += MOEC_ATTEND_KEYS) {
        const MoecPair pair = {query, queries, key, moec_least(range.end - key, MOEC_ATTEND_KEYS),
                               offset};
        moec_attend_pair(attend, head, &pair);
    }
    for (long i = 0; i < queries; i++) {
        moec_row_scale(head->o + (query + i) * head->o_step, attend->value_width,
                       1.0f / scratch->sum[i]);
        head->lse[(query + i) * head->lse_step] = scratch->largest[i] + moec_log(scratch->sum[i]);
    }
}

typedef struct MoecAttendWork {
    const float *q, *k, *v, *sink, *documents;
    float *o, *lse;
} MoecAttendWork;

MOEC_INLINE MoecHead moec_head(const MoecAttend *attend, const MoecAttendWork *work, long b,
                               long h) {
    return (MoecHead){
        work->q + moec_at_query(attend, b, h), work->k + moec_at_key(attend, b, h),
        work->v + moec_at_value(attend, b, h),
        work->documents != NULL ? work->documents + b * attend->keys : NULL,
        work->o + moec_at_output(attend, b, h),
        work->lse + moec_at_lse(attend, b, h), attend->heads * attend->width,
        attend->key_heads * attend->width,     attend->value_heads * attend->value_width,
        attend->heads * attend->value_width,   attend->heads};
}

MOEC_FUNCTION void moec_attend_blocks(const MoecAttend *attend, const MoecAttendWork *work,
                                      long offset) {
    const long blocks = moec_pieces(attend->queries, MOEC_ATTEND_QUERIES), heads = attend->heads;
#pragma omp parallel for schedule(dynamic) if (moec_attend_parallel(attend))
    for (long task = 0; task < attend->batch * heads * blocks; task++) {
        const long b = task / blocks / heads, h = task / blocks % heads,
                   block = blocks - 1 - task % blocks;
        const MoecHead head = moec_head(attend, work, b, h);
        moec_attend_block(attend, &head, block * MOEC_ATTEND_QUERIES, offset,
                          work->sink != NULL ? work->sink + h : NULL);
    }
}

/* Writes o and lse. sink: NULL when there is none. queries == keys unless the mask is
 * MOEC_MASK_NONE. */
MOEC_FUNCTION void moec_attend(const MoecAttend *attend, const float *q, const float *k,
                               const float *v, const float *sink, const float *documents, float *o,
                               float *lse) {
    const MoecAttendWork work = {q, k, v, sink, documents, o, lse};
    moec_attend_blocks(attend, &work, 0);
}

/* ---- backward ---- */

typedef struct MoecAttendSaved {
    const float *q, *k, *v, *sink, *documents, *o, *lse,
        *output_grad; /* output_grad has the shape of o; sink and documents may be NULL */
} MoecAttendSaved;

typedef struct MoecHeadGrad {
    const float *output_grad; /* steps like o */
    float *dq, *dk, *dv;      /* steps like q, k, v */
} MoecHeadGrad;

/* From the scores, already in scratch, and the products of output_grad with the values in `slope`:
 * weights into `score`, adjoints of q.k into `slope`. */
MOEC_LARGE void moec_attend_slopes(const MoecAttend *attend, const MoecHead *head,
                                   const MoecPair *pair) {
    MoecAttendScratch *scratch = &moec_attend_scratch;
    const float bend = attend->cap != 0.0f ? 1.0f / attend->cap : 0.0f;
    for (long i = 0; i < pair->queries; i++) {
        float *row = scratch->score + i * MOEC_ATTEND_KEYS,
              *slope = scratch->slope + i * MOEC_ATTEND_KEYS;
        const MoecRange range =
            moec_visible_columns(attend, pair->offset + pair->query + i, pair->key, pair->keys);
        const float lse = head->lse[(pair->query + i) * head->lse_step], total = scratch->total[i];
        for (long j = 0; j < range.first && j < pair->keys; j++) row[j] = slope[j] = 0.0f;
#pragma omp simd
        for (long j = range.first; j < range.end; j++) {
            const float z = row[j] * bend, weight = moec_exp(row[j] - lse);
            slope[j] = weight * (slope[j] - total) * attend->scale * (1.0f - z * z);
            row[j] = weight;
        }
        for (long j = range.end > 0 ? range.end : 0; j < pair->keys; j++) row[j] = slope[j] = 0.0f;
        moec_hide(head, pair, i, row, 0.0f);
        moec_hide(head, pair, i, slope, 0.0f);
    }
}

/* Adds what a pair of blocks gives to dq, dk and dv. */
MOEC_FUNCTION void moec_attend_grad_pair(const MoecAttend *attend, const MoecHead *head,
                                         const MoecHeadGrad *grad, const MoecPair *pair) {
    MoecAttendScratch *scratch = &moec_attend_scratch;
    const long m = pair->queries, n = pair->keys, wide = MOEC_ATTEND_KEYS;
    const long q = pair->query * head->q_step, k = pair->key * head->k_step,
               v = pair->key * head->v_step;
    const float *adjoint = grad->output_grad + pair->query * head->o_step;
    if (moec_apart(head, pair)) return;
    moec_scores(attend, head, pair, scratch->score);
    const MoecBlockProduct products[] = {
        /* slope[query,key] = sum[c] output_grad[query,c] * v[key,c] */
        {m,
         n,
         attend->value_width,
         {adjoint, head->o_step, 1, NULL, NULL},
         {head->v + v, head->v_step, 1, NULL, NULL},
         scratch->slope,
         wide,
         0},
        /* dv[key,c] += sum[query] weight[query,key] * output_grad[query,c] */
        {n,
         attend->value_width,
         m,
         {scratch->score, 1, wide, NULL, NULL},
         {adjoint, 1, head->o_step, NULL, NULL},
         grad->dv + v,
         head->v_step,
         1},
        /* dk[key,e] += sum[query] slope[query,key] * q[query,e] */
        {n,
         attend->width,
         m,
         {scratch->slope, 1, wide, NULL, NULL},
         {head->q + q, 1, head->q_step, NULL, NULL},
         grad->dk + k,
         head->k_step,
         1},
        /* dq[query,e] += sum[key] slope[query,key] * k[key,e] */
        {m,
         attend->width,
         n,
         {scratch->slope, wide, 1, NULL, NULL},
         {head->k + k, 1, head->k_step, NULL, NULL},
         grad->dq + q,
         head->q_step,
         1},
    };
    moec_block_multiply(&products[0]);
    moec_attend_slopes(attend, head, pair);
    for (int i = 1; i < 4; i++) moec_block_multiply(&products[i]);
}

MOEC_INLINE float moec_dot(long count, const float *a, const float *b) {
    float sum = 0.0f;
    moec_dots(count, a, b, 0, 1, &sum, 0);
    return sum;
}

/* One block of queries of one head. */
MOEC_FUNCTION void moec_attend_grad_block(const MoecAttend *attend, const MoecHead *head,
                                          const MoecHeadGrad *grad, long query) {
    const long queries = moec_least(attend->queries - query, MOEC_ATTEND_QUERIES);
    for (long i = 0; i < queries; i++) {
        const long at = (query + i) * head->o_step;
        moec_attend_scratch.total[i] =
            moec_dot(attend->value_width, head->o + at, grad->output_grad + at);
        memset(grad->dq + (query + i) * head->q_step, 0, (size_t)attend->width * sizeof *grad->dq);
    }
    const MoecRange range = moec_block_range(attend, query, queries);
    for (long key = range.first; key < range.end; key += MOEC_ATTEND_KEYS) {
        const MoecPair pair = {query, queries, key, moec_least(range.end - key, MOEC_ATTEND_KEYS),
                               0};
        moec_attend_grad_pair(attend, head, grad, &pair);
    }
}

/* dsink[h] = - sum over batch and queries of the weight of the sink times (o . output_grad). */
MOEC_FUNCTION void moec_attend_grad_sink(const MoecAttend *attend, const MoecAttendSaved *saved,
                                         float *dsink) {
    for (long h = 0; h < attend->heads; h++) {
        double sum = 0.0;
        for (long row = 0; row < attend->batch * attend->queries; row++) {
            const long at = (row * attend->heads + h) * attend->value_width;
            const float weight = moec_exp(saved->sink[h] - saved->lse[row * attend->heads + h]);
            sum -= (double)(weight *
                            moec_dot(attend->value_width, saved->o + at, saved->output_grad + at));
        }
        dsink[h] = (float)sum;
    }
}

/* Overwrites dq, dk, dv and, with a sink, dsink[heads] (else dsink is NULL). Heads that add to the
 * same dk or dv are one task. */
MOEC_FUNCTION void moec_attend_grad(const MoecAttend *attend, const MoecAttendSaved *saved,
                                    float *dq, float *dk, float *dv, float *dsink) {
    const long heads = attend->heads;
    memset(dk, 0,
           (size_t)(attend->batch * attend->keys * attend->key_heads * attend->width) * sizeof *dk);
    memset(dv, 0,
           (size_t)(attend->batch * attend->keys * attend->value_heads * attend->value_width) *
               sizeof *dv);
    /* the forward pass writes o and lse through these, the backward pass only reads them */
    const MoecAttendWork work = {saved->q,
                                 saved->k,
                                 saved->v,
                                 saved->sink,
                                 saved->documents,
                                 (float *)(uintptr_t)saved->o,
                                 (float *)(uintptr_t)saved->lse};
#pragma omp parallel for schedule(dynamic) if (moec_attend_parallel(attend))
    for (long task = 0; task < attend->batch * heads; task++) {
        const long b = task / heads, leader = task % heads;
        const long end = moec_leads(attend, leader) ? moec_group_end(attend, leader) : leader;
        for (long h = leader; h < end; h++) {
            const MoecHead head = moec_head(attend, &work, b, h);
            const MoecHeadGrad grad = {
                saved->output_grad + moec_at_output(attend, b, h), dq + moec_at_query(attend, b, h),
                dk + moec_at_key(attend, b, h), dv + moec_at_value(attend, b, h)};
            for (long query = 0; query < attend->queries; query += MOEC_ATTEND_QUERIES)
                moec_attend_grad_block(attend, &head, &grad, query);
        }
    }
    if (dsink != NULL) moec_attend_grad_sink(attend, saved, dsink);
}

/* ---- new tokens against a cache ---- */

/* Unfinished softmax and output of one query and head over one part of the keys: largest, sum,
 * output[value_width]. */
typedef struct MoecStep {
    const MoecAttend *attend;
    MoecAttendWork work;
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

/* One head takes a few keys into the states of its queries. */
MOEC_FUNCTION void moec_step_keys(const MoecStep *step, long part, long b, long h, MoecRange keys) {
    const MoecAttend *attend = step->attend;
    MoecAttendScratch *scratch = &moec_attend_scratch;
    MoecHead head = moec_head(attend, &step->work, b, h);
    head.o = moec_step_state(step, part, b, h, 0) + 2;
    head.o_step = attend->value_width + 2;
    for (long i = 0; i < attend->queries; i++) {
        scratch->largest[i] = head.o[i * head.o_step - 2];
        scratch->sum[i] = head.o[i * head.o_step - 1];
    }
    const MoecPair pair = {0, attend->queries, keys.first, keys.end - keys.first, step->position};
    moec_attend_pair(attend, &head, &pair);
    for (long i = 0; i < attend->queries; i++) {
        head.o[i * head.o_step - 2] = scratch->largest[i];
        head.o[i * head.o_step - 1] = scratch->sum[i];
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
    for (long key = first; key < end; key += MOEC_STEP_KEYS) {
        const MoecRange keys = {key, moec_least(key + MOEC_STEP_KEYS, end)};
        for (long h = heads.first; h < heads.end; h++) moec_step_keys(step, part, b, h, keys);
    }
}

/* Joins the parts of one query and head, and the sink. */
MOEC_FUNCTION void moec_step_join(const MoecStep *step, long b, long h, long query) {
    const MoecAttend *attend = step->attend;
    const float *sink = step->work.sink != NULL ? step->work.sink + h : NULL;
    const MoecHead head = moec_head(attend, &step->work, b, h);
    float *o = head.o + query * head.o_step;
    float largest = sink != NULL ? *sink : -__builtin_inff(), sum = 0.0f;
    for (long part = 0; part < step->parts; part++)
        largest = moec_max(largest, moec_step_state(step, part, b, h, query)[0]);
    if (sink != NULL) sum = moec_exp(*sink - largest);
    memset(o, 0, (size_t)attend->value_width * sizeof *o);
    for (long part = 0; part < step->parts; part++) {
        const float *state = moec_step_state(step, part, b, h, query);
        const float factor = moec_exp(state[0] - largest);
        sum += factor * state[1];
#pragma omp simd
        for (long c = 0; c < attend->value_width; c++) o[c] += factor * state[2 + c];
    }
    moec_row_scale(o, attend->value_width, 1.0f / sum);
    head.lse[query * head.lse_step] = largest + moec_log(sum);
}

/* Heads are divided among threads only where there are few parts; the result does not depend on it.
 */
MOEC_FUNCTION void moec_step_parts(const MoecStep *step) {
    const MoecAttend *attend = step->attend;
    const long parts = step->parts * attend->batch, heads = attend->heads;
    const long threads = moec_step_parallel(step) ? moec_threads() : 1;
    const long shares = moec_least(heads, moec_pieces(threads, parts));
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

/* One query of one head: all scores for the normaliser, then the values of the best. */
MOEC_FUNCTION void moec_step_best(const MoecStep *step, long b, long h, long query) {
    const MoecAttend *attend = step->attend;
    const MoecHead head = moec_head(attend, &step->work, b, h);
    const MoecRange range = moec_visible(attend, step->position + query);
    const long most = moec_least(attend->best, MOEC_STEP_BEST);
    float *score = moec_attend_scratch.score;
    float largest = step->work.sink != NULL ? step->work.sink[h] : -__builtin_inff();
    float sum = step->work.sink != NULL ? 1.0f : 0.0f;
    MoecBest *best = &moec_best;
    best->count = 0;
    for (long key = range.first; key < range.end; key += MOEC_ATTEND_KEYS) {
        const MoecPair pair = {query, 1, key, moec_least(range.end - key, MOEC_ATTEND_KEYS),
                               step->position};
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
    moec_row_weights(best->score, kept, best->count, lse);
    const MoecBlockProduct product = {1,
                                      attend->value_width,
                                      best->count,
                                      {best->score, 0, 1, NULL, NULL},
                                      {head.v, 1, head.v_step, NULL, best->key},
                                      head.o + query * head.o_step,
                                      head.o_step,
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

/* New tokens against a cache: query s stands at place position+s and sees keys 0 .. position+s,
 * with a window the last `window` of them; there is no other mask. `keys` is the capacity of the
 * cache. */
MOEC_FUNCTION void moec_attend_step(const MoecAttend *options, long position, const float *q,
                                    const float *k, const float *v, const float *sink,
                                    const float *documents, float *o, float *lse) {
    MoecAttend attend = *options;
    attend.mask = attend.mask == MOEC_MASK_NONE ? MOEC_MASK_CAUSAL : attend.mask;
    const MoecRange range = moec_block_range(&attend, position, attend.queries);
    const long states = attend.batch * attend.heads * attend.queries * (attend.value_width + 2);
    const long room = MOEC_STEP_BUFFER / states, keys = range.end - range.first;
    MoecStep step = {&attend, {q, k, v, sink, documents, o, lse}, position, range.first, range.end, 1,
                     keys,    moec_step_buffer};
    if (attend.best > 0) {
        moec_step_all_best(&step);
    } else if (attend.queries > MOEC_STEP_QUERIES || room == 0) {
        moec_attend_blocks(&attend, &step.work, position);
    } else {
        step.parts = moec_least(room, moec_pieces(keys, MOEC_STEP_PART));
        step.part_keys = moec_pieces(keys, step.parts);
        moec_step_parts(&step);
    }
}

#endif
