/* attention: softmax attention forward, backward and over a cache. attention.h defines the results.
 *
 * Each template has a parameter A, a struct that the compiler generates for one attention: batch,
 * queries, keys, `places`, heads, key_heads, value_heads, width, value_width, mask, documents,
 * window, scale, cap, best, parts. Thread blocks have 128 threads. A block of queries and a block
 * of keys are in shared memory; sums stay in registers. The backward pass recomputes the weights
 * from lse. Each thread block owns the elements that it writes, so the order of sums is fixed. */
#ifndef MOEC_ATTENTION_CUH
#define MOEC_ATTENTION_CUH

#include "attention_pairs.cuh"
#include "shapes.h"

enum { MOEC_ATTEND_WARPS = MOEC_ATTEND_THREADS / 32, MOEC_ATTEND_SHARED = 44 * 1024 };

#define MOEC_TEMPLATE template <class A> static __device__

/* Queries and keys per block: the largest power of two for which shared memory has room, with
 * `width` numbers each. */
static __host__ __device__ constexpr int moec_places(int width) {
    int places = 32;
    while (places > 1 && places * (width + places + 8) * 4 > MOEC_ATTEND_SHARED) places /= 2;
    return places;
}

static __host__ __device__ constexpr int moec_share(int elements) {
    return (elements + MOEC_ATTEND_THREADS - 1) / MOEC_ATTEND_THREADS;
}

struct MoecRange {
    long first, end;
};

/* Range of keys that the query at position `place` attends to; range of positions that attend to a
 * key. */
MOEC_TEMPLATE MoecRange moec_visible(long place) {
    MoecRange range = {0, A::mask == MOEC_MASK_NONE ? A::keys : moec_least(place + 1, A::keys)};
    if (A::mask == MOEC_MASK_WINDOW) range.first = moec_most(0, place - A::window + 1);
    return range;
}

MOEC_TEMPLATE bool moec_shows(int place, int key) {
    if (key >= A::places) return false;
    if (A::mask != MOEC_MASK_NONE && key > place) return false;
    return A::mask != MOEC_MASK_WINDOW || key > place - A::window;
}

/* documents: document numbers of one sequence, one per position. */
MOEC_TEMPLATE bool moec_sees(const float *documents, int place, int key) {
    if (!moec_shows<A>(place, key)) return false;
    return !A::documents || (place < A::places && documents[place] == documents[key]);
}

/* Smallest and largest document number of a range of positions; a warp computes it for all its
 * lanes. */
struct MoecSpan {
    float low, high;
};

MOEC_TEMPLATE MoecSpan moec_span(const float *documents, long first, long count) {
    MoecSpan span = {INFINITY, -INFINITY};
    if (!A::documents) return span;
    for (long i = threadIdx.x % 32; i < count && first + i < A::keys; i += 32) {
        span.low = fminf(span.low, documents[first + i]);
        span.high = fmaxf(span.high, documents[first + i]);
    }
    span.low = -moec_warp_max(-span.low);
    span.high = moec_warp_max(span.high);
    return span;
}

/* True if no query of the span attends to a key of the `count` positions from `first`. */
MOEC_TEMPLATE bool moec_apart(const MoecSpan &span, const float *documents, long first,
                              long count) {
    if (!A::documents) return false;
    const MoecSpan other = moec_span<A>(documents, first, count);
    return other.high < span.low || span.high < other.low;
}

/* The score from the product of query and key. */
MOEC_TEMPLATE float moec_score(float product) {
    const float score = product * A::scale;
    return A::cap == 0.0f ? score : A::cap * tanhf(score / (A::cap == 0.0f ? 1.0f : A::cap));
}

/* d score / d product, given the score. */
MOEC_TEMPLATE float moec_score_slope(float score) {
    if (A::cap == 0.0f) return A::scale;
    const float bent = score / (A::cap == 0.0f ? 1.0f : A::cap);
    return A::scale * (1.0f - bent * bent);
}

/* Rows first .. first+count-1 of one head of x[rows, heads, width] into shared memory; rows from
 * `rows` on are zeros. */
template <class T>
MOEC_DEVICE void moec_load_rows(float *to, int stride, const T *x, long first, int count, long rows,
                                long heads, long head, int width) {
    for (int i = threadIdx.x; i < count * width; i += MOEC_ATTEND_THREADS) {
        const int row = i / width, column = i % width;
        const long at = first + row;
        to[row * stride + column] =
            at < rows ? moec_load(x[(at * heads + head) * width + column]) : 0.0f;
    }
}

/* ---- forward ---- */

/* Destination of results: a matrix of positions by the concatenated widths of all heads. */
template <class T> struct MoecPlainRows {
    T *to;
    long width;

    __device__ __forceinline__ void operator()(long row, long column, float x) const {
        moec_store(to + row * width + column, x);
    }
};

/* store(row, column, x) writes one element of o; row = batch and position, column = head and
 * width. */
template <class A, class Store, class Pairs = MoecAll, class Bias = MoecAll>
MOEC_DEVICE void moec_attend(const float *q, const float *k, const float *v, const float *sink,
                             const float *documents, const Store &store, float *lse,
                             Pairs chosen = Pairs(), Bias bias = Bias()) {
    constexpr int E = A::width, C = A::value_width, P = moec_places(2 * E + 1 + C),
                  O = moec_share(P * C);
    __shared__ float query[P * E], key[P * (E + 1)], value[P * C], weight[P][P];
    __shared__ float largest[P], sum[P], factor[P];
    constexpr long blocks = (A::queries + P - 1) / P;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (long task = moec_block(); task < A::batch * A::heads * blocks; task += moec_blocks()) {
        const long h = task % A::heads, b = task / A::heads / blocks;
        /* those with most keys first */
        const long from = (blocks - 1 - task / A::heads % blocks) * P;
        const long hk = h * A::key_heads / A::heads, hv = h * A::value_heads / A::heads;
        const float *own = documents + b * A::keys;
        const MoecSpan span = moec_span<A>(own, from, P);
        const Pairs pairs = moec_chosen_of<A>(chosen, b, h);
        const Bias biases = moec_bias_of<A>(bias, b, h);
        float out[O] = {};
        moec_barrier();
        moec_load_rows(query, E, q + b * A::queries * A::heads * E, from, P, A::queries, A::heads,
                       h, E);
        for (int i = threadIdx.x; i < P; i += MOEC_ATTEND_THREADS) {
            largest[i] = sink != NULL ? sink[h] : -INFINITY;
            sum[i] = sink != NULL ? 1.0f : 0.0f;
        }
        const long first = moec_visible<A>(from).first / P * P;
        const long end = moec_visible<A>(moec_least(from + P, A::queries) - 1).end;
        for (long at = first; at < end; at += P) {
            if (moec_apart<A>(span, own, at, P)) continue;
            if (!moec_some_chosen<A>(pairs, from, at, P)) continue;
            moec_barrier();
            moec_load_rows(key, E + 1, k + b * A::keys * A::key_heads * E, at, P, A::keys,
                           A::key_heads, hk, E);
            moec_load_rows(value, C, v + b * A::keys * A::value_heads * C, at, P, A::keys,
                           A::value_heads, hv, C);
            moec_barrier();
            for (int i = threadIdx.x; i < P * P; i += MOEC_ATTEND_THREADS) {
                const float *x = query + i / P * E, *y = key + i % P * (E + 1);
                float product = 0.0f;
                for (int e = 0; e < E; e++) product += x[e] * y[e];
                const bool seen = moec_sees<A>(own, from + i / P, at + i % P) &&
                                  moec_is_chosen<A>(pairs, from + i / P, at + i % P);
                weight[i / P][i % P] =
                    seen ? moec_score<A>(product) + moec_bias_at(biases, from + i / P, at + i % P)
                         : -INFINITY;
            }
            moec_barrier();
            for (int i = warp; i < P; i += MOEC_ATTEND_WARPS) {
                const float score = lane < P ? weight[i][lane % P] : -INFINITY, before = largest[i];
                const float most = fmaxf(before, moec_warp_max(score));
                const float part = score == -INFINITY ? 0.0f : expf(score - most);
                const float total = moec_warp_sum(part);
                if (lane < P) weight[i][lane % P] = part;
                __syncwarp();
                if (lane == 0) {
                    factor[i] = before == -INFINITY ? 0.0f : expf(before - most);
                    largest[i] = most;
                    sum[i] = sum[i] * factor[i] + total;
                }
            }
            moec_barrier();
#pragma unroll
            for (int n = 0; n < O; n++) {
                const int i = threadIdx.x + n * MOEC_ATTEND_THREADS, row = i / C, column = i % C;
                if (i >= P * C) continue;
                float x = out[n] * factor[row];
                for (int j = 0; j < P; j++) x += weight[row][j] * value[j * C + column];
                out[n] = x;
            }
        }
        moec_barrier();
#pragma unroll
        for (int n = 0; n < O; n++) {
            const int i = threadIdx.x + n * MOEC_ATTEND_THREADS, row = i / C, column = i % C;
            if (i >= P * C || from + row >= A::queries) continue;
            store(b * A::queries + from + row, h * C + column,
                  sum[row] > 0.0f ? out[n] / sum[row] : 0.0f);
        }
        for (int i = threadIdx.x; i < P; i += MOEC_ATTEND_THREADS)
            if (from + i < A::queries)
                lse[(b * A::queries + from + i) * A::heads + h] =
                    sum[i] > 0.0f ? largest[i] + logf(sum[i]) : MOEC_NO_KEY;
    }
}

/* ---- backward ---- */

/* One block of queries against one block of keys in shared memory. */
template <class A> struct MoecGradBlock {
    static constexpr int E = A::width, C = A::value_width, P = moec_places(2 * E + 2 * C + 2);
    float query[P * E], key[P * (E + 1)], value[P * (C + 1)], grad[P * C];
    float weight[P][P + 1], total[P], lse[P];

    template <class Q, class O, class D>
    __device__ __forceinline__ void load_queries(const Q *q, const O *o, const float *lse_of,
                                                 const D *output_grad, long b, long h, long from) {
        moec_load_rows(query, E, q + b * A::queries * A::heads * E, from, P, A::queries, A::heads,
                       h, E);
        moec_load_rows(grad, C, output_grad + b * A::queries * A::heads * C, from, P, A::queries,
                       A::heads, h, C);
        for (int i = threadIdx.x / 32; i < P; i += MOEC_ATTEND_WARPS) {
            const long row = (b * A::queries + moec_least(from + i, A::queries - 1)) * A::heads + h;
            float sum = 0.0f;
            for (int c = threadIdx.x % 32; c < C; c += 32)
                sum += moec_load(o[row * C + c]) * moec_load(output_grad[row * C + c]);
            sum = moec_warp_sum(sum);
            if (threadIdx.x % 32 != 0) continue;
            total[i] = sum;
            lse[i] = lse_of[row];
        }
    }

    template <class K, class V>
    __device__ __forceinline__ void load_keys(const K *k, const V *v, long b, long hk, long hv,
                                              long at) {
        moec_load_rows(key, E + 1, k + b * A::keys * A::key_heads * E, at, P, A::keys, A::key_heads,
                       hk, E);
        moec_load_rows(value, C + 1, v + b * A::keys * A::value_heads * C, at, P, A::keys,
                       A::value_heads, hv, C);
    }

    /* The weight of a pair and the derivatives of the loss: in *slope by the product of query and
     * key, in *by_score by the score. */
    template <class Pairs, class Bias>
    __device__ __forceinline__ float pair(const float *documents, Pairs pairs, Bias bias, int i,
                                          int j, long from, long at, float *slope,
                                          float *by_score = NULL) const {
        *slope = 0.0f;
        if (from + i >= A::queries || !moec_sees<A>(documents, from + i, at + j) ||
            !moec_is_chosen<A>(pairs, from + i, at + j))
            return 0.0f;
        float product = 0.0f, through = 0.0f;
        for (int e = 0; e < E; e++) product += query[i * E + e] * key[j * (E + 1) + e];
        for (int c = 0; c < C; c++) through += grad[i * C + c] * value[j * (C + 1) + c];
        const float score = moec_score<A>(product),
                    part = expf(score + moec_bias_at(bias, from + i, at + j) - lse[i]);
        *slope = part * (through - total[i]) * moec_score_slope<A>(score);
        if (by_score != NULL) *by_score = part * (through - total[i]);
        return part;
    }
};

template <class A, class Pairs = MoecAll, class Bias = MoecAll>
MOEC_DEVICE void moec_attend_grad_query(const float *q, const float *k, const float *v,
                                        const float *sink, const float *documents, const float *o,
                                        const float *lse, const float *output_grad, float *dq,
                                        Pairs chosen = Pairs(), Bias bias = Bias()) {
    typedef MoecGradBlock<A> Block;
    constexpr int E = Block::E, P = Block::P, O = moec_share(P * E);
    constexpr long blocks = (A::queries + P - 1) / P;
    __shared__ Block block;
    (void)sink;
    for (long task = moec_block(); task < A::batch * A::heads * blocks; task += moec_blocks()) {
        const long h = task % A::heads, b = task / A::heads / blocks;
        const long from = (blocks - 1 - task / A::heads % blocks) * P;
        const float *own = documents + b * A::keys;
        const MoecSpan span = moec_span<A>(own, from, P);
        const Pairs pairs = moec_chosen_of<A>(chosen, b, h);
        const Bias biases = moec_bias_of<A>(bias, b, h);
        float out[O] = {};
        moec_barrier();
        block.load_queries(q, o, lse, output_grad, b, h, from);
        const long first = moec_visible<A>(from).first / P * P;
        const long end = moec_visible<A>(moec_least(from + P, A::queries) - 1).end;
        for (long at = first; at < end; at += P) {
            if (moec_apart<A>(span, own, at, P)) continue;
            if (!moec_some_chosen<A>(pairs, from, at, P)) continue;
            moec_barrier();
            block.load_keys(k, v, b, h * A::key_heads / A::heads, h * A::value_heads / A::heads,
                            at);
            moec_barrier();
            for (int i = threadIdx.x; i < P * P; i += MOEC_ATTEND_THREADS) {
                float slope;
                block.pair(own, pairs, biases, i / P, i % P, from, at, &slope);
                block.weight[i / P][i % P] = slope;
            }
            moec_barrier();
#pragma unroll
            for (int n = 0; n < O; n++) {
                const int i = threadIdx.x + n * MOEC_ATTEND_THREADS, row = i / E, column = i % E;
                if (i >= P * E) continue;
                for (int j = 0; j < P; j++)
                    out[n] += block.weight[row][j] * block.key[j * (E + 1) + column];
            }
        }
#pragma unroll
        for (int n = 0; n < O; n++) {
            const int i = threadIdx.x + n * MOEC_ATTEND_THREADS, row = i / E, column = i % E;
            if (i < P * E && from + row < A::queries)
                dq[((b * A::queries + from + row) * A::heads + h) * E + column] = out[n];
        }
    }
}

/* dk, dv or both for a block of keys of one key head or value head, from all query heads that read
 * it. */
template <class A, bool KEYS, bool VALUES, class Pairs, class Bias>
MOEC_DEVICE void moec_attend_grad_keys(const float *q, const float *k, const float *v,
                                       const float *documents, const float *o, const float *lse,
                                       const float *output_grad, float *dk, float *dv, Pairs chosen,
                                       Bias bias) {
    typedef MoecGradBlock<A> Block;
    constexpr int E = Block::E, C = Block::C, P = Block::P;
    constexpr int OK = KEYS ? moec_share(P * E) : 1, OV = VALUES ? moec_share(P * C) : 1;
    constexpr long blocks = (A::keys + P - 1) / P, owners = KEYS ? A::key_heads : A::value_heads;
    __shared__ Block block;
    for (long task = moec_block(); task < A::batch * owners * blocks; task += moec_blocks()) {
        const long owner = task % owners, b = task / owners / blocks,
                   at = task / owners % blocks * P;
        float keys[OK] = {}, values[OV] = {};
        const float *own = documents + b * A::keys;
        const MoecSpan span = moec_span<A>(own, at, P);
        long last = A::queries;
        if (A::mask == MOEC_MASK_WINDOW) last = moec_least(last, at + P - 1 + A::window);
        for (long h = 0; h < A::heads; h++) {
            const long hk = h * A::key_heads / A::heads, hv = h * A::value_heads / A::heads;
            if ((KEYS ? hk : hv) != owner) continue;
            const Pairs pairs = moec_chosen_of<A>(chosen, b, h);
            const Bias biases = moec_bias_of<A>(bias, b, h);
            moec_barrier();
            block.load_keys(k, v, b, hk, hv, at);
            for (long from = A::mask == MOEC_MASK_NONE ? 0 : at; from < last; from += P) {
                if (moec_apart<A>(span, own, from, P)) continue;
                if (!moec_some_chosen<A>(pairs, from, at, P)) continue;
                moec_barrier();
                block.load_queries(q, o, lse, output_grad, b, h, from);
                moec_barrier();
                float slopes[moec_share(P * P)];
#pragma unroll
                for (int n = 0; n < moec_share(P * P); n++) {
                    const int i = threadIdx.x + n * MOEC_ATTEND_THREADS;
                    slopes[n] = 0.0f;
                    if (i < P * P)
                        block.weight[i / P][i % P] =
                            block.pair(own, pairs, biases, i / P, i % P, from, at, &slopes[n]);
                }
                moec_barrier();
#pragma unroll
                for (int n = 0; VALUES && n < OV; n++) {
                    const int i = threadIdx.x + n * MOEC_ATTEND_THREADS, row = i / C,
                              column = i % C;
                    if (i >= P * C) continue;
                    for (int j = 0; j < P; j++)
                        values[n] += block.weight[j][row] * block.grad[j * C + column];
                }
                if (!KEYS) continue;
                moec_barrier();
#pragma unroll
                for (int n = 0; n < moec_share(P * P); n++) {
                    const int i = threadIdx.x + n * MOEC_ATTEND_THREADS;
                    if (i < P * P) block.weight[i / P][i % P] = slopes[n];
                }
                moec_barrier();
#pragma unroll
                for (int n = 0; n < OK; n++) {
                    const int i = threadIdx.x + n * MOEC_ATTEND_THREADS, row = i / E,
                              column = i % E;
                    if (i >= P * E) continue;
                    for (int j = 0; j < P; j++)
                        keys[n] += block.weight[j][row] * block.query[j * E + column];
                }
            }
        }
#pragma unroll
        for (int n = 0; KEYS && n < OK; n++) {
            const int i = threadIdx.x + n * MOEC_ATTEND_THREADS, row = i / E, column = i % E;
            if (i < P * E && at + row < A::keys)
                dk[((b * A::keys + at + row) * A::key_heads + owner) * E + column] = keys[n];
        }
#pragma unroll
        for (int n = 0; VALUES && n < OV; n++) {
            const int i = threadIdx.x + n * MOEC_ATTEND_THREADS, row = i / C, column = i % C;
            if (i < P * C && at + row < A::keys)
                dv[((b * A::keys + at + row) * A::value_heads + owner) * C + column] = values[n];
        }
    }
}

template <class A, class Pairs = MoecAll, class Bias = MoecAll>
MOEC_DEVICE void moec_attend_grad_both(const float *q, const float *k, const float *v,
                                       const float *, const float *documents, const float *o,
                                       const float *lse, const float *output_grad, float *dk,
                                       float *dv, Pairs chosen = Pairs(), Bias bias = Bias()) {
    moec_attend_grad_keys<A, true, true>(q, k, v, documents, o, lse, output_grad, dk, dv, chosen,
                                         bias);
}

template <class A, class Pairs = MoecAll, class Bias = MoecAll>
MOEC_DEVICE void moec_attend_grad_key(const float *q, const float *k, const float *v, const float *,
                                      const float *documents, const float *o, const float *lse,
                                      const float *output_grad, float *dk, Pairs chosen = Pairs(),
                                      Bias bias = Bias()) {
    moec_attend_grad_keys<A, true, false>(q, k, v, documents, o, lse, output_grad, dk, NULL, chosen,
                                          bias);
}

template <class A, class Pairs = MoecAll, class Bias = MoecAll>
MOEC_DEVICE void moec_attend_grad_value(const float *q, const float *k, const float *v,
                                        const float *, const float *documents, const float *o,
                                        const float *lse, const float *output_grad, float *dv,
                                        Pairs chosen = Pairs(), Bias bias = Bias()) {
    moec_attend_grad_keys<A, false, true>(q, k, v, documents, o, lse, output_grad, NULL, dv, chosen,
                                          bias);
}

/* dsink[h] = - sum over batch and queries of the weight of the sink times (o . output_grad). */
template <class A, class Q, class K, class V, class O, class D>
static __device__ void moec_attend_grad_sink(const Q *, const K *, const V *, const float *sink,
                                             const float *, const O *o, const float *lse,
                                             const D *output_grad, float *dsink) {
    constexpr int C = A::value_width;
    for (long h = moec_block(); h < A::heads; h += moec_blocks()) {
        float sum = 0.0f;
        for (long i = moec_thread(); i < A::batch * A::queries; i += moec_threads()) {
            const long row = i * A::heads + h;
            float total = 0.0f;
            for (int c = 0; c < C; c++)
                total += moec_load(o[row * C + c]) * moec_load(output_grad[row * C + c]);
            sum -= expf(sink[h] - lse[row]) * total;
        }
        sum = moec_block_sum(sum);
        if (moec_thread() == 0) dsink[h] = sum;
    }
}

/* ---- new tokens against a cache ---- */

/* Query s has position position+s and attends to the keys up to this position, with a sliding
 * window to the last ones. The cache may then be a ring, see attention_step.h. */
MOEC_TEMPLATE MoecRange moec_seen(long place) {
    MoecRange range = {0, moec_least(place + 1, A::places)};
    if (A::mask == MOEC_MASK_WINDOW) range.first = moec_most(0, place - A::window + 1);
    return range;
}

MOEC_TEMPLATE long moec_row_of_key(long place) {
    return A::mask == MOEC_MASK_WINDOW ? place % A::keys : place;
}

/* True if an unmasked key belongs to the document of the position; documents: [positions]. */
MOEC_TEMPLATE bool moec_together(const float *documents, long place, long key) {
    return !A::documents || documents[place] == documents[key];
}

/* Scale of a row of keys or values: int8 rows have scales, see attention.h. */
template <class K> MOEC_DEVICE float moec_scale_of(const float *scales, long row) {
    return sizeof(K) == 1 ? scales[row] : 1.0f;
}

/* The product of a query and a key by the lanes of a warp; all of them get it. */
template <int E, class K> MOEC_DEVICE float moec_warp_dot(const float *x, const K *y) {
    float product = 0.0f;
#pragma unroll
    for (int e = threadIdx.x % 32; e < E; e += 32) product += x[e] * moec_load(y[e]);
    return moec_warp_sum(product);
}

/* Reads only the values of the `best` keys: all scores, the softmax denominator, a selection.
 * scratch: [batch, query, head, keys]. */
template <class A, class K, class V, class Store, class Pairs = MoecAll, class Bias = MoecAll>
MOEC_DEVICE void
moec_attend_best(const float *q, const K *k, const V *v, const float *sink, const float *documents,
                 const float *k_scale, const float *v_scale, const Store &store, float *lse,
                 const int32_t *position, float *scratch, Pairs = Pairs(), Bias bias = Bias()) {
    constexpr int E = A::width, C = A::value_width;
    for (long row = moec_block(); row < A::batch * A::queries * A::heads; row += moec_blocks()) {
        const long h = row % A::heads, s = row / A::heads % A::queries,
                   b = row / A::heads / A::queries;
        const long hk = h * A::key_heads / A::heads, hv = h * A::value_heads / A::heads;
        const long place = *position + s;
        const MoecRange range = moec_seen<A>(place);
        const long count = range.end - range.first;
        float *score = scratch + row * A::keys, most = -INFINITY, sum = 0.0f;
        moec_barrier();
        for (long j = threadIdx.x / 32; j < count; j += MOEC_ATTEND_WARPS) {
            const long key =
                (b * A::keys + moec_row_of_key<A>(range.first + j)) * A::key_heads + hk;
            const bool seen = moec_together<A>(documents + b * A::places, place, range.first + j);
            const float product =
                moec_scale_of<K>(k_scale, key) * moec_warp_dot<E>(q + row * E, k + key * E);
            const float value =
                seen ? moec_score<A>(product) +
                           moec_bias_at(moec_bias_of<A>(bias, b, h), place, range.first + j)
                     : -INFINITY;
            if (threadIdx.x % 32 == 0) score[j] = value;
            most = fmaxf(most, value);
        }
        most = moec_block_max(most);
        if (sink != NULL) most = fmaxf(most, sink[h]);
        for (long j = moec_thread(); j < count; j += moec_threads()) sum += expf(score[j] - most);
        sum = moec_block_sum(sum) + (sink != NULL ? expf(sink[h] - most) : 0.0f);
        const float normal = most + logf(sum);
        const long best = moec_least(A::best, count);
        moec_choose(count, 1, best, score, [&](long j, bool chosen) {
            score[j] = chosen ? expf(score[j] - normal) : 0.0f;
        });
        moec_barrier();
        for (int c = threadIdx.x; c < C; c += MOEC_ATTEND_THREADS) {
            float out = 0.0f;
            for (long j = 0; j < count; j++) {
                const long at = b * A::keys + moec_row_of_key<A>(range.first + j),
                           value = at * A::value_heads + hv;
                if (score[j] != 0.0f)
                    out +=
                        score[j] * moec_scale_of<V>(v_scale, value) * moec_load(v[value * C + c]);
            }
            store(row / A::heads, h * C + c, out);
        }
        if (moec_thread() == 0) lse[row] = normal;
    }
}

/* The states of the parts of each row: scratch[row, part, value_width + 2] has maximum, sum and
 * output. */
template <class Store> struct MoecParts {
    const float *sink;
    const Store &store;
    float *lse, *scratch;
};

/* Combines the parts of the rows row_at(0) .. row_at(rows - 1), of at most ROWS, and the sink, in
 * the order of the parts. The warps of a block share the rows, or the parts of fewer rows. */
template <class A, int ROWS, class RowAt, class Store>
MOEC_DEVICE void moec_attend_join(const MoecParts<Store> &in, int parts, int rows, RowAt row_at) {
    constexpr int C = A::value_width, OWN = (C + 31) / 32;
    enum { TEAMS = ROWS < MOEC_ATTEND_WARPS ? ROWS : MOEC_ATTEND_WARPS };
    enum { TEAM = MOEC_ATTEND_WARPS / TEAMS }; /* warps of a row */
    __shared__ float outs[TEAM > 1 ? MOEC_ATTEND_WARPS : 1][C];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int first = 0; first < rows; first += TEAMS) {
        const int number = first + warp / TEAM;
        const bool there = warp / TEAM < TEAMS && number < rows;
        const long row = row_at(there ? number : first);
        const float *states = in.scratch + row * A::parts * (C + 2);
        const float sunk = in.sink != NULL ? in.sink[row % A::heads] : -INFINITY;
        float most = sunk, sum = 0.0f, out[OWN] = {};
        for (int i = lane; i < parts; i += 32) most = fmaxf(most, __ldcg(states + i * (C + 2)));
        most = moec_warp_max(most);
        for (int from = 0; from < parts; from += 32) {
            const float *own = states + moec_least(from + lane, parts - 1) * (C + 2);
            const float score = from + lane < parts ? __ldcg(own) : -INFINITY;
            const float factor = score == -INFINITY ? 0.0f : expf(score - most);
            sum += factor != 0.0f ? factor * __ldcg(own + 1) : 0.0f;
#pragma unroll 4
            for (int i = warp % TEAM; i < (int)moec_least(parts - from, 32); i += TEAM) {
                const float one = __shfl_sync(0xffffffffu, factor, i);
#pragma unroll
                for (int j = 0; j < OWN; j++) {
                    const int c = lane + 32 * j;
                    const float x = c < C ? __ldcg(states + (from + i) * (C + 2) + 2 + c) : 0.0f;
                    out[j] += one != 0.0f ? one * x : 0.0f;
                }
            }
        }
        sum = moec_warp_sum(sum) + (in.sink != NULL ? expf(sunk - most) : 0.0f);
        if constexpr (TEAM > 1) {
#pragma unroll
            for (int j = 0; j < OWN; j++)
                if (lane + 32 * j < C) outs[warp][lane + 32 * j] = out[j];
            moec_barrier();
        }
        if (there && warp % TEAM == 0)
#pragma unroll
            for (int j = 0; j < OWN; j++) {
                const int c = lane + 32 * j;
                if (c >= C) break;
                if constexpr (TEAM > 1)
                    for (int i = 1; i < TEAM; i++) out[j] += outs[warp + i][c];
                in.store(row / A::heads, row % A::heads * C + c, sum > 0.0f ? out[j] / sum : 0.0f);
            }
        if (there && warp % TEAM == 0 && lane == 0)
            in.lse[row] = sum > 0.0f ? most + logf(sum) : MOEC_NO_KEY;
    }
}

/* Processes one part of the keys of one query and head. Each warp processes every fourth key. The
 * last of the blocks that have a part of a row combines them. */
template <class A, class K, class V, class Store, class Pairs = MoecAll, class Bias = MoecAll>
MOEC_DEVICE void moec_attend_step(const float *q, const K *k, const V *v, const float *sink,
                                  const float *documents, const float *k_scale,
                                  const float *v_scale, const int32_t *position, const Store &store,
                                  float *lse, float *scratch, unsigned *arrived,
                                  Pairs chosen = Pairs(), Bias bias = Bias()) {
    constexpr int E = A::width, C = A::value_width, O = (C + 31) / 32;
    __shared__ float outs[MOEC_ATTEND_WARPS][C], mosts[MOEC_ATTEND_WARPS], sums[MOEC_ATTEND_WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (long task = moec_block(); task < A::batch * A::queries * A::heads * A::parts;
         task += moec_blocks()) {
        const long part = task % A::parts, row = task / A::parts;
        const long h = row % A::heads, s = row / A::heads % A::queries,
                   b = row / A::heads / A::queries;
        const long hk = h * A::key_heads / A::heads, hv = h * A::value_heads / A::heads;
        const long place = *position + s;
        const MoecRange range = moec_seen<A>(place);
        const long each = moec_most(32, moec_ceil_div(range.end - range.first, A::parts));
        const long first = range.first + part * each, end = moec_least(first + each, range.end);
        if (first >= end) continue;
        float most = -INFINITY, sum = 0.0f, out[O] = {};
        for (long j = first + warp; j < end; j += MOEC_ATTEND_WARPS) {
            if (!moec_together<A>(documents + b * A::places, place, j)) continue;
            if (!moec_is_chosen<A>(moec_chosen_of<A>(chosen, b, h), s, j)) continue;
            const long at = b * A::keys + moec_row_of_key<A>(j);
            const long key = at * A::key_heads + hk, value = at * A::value_heads + hv;
            const float product =
                moec_scale_of<K>(k_scale, key) * moec_warp_dot<E>(q + row * E, k + key * E);
            const float score =
                moec_score<A>(product) + moec_bias_at(moec_bias_of<A>(bias, b, h), place, j);
            const float before = most;
            most = fmaxf(most, score);
            const float factor = before == -INFINITY ? 0.0f : expf(before - most),
                        weight = expf(score - most);
            const float own = weight * moec_scale_of<V>(v_scale, value);
            sum = sum * factor + weight;
#pragma unroll
            for (int n = 0; n < O; n++)
                if (lane + 32 * n < C)
                    out[n] = out[n] * factor + own * moec_load(v[value * C + lane + 32 * n]);
        }
        moec_barrier();
        if (lane == 0) {
            mosts[warp] = most;
            sums[warp] = sum;
        }
#pragma unroll
        for (int n = 0; n < O; n++)
            if (lane + 32 * n < C) outs[warp][lane + 32 * n] = out[n];
        moec_barrier();
        float *state = scratch + task * (C + 2), factors[MOEC_ATTEND_WARPS];
        most = -INFINITY, sum = 0.0f;
        for (int i = 0; i < MOEC_ATTEND_WARPS; i++) most = fmaxf(most, mosts[i]);
        for (int i = 0; i < MOEC_ATTEND_WARPS; i++) {
            factors[i] = mosts[i] == -INFINITY ? 0.0f : expf(mosts[i] - most);
            sum += factors[i] * sums[i];
        }
        for (int c = threadIdx.x; c < C; c += MOEC_ATTEND_THREADS) {
            float x = 0.0f;
            for (int i = 0; i < MOEC_ATTEND_WARPS; i++) x += factors[i] * outs[i][c];
            state[2 + c] = x;
        }
        if (moec_thread() == 0) {
            state[0] = most;
            state[1] = sum;
        }
        const int parts = (int)moec_ceil_div(range.end - range.first, each);
        if (!moec_arrives_last(arrived + row, parts)) continue;
        moec_attend_join<A, 1>(MoecParts<Store>{sink, store, lse, scratch}, parts, 1,
                               [&](int) { return row; });
    }
}

#endif
