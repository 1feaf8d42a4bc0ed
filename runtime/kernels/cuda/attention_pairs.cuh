/* attention_pairs: the chosen pairs and the bias of the scores, optional arguments of the templates
 * of attention.cuh. Without one, the argument is MoecAll(). */
#ifndef MOEC_ATTENTION_PAIRS_CUH
#define MOEC_ATTENTION_PAIRS_CUH

#include "routing.cuh"

/* All pairs are chosen. The argument `chosen` can be a pointer instead: the pairs of
 * attention_chosen.h. A then has the constants chosen_queries, chosen_heads, chosen_keys: so many
 * share an element; chosen_all: the whole batch does. */
struct MoecAll {};

template <class A> MOEC_DEVICE MoecAll moec_chosen_of(MoecAll, long, long) { return MoecAll(); }
template <class A> MOEC_DEVICE const float *moec_chosen_of(const float *chosen, long b, long h) {
    constexpr long heads = (A::heads + A::chosen_heads - 1) / A::chosen_heads,
                   keys = (A::places + A::chosen_keys - 1) / A::chosen_keys,
                   queries = (A::queries + A::chosen_queries - 1) / A::chosen_queries;
    return chosen + ((A::chosen_all ? 0 : b) * queries * heads + h / A::chosen_heads) * keys;
}

/* True if the query of this number attends to a key; pairs: those of its head. */
template <class A> MOEC_DEVICE bool moec_is_chosen(MoecAll, long, long) { return true; }
template <class A> MOEC_DEVICE bool moec_is_chosen(const float *pairs, long query, long key) {
    constexpr long heads = (A::heads + A::chosen_heads - 1) / A::chosen_heads,
                   keys = (A::places + A::chosen_keys - 1) / A::chosen_keys;
    return query < A::queries && key < A::places &&
           pairs[query / A::chosen_queries * heads * keys + key / A::chosen_keys] != 0.0f;
}

/* True if a pair of two ranges of `count` positions is chosen; a warp computes it for all its
 * lanes. */
template <class A> MOEC_DEVICE bool moec_some_chosen(MoecAll, long, long, int) { return true; }
template <class A>
MOEC_DEVICE bool moec_some_chosen(const float *pairs, long query, long key, int count) {
    float some = 0.0f;
    for (int i = threadIdx.x % 32; i < count; i += 32)
        for (long j = key; j < key + count; j = (j / A::chosen_keys + 1) * A::chosen_keys)
            if (moec_is_chosen<A>(pairs, query + i, j)) some = 1.0f;
    return moec_warp_max(some) != 0.0f;
}

/* A bias: see MoecAttendWork. A then has the constant bias_all: the whole batch shares it. Returns
 * the element of distance 0 of a head. */
template <class A> static __host__ __device__ constexpr long moec_distances() {
    return A::mask == MOEC_MASK_NONE ? 2 * A::places - 1 : A::places;
}
template <class A> static __host__ __device__ constexpr long moec_distance_zero() {
    return A::mask == MOEC_MASK_NONE ? A::places - 1 : 0;
}
template <class A> MOEC_DEVICE MoecAll moec_bias_of(MoecAll, long, long) { return MoecAll(); }
template <class A> MOEC_DEVICE const float *moec_bias_of(const float *bias, long b, long h) {
    return bias + ((A::bias_all ? 0 : b) * A::heads + h) * moec_distances<A>() +
           moec_distance_zero<A>();
}

/* True if an optional argument is absent. */
template <class T> struct MoecAbsent {
    enum { VALUE = false };
};
template <> struct MoecAbsent<MoecAll> {
    enum { VALUE = true };
};

/* The bias of a visible pair. */
MOEC_DEVICE float moec_bias_at(MoecAll, long, long) { return 0.0f; }
MOEC_DEVICE float moec_bias_at(const float *bias, long place, long key) {
    return bias[place - key];
}

/* The same of any pair; unspecified if it is hidden. */
template <class A> MOEC_DEVICE float moec_bias_near(MoecAll, int, int) { return 0.0f; }
template <class A> MOEC_DEVICE float moec_bias_near(const float *bias, int place, int key) {
    const int distance = place - key, zero = moec_distance_zero<A>();
    return distance >= -zero && distance < A::places ? bias[distance] : 0.0f;
}

#endif
