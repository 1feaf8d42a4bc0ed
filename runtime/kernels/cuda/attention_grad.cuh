/* attention_grad: the backward pass of attention_rounded. It recomputes the weights from lse. Each
 * thread block owns the elements that it writes, so the order of sums is fixed. The kernel of dq
 * runs first. For the others it stores two floats per query and head: lse as a power of 2, and the
 * product of output and gradient. Derivatives by the product of query and key are multiplied by
 * A::scale at the end. */
#ifndef MOEC_ATTENTION_GRAD_CUH
#define MOEC_ATTENTION_GRAD_CUH

#include "attention_rounded.cuh"

/* d score / d product relative to A::scale, given the score. */
MOEC_TEMPLATE float moec_score_bend(float score) {
    if (A::cap == 0.0f) return 1.0f;
    const float bent = score / (A::cap == 0.0f ? 1.0f : A::cap);
    return 1.0f - bent * bent;
}

/* Converts a product of query and key to the weight of the pair. Converts the product of output
 * gradient and value to the derivative by the product of query and key, divided by A::scale.
 * normal: log2 of the softmax denominator; total: output times its gradient. bias: added to the
 * score. */
template <class A, class Bias = MoecAll>
MOEC_DEVICE void moec_weigh(float &s, float &through, float normal, float total,
                            float bias = 0.0f) {
    const float score = moec_bent<A, Bias>(s);
    s = moec_exp2(fmaf(score + bias, moec_power<A, Bias>(), -normal));
    /* which no score has a part in without a cap */
    through = s * (through - total) * moec_score_bend<A>(score);
}

/* The gradients of 16 M queries of a warp: the saved values of each row, and the sums. */
template <class A, int M> struct MoecGradRows {
    enum { E = A::width, C = A::value_width };
    float out[M][moec_padded(E) / 8][4], normal[M][2], total[M][2];

    __device__ __forceinline__ void begin() {
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int n = 0; n < moec_padded(E) / 8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) out[m][n][i] = 0.0f;
    }

    /* Output times its gradient for half a row. */
    template <class O, class D>
    static __device__ __forceinline__ float add_half(const O *o, const D *output_grad, int half) {
        float sum = 0.0f;
        if constexpr (C % 8 == 0) {
#pragma unroll(C <= 128 ? C / 16 : 4)
            for (int c = 8 * half; c < C; c += 16) {
                float x[8], y[8];
                moec_read(x, o + c);
                moec_read(y, output_grad + c);
#pragma unroll
                for (int i = 0; i < 8; i++) sum += x[i] * y[i];
            }
        } else {
            for (int c = half; c < C; c += 2) sum += moec_load(o[c]) * moec_load(output_grad[c]);
        }
        return sum + __shfl_xor_sync(0xffffffffu, sum, 1);
    }

    /* The saved values of each row of the warp, into `totals`, and to the lanes that need them. Two
     * lanes share a row. */
    template <class O, class D>
    __device__ __forceinline__ void add_up(const O *o, const D *output_grad, const float *lse,
                                           float *totals, long b, int h, int row) {
        const int half = threadIdx.x % 2;
#pragma unroll
        for (int m = 0; m < M; m++) {
            const long place = row + 16 * m + threadIdx.x % 32 / 2;
            const bool there = place < A::queries;
            const long at = (b * A::queries + moec_least(place, A::queries - 1)) * A::heads + h;
            const float own = add_half(o + at * C, output_grad + at * C, half);
            /* a row that is not there weighs nothing */
            const float norm = there ? lse[at] * MOEC_LOG2E : INFINITY;
            if (there) totals[2 * at + half] = half ? own : norm;
#pragma unroll
            for (int r = 0; r < 2; r++) {
                total[m][r] = __shfl_sync(0xffffffffu, own, 2 * moec_result_row(0, 2 * r));
                normal[m][r] = __shfl_sync(0xffffffffu, norm, 2 * moec_result_row(0, 2 * r));
            }
        }
    }

    /* See moec_weigh: `through` becomes the derivatives, nothing where the mask hides. */
    template <int N, class Bias = MoecAll>
    __device__ __forceinline__ void reassociate(float s[M][N][4], float through[M][N][4],
                                                const float *documents, int row, int at,
                                                Bias bias = Bias()) const {
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int n = 0; n < N; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    moec_weigh<A, Bias>(s[m][n][i], through[m][n][i], normal[m][i / 2],
                                        total[m][i / 2],
                                        moec_bias_near<A>(bias, row + moec_result_row(m, i),
                                                          at + moec_result_column(n, i)));
        moec_hide<A, M, N>(through, 0.0f, documents, row, at);
    }

    template <class DQ>
    __device__ __forceinline__ void finish(DQ *dq, long b, int h, int row) const {
        float scale[M][2];
        for (int m = 0; m < M; m++) scale[m][0] = scale[m][1] = A::scale;
        moec_store_rows<E, M>(MoecPlainRows<DQ>{dq, A::heads * E}, out, scale, b * A::queries, row,
                              A::queries, h * E);
    }
};

/* dq for a block of queries, keys in parts; for dk and dv, the totals. */
template <class A, class Shape> struct MoecGradQuery : MoecGradRows<A, Shape::tiles> {
    enum { M = Shape::tiles, N = Shape::part / 8, E = A::width, C = A::value_width };
    enum { GRAD = Shape::rows * moec_stride(E), KEY = GRAD + Shape::rows * moec_stride(C) };
    static_assert(2 * (KEY + 2 * MoecKeyPart<A, Shape>::SIZE) <= Shape::bytes, "shared memory");

    template <class Bias>
    __device__ __forceinline__ void part(const uint16_t *shared, const uint16_t *key,
                                         const float *documents, Bias bias, int row, int at) {
        float s[M][N][4], through[M][N][4];
        moec_multiply<E, M, N>(s, shared, key);
        moec_multiply<C, M, N>(through, shared + GRAD, key + MoecKeyPart<A, Shape>::VALUE);
        this->reassociate(s, through, documents, row, at, bias);
        moec_multiply_add<E, M, N>(this->out, through, key);
    }

    template <class In, class D>
    __device__ __forceinline__ void run(uint16_t *shared, const In &in, const D *output_grad,
                                        long b, int h, int from) {
        const int row = from + threadIdx.x / 32 * 16 * M;
        const float *documents = in.documents + b * A::keys;
        const auto bias = moec_bias_of<A>(in.bias, b, h);
        moec_barrier();
        moec_fetch<E, A::heads, Shape::rows>(shared, moec_head<E>(in.q, b, A::queries, A::heads, h),
                                             from, A::queries);
        moec_fetch<C, A::heads, Shape::rows>(
            shared + GRAD, moec_head<C>(output_grad, b, A::queries, A::heads, h), from, A::queries);
        this->begin();
        moec_each_part_of_keys<A, Shape>(
            shared + KEY, in, b, h, from,
            [&](const uint16_t *key, int at) { part(shared, key, documents, bias, row, at); });
    }
};

template <class A, class Shape, class Q, class K, class V, class O, class D, class DQ,
          class Bias = MoecAll>
MOEC_DEVICE void moec_attend_grad_query_rounded(const Q *q, const K *k, const V *v,
                                                const float *sink, const float *documents,
                                                const O *o, const float *lse, const D *output_grad,
                                                float *totals, DQ *dq, MoecAll = MoecAll(),
                                                Bias bias = Bias()) {
    MOEC_SHARED(uint16_t, shared);
    typedef MoecGradQuery<A, Shape> Grad;
    const MoecAttended<Q, K, V, Bias> in = {q, k, v, sink, documents, bias};
    moec_each_block<A>(Shape::rows, [&](long b, int h, int from) {
        const int row = from + threadIdx.x / 32 * 16 * Grad::M;
        Grad grad;
        grad.add_up(o, output_grad, lse, totals, b, h, row);
        grad.run(shared, in, output_grad, b, h, from);
        grad.finish(dq, b, h, row);
    });
}

/* Sets the weights and derivatives of hidden pairs to 0; keys from `row` are rows, queries from
 * `from` are columns. */
template <class A, bool KEYS, int N>
MOEC_DEVICE void moec_hide_columns(float s[1][N][4], float through[1][N][4], const float *documents,
                                   int row, int from) {
    if (!moec_hides_some<A>(from, 8 * N, row, 16)) return;
    float own[2] = {};
#pragma unroll
    for (int r = 0; A::documents && r < 2; r++)
        own[r] = documents[moec_least(row + moec_result_row(0, 2 * r), A::keys - 1)];
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const int place = from + moec_result_column(n, j);
            const float number = A::documents && place < A::keys
                                     ? *(volatile const float *)(documents + place)
                                     : 0.0f;
#pragma unroll
            for (int i = j; i < 4; i += 2)
                if (!moec_shows<A>(place, row + moec_result_row(0, i)) ||
                    (A::documents && own[i / 2] != number)) {
                    s[0][n][i] = 0.0f;
                    if (KEYS) through[0][n][i] = 0.0f;
                }
        }
}

/* moec_weigh with keys as rows and queries as columns. saved(column, values) reads the saved values
 * of a query and the next: normal, total, normal, total. It reads at the time of use, because
 * values that are loaded ahead need registers. */
template <class A, bool KEYS, int N, class Saved, class Bias = MoecAll>
MOEC_DEVICE void moec_weigh_columns(float s[1][N][4], float through[1][N][4],
                                    const float *documents, const Saved &saved, int row, int from,
                                    Bias bias = Bias()) {
#pragma unroll
    for (int n = 0; n < N; n++) {
        float values[4];
        saved(moec_result_column(n, 0), values);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (!KEYS) through[0][n][i] = 0.0f;
            moec_weigh<A, Bias>(s[0][n][i], through[0][n][i], values[i % 2 * 2],
                                KEYS ? values[i % 2 * 2 + 1] : 0.0f,
                                moec_bias_near<A>(bias, from + moec_result_column(n, i),
                                                  row + moec_result_row(0, i)));
        }
    }
    moec_hide_columns<A, KEYS, N>(s, through, documents, row, from);
}

/* The queries of head h that see some of Shape::rows keys from `at` on, and the gradients of their
 * results, in parts: see moec_part_by_part. */
template <class A, class Shape, class In, class D> struct MoecSeeingQueries {
    enum { COUNT = Shape::part };
    const In &in;
    const D *output_grad;
    int b, h, at;

    __device__ __forceinline__ const auto *queries() const {
        return moec_head<A::width>(in.q, b, A::queries, A::heads, h);
    }
    __device__ __forceinline__ const auto *grads() const {
        return moec_head<A::value_width>(output_grad, b, A::queries, A::heads, h);
    }

    template <class Ready, class Bring, class Work>
    __device__ __forceinline__ void part_by_part(const Ready &ready, const Bring &bring,
                                                 const Work &work) const {
        const float *documents = in.documents + (long)b * A::keys;
        const MoecSpan span = moec_span<A>(documents, at, Shape::rows);
        int end = A::queries;
        const int from = A::mask == MOEC_MASK_NONE ? 0 : at / COUNT * COUNT;
        if (A::mask == MOEC_MASK_WINDOW)
            end = moec_least(end, (long)at + Shape::rows - 1 + A::window);
        const auto from_on = [&](int query) {
            return moec_next_part<A>(span, documents, query, end, COUNT);
        };
        moec_part_by_part(
            from_on(from), end, [&](int query) { return from_on(query + COUNT); }, ready, bring,
            work);
    }
};

/* dk, dv or both for a block of keys of one key head or value head, from all query heads that read
 * it; queries in parts. */
template <class A, class Shape, bool KEYS, bool VALUES> struct MoecGradKeys {
    enum { N = Shape::part / 8, E = A::width, C = A::value_width };
    enum { VALUE = Shape::rows * moec_stride(E), QUERY = VALUE + Shape::rows * moec_stride(C) };
    enum { GRAD = Shape::part * moec_stride(E), STAGE = GRAD + Shape::part * moec_stride(C) };
    static_assert(2 * (QUERY + 2 * STAGE) <= Shape::bytes && Shape::tiles == 1, "shared memory");
    float keys[1][KEYS ? moec_padded(E) / 8 : 1][4], values[1][VALUES ? moec_padded(C) / 8 : 1][4];

    __device__ __forceinline__ void begin() {
#pragma unroll
        for (int n = 0; n < (KEYS ? moec_padded(E) / 8 : 1); n++)
#pragma unroll
            for (int i = 0; i < 4; i++) keys[0][n][i] = 0.0f;
#pragma unroll
        for (int n = 0; n < (VALUES ? moec_padded(C) / 8 : 1); n++)
#pragma unroll
            for (int i = 0; i < 4; i++) values[0][n][i] = 0.0f;
    }

    template <class Bias>
    __device__ __forceinline__ void part(const uint16_t *shared, const uint16_t *query,
                                         const float *documents, Bias bias, const float *totals,
                                         int row, int from) {
        float s[1][N][4], through[1][N][4];
        moec_multiply<E, 1, N>(s, shared, query);
        if constexpr (KEYS) moec_multiply<C, 1, N>(through, shared + VALUE, query + GRAD);
        const auto saved = [&](int column, float(&values)[4]) {
#pragma unroll
            for (int j = 0; j < 2; j++) {
                /* a query that is not there weighs nothing */
                const bool there = from + column + j < A::queries;
                const volatile float *const at = totals + 2 * (column + j) * A::heads;
                values[2 * j] = there ? at[0] : INFINITY;
                values[2 * j + 1] = there ? at[1] : 0.0f;
            }
        };
        moec_weigh_columns<A, KEYS, N>(s, through, documents, saved, row, from, bias);
        if constexpr (VALUES) moec_multiply_add<C, 1, N>(values, s, query + GRAD);
        if constexpr (KEYS) moec_multiply_add<E, 1, N>(keys, through, query);
    }

    /* The keys and values that head h reads. */
    template <class In>
    static __device__ __forceinline__ void fetch_keys(uint16_t *shared, const In &in, int b, int h,
                                                      int at) {
        const int hk = h * A::key_heads / A::heads, hv = h * A::value_heads / A::heads;
        moec_fetch<E, A::key_heads, Shape::rows>(
            shared, moec_head<E>(in.k, b, A::keys, A::key_heads, hk), at, A::keys);
        moec_fetch<C, A::value_heads, Shape::rows>(
            shared + VALUE, moec_head<C>(in.v, b, A::keys, A::value_heads, hv), at, A::keys);
    }

    /* All queries of head h that see some of the keys; those of the first head are there. totals:
     * of the head. */
    template <class In, class D>
    __device__ __forceinline__ void run(uint16_t *shared, const In &in, const D *output_grad,
                                        const float *totals, int b, int h, int at, bool first) {
        const int row = at + threadIdx.x / 32 * 16;
        const float *documents = in.documents + (long)b * A::keys;
        const auto bias = moec_bias_of<A>(in.bias, b, h);
        const MoecSeeingQueries<A, Shape, In, D> seeing = {in, output_grad, b, h, at};
        const auto *q = seeing.queries();
        const auto *d = seeing.grads();
        moec_barrier(); /* all are done with the head before */
        if (A::key_heads != A::value_heads && !first) fetch_keys(shared, in, b, h, at);
        seeing.part_by_part([] { moec_copy_wait<0>(); },
                            [&](int half, int, int behind) {
                                uint16_t *to = shared + QUERY + (half ^ 1) * STAGE;
                                if (behind < 0) return;
                                moec_fetch<E, A::heads, Shape::part>(to, q, behind, A::queries);
                                moec_fetch<C, A::heads, Shape::part>(to + GRAD, d, behind,
                                                                     A::queries);
                            },
                            [&](int half, int query) {
                                if (!moec_hides_all<A>(query, Shape::part, row, 16))
                                    part(shared, shared + QUERY + half * STAGE, documents, bias,
                                         totals + 2 * (long)query * A::heads, row, query);
                            });
    }
};

/* The block of Shape::rows keys of this number. Grad: struct that processes it; KEYS, VALUES:
 * requested gradients. */
template <class Grad, class A, class Shape, bool KEYS, bool VALUES, class In, class D, class DK,
          class DV>
MOEC_DEVICE void moec_block_of_keys(int task, uint16_t *shared, const In &in, const D *output_grad,
                                    const float *totals, DK *dk, DV *dv) {
    constexpr int blocks = (A::keys + Shape::rows - 1) / Shape::rows,
                  owners = KEYS ? A::key_heads : A::value_heads;
    const float one[1][2] = {{1.0f, 1.0f}}, scale[1][2] = {{A::scale, A::scale}};
    int b = task / (owners * blocks), owner = task % owners;
    const int at = task / owners % blocks * Shape::rows;
    /* of the heads that read the owner */
    const int first = (owner * A::heads + owners - 1) / owners;
    const long place = (long)b * A::queries * A::heads;
    Grad grad;
    Grad::fetch_keys(shared, in, b, first, at);
    grad.begin();
    if constexpr (A::heads == owners) {
        grad.run(shared, in, output_grad, totals + 2 * (place + owner), b, owner, at, true);
    } else {
        for (int h = first; h < A::heads && h * owners / A::heads == owner; h++)
            grad.run(shared, in, output_grad, totals + 2 * (place + h), b, h, at, h == first);
    }
    task += moec_recomputed();
    b = task / (owners * blocks), owner = task % owners;
    const int row = task / owners % blocks * Shape::rows + threadIdx.x / 32 * 16;
    if constexpr (KEYS)
        moec_store_rows<A::width, 1>(MoecPlainRows<DK>{dk, A::key_heads * A::width}, grad.keys,
                                     scale, (long)b * A::keys, row, A::keys, owner * A::width);
    if constexpr (VALUES)
        moec_store_rows<A::value_width, 1>(MoecPlainRows<DV>{dv, A::value_heads * A::value_width},
                                           grad.values, one, (long)b * A::keys, row, A::keys,
                                           owner * A::value_width);
}

template <class A, class Shape, bool KEYS, bool VALUES, class In, class D, class DK, class DV>
MOEC_DEVICE void moec_attend_grad_keys_rounded(const In &in, const D *output_grad,
                                               const float *totals, DK *dk, DV *dv) {
    MOEC_SHARED(uint16_t, shared);
    typedef MoecGradKeys<A, Shape, KEYS, VALUES> Grad;
    constexpr int blocks = (A::keys + Shape::rows - 1) / Shape::rows,
                  owners = KEYS ? A::key_heads : A::value_heads;
    for (int task = blockIdx.x; task < A::batch * owners * blocks; task += gridDim.x) {
        moec_barrier(); /* all are done with the block before */
        moec_block_of_keys<Grad, A, Shape, KEYS, VALUES>(task, shared, in, output_grad, totals, dk,
                                                         dv);
    }
}

template <class A, class Shape, class Q, class K, class V, class O, class D, class DK, class DV,
          class Bias = MoecAll>
MOEC_DEVICE void moec_attend_grad_both_rounded(const Q *q, const K *k, const V *v,
                                               const float *sink, const float *documents, const O *,
                                               const float *lse, const D *output_grad,
                                               const float *totals, DK *dk, DV *dv,
                                               MoecAll = MoecAll(), Bias bias = Bias()) {
    moec_attend_grad_keys_rounded<A, Shape, true, true>(
        MoecAttended<Q, K, V, Bias>{q, k, v, sink, documents, bias}, output_grad, totals, dk, dv);
}

template <class A, class Shape, class Q, class K, class V, class O, class D, class DK,
          class Bias = MoecAll>
MOEC_DEVICE void moec_attend_grad_key_rounded(const Q *q, const K *k, const V *v, const float *sink,
                                              const float *documents, const O *, const float *,
                                              const D *output_grad, const float *totals, DK *dk,
                                              MoecAll = MoecAll(), Bias bias = Bias()) {
    moec_attend_grad_keys_rounded<A, Shape, true, false>(
        MoecAttended<Q, K, V, Bias>{q, k, v, sink, documents, bias}, output_grad, totals, dk,
        (float *)NULL);
}

template <class A, class Shape, class Q, class K, class V, class O, class D, class DV,
          class Bias = MoecAll>
MOEC_DEVICE void moec_attend_grad_value_rounded(const Q *q, const K *k, const V *v,
                                                const float *sink, const float *documents,
                                                const O *, const float *, const D *output_grad,
                                                const float *totals, DV *dv, MoecAll = MoecAll(),
                                                Bias bias = Bias()) {
    moec_attend_grad_keys_rounded<A, Shape, false, true>(
        MoecAttended<Q, K, V, Bias>{q, k, v, sink, documents, bias}, output_grad, totals,
        (float *)NULL, dv);
}

#endif
