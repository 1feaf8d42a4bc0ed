/* attention_grad: softmax attention backward: see attention.h.
 *
 * The weights of a pair of blocks are made again from lse. Heads that add to the same dk or dv are
 * one task. Results do not depend on the number of threads.
 */
#ifndef MOEC_ATTENTION_GRAD_H
#define MOEC_ATTENTION_GRAD_H

#include "attention.h"

/* Rows of dk, or of dv, of one head: those before `made` have sums, the others anything. */
typedef struct MoecRowSums {
    float *rows;
    long step, width, made;
} MoecRowSums;

typedef struct MoecHeadGrad {
    const void *output_grad; /* steps like o */
    float *dq;               /* steps like q */
    int begun;               /* of a block of queries: there are sums in dq */
    float *dbias;            /* of the head, the element of distance 0; or NULL */
    MoecRowSums dk, dv;      /* steps like k, v */
} MoecHeadGrad;

/* The sums of rows before `end` that have none become 0. */
MOEC_FUNCTION void moec_begin_rows(MoecRowSums *sums, long end) {
    for (; sums->made < end; sums->made++)
        memset(sums->rows + sums->made * sums->step, 0, (size_t)sums->width * sizeof(float));
}

/* Completes all rows of `heads` adjacent heads: the first one receives no further sums, the others
 * receive none at all. The sums then start with the head after them. */
MOEC_FUNCTION void moec_finish_heads(MoecRowSums *sums, long heads, long count) {
    for (long h = 0; h < heads; h++, sums->rows += sums->width, sums->made = 0)
        moec_begin_rows(sums, count);
}

/* Rows first .. end-1 are added to; they are made where none of them has sums. */
MOEC_FUNCTION MoecOutput moec_rows_from(MoecRowSums *sums, long first, long end) {
    const int begun = first < sums->made;
    moec_begin_rows(sums, begun ? end : first);
    if (!begun) sums->made = end;
    return (MoecOutput){sums->rows + first * sums->step, sums->step, begun};
}

/* Adds the adjoints of the scores of key j to the adjoint of the bias. */
MOEC_LARGE void moec_row_bias_grad(float *dbias, const MoecBlockPair *pair, long j, MoecRange range,
                                   const float *slope) {
    float *to = dbias + pair->offset + pair->query - pair->key - j;
    for (long i = range.first; i < range.end && pair->list != NULL; i++)
        to[pair->list[i]] += slope[i];
    if (pair->list != NULL) return;
#pragma omp simd
    for (long i = range.first; i < range.end; i++) to[i] += slope[i];
}

/* From the scores, not scaled, and in `slope` the products of output_grad with the values: weights
 * into `score`, adjoints of q.k into `slope`. */
MOEC_LARGE void moec_pair_slopes(const MoecAttend *attend, const MoecHead *head,
                                 const MoecHeadGrad *grad, const MoecBlockPair *pair,
                                 const MoecSoon *soon) {
    MoecAttendScratch *scratch = &moec_attend_scratch;
    const float bend = attend->cap != 0.0f ? 1.0f / attend->cap : 0.0f, scale = attend->scale,
                rest = attend->cap != 0.0f ? 1.0f : scale;
    const float *total = scratch->total;
    float bent[MOEC_ATTEND_STEP], biased[MOEC_ATTEND_STEP];
    const MoecType type = moec_cell_type(attend);
    for (long j = 0; j < pair->keys; j++) {
        const MoecRange range = moec_seeing(attend, pair, j), vectors = moec_vectors(range);
        float *row = scratch->score + j * MOEC_ATTEND_STEP,
              *slope = scratch->slope + j * MOEC_ATTEND_STEP;
        moec_fetch_row(grad->dv.rows, pair->key + j, head->v_step, attend->value_width, MOEC_F32,
                       1);
        moec_fetch_row(grad->dk.rows, pair->key + j, head->k_step, attend->width, MOEC_F32, 1);
        moec_fetch_row(soon->k, j, head->k_step, attend->width, attend->k_type, 1);
        moec_fetch_row(soon->q, j, head->q_step, attend->width, attend->q_type, 0);
        moec_fetch_row(soon->v, j, head->v_step, attend->value_width, attend->v_type, 0);
        if (attend->cap != 0.0f) moec_row_scores(row, range, scale, attend->cap);
        const float *less = scratch->less;
        if (head->bias != NULL) {
            memcpy(biased, less, sizeof scratch->less);
            moec_row_bias(head->bias, pair, j, range, -1.0f, biased);
            less = biased;
        }
#pragma omp simd
        for (long i = vectors.first; i < vectors.end; i++) {
            const float z = row[i] * bend, weight = moec_exp_weight(row[i] * rest - less[i]);
            slope[i] = weight * (slope[i] - total[i]);
            bent[i] = scale * (1.0f - z * z);
            row[i] = weight;
        }
        moec_hide_queries(head, pair, j, row, 0.0f);
        moec_hide_queries(head, pair, j, slope, 0.0f);
        if (grad->dbias != NULL) moec_row_bias_grad(grad->dbias, pair, j, range, slope);
#pragma omp simd
        for (long i = vectors.first; i < vectors.end; i++) slope[i] *= bent[i];
        moec_row_finish(row, range, pair, type);
        moec_row_finish(slope, range, pair, type);
    }
}

/* Adds the contribution of a pair of blocks to dq, dk and dv. */
MOEC_FUNCTION void moec_attend_grad_pair(const MoecAttend *attend, const MoecHead *head,
                                         MoecHeadGrad *grad, const MoecBlockPair *pair,
                                         const MoecSoon *soon) {
    MoecAttendScratch *scratch = &moec_attend_scratch;
    if (moec_apart(head, pair)) return;
    const MoecType grad_type = attend->grad_type;
    const MoecOperand output = moec_query_rows(pair, grad->output_grad, head->o_step, grad_type),
                      value = moec_rows_of(head->v, pair->key, head->v_step, attend->v_type),
                      q = moec_query_columns(pair, head->q, head->q_step, attend->q_type),
                      k = moec_columns_of(head->k, pair->key, head->k_step, attend->k_type),
                      outputs =
                          moec_query_columns(pair, grad->output_grad, head->o_step, grad_type);
    const long values = attend->value_width, end = pair->key + pair->keys;
    const MoecOutput dq = {grad->dq + pair->query * head->q_step, head->q_step, grad->begun},
                     dk = moec_rows_from(&grad->dk, pair->key, end),
                     dv = moec_rows_from(&grad->dv, pair->key, end);
    moec_pair_scores(attend, head, pair);
    moec_pair_cells(attend, pair, &value, &output, values, &scratch->grad, scratch->slope);
    moec_pair_slopes(attend, head, grad, pair, soon);
    moec_pair_sums(attend, pair, scratch->score, 0, &outputs, values, &scratch->grad_rows, dv);
    moec_pair_sums(attend, pair, scratch->slope, 0, &q, attend->width, &scratch->query_rows, dk);
    moec_pair_sums(attend, pair, scratch->slope, 1, &k, attend->width, &scratch->key_rows, dq);
    grad->begun = 1;
}

/* The product of an output and its gradient, from that element on. */
MOEC_INLINE float moec_output_dot(const MoecAttend *attend, const void *o, const void *output_grad,
                                  long at) {
    const MoecDots dots = {attend->value_width,
                           moec_at(o, at, attend->o_type),
                           moec_at(output_grad, at, attend->grad_type),
                           0,
                           0,
                           0};
    float sum = 0.0f;
    moec_dots(&dots, attend->o_type, attend->grad_type, 1, &sum);
    return sum;
}

/* Processes one block of queries of one head. `soon`: first rows of the next block, for
 * prefetching. */
MOEC_FUNCTION void moec_attend_grad_block(const MoecAttend *attend, const MoecHead *head,
                                          MoecHeadGrad *grad, long query, const MoecSoon *soon) {
    const long side = moec_block_side(attend, head->documents),
               queries = moec_least(attend->queries - query, side), ahead = 16;
    moec_keep_nothing(&moec_attend_scratch);
    for (long i = query; i < query + queries; i++) {
        moec_fetch_row(head->o, i + ahead, head->o_step, attend->value_width, attend->o_type, 1);
        moec_fetch_row(grad->output_grad, i + ahead, head->o_step, attend->value_width,
                       attend->grad_type, 1);
        moec_attend_scratch.less[i - query] = head->lse[i * head->lse_step];
        moec_attend_scratch.total[i - query] =
            moec_output_dot(attend, head->o, grad->output_grad, i * head->o_step);
    }
    const MoecRange range = moec_block_range(attend, query, queries);
    grad->begun = 0;
    for (long key = range.first; key < range.end; key += side) {
        const long keys = moec_least(range.end - key, side), end = key + keys;
        const MoecBlockPair pair = {query, queries, key, keys, 0, NULL, NULL};
        const MoecSoon next = {NULL, moec_key_at(attend, head, end),
                               moec_at(head->v, end * head->v_step, attend->v_type)};
        moec_attend_grad_pair(attend, head, grad, &pair, end < range.end ? &next : soon);
    }
    for (long i = query; i < query + queries && !grad->begun; i++)
        memset(grad->dq + i * head->q_step, 0, (size_t)attend->width * sizeof *grad->dq);
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

/* Clears the adjoints of the bias of a head; returns the element of distance 0. */
MOEC_FUNCTION float *moec_begin_bias(const MoecAttend *attend, float *dbias, long b, long h) {
    if (dbias == NULL) return NULL;
    const long count = moec_distances(attend);
    float *own = dbias + (b * attend->heads + h) * count;
    memset(own, 0, (size_t)count * sizeof *own);
    return own + moec_distance_zero(attend);
}

/* Heads first .. end-1 of that batch element, which add to the same dk and dv. `next`: the head
 * that is worked on next. */
MOEC_FUNCTION void moec_attend_grad_heads(const MoecAttend *attend, const MoecAttendSaved *saved,
                                          const MoecAttendWork *work, const MoecHeadGrad *all,
                                          long b, long first, long end, const MoecHead *next) {
    const long side = moec_block_side(attend, saved->documents);
    MoecHeadGrad grad = *all;
    grad.dk.rows += moec_at_key(attend, b, first);
    grad.dv.rows += moec_at_value(attend, b, first);
    for (long h = first; h < end; h++) {
        const MoecHead head = moec_head(attend, work, b, h),
                       after = h + 1 < end ? moec_head(attend, work, b, h + 1) : *next;
        const long keys = moec_key_head(attend, h + 1) - moec_key_head(attend, h),
                   values = moec_value_head(attend, h + 1) - moec_value_head(attend, h);
        grad.output_grad =
            moec_at(saved->output_grad, moec_at_output(attend, b, h), attend->grad_type);
        grad.dq = all->dq + moec_at_query(attend, b, h);
        grad.dbias = moec_begin_bias(attend, all->dbias, b, h);
        for (long query = 0; query < attend->queries; query += side) {
            const int more = query + side < attend->queries;
            const MoecSoon soon =
                moec_block_soon(attend, more ? &head : &after, more ? query + side : 0, 0, 1);
            moec_attend_grad_block(attend, &head, &grad, query, &soon);
        }
        moec_finish_heads(&grad.dk, keys, attend->keys);
        moec_finish_heads(&grad.dv, values, attend->keys);
    }
}

MOEC_INLINE MoecHeadGrad moec_all_grads(const MoecAttend *attend, const MoecAttendSaved *saved,
                                        float *dq, float *dk, float *dv, float *dbias) {
    return (MoecHeadGrad){
        .output_grad = saved->output_grad,
        .dq = dq,
        .dbias = dbias,
        .dk = {dk, attend->key_heads * attend->width, attend->width, 0},
        .dv = {dv, attend->value_heads * attend->value_width, attend->value_width, 0}};
}

/* The forward pass writes o and lse through these, the backward pass only reads them. */
MOEC_INLINE MoecAttendWork moec_saved_work(const MoecAttendSaved *saved) {
    return (MoecAttendWork){.q = saved->q,
                            .k = saved->k,
                            .v = saved->v,
                            .sink = saved->sink,
                            .documents = saved->documents,
                            .bias = saved->bias,
                            .o = (void *)(uintptr_t)saved->o,
                            .lse = (float *)(uintptr_t)saved->lse};
}

MOEC_ENTRY void moec_attend_grad(const MoecAttend *attend, const MoecAttendSaved *saved, float *dq,
                                 float *dk, float *dv, float *dsink, float *dbias) {
    const long heads = attend->heads, tasks = attend->batch * heads,
               threads = moec_attend_parallel(attend) ? moec_threads() : 1;
    const MoecHeadGrad all = moec_all_grads(attend, saved, dq, dk, dv, dbias);
    const MoecAttendWork work = moec_saved_work(saved);
#pragma omp parallel for schedule(dynamic) if (threads > 1)
    for (long task = 0; task < tasks; task++) {
        const long first = task % heads;
        if (!moec_leads(attend, first)) continue;
        const long end = moec_group_end(attend, first),
                   after = moec_least(task + threads * (end - first), tasks - 1);
        const MoecHead next = moec_head(attend, &work, after / heads, after % heads);
        moec_attend_grad_heads(attend, saved, &work, &all, task / heads, first, end, &next);
    }
    if (dsink != NULL) moec_attend_grad_sink(attend, saved, dsink);
}

#endif
