/* attention_grad_wgmma: attention_grad.cuh for tensor cores that read shared memory by themselves; see attention_wgmma.cuh.
 */
#ifndef MOEC_ATTENTION_GRAD_WGMMA_CUH
#define MOEC_ATTENTION_GRAD_WGMMA_CUH

#include "attention_grad.cuh"
#include "attention_wgmma.cuh"

#ifdef MOEC_WGMMA

/* dq for a block of queries. The products of a part are asked for together with the sums by the part before, whose keys must
 * stay: they have three places. */
template <class A, class Shape> struct MoecGroupGradQuery : MoecGradRows<A, 1> {
    enum { N = Shape::part / 8, E = A::width, C = A::value_width };
    typedef MoecSwizzledRows<E, Shape::rows> Queries;
    typedef MoecSwizzledRows<C, Shape::rows> Grads;
    typedef MoecSwizzledRows<E, Shape::part> Keys;
    typedef MoecSwizzledRows<C, Shape::part> Values;
    enum { GRAD = Queries::SIZE, KEY = GRAD + Grads::SIZE, VALUE = KEY + 3 * Keys::SIZE, SIZE = VALUE + 2 * Values::SIZE };
    static_assert(2 * SIZE + MOEC_SWIZZLED_ALIGN <= Shape::bytes, "shared memory");
    unsigned slope[N / 2][4]; /* of the part before */

    /* before: the keys of the part before, if there is one. */
    __device__ __forceinline__ void turn(const uint16_t *shared, const uint16_t *key, const uint16_t *value,
                                         const uint16_t *before, const float *documents, int row, int at) {
        const int group = threadIdx.x / 128 * 64;
        float s[1][N][4], through[1][N][4];
        auto &out = moec_group_sums(this->out);
        moec_hold(out);
        moec_hold(slope);
        moec_wgmma_fence();
        moec_group_multiply<E, Queries, Keys>(moec_group_sums(s), shared, group, key);
        moec_group_multiply<C, Grads, Values>(moec_group_sums(through), shared + GRAD, group, value);
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
        this->weigh(s, through, documents, row, at); /* ends where ways part: see MoecGroupForward */
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
    __device__ __forceinline__ void run(uint16_t *shared, const In &in, const D *output_grad, long b, int h, int from) {
        enum { COUNT = Shape::part, THREADS = Shape::threads };
        const MoecSeenKeys<A, Shape, In> seen = {in, b, h, from};
        const float *documents = in.documents + b * A::keys;
        const auto *k = seen.keys();
        const auto *v = seen.values();
        const uint16_t *before = NULL;
        int coming = 0, now = 0; /* places of keys */
        const auto after = [](int place) { return place == 2 ? 0 : place + 1; };
        moec_barrier();
        moec_fetch<E, A::heads, Shape::rows, THREADS, Queries>(shared, moec_head<E>(in.q, b, A::queries, A::heads, h), from,
                                                               A::queries);
        moec_fetch<C, A::heads, Shape::rows, THREADS, Grads>(
            shared + GRAD, moec_head<C>(output_grad, b, A::queries, A::heads, h), from, A::queries);
        this->begin();
        seen.each_turn(
            moec_group_ready,
            [&](int turn, int, int behind) {
                if (behind < 0) return;
                moec_fetch<E, A::key_heads, COUNT, THREADS, Keys>(shared + KEY + coming * Keys::SIZE, k, behind, A::keys);
                moec_fetch<C, A::value_heads, COUNT, THREADS, Values>(shared + VALUE + (turn ^ 1) * Values::SIZE, v, behind,
                                                                      A::keys);
                coming = after(coming);
            },
            [&](int place, int at) {
                const uint16_t *key = shared + KEY + now * Keys::SIZE;
                turn(shared, key, shared + VALUE + place * Values::SIZE, before, documents, from + threadIdx.x / 32 * 16, at);
                before = key;
                now = after(now);
            });
        if (before != NULL) last(before);
    }
};

template <class A, class Shape, class Q, class K, class V, class O, class D, class DQ>
MOEC_DEVICE void moec_attend_grad_query_groups(const Q *q, const K *k, const V *v, const float *sink, const float *documents,
                                               const O *o, const float *lse, const D *output_grad, float *totals, DQ *dq) {
    MOEC_SHARED(uint16_t, memory);
    uint16_t *const shared = memory + moec_to_block(memory) / 2;
    const MoecAttended<Q, K, V> in = {q, k, v, sink, documents};
    moec_each_block<A>(Shape::rows, [&](long b, int h, int from) {
        const int row = from + threadIdx.x / 32 * 16;
        MoecGroupGradQuery<A, Shape> grad;
        grad.add_up(o, output_grad, lse, totals, b, h, row);
        grad.run(shared, in, output_grad, b, h, from);
        grad.finish(dq, b, h, row);
    });
}

#endif
#endif
