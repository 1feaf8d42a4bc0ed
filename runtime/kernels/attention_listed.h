/* attention_listed: softmax attention of single queries to listed keys, forward and backward: see
 * attention_chosen.h.
 *
 * A few keys and values are copied side by side, as floats, with zeros up to whole vectors. Queries
 * then read only those that they attend to, so the cost is that of the listed pairs. */
#ifndef MOEC_ATTENTION_LISTED_H
#define MOEC_ATTENTION_LISTED_H

#include "attention_grad.h"

enum {
    MOEC_LISTED_ROWS = 4, /* keys, or vectors, that are treated together */
    MOEC_LISTED_AHEAD = 4 /* queries from a prefetch to the use */
};

/* Rows of some keys: a step is a whole number of vectors. */
typedef struct MoecListedRows {
    float *rows;
    long width, step;
} MoecListedRows;

/* Some keys, and those of them that a query attends to: their numbers among them. */
typedef struct MoecListed {
    const MoecAttend *attend;
    const MoecHead *head;
    const MoecHeadGrad *grad; /* NULL: forward */
    MoecRange keys;
    MoecListedRows k, v, dk, dv;
    long count;
    int row[MOEC_ATTEND_KEYS];
    float weight[MOEC_ATTEND_KEYS], slope[MOEC_ATTEND_KEYS], bend[MOEC_ATTEND_KEYS];
    float query[MOEC_ATTEND_WIDTH], output[MOEC_ATTEND_WIDTH], sum[MOEC_ATTEND_WIDTH];
} MoecListed;

static _Thread_local MoecListed moec_listed __attribute__((unused, aligned(64)));

MOEC_INLINE int moec_can_list(const MoecAttend *attend) {
    return attend->width <= MOEC_ATTEND_WIDTH && attend->value_width <= MOEC_ATTEND_WIDTH;
}

/* Copies a row as floats, with zeros up to whole vectors. */
MOEC_INLINE void moec_listed_row(const void *from, long width, MoecType type, float scale,
                                 float *to) {
    long c = 0;
    for (; c + MOEC_LANES <= width; c += MOEC_LANES)
        moec_store_vector(to + c, scale * moec_load_wide(moec_at(from, c, type), type));
    if (c == width) return;
    moec_store_vector(to + c, (MoecVector){0});
    for (; c < width; c++) to[c] = scale * moec_value(moec_at(from, c, type), type);
}

MOEC_INLINE MoecListedRows moec_listed_rows(float *rows, long width) {
    return (MoecListedRows){rows, width, moec_ceil_div(width, MOEC_LANES) * MOEC_LANES};
}

/* The rows of k and v, and sums that begin at zero for their gradients. */
MOEC_FUNCTION void moec_listed_begin(MoecListed *listed) {
    MoecAttendScratch *scratch = &moec_attend_scratch;
    const MoecAttend *attend = listed->attend;
    const MoecHead *head = listed->head;
    const long count = listed->keys.end - listed->keys.first;
    moec_keep_nothing(scratch);
    listed->k = moec_listed_rows(scratch->score, attend->width);
    listed->v = moec_listed_rows(scratch->slope, attend->value_width);
    listed->dk = moec_listed_rows(scratch->query.words, attend->width);
    listed->dv = moec_listed_rows(scratch->grad.words, attend->value_width);
    for (long j = 0; j < count; j++) {
        const long row = moec_row_of_key(attend, listed->keys.first + j);
        moec_listed_row(moec_at(head->k, row * head->k_step, attend->k_type), attend->width,
                        attend->k_type, moec_scale_at(head->k_scale, row, head->k_scale_step),
                        listed->k.rows + j * listed->k.step);
        moec_listed_row(moec_at(head->v, row * head->v_step, attend->v_type), attend->value_width,
                        attend->v_type, moec_scale_at(head->v_scale, row, head->v_scale_step),
                        listed->v.rows + j * listed->v.step);
    }
    if (listed->grad == NULL) return;
    memset(listed->dk.rows, 0, (size_t)(count * listed->dk.step) * sizeof(float));
    memset(listed->dv.rows, 0, (size_t)(count * listed->dv.step) * sizeof(float));
}

MOEC_FUNCTION void moec_listed_add(const MoecListedRows *from, MoecRange keys,
                                   const MoecRowSums *sums) {
    for (long key = keys.first; key < keys.end; key++) {
        const float *row = from->rows + (key - keys.first) * from->step;
        float *to = sums->rows + key * sums->step;
#pragma omp simd
        for (long c = 0; c < from->width; c++) to[c] += row[c];
    }
}

/* Adds the gradients to those of the keys. */
MOEC_FUNCTION void moec_listed_end(const MoecListed *listed) {
    if (listed->grad == NULL) return;
    moec_listed_add(&listed->dk, listed->keys, &listed->grad->dk);
    moec_listed_add(&listed->dv, listed->keys, &listed->grad->dv);
}

/* dot[j] = x . listed row j. */
MOEC_INLINE void moec_listed_dots_of(const MoecListedRows *rows, const int *row, const float *x,
                                     const long together, float *dot) {
    MoecVector sum[MOEC_LISTED_ROWS];
    const float *from[MOEC_LISTED_ROWS];
#pragma GCC unroll 4
    for (long q = 0; q < together; q++) {
        from[q] = rows->rows + row[q] * rows->step;
        sum[q] = (MoecVector){0};
    }
    for (long c = 0; c < rows->step; c += MOEC_LANES) {
        const MoecVector left = moec_load_vector(x + c);
#pragma GCC unroll 4
        for (long q = 0; q < together; q++) sum[q] += left * moec_load_vector(from[q] + c);
    }
#pragma GCC unroll 4
    for (long q = 0; q < together; q++) dot[q] = moec_vector_sum(sum[q]);
}

MOEC_LARGE void moec_listed_dots(const MoecListed *listed, const MoecListedRows *rows,
                                 const float *x, float *dot) {
    long j = 0;
    for (; j + MOEC_LISTED_ROWS <= listed->count; j += MOEC_LISTED_ROWS)
        moec_listed_dots_of(rows, listed->row + j, x, MOEC_LISTED_ROWS, dot + j);
    for (; j < listed->count; j++) moec_listed_dots_of(rows, listed->row + j, x, 1, dot + j);
}

/* sum[c] = sum over the listed rows of weight * row[c], for some vectors. */
MOEC_INLINE void moec_listed_sums_of(const MoecListed *listed, const MoecListedRows *rows, long c,
                                     const float *weight, const long vectors, float *to) {
    MoecVector sum[MOEC_LISTED_ROWS];
#pragma GCC unroll 4
    for (long v = 0; v < vectors; v++) sum[v] = (MoecVector){0};
    for (long j = 0; j < listed->count; j++) {
        const float *from = rows->rows + listed->row[j] * rows->step + c;
#pragma GCC unroll 4
        for (long v = 0; v < vectors; v++)
            sum[v] += weight[j] * moec_load_vector(from + v * MOEC_LANES);
    }
#pragma GCC unroll 4
    for (long v = 0; v < vectors; v++) moec_store_vector(to + c + v * MOEC_LANES, sum[v]);
}

/* to = to * fade + the sum over the listed rows of weight * row. */
MOEC_LARGE void moec_listed_sums(MoecListed *listed, const MoecListedRows *rows,
                                 const float *weight, float fade, float *to) {
    const long four = MOEC_LISTED_ROWS * MOEC_LANES;
    float *sum = listed->sum;
    long c = 0;
    for (; c + four <= rows->step; c += four)
        moec_listed_sums_of(listed, rows, c, weight, MOEC_LISTED_ROWS, sum);
    for (; c < rows->step; c += MOEC_LANES) moec_listed_sums_of(listed, rows, c, weight, 1, sum);
#pragma omp simd
    for (long x = 0; x < rows->width; x++) to[x] = to[x] * fade + sum[x];
}

/* Listed row j += weight[j] * x, for some vectors. */
MOEC_INLINE void moec_listed_spread_of(const MoecListed *listed, const MoecListedRows *rows, long c,
                                       const float *weight, const float *x, const long vectors) {
    MoecVector own[MOEC_LISTED_ROWS];
#pragma GCC unroll 4
    for (long v = 0; v < vectors; v++) own[v] = moec_load_vector(x + c + v * MOEC_LANES);
    for (long j = 0; j < listed->count; j++) {
        float *to = rows->rows + listed->row[j] * rows->step + c;
#pragma GCC unroll 4
        for (long v = 0; v < vectors; v++) {
            float *at = to + v * MOEC_LANES;
            moec_store_vector(at, moec_load_vector(at) + weight[j] * own[v]);
        }
    }
}

MOEC_LARGE void moec_listed_spread(const MoecListed *listed, const MoecListedRows *rows,
                                   const float *weight, const float *x) {
    const long four = MOEC_LISTED_ROWS * MOEC_LANES;
    long c = 0;
    for (; c + four <= rows->step; c += four)
        moec_listed_spread_of(listed, rows, c, weight, x, MOEC_LISTED_ROWS);
    for (; c < rows->step; c += MOEC_LANES) moec_listed_spread_of(listed, rows, c, weight, x, 1);
}

/* Scores of a query, at `position`, into `weight`; the derivative of each by q.k into `bend`. */
MOEC_FUNCTION void moec_listed_scores(MoecListed *listed, long query, long position) {
    const MoecAttend *attend = listed->attend;
    const MoecHead *head = listed->head;
    const float scale = attend->scale, cap = attend->cap;
    float *weight = listed->weight;
    moec_listed_row(moec_at(head->q, query * head->q_step, attend->q_type), attend->width,
                    attend->q_type, 1.0f, listed->query);
    moec_listed_dots(listed, &listed->k, listed->query, weight);
#pragma omp simd
    for (long j = 0; j < listed->count; j++) {
        weight[j] *= scale;
        listed->bend[j] = scale;
    }
    for (long j = 0; j < listed->count && cap != 0.0f; j++) {
        const float z = moec_tanh(weight[j] / cap);
        weight[j] = cap * z;
        listed->bend[j] *= 1.0f - z * z;
    }
    const float *bias = head->bias != NULL ? head->bias + position - listed->keys.first : NULL;
    for (long j = 0; j < listed->count && bias != NULL; j++) weight[j] += bias[-listed->row[j]];
}

/* Adds the keys to the running softmax of the query and to its output. */
MOEC_FUNCTION void moec_listed_attend(MoecListed *listed, long query, long position, float *largest,
                                      float *sum) {
    float *weight = listed->weight, most = *largest, total = 0.0f;
    moec_listed_scores(listed, query, position);
#pragma omp simd reduction(max : most)
    for (long j = 0; j < listed->count; j++) most = weight[j] > most ? weight[j] : most;
    const float fade = most > *largest ? moec_exp_weight(*largest - most) : 1.0f,
                less = most == -__builtin_inff() ? 0.0f : most;
#pragma omp simd reduction(+ : total)
    for (long j = 0; j < listed->count; j++) {
        weight[j] = moec_exp_weight(weight[j] - less);
        total += weight[j];
    }
    *largest = most;
    *sum = *sum * fade + total;
    moec_listed_sums(listed, &listed->v, weight, fade,
                     (float *)listed->head->o + query * listed->head->o_step);
}

/* Adds the contribution of the query and the keys to dq and to the gradients of the rows. lse: of
 * the query; total: the product of its output and the gradient of that. */
MOEC_FUNCTION void moec_listed_grad(MoecListed *listed, long query, long position, float lse,
                                    float total) {
    const MoecAttend *attend = listed->attend;
    const MoecHead *head = listed->head;
    const MoecHeadGrad *grad = listed->grad;
    float *weight = listed->weight, *slope = listed->slope;
    moec_listed_scores(listed, query, position);
    moec_listed_row(moec_at(grad->output_grad, query * head->o_step, attend->grad_type),
                    attend->value_width, attend->grad_type, 1.0f, listed->output);
    moec_listed_dots(listed, &listed->v, listed->output, slope);
#pragma omp simd
    for (long j = 0; j < listed->count; j++) {
        weight[j] = moec_exp_weight(weight[j] - lse);
        slope[j] = weight[j] * (slope[j] - total);
    }
    float *dbias = grad->dbias != NULL ? grad->dbias + position - listed->keys.first : NULL;
    for (long j = 0; j < listed->count && dbias != NULL; j++) dbias[-listed->row[j]] += slope[j];
#pragma omp simd
    for (long j = 0; j < listed->count; j++) slope[j] *= listed->bend[j];
    moec_listed_spread(listed, &listed->dv, weight, listed->output);
    moec_listed_spread(listed, &listed->dk, slope, listed->query);
    moec_listed_sums(listed, &listed->k, slope, 1.0f, grad->dq + query * head->q_step);
}

/* Prefetches the rows of a later query. */
MOEC_INLINE void moec_listed_fetch(const MoecListed *listed, long query) {
    const MoecAttend *attend = listed->attend;
    const MoecHead *head = listed->head;
    const MoecHeadGrad *grad = listed->grad;
    moec_fetch_row(head->q, query, head->q_step, attend->width, attend->q_type, 1);
    if (grad == NULL) {
        moec_fetch_row(head->o, query, head->o_step, attend->value_width, MOEC_F32, 1);
    } else {
        moec_fetch_row(grad->output_grad, query, head->o_step, attend->value_width,
                       attend->grad_type, 1);
        moec_fetch_row(grad->dq, query, head->q_step, attend->width, MOEC_F32, 1);
    }
}

#endif
