/* attention_wgmma: the forward pass of attention_rounded.cuh for tensor cores that read shared
 * memory directly.
 *
 * A thread block has Shape::groups warpgroups of 64 queries each. In shared memory, queries and
 * keys are lines along the sum, and values are lines across it. Weights stay in the registers of
 * their scores.
 *
 * There are two forms, of which the host selects the faster one. If a multiprocessor has one block
 * (Shape::blocks), the scores of a part start together with the values of the previous part, so
 * that tensor cores multiply while weights are computed (FlashAttention-3, arXiv 2407.08608,
 * section 3.2); keys are loaded one part ahead of their values. With several blocks, a warpgroup
 * computes one part after the other in fewer registers, and tensor cores work for the others. */
#ifndef MOEC_ATTENTION_WGMMA_CUH
#define MOEC_ATTENTION_WGMMA_CUH

#include "attention_rounded.cuh"
#include "wgmma.cuh"

#ifdef MOEC_WGMMA

/* Chosen by the compiler (compiler/schedule/attend.c). */
template <int GROUPS, int PART, int BYTES, int BLOCKS = 1> struct MoecGroupShape {
    static constexpr int groups = GROUPS, part = PART, rows = 64 * GROUPS, threads = 128 * GROUPS,
                         bytes = BYTES, blocks = BLOCKS;
};

/* Number of the first row of this thread's warpgroup. */
template <class Shape> MOEC_DEVICE int moec_group_row() {
    return Shape::groups > 1 ? threadIdx.x / 128 * 64 : 0;
}

/* COUNT rows of W numbers as tensor cores read them: parts of 64 columns, one line of each row. */
template <int W, int COUNT> struct MoecSwizzledRows {
    enum { PART = COUNT * MOEC_SWIZZLED, SIZE = (W + MOEC_SWIZZLED - 1) / MOEC_SWIZZLED * PART };

    static __device__ __forceinline__ int place(int row, int column) {
        return column / MOEC_SWIZZLED * PART + row * MOEC_SWIZZLED +
               (column % MOEC_SWIZZLED / 8 ^ row % 8) * 8 + column % 8;
    }

    /* The columns are terms of the sum, 16 of them from `column` on; or the rows are, from `row`
     * on. */
    static __device__ __forceinline__ uint64_t along(const uint16_t *x, int row, int column) {
        return moec_matrix(x + column / MOEC_SWIZZLED * PART + row * MOEC_SWIZZLED +
                               column % MOEC_SWIZZLED,
                           0, MOEC_SWIZZLED_ALIGN);
    }
    static __device__ __forceinline__ uint64_t across(const uint16_t *x, int row, int column) {
        return moec_matrix(x + column / MOEC_SWIZZLED * PART + row * MOEC_SWIZZLED, PART * 2,
                           MOEC_SWIZZLED_ALIGN);
    }
};

/* s[64 of the warpgroup, 8N] = a b', the rows of a from `row` on; lines of W numbers. */
template <int W, class Left, class Right, int COUNT>
MOEC_DEVICE void moec_group_multiply(float (&s)[COUNT], const uint16_t *a, int row,
                                     const uint16_t *b) {
    moec_wgmma<false, false, true>(s, Left::along(a, row, 0), Right::along(b, 0, 0));
#pragma unroll
    for (int k = 16; k < moec_padded(W); k += 16)
        moec_wgmma<false, false>(s, Left::along(a, row, k), Right::along(b, 0, k));
}

/* out += s b for 16 rows of b, as many of the columns from FROM on at a time as there is an
 * instruction for. */
template <class Right, int FROM, int SUMS>
MOEC_DEVICE void moec_group_add_row(float (&out)[SUMS], const unsigned (&s)[4], const uint16_t *b,
                                    int row) {
    enum { LEFT = 2 * SUMS - FROM, WIDTH = LEFT >= 128 ? 128 : LEFT >= 64 ? 64 : LEFT };
    if constexpr (LEFT > 0) {
        moec_wgmma_kept<WIDTH, FROM / 2, true>(out, s, Right::across(b, row, FROM));
        moec_group_add_row<Right, FROM + WIDTH>(out, s, b, row);
    }
}
template <class Right, int COUNT, int SUMS>
MOEC_DEVICE void moec_group_add(float (&out)[SUMS], const unsigned (&s)[COUNT][4],
                                const uint16_t *b) {
#pragma unroll
    for (int k = 0; k < COUNT; k++) moec_group_add_row<Right, 0>(out, s[k], b, 16 * k);
}

/* Sums as one list of those of a thread. */
template <int N> MOEC_DEVICE float (&moec_group_sums(float (&s)[1][N][4]))[4 * N] {
    return reinterpret_cast<float(&)[4 * N]>(s);
}

/* Results rounded, as the left operand of the next product. */
template <int COUNT>
MOEC_DEVICE void moec_group_keep(unsigned (&kept)[COUNT][4], const float (&s)[1][2 * COUNT][4]) {
#pragma unroll
    for (int k = 0; k < COUNT; k++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            kept[k][i] =
                moec_bf16_pair(s[0][2 * k + i / 2][i % 2 * 2], s[0][2 * k + i / 2][i % 2 * 2 + 1]);
}

/* Waits until the copies of this thread have arrived and tensor cores can read them. */
MOEC_DEVICE void moec_group_ready() {
    moec_copy_wait<0>();
    moec_fence_async();
}

template <class A, class Shape> struct MoecGroupForward : MoecSoftened<A::value_width, 1> {
    enum { N = Shape::part / 8, E = A::width, C = A::value_width };
    typedef MoecSwizzledRows<E, Shape::rows> Queries;
    typedef MoecSwizzledRows<E, Shape::part> Keys;
    typedef MoecSwizzledRows<C, Shape::part> Values;
    enum { KEY = Queries::SIZE, VALUE = KEY + 2 * Keys::SIZE, SIZE = VALUE + 2 * Values::SIZE };
    static_assert(2 * SIZE + MOEC_SWIZZLED_ALIGN <= Shape::bytes, "shared memory");
    enum { OVERLAPS = Shape::blocks == 1 };
    unsigned weight[N / 2][4]; /* of the part before */

    /* A part of which the keys are there; `value`: the values of the one before, if there is
     * one. */
    __device__ __forceinline__ void next_part(const uint16_t *query, const uint16_t *key,
                                              const uint16_t *value, const float *documents,
                                              int row, int at) {
        float s[1][N][4], factor[1][2];
        auto &scores = moec_group_sums(s);
        auto &out = moec_group_sums(this->out);
        moec_hold(out);
        moec_hold(weight);
        moec_wgmma_fence();
        moec_group_multiply<E, Queries, Keys>(scores, query, moec_group_row<Shape>(), key);
        moec_wgmma_commit();
        if (value != NULL) {
            moec_wgmma_fence();
            moec_group_add<Values>(out, weight, value);
            moec_wgmma_commit();
            moec_wgmma_wait<1>();
        } else {
            moec_wgmma_wait<0>();
        }
        moec_hold(scores);
        moec_score_all<A, 1, N>(s, documents, row, at);
        const bool fades = this->soften(s, moec_power<A>(), factor);
        /* The assembler moves a wait up to the last branch. This branch, in which all threads of
         * the warpgroup agree, keeps the wait here instead of before the weights. */
        if (value != NULL) {
            moec_wgmma_wait<0>();
            moec_hold(out);
            if (fades) this->fade(factor);
        } else {
            moec_wgmma_wait<0>();
            moec_hold(out);
        }
        moec_group_keep(weight, s);
    }

    __device__ __forceinline__ void last(const uint16_t *value) {
        auto &out = moec_group_sums(this->out);
        moec_hold(out);
        moec_hold(weight);
        moec_wgmma_fence();
        moec_group_add<Values>(out, weight, value);
        moec_wgmma_commit();
        moec_wgmma_wait<0>();
        moec_hold(out);
    }

    /* All of a part. Sums that continued into the next part would be serialized by some masks. */
    __device__ __forceinline__ void whole_part(const uint16_t *query, const uint16_t *key,
                                               const uint16_t *value, const float *documents,
                                               int row, int at) {
        float s[1][N][4], factor[1][2];
        auto &scores = moec_group_sums(s);
        moec_wgmma_fence();
        moec_group_multiply<E, Queries, Keys>(scores, query, moec_group_row<Shape>(), key);
        moec_wgmma_commit();
        moec_wgmma_wait<0>();
        moec_hold(scores);
        moec_score_all<A, 1, N>(s, documents, row, at);
        if (this->soften(s, moec_power<A>(), factor)) this->fade(factor);
        moec_group_keep(weight, s);
        last(value);
    }

    /* True if the warpgroup sees nothing of the part. */
    static __device__ __forceinline__ bool skips(int from, int at) {
        const int row = from + moec_group_row<Shape>();
        return row >= A::queries || moec_hides_all<A>(row, 64, at, Shape::part);
    }

    template <class Seen>
    __device__ __forceinline__ void run_whole(uint16_t *shared, const Seen &seen,
                                              const float *documents, int from) {
        enum { COUNT = Shape::part, THREADS = Shape::threads };
        const auto *k = seen.keys();
        const auto *v = seen.values();
        seen.part_by_part(
            moec_group_ready,
            [&](int half, int, int behind) {
                if (behind < 0) return;
                moec_fetch<E, A::key_heads, COUNT, THREADS, Keys,
                           A::keys % COUNT == 0 && E % 16 == 0>(
                    shared + KEY + (half ^ 1) * Keys::SIZE, k, behind, A::keys);
                moec_fetch<C, A::value_heads, COUNT, THREADS, Values,
                           A::keys % COUNT == 0 && C % 16 == 0>(
                    shared + VALUE + (half ^ 1) * Values::SIZE, v, behind, A::keys);
            },
            [&](int place, int at) {
                if (!skips(from, at))
                    whole_part(shared, shared + KEY + place * Keys::SIZE,
                               shared + VALUE + place * Values::SIZE, documents,
                               from + threadIdx.x / 32 * 16, at);
            });
    }

    template <class Seen>
    __device__ __forceinline__ void run_ahead(uint16_t *shared, const Seen &seen,
                                              const float *documents, int from) {
        enum { COUNT = Shape::part, THREADS = Shape::threads };
        const auto *k = seen.keys();
        const auto *v = seen.values();
        const uint16_t *value = NULL;
        seen.part_by_part(
            moec_group_ready,
            [&](int half, int at, int behind) {
                uint16_t *keys = shared + KEY + (half ^ 1) * Keys::SIZE,
                         *values = shared + VALUE + half * Values::SIZE;
                if (behind >= 0)
                    moec_fetch<E, A::key_heads, COUNT, THREADS, Keys,
                               A::keys % COUNT == 0 && E % 16 == 0>(keys, k, behind, A::keys);
                if (at >= 0)
                    moec_fetch<C, A::value_heads, COUNT, THREADS, Values,
                               A::keys % COUNT == 0 && C % 16 == 0>(values, v, at, A::keys);
            },
            [&](int place, int at) {
                if (skips(from, at)) {
                    if (value != NULL) last(value);
                    value = NULL;
                    return;
                }
                next_part(shared, shared + KEY + place * Keys::SIZE, value, documents,
                          from + threadIdx.x / 32 * 16, at);
                value = shared + VALUE + place * Values::SIZE;
            });
        moec_group_ready();
        moec_barrier();
        if (value != NULL) last(value);
    }

    /* One block of queries of head h against all keys that they see. */
    template <class In>
    __device__ __forceinline__ void run(uint16_t *shared, const In &in, long b, int h, int from) {
        const MoecSeenKeys<A, Shape, In> seen = {in, b, h, from};
        const float *documents = in.documents + b * A::keys;
        moec_fetch<E, A::heads, Shape::rows, Shape::threads, Queries,
                   A::queries % Shape::rows == 0 && E % 16 == 0>(
            shared, moec_head<E>(in.q, b, A::queries, A::heads, h), from, A::queries);
        this->begin(in.sink != NULL ? in.sink + h : NULL);
        if constexpr (OVERLAPS)
            run_ahead(shared, seen, documents, from);
        else
            run_whole(shared, seen, documents, from);
    }
};

template <class A, class Shape, class Q, class K, class V, class Store>
MOEC_DEVICE void moec_attend_groups(const Q *q, const K *k, const V *v, const float *sink,
                                    const float *documents, const Store &store, float *lse) {
    MOEC_SHARED(uint16_t, memory);
    uint16_t *const shared = memory + moec_to_block(memory) / 2;
    const MoecAttended<Q, K, V> in = {q, k, v, sink, documents};
    moec_one_block<A>(Shape::rows, blockIdx.x, [&](long b, int h, int from) {
        MoecGroupForward<A, Shape> forward;
        forward.run(shared, in, b, h, from);
        forward.template finish<A>(store, lse, b, h, from + threadIdx.x / 32 * 16);
    });
}

#endif
#endif
