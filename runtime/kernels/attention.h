/* attention: softmax attention forward and backward; attention_step.h: against a cache.
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
 *
 * Where `rounded` is set, what products multiply may be rounded to bf16, and q, k, v, o and the
 * gradient of o are stored as their types say; sums, lse and all other gradients are f32.
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
    int rounded;
    MoecType q_type, k_type, v_type, o_type, grad_type;
} MoecAttend;

enum {
    MOEC_ATTEND_QUERIES = 128, /* of a block */
    MOEC_ATTEND_KEYS = 128,
    MOEC_ATTEND_WIDTH = 256,    /* of values, where the output is bf16 */
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
    float output[MOEC_ATTEND_QUERIES * MOEC_ATTEND_WIDTH]; /* unfinished, where it is bf16 */
} MoecAttendScratch;

static _Thread_local MoecAttendScratch moec_attend_scratch __attribute__((unused, aligned(64)));

/* One head of one batch element: first elements and steps from place to place. */
typedef struct MoecHead {
    const void *q, *k, *v;
    const float *documents;
    void *o;
    float *lse;
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

/* Rows `first` and following of a matrix as an operand: a row is a lane; as depth of the other. */
MOEC_INLINE MoecOperand moec_rows_of(const void *data, long first, long step, MoecType type) {
    return (MoecOperand){moec_at(data, first * step, type), step, 1, NULL, NULL, type};
}
MOEC_INLINE MoecOperand moec_columns_of(const void *data, long first, long step, MoecType type) {
    return (MoecOperand){moec_at(data, first * step, type), 1, step, NULL, NULL, type};
}

/* score[query][key] of a block, scaled and capped; cells that the mask hides hold anything. */
MOEC_LARGE void moec_scores(const MoecAttend *attend, const MoecHead *head, const MoecPair *pair,
                            float *score) {
    const MoecBlockProduct product = {
        pair->queries,
        pair->keys,
        attend->width,
        moec_rows_of(head->q, pair->query, head->q_step, attend->q_type),
        moec_rows_of(head->k, pair->key, head->k_step, attend->k_type),
        score,
        MOEC_ATTEND_KEYS,
        0,
        attend->rounded,
        MOEC_F32};
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

/* Sums of a block of queries on their way to its output: f32, the first row at the first query. */
typedef struct MoecOutput {
    float *rows;
    long step;
} MoecOutput;

/* Takes one block of keys into the running softmax and output of a block of queries. */
MOEC_LARGE void moec_attend_pair(const MoecAttend *attend, const MoecHead *head,
                                 const MoecPair *pair, MoecOutput output) {
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
        if (fade != 1.0f) moec_row_scale(output.rows + i * output.step, attend->value_width, fade);
    }
    const MoecBlockProduct product = {
        pair->queries,
        attend->value_width,
        pair->keys,
        moec_rows_of(scratch->score, 0, MOEC_ATTEND_KEYS, MOEC_F32),
        moec_columns_of(head->v, pair->key, head->v_step, attend->v_type),
        output.rows,
        output.step,
        1,
        attend->rounded,
        MOEC_F32};
    moec_block_multiply(&product);
}

/* All keys that a block of queries sees, as places first .. end-1. */
MOEC_FUNCTION MoecRange moec_block_range(const MoecAttend *attend, long first_place, long count) {
    const MoecRange low = moec_visible(attend, first_place),
                    high = moec_visible(attend, first_place + count - 1);
    return (MoecRange){low.first, high.end};
}

/* The output of a query, finished: its sums, each times `factor`, as they are stored. */
MOEC_FUNCTION void moec_attend_finish(const MoecAttend *attend, const MoecHead *head, long query,
                                      const float *sums, float factor) {
    void *to = moec_to(head->o, query * head->o_step, attend->o_type);
    if (moec_is_bf16(attend->o_type)) {
#pragma omp simd
        for (long c = 0; c < attend->value_width; c++)
            ((MoecBf16 *)to)[c] = moec_bf16(sums[c] * factor);
    } else {
#pragma omp simd
        for (long c = 0; c < attend->value_width; c++) ((float *)to)[c] = sums[c] * factor;
    }
}

MOEC_FUNCTION void moec_attend_block(const MoecAttend *attend, const MoecHead *head, long query,
                                     long offset, const float *sink) {
    MoecAttendScratch *scratch = &moec_attend_scratch;
    const long queries = moec_least(attend->queries - query, MOEC_ATTEND_QUERIES);
    const MoecOutput output =
        moec_is_bf16(attend->o_type)
            ? (MoecOutput){scratch->output, attend->value_width}
            : (MoecOutput){(float *)head->o + query * head->o_step, head->o_step};
    for (long i = 0; i < queries; i++) {
        scratch->largest[i] = sink != NULL ? *sink : -__builtin_inff();
        scratch->sum[i] = sink != NULL ? 1.0f : 0.0f;
        memset(output.rows + i * output.step, 0, (size_t)attend->value_width * sizeof(float));
    }
    const MoecRange range = moec_block_range(attend, offset + query, queries);
    for (long key = range.first; key < range.end; key += MOEC_ATTEND_KEYS) {
        const MoecPair pair = {query, queries, key, moec_least(range.end - key, MOEC_ATTEND_KEYS),
                               offset};
        moec_attend_pair(attend, head, &pair, output);
    }
    for (long i = 0; i < queries; i++) {
        moec_attend_finish(attend, head, query + i, output.rows + i * output.step,
                           1.0f / scratch->sum[i]);
        head->lse[(query + i) * head->lse_step] = scratch->largest[i] + moec_log(scratch->sum[i]);
    }
}

typedef struct MoecAttendWork {
    const void *q, *k, *v;
    const float *sink, *documents;
    void *o;
    float *lse;
} MoecAttendWork;

MOEC_INLINE MoecHead moec_head(const MoecAttend *attend, const MoecAttendWork *work, long b,
                               long h) {
    return (MoecHead){moec_at(work->q, moec_at_query(attend, b, h), attend->q_type),
                      moec_at(work->k, moec_at_key(attend, b, h), attend->k_type),
                      moec_at(work->v, moec_at_value(attend, b, h), attend->v_type),
                      work->documents != NULL ? work->documents + b * attend->keys : NULL,
                      moec_to(work->o, moec_at_output(attend, b, h), attend->o_type),
                      work->lse + moec_at_lse(attend, b, h),
                      attend->heads * attend->width,
                      attend->key_heads * attend->width,
                      attend->value_heads * attend->value_width,
                      attend->heads * attend->value_width,
                      attend->heads};
}

MOEC_FUNCTION void moec_attend_blocks(const MoecAttend *attend, const MoecAttendWork *work,
                                      long offset) {
    const long blocks = moec_ceil_div(attend->queries, MOEC_ATTEND_QUERIES), heads = attend->heads;
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
MOEC_FUNCTION void moec_attend(const MoecAttend *attend, const void *q, const void *k,
                               const void *v, const float *sink, const float *documents, void *o,
                               float *lse) {
    const MoecAttendWork work = {q, k, v, sink, documents, o, lse};
    moec_attend_blocks(attend, &work, 0);
}

/* ---- backward ---- */

typedef struct MoecAttendSaved {
    const void *q, *k, *v;
    const float *sink, *documents;
    const void *o;
    const float *lse;
    const void *output_grad; /* has the shape of o; sink and documents may be NULL */
} MoecAttendSaved;

typedef struct MoecHeadGrad {
    const void *output_grad; /* steps like o */
    float *dq, *dk, *dv;     /* steps like q, k, v */
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
    const int rounded = attend->rounded;
    if (moec_apart(head, pair)) return;
    moec_scores(attend, head, pair, scratch->score);
    const MoecBlockProduct products[] = {
        /* slope[query,key] = sum[c] output_grad[query,c] * v[key,c] */
        {m, n, attend->value_width,
         moec_rows_of(grad->output_grad, pair->query, head->o_step, attend->grad_type),
         moec_rows_of(head->v, pair->key, head->v_step, attend->v_type), scratch->slope, wide, 0,
         rounded, MOEC_F32},
        /* dv[key,c] += sum[query] weight[query,key] * output_grad[query,c] */
        {n, attend->value_width, m, moec_columns_of(scratch->score, 0, wide, MOEC_F32),
         moec_columns_of(grad->output_grad, pair->query, head->o_step, attend->grad_type),
         grad->dv + pair->key * head->v_step, head->v_step, 1, rounded, MOEC_F32},
        /* dk[key,e] += sum[query] slope[query,key] * q[query,e] */
        {n, attend->width, m, moec_columns_of(scratch->slope, 0, wide, MOEC_F32),
         moec_columns_of(head->q, pair->query, head->q_step, attend->q_type),
         grad->dk + pair->key * head->k_step, head->k_step, 1, rounded, MOEC_F32},
        /* dq[query,e] += sum[key] slope[query,key] * k[key,e] */
        {m, attend->width, n, moec_rows_of(scratch->slope, 0, wide, MOEC_F32),
         moec_columns_of(head->k, pair->key, head->k_step, attend->k_type),
         grad->dq + pair->query * head->q_step, head->q_step, 1, rounded, MOEC_F32},
    };
    moec_block_multiply(&products[0]);
    moec_attend_slopes(attend, head, pair);
    for (int i = 1; i < 4; i++) moec_block_multiply(&products[i]);
}

/* The product of an output and its gradient, from that element on. */
MOEC_INLINE float moec_output_dot(const MoecAttend *attend, const void *o, const void *output_grad,
                                  long at) {
    const MoecDots dots = {attend->value_width, moec_at(o, at, attend->o_type),
                           moec_at(output_grad, at, attend->grad_type), 0, 0};
    float sum = 0.0f;
    moec_dots(&dots, attend->o_type, attend->grad_type, 1, &sum);
    return sum;
}

/* One block of queries of one head. */
MOEC_FUNCTION void moec_attend_grad_block(const MoecAttend *attend, const MoecHead *head,
                                          const MoecHeadGrad *grad, long query) {
    const long queries = moec_least(attend->queries - query, MOEC_ATTEND_QUERIES);
    for (long i = 0; i < queries; i++) {
        const long at = (query + i) * head->o_step;
        moec_attend_scratch.total[i] = moec_output_dot(attend, head->o, grad->output_grad, at);
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
            sum -= (double)(weight * moec_output_dot(attend, saved->o, saved->output_grad, at));
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
                                 (void *)(uintptr_t)saved->o,
                                 (float *)(uintptr_t)saved->lse};
#pragma omp parallel for schedule(dynamic) if (moec_attend_parallel(attend))
    for (long task = 0; task < attend->batch * heads; task++) {
        const long b = task / heads, leader = task % heads;
        const long end = moec_leads(attend, leader) ? moec_group_end(attend, leader) : leader;
        for (long h = leader; h < end; h++) {
            const MoecHead head = moec_head(attend, &work, b, h);
            const MoecHeadGrad grad = {
                moec_at(saved->output_grad, moec_at_output(attend, b, h), attend->grad_type),
                dq + moec_at_query(attend, b, h), dk + moec_at_key(attend, b, h),
                dv + moec_at_value(attend, b, h)};
            for (long query = 0; query < attend->queries; query += MOEC_ATTEND_QUERIES)
                moec_attend_grad_block(attend, &head, &grad, query);
        }
    }
    if (dsink != NULL) moec_attend_grad_sink(attend, saved, dsink);
}

#endif
