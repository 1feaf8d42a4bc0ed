/* attention_rounded: attention forward and backward with products by tensor cores: what they multiply is rounded to bf16;
 * scores, softmax and all sums are f32. Where a head is too wide for shared memory the exact templates do the work.
 *
 * A warp owns 16 rows (queries; keys for dk and dv), a block 64. The other side comes in parts. Scores of a warp are
 * s[n][4]: results of 16 by 8 as moec_mma leaves them, so that a thread has rows lane/4 and lane/4 + 8, columns
 * 8n + 2(lane%4) and the next.
 */
#ifndef MOEC_ATTENTION_ROUNDED_CUH
#define MOEC_ATTENTION_ROUNDED_CUH

#include "attention.cuh"

enum { MOEC_ROUNDED_ROWS = 64, MOEC_ROUNDED_PAD = 8 };

static __host__ __device__ constexpr int moec_padded(int width) { return (width + 15) / 16 * 16; }

/* Bytes of `rows` rows of that many numbers. */
static __host__ __device__ constexpr int moec_rounded_bytes(int rows, int width) {
    return rows * (moec_padded(width) + MOEC_ROUNDED_PAD) * 2;
}

/* Rows first .. first+count-1 of one head of x[rows, heads, W] as bf16; what is not there is zeros. */
template <int W>
MOEC_DEVICE void moec_load_rounded(uint16_t *to, const float *x, long first, int count, long rows, long heads, long head) {
    constexpr int P = moec_padded(W), S = P + MOEC_ROUNDED_PAD;
    for (int i = threadIdx.x; i < count * (P / 2); i += MOEC_ATTEND_THREADS) {
        const int row = i / (P / 2), column = i % (P / 2) * 2;
        const float *at = x + ((first + row) * heads + head) * W + column;
        const bool there = first + row < rows;
        const float low = there && column < W ? at[0] : 0.0f, high = there && column + 1 < W ? at[1] : 0.0f;
        *(unsigned *)(to + row * S + column) = moec_bf16_pair(low, high);
    }
}

/* s = a b' for the 16 rows of the warp and N times 8 rows of b. */
template <int W, int N> MOEC_DEVICE void moec_rounded_scores(float s[N][4], const uint16_t *a, const uint16_t *b) {
    constexpr int P = moec_padded(W), S = P + MOEC_ROUNDED_PAD;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int n = 0; n < N; n++)
        for (int i = 0; i < 4; i++) s[n][i] = 0.0f;
#pragma unroll
    for (int k = 0; k < P; k += 16) {
        unsigned left[4];
        moec_load_matrices(left, a + (warp * 16 + lane % 16) * S + k + lane / 16 * 8);
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            unsigned right[4];
            moec_load_matrices(right, b + (n * 8 + lane / 16 * 8 + lane % 8) * S + k + lane / 8 % 2 * 8);
            moec_mma(s[n], left, right);
            moec_mma(s[n + 1], left, right + 2);
        }
    }
}

/* out += s b, s rounded, b of N times 8 rows of W numbers. */
template <int W, int N>
MOEC_DEVICE void moec_rounded_add(float out[moec_padded(W) / 8][4], const float s[N][4], const uint16_t *b) {
    constexpr int P = moec_padded(W), S = P + MOEC_ROUNDED_PAD;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < N; k += 2) {
        const unsigned left[4] = {moec_bf16_pair(s[k][0], s[k][1]), moec_bf16_pair(s[k][2], s[k][3]),
                                  moec_bf16_pair(s[k + 1][0], s[k + 1][1]), moec_bf16_pair(s[k + 1][2], s[k + 1][3])};
#pragma unroll
        for (int n = 0; n < P / 16; n++) {
            unsigned right[4];
            moec_load_matrices_turned(right, b + (k * 8 + lane % 16) * S + n * 16 + lane / 16 * 8);
            moec_mma(out[2 * n], left, right);
            moec_mma(out[2 * n + 1], left, right + 2);
        }
    }
}

/* Of the four threads that share a row. */
MOEC_DEVICE float moec_row_sum(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
MOEC_DEVICE float moec_row_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

/* Row and column of part i of result n. */
MOEC_DEVICE int moec_result_row(int i) { return threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + i / 2 * 8; }
MOEC_DEVICE int moec_result_column(int n, int i) { return n * 8 + threadIdx.x % 4 * 2 + i % 2; }

/* Stores out, divided by its row's number, as rows of one head of x[rows, heads, W]. */
template <int W>
MOEC_DEVICE void moec_store_rounded(float *x, const float out[moec_padded(W) / 8][4], const float divisor[2], long first,
                                    long rows, long heads, long head) {
#pragma unroll
    for (int n = 0; n < moec_padded(W) / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const long row = first + moec_result_row(i);
            const int column = moec_result_column(n, i);
            if (row < rows && column < W) x[(row * heads + head) * W + column] = out[n][i] / divisor[i / 2];
        }
}

/* ---- forward ---- */

template <class A> struct MoecRoundedForward {
    enum { KEYS = 32, N = KEYS / 8, E = A::width, C = A::value_width };
    static constexpr bool fits = moec_rounded_bytes(MOEC_ROUNDED_ROWS + KEYS, E) + moec_rounded_bytes(KEYS, C) <= 48 * 1024;

    /* One part of the keys into the running softmax of the warp's queries. */
    static __device__ __forceinline__ void part(const uint16_t *query, const uint16_t *key, const uint16_t *value,
                                                const float *documents, long from, long at, float *most, float *sum, float out[moec_padded(C) / 8][4]) {
        float s[N][4], largest[2] = {most[0], most[1]}, total[2] = {0.0f, 0.0f};
        moec_rounded_scores<E, N>(s, query, key);
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const bool seen = moec_sees<A>(documents, from + moec_result_row(i), at + moec_result_column(n, i));
                s[n][i] = seen ? moec_score<A>(s[n][i]) : -INFINITY;
                largest[i / 2] = fmaxf(largest[i / 2], s[n][i]);
            }
#pragma unroll
        for (int i = 0; i < 2; i++) largest[i] = moec_row_max(largest[i]);
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                s[n][i] = s[n][i] == -INFINITY ? 0.0f : expf(s[n][i] - largest[i / 2]);
                total[i / 2] += s[n][i];
            }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float factor = most[i] == -INFINITY ? 0.0f : expf(most[i] - largest[i]);
            sum[i] = sum[i] * factor + moec_row_sum(total[i]);
            most[i] = largest[i];
#pragma unroll
            for (int n = 0; n < moec_padded(C) / 8; n++) {
                out[n][2 * i] *= factor;
                out[n][2 * i + 1] *= factor;
            }
        }
        moec_rounded_add<C, N>(out, s, value);
    }

    static __device__ __forceinline__ void run(const float *q, const float *k, const float *v, const float *sink,
                                               const float *documents, float *o, float *lse) {
        __shared__ __align__(16) uint16_t query[MOEC_ROUNDED_ROWS * (moec_padded(E) + MOEC_ROUNDED_PAD)];
        __shared__ __align__(16) uint16_t key[KEYS * (moec_padded(E) + MOEC_ROUNDED_PAD)];
        __shared__ __align__(16) uint16_t value[KEYS * (moec_padded(C) + MOEC_ROUNDED_PAD)];
        constexpr long blocks = (A::queries + MOEC_ROUNDED_ROWS - 1) / MOEC_ROUNDED_ROWS;
        for (long task = moec_block(); task < A::batch * A::heads * blocks; task += moec_blocks()) {
            const long h = task % A::heads, b = task / A::heads / blocks;
            const long from = (blocks - 1 - task / A::heads % blocks) * MOEC_ROUNDED_ROWS;
            const long hk = h * A::key_heads / A::heads, hv = h * A::value_heads / A::heads;
            const float *own = documents + b * A::keys;
            const MoecSpan span = moec_span<A>(own, from, MOEC_ROUNDED_ROWS);
            const float start = sink != NULL ? sink[h] : -INFINITY, share = sink != NULL ? 1.0f : 0.0f;
            float out[moec_padded(C) / 8][4] = {}, most[2] = {start, start}, sum[2] = {share, share};
            moec_barrier();
            moec_load_rounded<E>(query, q + b * A::queries * A::heads * E, from, MOEC_ROUNDED_ROWS, A::queries, A::heads, h);
            const long end = moec_visible<A>(moec_least(from + MOEC_ROUNDED_ROWS, A::queries) - 1).end;
            for (long at = moec_visible<A>(from).first / KEYS * KEYS; at < end; at += KEYS) {
                if (moec_apart<A>(span, own, at, KEYS)) continue;
                moec_barrier();
                moec_load_rounded<E>(key, k + b * A::keys * A::key_heads * E, at, KEYS, A::keys, A::key_heads, hk);
                moec_load_rounded<C>(value, v + b * A::keys * A::value_heads * C, at, KEYS, A::keys, A::value_heads, hv);
                moec_barrier();
                part(query, key, value, own, from, at, most, sum, out);
            }
            moec_store_rounded<C>(o + b * A::queries * A::heads * C, out, sum, from, A::queries, A::heads, h);
            for (int i = 0; i < 2; i++) {
                const long row = from + moec_result_row(2 * i);
                if (threadIdx.x % 4 == 0 && row < A::queries)
                    lse[(b * A::queries + row) * A::heads + h] = most[i] + logf(sum[i]);
            }
        }
    }
};

MOEC_TEMPLATE void moec_attend_rounded(const float *q, const float *k, const float *v, const float *sink,
                                       const float *documents, float *o, float *lse) {
    if constexpr (MoecRoundedForward<A>::fits)
        MoecRoundedForward<A>::run(q, k, v, sink, documents, o, lse);
    else
        moec_attend<A>(q, k, v, sink, documents, o, lse);
}

/* ---- backward ---- */

/* QUERIES: dq for a block of queries, keys in parts. Else dk, dv or both for a block of keys, queries in parts. */
template <class A> struct MoecRoundedBackward {
    enum { PART = 16, N = PART / 8, E = A::width, C = A::value_width };
    enum { SE = moec_padded(E) + MOEC_ROUNDED_PAD, SC = moec_padded(C) + MOEC_ROUNDED_PAD };
    static constexpr bool fits =
        moec_rounded_bytes(MOEC_ROUNDED_ROWS + PART, E) + moec_rounded_bytes(MOEC_ROUNDED_ROWS + PART, C) <= 47 * 1024;

    /* For `count` queries: lse, and the product of output and its gradient. */
    static __device__ __forceinline__ void load_totals(float *total, float *normal, int count, const float *o, const float *lse,
                                                       const float *output_grad, long b, long h, long from) {
        for (int i = threadIdx.x / 32; i < count; i += MOEC_ATTEND_WARPS) {
            const long row = (b * A::queries + moec_least(from + i, A::queries - 1)) * A::heads + h;
            float sum = 0.0f;
            for (int c = threadIdx.x % 32; c < C; c += 32) sum += o[row * C + c] * output_grad[row * C + c];
            sum = moec_warp_sum(sum);
            if (threadIdx.x % 32 != 0) continue;
            total[i] = sum;
            normal[i] = lse[row];
        }
    }

    /* From products of queries and keys to weights, and to the derivative by those products in `through`. */
    static __device__ __forceinline__ void weigh(float &s, float &through, const float *documents, long query, long key,
                                                 float normal, float total) {
        const bool seen = query < A::queries && moec_sees<A>(documents, query, key);
        const float score = moec_score<A>(s);
        s = seen ? expf(score - normal) : 0.0f;
        through = seen ? s * (through - total) * moec_score_slope<A>(score) : 0.0f;
    }

    static __device__ __forceinline__ void run_queries(const float *q, const float *k, const float *v,
                                                       const float *documents, const float *o, const float *lse,
                                                       const float *output_grad, float *dq) {
        __shared__ __align__(16) uint16_t query[MOEC_ROUNDED_ROWS * SE], grad[MOEC_ROUNDED_ROWS * SC];
        __shared__ __align__(16) uint16_t key[PART * SE], value[PART * SC];
        __shared__ float total[MOEC_ROUNDED_ROWS], normal[MOEC_ROUNDED_ROWS];
        constexpr long blocks = (A::queries + MOEC_ROUNDED_ROWS - 1) / MOEC_ROUNDED_ROWS;
        for (long task = moec_block(); task < A::batch * A::heads * blocks; task += moec_blocks()) {
            const long h = task % A::heads, b = task / A::heads / blocks;
            const long from = (blocks - 1 - task / A::heads % blocks) * MOEC_ROUNDED_ROWS;
            const long hk = h * A::key_heads / A::heads, hv = h * A::value_heads / A::heads;
            const float *own = documents + b * A::keys;
            const MoecSpan span = moec_span<A>(own, from, MOEC_ROUNDED_ROWS);
            float out[moec_padded(E) / 8][4] = {};
            moec_barrier();
            moec_load_rounded<E>(query, q + b * A::queries * A::heads * E, from, MOEC_ROUNDED_ROWS, A::queries, A::heads, h);
            moec_load_rounded<C>(grad, output_grad + b * A::queries * A::heads * C, from, MOEC_ROUNDED_ROWS, A::queries,
                                 A::heads, h);
            load_totals(total, normal, MOEC_ROUNDED_ROWS, o, lse, output_grad, b, h, from);
            const long end = moec_visible<A>(moec_least(from + MOEC_ROUNDED_ROWS, A::queries) - 1).end;
            for (long at = moec_visible<A>(from).first / PART * PART; at < end; at += PART) {
                if (moec_apart<A>(span, own, at, PART)) continue;
                float s[N][4], through[N][4];
                moec_barrier();
                moec_load_rounded<E>(key, k + b * A::keys * A::key_heads * E, at, PART, A::keys, A::key_heads, hk);
                moec_load_rounded<C>(value, v + b * A::keys * A::value_heads * C, at, PART, A::keys, A::value_heads, hv);
                moec_barrier();
                moec_rounded_scores<E, N>(s, query, key);
                moec_rounded_scores<C, N>(through, grad, value);
#pragma unroll
                for (int n = 0; n < N; n++)
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        const int row = moec_result_row(i);
                        weigh(s[n][i], through[n][i], own, from + row, at + moec_result_column(n, i), normal[row],
                              total[row]);
                    }
                moec_rounded_add<E, N>(out, through, key);
            }
            const float one[2] = {1.0f, 1.0f};
            moec_store_rounded<E>(dq + b * A::queries * A::heads * E, out, one, from, A::queries, A::heads, h);
        }
    }

    template <bool KEYS, bool VALUES>
    static __device__ __forceinline__ void run_keys(const float *q, const float *k, const float *v,
                                                    const float *documents, const float *o, const float *lse,
                                                    const float *output_grad, float *dk, float *dv) {
        __shared__ __align__(16) uint16_t key[MOEC_ROUNDED_ROWS * SE], value[MOEC_ROUNDED_ROWS * SC];
        __shared__ __align__(16) uint16_t query[PART * SE], grad[PART * SC];
        __shared__ float total[PART], normal[PART];
        constexpr long blocks = (A::keys + MOEC_ROUNDED_ROWS - 1) / MOEC_ROUNDED_ROWS;
        constexpr long owners = KEYS ? A::key_heads : A::value_heads;
        for (long task = moec_block(); task < A::batch * owners * blocks; task += moec_blocks()) {
            const long owner = task % owners, b = task / owners / blocks;
            const long at = task / owners % blocks * MOEC_ROUNDED_ROWS;
            const float *own = documents + b * A::keys;
            const MoecSpan span = moec_span<A>(own, at, MOEC_ROUNDED_ROWS);
            float keys[moec_padded(E) / 8][4] = {}, values[moec_padded(C) / 8][4] = {};
            long last = A::queries;
            if (A::mask == MOEC_MASK_WINDOW) last = moec_least(last, at + MOEC_ROUNDED_ROWS - 1 + A::window);
            for (long h = 0; h < A::heads; h++) {
                const long hk = h * A::key_heads / A::heads, hv = h * A::value_heads / A::heads;
                if ((KEYS ? hk : hv) != owner) continue;
                moec_barrier();
                moec_load_rounded<E>(key, k + b * A::keys * A::key_heads * E, at, MOEC_ROUNDED_ROWS, A::keys, A::key_heads, hk);
                moec_load_rounded<C>(value, v + b * A::keys * A::value_heads * C, at, MOEC_ROUNDED_ROWS, A::keys,
                                     A::value_heads, hv);
                for (long from = A::mask == MOEC_MASK_NONE ? 0 : at; from < last; from += PART) {
                    if (moec_apart<A>(span, own, from, PART)) continue;
                    float s[N][4], through[N][4];
                    moec_barrier();
                    moec_load_rounded<E>(query, q + b * A::queries * A::heads * E, from, PART, A::queries, A::heads, h);
                    moec_load_rounded<C>(grad, output_grad + b * A::queries * A::heads * C, from, PART, A::queries, A::heads,
                                         h);
                    load_totals(total, normal, PART, o, lse, output_grad, b, h, from);
                    moec_barrier();
                    moec_rounded_scores<E, N>(s, key, query);
                    moec_rounded_scores<C, N>(through, value, grad);
#pragma unroll
                    for (int n = 0; n < N; n++)
#pragma unroll
                        for (int i = 0; i < 4; i++) {
                            const int column = moec_result_column(n, i);
                            weigh(s[n][i], through[n][i], own, from + column, at + moec_result_row(i), normal[column],
                                  total[column]);
                        }
                    if (VALUES) moec_rounded_add<C, N>(values, s, grad);
                    if (KEYS) moec_rounded_add<E, N>(keys, through, query);
                }
            }
            const float one[2] = {1.0f, 1.0f};
            if (KEYS) moec_store_rounded<E>(dk + b * A::keys * A::key_heads * E, keys, one, at, A::keys, A::key_heads, owner);
            if (VALUES)
                moec_store_rounded<C>(dv + b * A::keys * A::value_heads * C, values, one, at, A::keys, A::value_heads, owner);
        }
    }
};

MOEC_TEMPLATE void moec_attend_grad_query_rounded(const float *q, const float *k, const float *v, const float *sink,
                                                  const float *documents, const float *o, const float *lse,
                                                  const float *output_grad, float *dq) {
    if constexpr (MoecRoundedBackward<A>::fits)
        MoecRoundedBackward<A>::run_queries(q, k, v, documents, o, lse, output_grad, dq);
    else
        moec_attend_grad_query<A>(q, k, v, sink, documents, o, lse, output_grad, dq);
}

template <class A, bool KEYS, bool VALUES>
MOEC_DEVICE void moec_attend_grad_keys_rounded(const float *q, const float *k, const float *v, const float *documents,
                                               const float *o, const float *lse, const float *output_grad, float *dk,
                                               float *dv) {
    if constexpr (MoecRoundedBackward<A>::fits)
        MoecRoundedBackward<A>::template run_keys<KEYS, VALUES>(q, k, v, documents, o, lse, output_grad, dk, dv);
    else
        moec_attend_grad_keys<A, KEYS, VALUES>(q, k, v, documents, o, lse, output_grad, dk, dv);
}

MOEC_TEMPLATE void moec_attend_grad_both_rounded(const float *q, const float *k, const float *v, const float *,
                                                 const float *documents, const float *o, const float *lse,
                                                 const float *output_grad, float *dk, float *dv) {
    moec_attend_grad_keys_rounded<A, true, true>(q, k, v, documents, o, lse, output_grad, dk, dv);
}

MOEC_TEMPLATE void moec_attend_grad_key_rounded(const float *q, const float *k, const float *v, const float *,
                                                const float *documents, const float *o, const float *lse,
                                                const float *output_grad, float *dk) {
    moec_attend_grad_keys_rounded<A, true, false>(q, k, v, documents, o, lse, output_grad, dk, NULL);
}

MOEC_TEMPLATE void moec_attend_grad_value_rounded(const float *q, const float *k, const float *v, const float *,
                                                  const float *documents, const float *o, const float *lse,
                                                  const float *output_grad, float *dv) {
    moec_attend_grad_keys_rounded<A, false, true>(q, k, v, documents, o, lse, output_grad, NULL, dv);
}

#endif
