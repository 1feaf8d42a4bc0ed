/* attention_bias: the gradient of a bias of attention, see moec_attend_grad in calls.h. */
#ifndef MOEC_ATTENTION_BIAS_CUH
#define MOEC_ATTENTION_BIAS_CUH

#include "attention.cuh"

/* dbias[b, h, distance]: the sum of the derivatives by the scores. A block owns P distances, which
 * two diagonals of blocks of pairs contain. */
template <class A, class Q, class K, class V, class O, class D, class Pairs, class Bias>
MOEC_DEVICE void moec_attend_grad_bias(const Q *q, const K *k, const V *v, const float *,
                                       const float *documents, const O *o, const float *lse,
                                       const D *output_grad, float *dbias, Pairs chosen,
                                       Bias bias) {
    typedef MoecGradBlock<A> Block;
    constexpr int P = Block::P;
    constexpr long count = moec_distances<A>(), zero = (moec_distance_zero<A>() + P - 1) / P,
                   bands = zero + (A::places + P - 1) / P;
    __shared__ Block block;
    for (long task = moec_block(); task < A::batch * A::heads * bands; task += moec_blocks()) {
        const long h = task % A::heads, b = task / A::heads / bands,
                   band = (task / A::heads % bands - zero) * P;
        const float *own = documents + b * A::keys;
        const Pairs pairs = moec_chosen_of<A>(chosen, b, h);
        const Bias biases = moec_bias_of<A>(bias, b, h);
        float sum = 0.0f;
        for (long at = 0; at < A::keys; at += P)
            for (long from = at + band; from < at + band + 2 * P; from += P) {
                if (from < 0 || from >= A::queries) continue;
                moec_barrier();
                block.load_keys(k, v, b, h * A::key_heads / A::heads, h * A::value_heads / A::heads,
                                at);
                block.load_queries(q, o, lse, output_grad, b, h, from);
                moec_barrier();
                for (int i = threadIdx.x; i < P * P; i += MOEC_ATTEND_THREADS) {
                    float slope, by_score = 0.0f;
                    const bool below = i / P >= i % P;
                    if (below == (from == at + band))
                        block.pair(own, pairs, biases, i / P, i % P, from, at, &slope, &by_score);
                    block.weight[i / P][i % P] = by_score;
                }
                moec_barrier();
                for (int j = 0; j < P && threadIdx.x < P; j++)
                    sum += block.weight[(threadIdx.x + j) % P][j];
            }
        const long distance = band + threadIdx.x + moec_distance_zero<A>();
        if (threadIdx.x < P && distance >= 0 && distance < count)
            dbias[(b * A::heads + h) * count + distance] = sum;
    }
}

#endif
