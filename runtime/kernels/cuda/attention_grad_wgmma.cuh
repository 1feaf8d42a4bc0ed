/* attention_grad_wgmma: attention_grad.cuh for tensor cores that read shared memory by themselves;
 * see attention_wgmma.cuh. */
#ifndef MOEC_ATTENTION_GRAD_WGMMA_CUH
#define MOEC_ATTENTION_GRAD_WGMMA_CUH

#include "attention_grad.cuh"
#include "attention_wgmma.cuh"

#ifdef MOEC_WGMMA

/* dq for a block of queries. The products of a part start together with the sums over the previous
 * part, whose keys must stay in memory: keys have three buffers. With several blocks per
 * multiprocessor, parts follow one another, with two buffers. */
template <class A, class Shape> struct MoecGroupGradQuery : MoecGradRows<A, 1> {
    enum { N = Shape::part / 8, E = A::width, C = A::value_width };
    typedef MoecSwizzledRows<E, Shape::rows> Queries;
    typedef MoecSwizzledRows<C, Shape::rows> Grads;
    typedef MoecSwizzledRows<E, Shape::part> Keys;
    typedef MoecSwizzledRows<C, Shape::part> Values;
    enum {
        GRAD = Queries::SIZE,
        KEY = GRAD + Grads::SIZE,
        OVERLAPS = Shape::blocks == 1,
        VALUE = KEY + (OVERLAPS ? 3 : 2) * Keys::SIZE,
        SIZE = VALUE + 2 * Values::SIZE
    };
    static_assert(2 * SIZE + MOEC_SWIZZLED_ALIGN <= Shape::bytes, "shared memory");
    unsigned slope[N / 2][4]; /* of the part before */

    /* before: the keys of the part before, if there is one. */
    __device__ __forceinline__ void next_part(const uint16_t *shared, const uint16_t *key,
                                              const uint16_t *value, const uint16_t *before,
                                              const float *documents, int row, int at) {
        const int group = moec_group_row<Shape>();
        float s[1][N][4], through[1][N][4];
        auto &out = moec_group_sums(this->out);
        moec_hold(out);
        moec_hold(slope);
        moec_wgmma_fence();
        moec_group_multiply<E, Queries, Keys>(moec_group_sums(s), shared, group, key);
        moec_group_multiply<C, Grads, Values>(moec_group_sums(through), shared + GRAD, group,
                                              value);
        moec_wgmma_commit();
        if (before != NULL) {
            moec_wgmma_fence();
            moec_group_add<Keys>(out, slope, before);
            moec_wgmma_commit();
            moec_wgmma_wait<1>();
        } else {
            moec_wgmma_wait<0>();
        }
        moec_hold(moec_group_sums(s));
        moec_hold(moec_group_sums(through));
        /* ends where ways part: see MoecGroupForward */
        this->reassociate(s, through, documents, row, at);
        moec_wgmma_wait<0>();
        moec_hold(out);
        moec_group_keep(slope, through);
    }

    __device__ __forceinline__ void last(const uint16_t *before) {
        auto &out = moec_group_sums(this->out);
        moec_hold(out);
        moec_hold(slope);
        moec_wgmma_fence();
        moec_group_add<Keys>(out, slope, before);
        moec_wgmma_commit();
        moec_wgmma_wait<0>();
        moec_hold(out);
    }

    template <class In, class D>
    __device__ __forceinline__ void run(uint16_t *shared, const In &in, const D *output_grad,
                                        long b, int h, int from) {
        enum { COUNT = Shape::part, THREADS = Shape::threads };
        const MoecSeenKeys<A, Shape, In> seen = {in, b, h, from};
        const float *documents = in.documents + b * A::keys;
        const auto *k = seen.keys();
        const auto *v = seen.values();
        const uint16_t *before = NULL;
        int coming = 0, now = 0; /* buffers of keys */
        const auto after = [](int place) { return place == (OVERLAPS ? 2 : 1) ? 0 : place + 1; };
        moec_fetch<E, A::heads, Shape::rows, THREADS, Queries,
                   A::queries % Shape::rows == 0 && E % 16 == 0>(
            shared, moec_head<E>(in.q, b, A::queries, A::heads, h), from, A::queries);
        moec_fetch<C, A::heads, Shape::rows, THREADS, Grads,
                   A::queries % Shape::rows == 0 && C % 16 == 0>(
            shared + GRAD, moec_head<C>(output_grad, b, A::queries, A::heads, h), from, A::queries);
        this->begin();
        seen.part_by_part(
            moec_group_ready,
            [&](int half, int, int behind) {
                if (behind < 0) return;
                moec_fetch<E, A::key_heads, COUNT, THREADS, Keys,
                           A::keys % COUNT == 0 && E % 16 == 0>(shared + KEY + coming * Keys::SIZE,
                                                                k, behind, A::keys);
                moec_fetch<C, A::value_heads, COUNT, THREADS, Values,
                           A::keys % COUNT == 0 && C % 16 == 0>(
                    shared + VALUE + (half ^ 1) * Values::SIZE, v, behind, A::keys);
                coming = after(coming);
            },
            [&](int place, int at) {
                const uint16_t *key = shared + KEY + now * Keys::SIZE;
                now = after(now);
                const int row = from + moec_group_row<Shape>();
                if (row >= A::queries || moec_hides_all<A>(row, 64, at, COUNT)) {
                    if (before != NULL) last(before);
                    before = NULL;
                    return;
                }
                next_part(shared, key, shared + VALUE + place * Values::SIZE, before, documents,
                          from + threadIdx.x / 32 * 16, at);
                if constexpr (OVERLAPS)
                    before = key;
                else
                    last(key);
            });
        if (before != NULL) last(before);
    }
};

template <class A, class Shape, class Q, class K, class V, class O, class D, class DQ>
MOEC_DEVICE void moec_attend_grad_query_groups(const Q *q, const K *k, const V *v,
                                               const float *sink, const float *documents,
                                               const O *o, const float *lse, const D *output_grad,
                                               float *totals, DQ *dq) {
    MOEC_SHARED(uint16_t, memory);
    uint16_t *const shared = memory + moec_to_block(memory) / 2;
    const MoecAttended<Q, K, V> in = {q, k, v, sink, documents};
    moec_one_block<A>(Shape::rows, blockIdx.x, [&](long b, int h, int from) {
        const int row = from + threadIdx.x / 32 * 16;
        MoecGroupGradQuery<A, Shape> grad;
        grad.add_up(o, output_grad, lse, totals, b, h, row);
        grad.run(shared, in, output_grad, b, h, from);
        grad.finish(dq, b, h, row);
    });
}

/* dk, dv or both for a block of keys; queries in parts. Sums over a part continue during the wait
 * for the next part and the start of its products. The part stays in memory until then, so there
 * are three buffers. While one warpgroup computes weights, tensor cores work for the other. With
 * several blocks per multiprocessor, the sums end before the next part, and two buffers suffice. */
template <class A, class Shape, bool KEYS, bool VALUES> struct MoecGroupGradKeys {
    enum { N = Shape::part / 8, E = A::width, C = A::value_width };
    typedef MoecSwizzledRows<E, Shape::rows> Keys;
    typedef MoecSwizzledRows<C, Shape::rows> Values;
    typedef MoecSwizzledRows<E, Shape::part> Queries;
    typedef MoecSwizzledRows<C, Shape::part> Grads;
    enum {
        VALUE = Keys::SIZE,
        QUERY = VALUE + (KEYS ? (int)Values::SIZE : 0),
        GRAD = Queries::SIZE
    };
    enum {
        TOTALS = GRAD + Grads::SIZE,
        STAGE = TOTALS + MOEC_SWIZZLED_ALIGN / 2,
        BUFFERS = Shape::blocks > 1 ? 2 : 3,
        SIZE = QUERY + BUFFERS * STAGE
    };
    static_assert(2 * 4 * Shape::part <= MOEC_SWIZZLED_ALIGN, "room for totals");
    /* Floats per thread if the sums over a part overlap with the next products. Above the limit
     * they do not overlap. Loading the keys again for each head needs registers as well. */
    enum {
        KEPT = (KEYS ? E / 2 + Shape::part * 3 / 4 : 0) + (VALUES ? C / 2 : 0) + Shape::part * 3 / 4
    };
    enum { DRAINS = Shape::blocks > 1 || KEPT > (A::key_heads == A::value_heads ? 160 : 144) };
    static_assert(2 * SIZE + MOEC_SWIZZLED_ALIGN <= Shape::bytes, "shared memory");
    float keys[1][KEYS ? moec_padded(E) / 8 : 1][4], values[1][VALUES ? moec_padded(C) / 8 : 1][4];
    unsigned weight[VALUES ? N / 2 : 1][4], slope[KEYS ? N / 2 : 1][4];

    __device__ __forceinline__ void begin() {
        auto &key = moec_group_sums(keys);
        auto &value = moec_group_sums(values);
        for (float &x : key) x = 0.0f;
        for (float &x : value) x = 0.0f;
        moec_hold(key);
        moec_hold(value);
    }

    __device__ __forceinline__ void part(const uint16_t *shared, const uint16_t *query,
                                         const float *documents, int row, int from) {
        const float *const totals = (const float *)(const void *)(query + TOTALS);
        const int group = moec_group_row<Shape>();
        float s[1][N][4], through[1][N][4];
        if constexpr (DRAINS && BUFFERS == 3) moec_wgmma_wait<0>();
        moec_wgmma_fence();
        moec_group_multiply<E, Keys, Queries>(moec_group_sums(s), shared, group, query);
        if constexpr (KEYS)
            moec_group_multiply<C, Values, Grads>(moec_group_sums(through), shared + VALUE, group,
                                                  query + GRAD);
        moec_wgmma_commit();
        moec_wgmma_wait<0>();
        moec_hold(moec_group_sums(s));
        if constexpr (KEYS) moec_hold(moec_group_sums(through));
        /* A query that is not there, whose values are all 0, adds 0. */
        moec_weigh_columns<A, KEYS, N>(
            s, through, documents,
            [&](int column, float(&values)[4]) { moec_read_here(values, totals + 2 * column); },
            row, from);
        if constexpr (VALUES) moec_group_keep(weight, s);
        if constexpr (KEYS) moec_group_keep(slope, through);
        if constexpr (VALUES) moec_hold(weight);
        if constexpr (KEYS) moec_hold(slope);
        moec_wgmma_fence();
        if constexpr (VALUES) moec_group_add<Grads>(moec_group_sums(values), weight, query + GRAD);
        if constexpr (KEYS) moec_group_add<Queries>(moec_group_sums(keys), slope, query);
        moec_wgmma_commit();
    }

    template <class In>
    static __device__ __forceinline__ void fetch_keys(uint16_t *shared, const In &in, int b, int h,
                                                      int at) {
        enum { ROWS = Shape::rows, THREADS = Shape::threads };
        const int hk = h * A::key_heads / A::heads, hv = h * A::value_heads / A::heads;
        moec_fetch<E, A::key_heads, ROWS, THREADS, Keys, A::keys % ROWS == 0 && E % 16 == 0>(
            shared, moec_head<E>(in.k, b, A::keys, A::key_heads, hk), at, A::keys);
        if constexpr (KEYS)
            moec_fetch<C, A::value_heads, ROWS, THREADS, Values,
                       A::keys % ROWS == 0 && C % 16 == 0>(
                shared + VALUE, moec_head<C>(in.v, b, A::keys, A::value_heads, hv), at, A::keys);
    }

    template <class In, class D>
    __device__ __forceinline__ void run(uint16_t *shared, const In &in, const D *output_grad,
                                        const float *totals, int b, int h, int at, bool first) {
        enum { COUNT = Shape::part, THREADS = Shape::threads };
        const float *documents = in.documents + (long)b * A::keys;
        const MoecSeeingQueries<A, Shape, In, D> seeing = {in, output_grad, b, h, at};
        const auto *q = seeing.queries();
        const auto *d = seeing.grads();
        uint16_t *coming = shared + QUERY, *now = coming;
        const auto after = [&](uint16_t *place) {
            return place == shared + QUERY + 2 * STAGE ? shared + QUERY : place + STAGE;
        };
        if (!first) moec_barrier(); /* all are done with the head before */
        if (A::key_heads != A::value_heads && !first) fetch_keys(shared, in, b, h, at);
        seeing.part_by_part(
            [&] {
                if constexpr (BUFFERS == 2) moec_wgmma_wait<0>();
                moec_group_ready();
            },
            [&](int half, int, int behind) {
                if (behind < 0) return;
                if constexpr (BUFFERS == 2) coming = shared + QUERY + (half ^ 1) * STAGE;
                moec_fetch<E, A::heads, COUNT, THREADS, Queries,
                           A::queries % COUNT == 0 && E % 16 == 0>(coming, q, behind, A::queries);
                moec_fetch<C, A::heads, COUNT, THREADS, Grads,
                           A::queries % COUNT == 0 && C % 16 == 0>(coming + GRAD, d, behind,
                                                                   A::queries);
                static_assert(2 * COUNT <= THREADS, "a thread for each number");
                if (const int i = threadIdx.x; i < 2 * COUNT) {
                    const int query = behind + i / 2;
                    moec_copy_word_async((float *)(void *)(coming + TOTALS) + i,
                                         totals + 2 * (long)query * A::heads + i % 2,
                                         query < A::queries);
                }
                if constexpr (BUFFERS == 3) coming = after(coming);
            },
            [&](int half, int query) {
                if constexpr (BUFFERS == 2) now = shared + QUERY + half * STAGE;
                const int row = at + moec_group_row<Shape>();
                if (row >= A::keys || moec_hides_all<A>(query, COUNT, row, 64))
                    moec_wgmma_wait<0>(); /* the buffer of the part before it is used again */
                else
                    part(shared, now, documents, at + threadIdx.x / 32 * 16, query);
                if constexpr (BUFFERS == 3) now = after(now);
            });
        moec_wgmma_wait<0>();
        moec_hold(moec_group_sums(keys));
        moec_hold(moec_group_sums(values));
    }
};

template <class A, class Shape, bool KEYS, bool VALUES, class Q, class K, class V, class D,
          class DK, class DV>
MOEC_DEVICE void moec_attend_grad_keys_groups(const MoecAttended<Q, K, V> &in, const D *output_grad,
                                              const float *totals, DK *dk, DV *dv) {
    MOEC_SHARED(uint16_t, memory);
    uint16_t *const shared = memory + moec_to_block(memory) / 2;
    typedef MoecGroupGradKeys<A, Shape, KEYS, VALUES> Grad;
    moec_block_of_keys<Grad, A, Shape, KEYS, VALUES>(blockIdx.x, shared, in, output_grad, totals,
                                                     dk, dv);
}

template <class A, class Shape, class Q, class K, class V, class O, class D, class DK, class DV>
MOEC_DEVICE void moec_attend_grad_both_groups(const Q *q, const K *k, const V *v, const float *sink,
                                              const float *documents, const O *, const float *,
                                              const D *output_grad, const float *totals, DK *dk,
                                              DV *dv) {
    moec_attend_grad_keys_groups<A, Shape, true, true>(
        MoecAttended<Q, K, V>{q, k, v, sink, documents}, output_grad, totals, dk, dv);
}

/* One after the other, where a thread has no registers for the sums of both: scores are computed
 * twice. */
template <class A, class Shape, class Q, class K, class V, class O, class D, class DK, class DV>
MOEC_DEVICE void moec_attend_grad_each_groups(const Q *q, const K *k, const V *v, const float *sink,
                                              const float *documents, const O *, const float *,
                                              const D *output_grad, const float *totals, DK *dk,
                                              DV *dv) {
    const MoecAttended<Q, K, V> in = {q, k, v, sink, documents};
    moec_attend_grad_keys_groups<A, Shape, true, false>(in, output_grad, totals, dk, (float *)NULL);
    moec_barrier(); /* shared memory is used again */
    moec_attend_grad_keys_groups<A, Shape, false, true>(in, output_grad, totals, (float *)NULL, dv);
}

template <class A, class Shape, class Q, class K, class V, class O, class D, class DK>
MOEC_DEVICE void moec_attend_grad_key_groups(const Q *q, const K *k, const V *v, const float *sink,
                                             const float *documents, const O *, const float *,
                                             const D *output_grad, const float *totals, DK *dk) {
    moec_attend_grad_keys_groups<A, Shape, true, false>(
        MoecAttended<Q, K, V>{q, k, v, sink, documents}, output_grad, totals, dk, (float *)NULL);
}

template <class A, class Shape, class Q, class K, class V, class O, class D, class DV>
MOEC_DEVICE void moec_attend_grad_value_groups(const Q *q, const K *k, const V *v,
                                               const float *sink, const float *documents, const O *,
                                               const float *lse, const D *output_grad,
                                               const float *totals, DV *dv) {
    moec_attend_grad_keys_groups<A, Shape, false, true>(
        MoecAttended<Q, K, V>{q, k, v, sink, documents}, output_grad, totals, (float *)NULL, dv);
}

#endif
#endif
