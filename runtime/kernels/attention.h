/* attention: the forward pass of softmax attention. attention_grad.h has the backward pass,
 * attention_step.h attention over a cache, attention_chosen.h attention to chosen pairs.
 *
 * Tensors are contiguous: q[batch, queries, heads, width], k[batch, keys, key_heads, width],
 * v[batch, keys, value_heads, value_width], o[batch, queries, heads, value_width], lse[batch,
 * queries, heads], sink[heads]. Query head h reads key head h*key_heads/heads and value head
 * h*value_heads/heads. documents[batch, positions] is optional: a query then attends only to keys
 * with the document number of its own position, in addition to the mask.
 *
 * Only the scores of one block of queries and one block of keys are in memory at a time. A running
 * maximum and sum per query make the softmax exact. Results do not depend on the number of threads.
 *
 * int8 keys and values have one scale per row. The scale is constant over the width: a score is
 * multiplied by the scale of its key, and a weight, after the sum of the weights, by the scale of
 * its value.
 *
 * If `rounded` is set, operands of products may be rounded to bf16. q, k, v, o and the gradient of
 * o are stored in their types. Sums, lse and all other gradients are f32.
 */
#ifndef MOEC_ATTENTION_H
#define MOEC_ATTENTION_H

#include "matmul.h"

enum {
    MOEC_ATTEND_QUERIES = 256, /* of a block */
    MOEC_ATTEND_KEYS = 256,
    MOEC_ATTEND_SHORT = 128, /* block size where most positions of a larger block are masked */
    MOEC_ATTEND_VECTOR = 16, /* cells that loops treat at a time */
    MOEC_ATTEND_STEP = 272,  /* stride between keys in a matrix with contiguous queries */
    MOEC_ATTEND_REACH = MOEC_HAS_AMX ? 64 : 16, /* so many hidden cells before those that a key is
                                   seen by are multiplied: a tile high and a word deep */
    MOEC_ATTEND_WIDTH = 256,    /* so much of the width is packed at a time; of values, where the
                                   output is bf16, there is no more */
    MOEC_STEP_QUERIES = 8,      /* more new tokens than these are treated in blocks */
    MOEC_STEP_KEYS = 32,        /* keys read by heads that share them before other heads read */
    MOEC_STEP_ROWS = 32,        /* queries that read keys together */
    MOEC_STEP_PART = 128,       /* minimum number of keys per task */
    MOEC_STEP_BUFFER = 1 << 17, /* floats for unfinished sums */
    MOEC_STEP_BEST = 4096       /* `best` is at most this */
};

/* An operand that is packed for several products, one after the other; data NULL: none yet. */
typedef struct MoecKept {
    const void *data;
    float words[MOEC_ATTEND_QUERIES * MOEC_ATTEND_WIDTH];
} MoecKept;

/* Buffers of one thread. The cells of a pair of blocks are stored by key, with queries contiguous.
 * The softmax then processes many queries at once, and products read the cells without packing. */
typedef struct MoecAttendScratch {
    float score[MOEC_ATTEND_KEYS * MOEC_ATTEND_STEP], slope[MOEC_ATTEND_KEYS * MOEC_ATTEND_STEP];
    float largest[MOEC_ATTEND_QUERIES], sum[MOEC_ATTEND_QUERIES], total[MOEC_ATTEND_QUERIES];
    float less[MOEC_ATTEND_QUERIES], fade[MOEC_ATTEND_QUERIES];
    float output[MOEC_ATTEND_QUERIES * MOEC_ATTEND_WIDTH]; /* unfinished, where it is bf16 */
    /* queries and gradients of outputs: width, or values, along the depth; then queries along it;
     * keys, or values: keys along the depth */
    MoecKept query, grad, query_rows, grad_rows, key_rows;
} MoecAttendScratch;

static _Thread_local MoecAttendScratch moec_attend_scratch __attribute__((unused, aligned(64)));

/* One head of one batch element: addresses of the first elements and strides between positions. */
typedef struct MoecHead {
    const void *q, *k, *v;
    const float *documents, *k_scale, *v_scale;
    const float *bias; /* the element of distance 0, or NULL */
    void *o;
    float *lse;
    long q_step, k_step, v_step, o_step, lse_step, k_scale_step, v_scale_step;
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

/* Heads that share a key head or a value head, directly or through other heads, are adjacent.
 * Returns true for the first head of such a run. */
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

/* Range of keys that the query at position `place` attends to. */
MOEC_INLINE MoecRange moec_visible(const MoecAttend *attend, long place) {
    MoecRange range = {0, attend->mask == MOEC_MASK_NONE ? attend->keys
                                                         : moec_least(place + 1, attend->places)};
    if (attend->mask == MOEC_MASK_WINDOW && place - attend->window + 1 > 0)
        range.first = place - attend->window + 1;
    return range;
}

/* Row of k and v that holds the key of position `place`. */
MOEC_INLINE long moec_row_of_key(const MoecAttend *attend, long place) {
    return attend->mask == MOEC_MASK_WINDOW ? place % attend->keys : place;
}

/* Number of keys from `first` that are stored in consecutive rows, at most `most` and before
 * `end`. */
MOEC_INLINE long moec_keys_behind(const MoecAttend *attend, long first, long end, long most) {
    return moec_least(moec_least(end - first, most), attend->keys - moec_row_of_key(attend, first));
}

/* Of a few queries, which keys are chosen: 1 or 0, by key, queries contiguous. */
typedef struct MoecSeen {
    unsigned char cell[MOEC_ATTEND_KEYS][MOEC_ATTEND_STEP];
} MoecSeen;

/* A block of queries and a block of keys. `offset`: position of query 0. The queries are those of
 * `list`, in ascending order, or NULL: adjacent. With `seen`, some cells are hidden. */
typedef struct MoecBlockPair {
    long query, queries, key, keys, offset;
    const int *list; /* `query` is then 0 */
    const MoecSeen *seen;
} MoecBlockPair;

/* Rows that are read after a pair, as many as it has keys. NULL: none. */
typedef struct MoecSoon {
    const void *q, *k, *v;
} MoecSoon;

/* True if the document ranges of queries and keys are disjoint, so that no query attends to a
 * key. */
MOEC_FUNCTION int moec_apart(const MoecHead *head, const MoecBlockPair *pair) {
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

/* Prefetches row `row`, or nothing if data is NULL. With interleaved heads, the rows of a head are
 * short pieces far from each other, which the hardware prefetcher does not predict. A prefetch
 * during the sums hides the latency. Many rows at a time go to the second-level cache, because they
 * would evict each other from the first. */
MOEC_INLINE void moec_fetch_row(const void *data, long row, long step, long width, MoecType type,
                                const int nearest) {
    if (data == NULL) return;
    const char *from = moec_at(data, row * step, type);
    const long bytes = width * moec_size(type);
    for (long at = 0; at < bytes; at += 64) {
        if (nearest)
            __builtin_prefetch(from + at);
        else
            __builtin_prefetch(from + at, 0, 2);
    }
}

/* e^x, x a score less the largest or less the logarithm of the sum: above 0 by a rounding at most.
 * The bits of moec_exp, but 0 where those are close to subnormal. */
MOEC_INLINE float moec_exp_weight(float x) {
    float shifted;
    const float rest = moec_exp_rest(x, &shifted) + 1.0f;
    const float weight = rest * moec_from_bits((moec_bits(shifted) << 23) + 0x3F800000u);
    return x < -87.0f ? 0.0f : weight;
}

/* Scales of the rows of k or v, starting with the row at element `at`; NULL means 1. */
MOEC_INLINE const float *moec_scales(const float *scales, long at, long width) {
    return scales != NULL ? scales + at / width : NULL;
}
MOEC_INLINE float moec_scale_at(const float *scales, long row, long step) {
    return scales != NULL ? scales[row * step] : 1.0f;
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
    int begun; /* there are sums to add to */
} MoecOutput;

/* Nothing is packed yet. */
MOEC_INLINE void moec_keep_nothing(MoecAttendScratch *scratch) {
    scratch->query.data = scratch->grad.data = NULL;
    scratch->query_rows.data = scratch->grad_rows.data = scratch->key_rows.data = NULL;
}

/* The number of queries of a pair before this one. */
MOEC_INLINE long moec_queries_before(const MoecBlockPair *pair, long query) {
    if (pair->list == NULL) return moec_within(query - pair->query, pair->queries);
    long first = 0, end = pair->list[0] < query ? pair->queries : 0; /* mostly all are after it */
    while (first < end) {
        const long middle = (first + end) / 2;
        if (pair->list[middle] < query)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

/* Query i of a pair, i < j + this, does not see key j of it. */
MOEC_FUNCTION long moec_pair_diagonal(const MoecBlockPair *pair) {
    const long key = pair->key - pair->offset;
    if (pair->list == NULL) return key - pair->query;
    const long last = pair->keys - 1, before = moec_queries_before(pair, key + last);
    if (before == 0) return -last;
    return moec_least(before - last, key + before - 1 - pair->list[before - 1]);
}

/* The options that all products of a pair of blocks share. */
MOEC_INLINE MoecPanelProduct moec_pair_product(const MoecAttend *attend, const MoecBlockPair *pair,
                                               MoecTriangle triangle) {
    return (MoecPanelProduct){.form = moec_form(attend->rounded),
                              .triangle = attend->mask == MOEC_MASK_NONE ? MOEC_ALL : triangle,
                              .diagonal = moec_pair_diagonal(pair)};
}

MOEC_FUNCTION const float *moec_kept(MoecKept *kept, const MoecOperand *x, long lanes, long depth,
                                     MoecForm form) {
    if (kept->data != x->data) moec_pack_b(x, lanes, depth, form, kept->words);
    kept->data = x->data;
    return kept->words;
}

/* cell[key][query] = sum over c of left[key][c] * right[query][c]; cells that a causal mask hides
 * hold anything. */
MOEC_FUNCTION void moec_pair_cells(const MoecAttend *attend, const MoecBlockPair *pair,
                                   const MoecOperand *left, const MoecOperand *right, long width,
                                   MoecKept *kept, float *cell) {
    MoecPanelProduct product = moec_pair_product(attend, pair, MOEC_LANES_AFTER);
    product.m = pair->keys;
    product.n = pair->queries;
    product.c = cell;
    product.c_m = MOEC_ATTEND_STEP;
    for (long c = 0; c < width; c += MOEC_ATTEND_WIDTH) {
        const MoecOperand part = moec_from(*right, 0, c);
        product.k = moec_least(width - c, MOEC_ATTEND_WIDTH);
        product.a = moec_from(*left, 0, c);
        product.b = moec_kept(kept, &part, product.n, product.k, product.form);
        product.accumulate = c > 0;
        moec_panel_multiply(&product);
    }
}

/* Type of the cells as operands of products: bf16 in the first half of the row of each key if the
 * processor multiplies pairs of bf16, else f32. */
MOEC_INLINE MoecType moec_cell_type(const MoecAttend *attend) {
    return moec_form(attend->rounded) == MOEC_FLOATS ? MOEC_F32 : MOEC_BF16;
}

/* to[key][c] += sum over queries of cell[key][query] * from[query][c], or the same with queries and
 * keys exchanged. */
MOEC_FUNCTION void moec_pair_sums(const MoecAttend *attend, const MoecBlockPair *pair,
                                  const float *cell, int by_query, const MoecOperand *from,
                                  long width, MoecKept *kept, MoecOutput to) {
    MoecPanelProduct product =
        moec_pair_product(attend, pair, by_query ? MOEC_DEPTH_BEFORE : MOEC_DEPTH_AFTER);
    product.m = by_query ? pair->queries : pair->keys;
    product.k = by_query ? pair->keys : pair->queries;
    const MoecType type = moec_cell_type(attend);
    const long step = MOEC_ATTEND_STEP * (long)sizeof(float) / moec_size(type);
    product.a = (MoecOperand){
        .data = cell, .lane = by_query ? 1 : step, .depth = by_query ? step : 1, .type = type};
    product.c_m = to.step;
    product.accumulate = to.begun;
    for (long c = 0; c < width; c += MOEC_ATTEND_WIDTH) {
        const MoecOperand part = moec_from(*from, c, 0);
        product.n = moec_least(width - c, MOEC_ATTEND_WIDTH);
        product.b = moec_kept(kept, &part, product.n, product.k, product.form);
        product.c = to.rows + c;
        moec_panel_multiply(&product);
    }
}

/* The queries of a pair that see key j of it. */
MOEC_INLINE MoecRange moec_seeing(const MoecAttend *attend, const MoecBlockPair *pair, long j) {
    const long own = pair->key + j - pair->offset;
    if (attend->mask == MOEC_MASK_NONE) return (MoecRange){0, pair->queries};
    const MoecRange range = {moec_queries_before(pair, own),
                             attend->mask == MOEC_MASK_WINDOW
                                 ? moec_queries_before(pair, own + attend->window)
                                 : pair->queries};
    return range;
}

/* Extends the range to whole aligned vectors; the buffer has room after the last cell. Cells
 * outside of the range are hidden before a loop over the vectors, or cleared after it. */
MOEC_INLINE MoecRange moec_vectors(MoecRange range) {
    return (MoecRange){range.first & -MOEC_ATTEND_VECTOR,
                       moec_ceil_div(range.end, MOEC_ATTEND_VECTOR) * MOEC_ATTEND_VECTOR};
}

/* Cells outside of the range that share a vector with it become scores with weight zero. */
MOEC_INLINE void moec_row_hide(float *row, MoecRange range) {
    const MoecRange vectors = moec_vectors(range);
    float *cell = row + vectors.first;
    const int before = (int)(range.first - vectors.first);
#pragma omp simd
    for (int i = 0; i < MOEC_ATTEND_VECTOR; i++) cell[i] = i < before ? -__builtin_inff() : cell[i];
    for (long i = range.end; i < vectors.end; i++) row[i] = -__builtin_inff();
}

/* Writes `hidden` to the cells of key j whose queries belong to another document, or that are not
 * chosen. */
MOEC_LARGE void moec_hide_queries(const MoecHead *head, const MoecBlockPair *pair, long j,
                                  float *row, float hidden) {
    if (pair->seen != NULL) {
        const unsigned char *seen = pair->seen->cell[j];
#pragma omp simd
        for (long i = 0; i < pair->queries; i++) row[i] = seen[i] ? row[i] : hidden;
    }
    if (head->documents == NULL) return;
    const float *own = head->documents + pair->offset + pair->query;
    const float document = head->documents[pair->key + j];
    for (long i = 0; i < pair->queries && pair->list != NULL; i++)
        row[i] = document == own[pair->list[i]] ? row[i] : hidden;
    if (pair->list != NULL) return;
#pragma omp simd
    for (long i = 0; i < pair->queries; i++) row[i] = document == own[i] ? row[i] : hidden;
}

/* Converts the cells of a key to the operand type of products and clears the cells outside of the
 * range that products read: of a list of queries, all. */
MOEC_INLINE void moec_row_finish(float *row, MoecRange range, const MoecBlockPair *pair,
                                 MoecType type) {
    const long count = pair->queries, reach = pair->list != NULL
                                                  ? range.first
                                                  : moec_least(range.first, MOEC_ATTEND_REACH);
    for (long i = range.first - reach; i < range.first; i++) row[i] = 0.0f;
    if (range.end < count) memset(row + range.end, 0, (size_t)(count - range.end) * sizeof *row);
    if (moec_is_bf16(type)) moec_round_row(row, range.first - reach, count);
}

/* The queries of a pair as an operand: lanes, or depth of the other. */
MOEC_INLINE MoecOperand moec_query_rows(const MoecBlockPair *pair, const void *data, long step,
                                        MoecType type) {
    MoecOperand rows = moec_rows_of(data, pair->query, step, type);
    rows.lanes = pair->list;
    return rows;
}
MOEC_INLINE MoecOperand moec_query_columns(const MoecBlockPair *pair, const void *data, long step,
                                           MoecType type) {
    MoecOperand rows = moec_columns_of(data, pair->query, step, type);
    rows.depths = pair->list;
    return rows;
}

/* The scores of a pair, not scaled. */
MOEC_FUNCTION void moec_pair_scores(const MoecAttend *attend, const MoecHead *head,
                                    const MoecBlockPair *pair) {
    MoecAttendScratch *scratch = &moec_attend_scratch;
    const MoecOperand q = moec_query_rows(pair, head->q, head->q_step, attend->q_type),
                      k = moec_rows_of(head->k, moec_row_of_key(attend, pair->key), head->k_step,
                                       attend->k_type);
    moec_pair_cells(attend, pair, &k, &q, attend->width, &scratch->query, scratch->score);
}

/* Scores of a key, scaled and capped. */
MOEC_INLINE void moec_row_scores(float *row, MoecRange range, float scale, float cap) {
    range = moec_vectors(range);
    if (cap != 0.0f) {
#pragma omp simd
        for (long i = range.first; i < range.end; i++)
            row[i] = cap * moec_tanh(row[i] * scale / cap);
    } else {
#pragma omp simd
        for (long i = range.first; i < range.end; i++) row[i] *= scale;
    }
}

/* Number of distances of a bias, and the element of distance 0. */
MOEC_INLINE long moec_distances(const MoecAttend *attend) {
    return attend->mask == MOEC_MASK_NONE ? 2 * attend->places - 1 : attend->places;
}
MOEC_INLINE long moec_distance_zero(const MoecAttend *attend) {
    return attend->mask == MOEC_MASK_NONE ? attend->places - 1 : 0;
}

/* row[i] += factor * bias of query i and key j of a pair, in the range. */
MOEC_LARGE void moec_row_bias(const float *bias, const MoecBlockPair *pair, long j, MoecRange range,
                              float factor, float *row) {
    const float *from = bias + pair->offset + pair->query - pair->key - j;
    for (long i = range.first; i < range.end && pair->list != NULL; i++)
        row[i] += factor * from[pair->list[i]];
    if (pair->list != NULL) return;
#pragma omp simd
    for (long i = range.first; i < range.end; i++) row[i] += factor * from[i];
}

/* Whether scores are stored unscaled: the scale is the same for all and keeps their order. */
MOEC_INLINE int moec_scaled_late(const MoecAttend *attend, const MoecHead *head) {
    return attend->cap == 0.0f && head->k_scale == NULL && head->bias == NULL &&
           attend->scale > 0.0f;
}

/* Scores, finished unless they are scaled late, and the largest of each query so far. */
MOEC_LARGE void moec_pair_largest(const MoecAttend *attend, const MoecHead *head,
                                  const MoecBlockPair *pair) {
    MoecAttendScratch *scratch = &moec_attend_scratch;
    const long first = moec_row_of_key(attend, pair->key);
    const int late = moec_scaled_late(attend, head);
    const float rest = late ? attend->scale : 1.0f;
    for (long j = 0; j < pair->keys; j++) {
        const MoecRange range = moec_seeing(attend, pair, j), vectors = moec_vectors(range);
        float *row = scratch->score + j * MOEC_ATTEND_STEP, *largest = scratch->largest;
        const float scale =
            attend->scale * moec_scale_at(head->k_scale, first + j, head->k_scale_step);
        moec_fetch_row(head->v, first + j, head->v_step, attend->value_width, attend->v_type, 1);
        if (!late) moec_row_scores(row, range, scale, attend->cap);
        if (head->bias != NULL) moec_row_bias(head->bias, pair, j, range, 1.0f, row);
        moec_row_hide(row, range);
        moec_hide_queries(head, pair, j, row, -__builtin_inff());
#pragma omp simd
        for (long i = vectors.first; i < vectors.end; i++) {
            const float score = row[i] * rest;
            largest[i] = score > largest[i] ? score : largest[i];
        }
    }
}

/* Converts scores to weights and updates the sums. */
MOEC_LARGE void moec_pair_weights(const MoecAttend *attend, const MoecHead *head,
                                  const MoecBlockPair *pair, const MoecSoon *soon) {
    MoecAttendScratch *scratch = &moec_attend_scratch;
    const float *less = scratch->less, rest = moec_scaled_late(attend, head) ? attend->scale : 1.0f;
    float *sum = scratch->sum;
    const long own = moec_row_of_key(attend, pair->key);
    const MoecType type = moec_cell_type(attend);
    for (long j = 0; j < pair->keys; j++) {
        const MoecRange range = moec_seeing(attend, pair, j), vectors = moec_vectors(range);
        moec_fetch_row(soon->k, j, head->k_step, attend->width, attend->k_type, 1);
        moec_fetch_row(soon->q, j, head->q_step, attend->width, attend->q_type, 0);
        float *row = scratch->score + j * MOEC_ATTEND_STEP;
        const float scale = moec_scale_at(head->v_scale, own + j, head->v_scale_step);
#pragma omp simd
        for (long i = vectors.first; i < vectors.end; i++) {
            const float weight = moec_exp_weight(row[i] * rest - less[i]);
            sum[i] += weight;
            row[i] = weight * scale;
        }
        moec_row_finish(row, range, pair, type);
    }
}

/* After scores: the factor of the sums so far of each query; the number to subtract from scores. */
MOEC_INLINE void moec_pair_fade(const float *before, long queries) {
    MoecAttendScratch *scratch = &moec_attend_scratch;
#pragma omp simd
    for (long i = 0; i < queries; i++) {
        const float largest = scratch->largest[i];
        scratch->fade[i] = largest > before[i] ? moec_exp_weight(before[i] - largest) : 1.0f;
        scratch->less[i] = largest == -__builtin_inff() ? 0.0f : largest;
        scratch->sum[i] *= scratch->fade[i];
    }
}

/* Adds one block of keys to the running softmax and output of a block of queries. */
MOEC_FUNCTION void moec_attend_blocks_pair(const MoecAttend *attend, const MoecHead *head,
                                           const MoecBlockPair *pair, const MoecSoon *soon,
                                           MoecOutput *output) {
    MoecAttendScratch *scratch = &moec_attend_scratch;
    if (moec_apart(head, pair)) return;
    float before[MOEC_ATTEND_QUERIES];
    memcpy(before, scratch->largest, sizeof before);
    moec_pair_scores(attend, head, pair);
    moec_pair_largest(attend, head, pair);
    moec_pair_fade(before, pair->queries);
    moec_pair_weights(attend, head, pair, soon);
    for (long i = 0; i < pair->queries && output->begun; i++)
        if (scratch->fade[i] != 1.0f)
            moec_row_scale(output->rows + i * output->step, attend->value_width, scratch->fade[i]);
    const MoecOperand v =
        moec_columns_of(head->v, moec_row_of_key(attend, pair->key), head->v_step, attend->v_type);
    moec_pair_sums(attend, pair, scratch->score, 1, &v, attend->value_width, &scratch->key_rows,
                   *output);
    output->begun = 1;
}

/* Range of keys that a block of queries attends to, as positions first .. end-1. */
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

/* Queries, and keys, of a block. */
MOEC_INLINE long moec_block_side(const MoecAttend *attend, const float *documents) {
    const int sparse = attend->mask == MOEC_MASK_WINDOW || documents != NULL;
    return sparse ? (long)MOEC_ATTEND_SHORT : (long)MOEC_ATTEND_QUERIES;
}

MOEC_INLINE const void *moec_key_at(const MoecAttend *attend, const MoecHead *head, long place) {
    return moec_at(head->k, moec_row_of_key(attend, place) * head->k_step, attend->k_type);
}

/* First rows that a block of queries reads; with v if it is read at the same time as k. */
MOEC_INLINE MoecSoon moec_block_soon(const MoecAttend *attend, const MoecHead *head, long query,
                                     long offset, int values) {
    const long first = moec_visible(attend, offset + query).first;
    return (MoecSoon){moec_at(head->q, query * head->q_step, attend->q_type),
                      moec_key_at(attend, head, first),
                      values ? moec_at(head->v, first * head->v_step, attend->v_type) : NULL};
}

/* Processes one block of queries of one head. `soon`: first rows of the next block, for
 * prefetching. */
MOEC_FUNCTION void moec_attend_block(const MoecAttend *attend, const MoecHead *head, long query,
                                     long offset, const float *sink, const MoecSoon *soon) {
    MoecAttendScratch *scratch = &moec_attend_scratch;
    const long side = moec_block_side(attend, head->documents),
               queries = moec_least(attend->queries - query, side);
    MoecOutput output =
        moec_is_bf16(attend->o_type)
            ? (MoecOutput){scratch->output, attend->value_width, 0}
            : (MoecOutput){(float *)head->o + query * head->o_step, head->o_step, 0};
    moec_keep_nothing(scratch);
    for (long i = 0; i < queries; i++) {
        scratch->largest[i] = sink != NULL ? *sink : -__builtin_inff();
        scratch->sum[i] = sink != NULL ? 1.0f : 0.0f;
    }
    const MoecRange range = moec_block_range(attend, offset + query, queries);
    for (long key = range.first, keys; key < range.end; key += keys) {
        keys = moec_keys_behind(attend, key, range.end, side);
        const MoecBlockPair pair = {query, queries, key, keys, offset, NULL, NULL};
        const MoecSoon next = {.k = moec_key_at(attend, head, key + keys)};
        moec_attend_blocks_pair(attend, head, &pair, key + keys < range.end ? &next : soon,
                                &output);
    }
    for (long i = 0; i < queries && !output.begun; i++)
        memset(output.rows + i * output.step, 0, (size_t)attend->value_width * sizeof(float));
#pragma omp simd
    for (long i = 0; i < queries; i++) {
        scratch->less[i] = scratch->largest[i] + moec_log(scratch->sum[i]);
        scratch->fade[i] = 1.0f / scratch->sum[i];
    }
    for (long i = 0; i < queries; i++) {
        moec_attend_finish(attend, head, query + i, output.rows + i * output.step,
                           scratch->fade[i]);
        head->lse[(query + i) * head->lse_step] = scratch->less[i];
    }
}

MOEC_INLINE MoecHead moec_head(const MoecAttend *attend, const MoecAttendWork *work, long b,
                               long h) {
    const long table = (attend->bias_all ? 0 : b) * attend->heads + h;
    return (MoecHead){moec_at(work->q, moec_at_query(attend, b, h), attend->q_type),
                      moec_at(work->k, moec_at_key(attend, b, h), attend->k_type),
                      moec_at(work->v, moec_at_value(attend, b, h), attend->v_type),
                      work->documents != NULL ? work->documents + b * attend->places : NULL,
                      moec_scales(work->k_scale, moec_at_key(attend, b, h), attend->width),
                      moec_scales(work->v_scale, moec_at_value(attend, b, h), attend->value_width),
                      work->bias != NULL
                          ? work->bias + table * moec_distances(attend) + moec_distance_zero(attend)
                          : NULL,
                      moec_to(work->o, moec_at_output(attend, b, h), attend->o_type),
                      work->lse + moec_at_lse(attend, b, h),
                      attend->heads * attend->width,
                      attend->key_heads * attend->width,
                      attend->value_heads * attend->value_width,
                      attend->heads * attend->value_width,
                      attend->heads,
                      attend->key_heads,
                      attend->value_heads};
}

MOEC_FUNCTION void moec_attend_blocks(const MoecAttend *attend, const MoecAttendWork *work,
                                      long offset) {
    const long side = moec_block_side(attend, work->documents),
               blocks = moec_ceil_div(attend->queries, side), heads = attend->heads,
               tasks = attend->batch * heads * blocks,
               threads = moec_attend_parallel(attend) ? moec_threads() : 1;
#pragma omp parallel for schedule(dynamic) if (threads > 1)
    for (long task = 0; task < tasks; task++) {
        const long h = task / blocks % heads, query = (blocks - 1 - task % blocks) * side,
                   after = moec_least(task + threads, tasks - 1),
                   query_after = (blocks - 1 - after % blocks) * side;
        const MoecHead head = moec_head(attend, work, task / blocks / heads, h),
                       next =
                           moec_head(attend, work, after / blocks / heads, after / blocks % heads);
        const MoecSoon soon = moec_block_soon(attend, &next, query_after, offset, 0);
        moec_attend_block(attend, &head, query, offset, work->sink != NULL ? work->sink + h : NULL,
                          &soon);
    }
}

MOEC_ENTRY void moec_attend(const MoecAttend *attend, const void *q, const void *k, const void *v,
                            const float *sink, const float *documents, void *o, float *lse) {
    const MoecAttendWork work = {
        .q = q, .k = k, .v = v, .sink = sink, .documents = documents, .o = o, .lse = lse};
    moec_attend_blocks(attend, &work, 0);
}

MOEC_ENTRY void moec_attend_biased(const MoecAttend *attend, const MoecAttendWork *work) {
    moec_attend_blocks(attend, work, 0);
}

#endif
