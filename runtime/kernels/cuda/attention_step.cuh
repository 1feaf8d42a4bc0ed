/* attention_step: attention of new tokens over a cache, with products by tensor cores.
 *
 * The rows of a tile are the query heads that share a key head or a value head, times the few new
 * positions. Each element of the cache is therefore read once for all of them. Where a row reads
 * another head than the current one, its operand is 0. Each warp processes every fourth 16 keys of
 * a part; the heads of those keys pass through a ring in shared memory. The last of the blocks that
 * have a part combines all parts. */
#ifndef MOEC_ATTENTION_STEP_CUH
#define MOEC_ATTENTION_STEP_CUH

#include "attention_rounded.cuh"

enum { MOEC_STEP_KEYS = 16 };

static __host__ __device__ constexpr int moec_common(int a, int b) {
    return b == 0 ? a : moec_common(b, a % b);
}

/* Nothing to store. */
struct MoecNoElements {
    __device__ __forceinline__ void operator()(long, long) const {}
};

/* Two adjacent queries: elements of a matrix of WIDTH columns, or values of a function. */
template <int WIDTH, class Q>
MOEC_DEVICE void moec_query_pair(uint16_t *to, const Q *q, long row, long column, bool first,
                                 bool second) {
    moec_round_pair(to, q + row * WIDTH + column, first, second);
}
template <int WIDTH, class Q>
MOEC_DEVICE void moec_query_pair(uint16_t *to, const Q &q, long row, long column, bool first,
                                 bool second) {
    const float one = first ? q(row, column) : 0.0f, other = second ? q(row, column + 1) : 0.0f;
    *(unsigned *)to = moec_bf16_pair(one, other);
}

template <class A, class Shape> struct MoecStep : MoecSoftened<A::value_width, Shape::tiles> {
    enum {
        M = Shape::tiles,
        RING = Shape::part,
        ROWS = 16 * M,
        E = A::width,
        C = A::value_width,
        N = MOEC_STEP_KEYS / 8
    };
    enum {
        GROUPS = moec_common(A::heads, moec_common(A::key_heads, A::value_heads)),
        HEADS = A::heads / GROUPS
    };
    enum { KEYS = A::key_heads / GROUPS, VALUES = A::value_heads / GROUPS, UNITS = KEYS + VALUES };
    enum { COUNT = HEADS * A::queries, TILES = (COUNT + ROWS - 1) / ROWS };
    enum { LIVE = TILES > 1 ? (int)ROWS : (int)COUNT };
    enum {
        SLOT = MOEC_STEP_KEYS * (moec_stride(E) > moec_stride(C) ? moec_stride(E) : moec_stride(C))
    };
    enum { QUERY = ROWS * moec_stride(E) };
    static_assert(2 * (QUERY + MOEC_ATTEND_WARPS * RING * SLOT) <= Shape::bytes, "shared memory");
    static_assert(4 * MOEC_ATTEND_WARPS * ROWS * (C + 2) <= Shape::bytes, "shared memory");
    using Softened = MoecSoftened<A::value_width, Shape::tiles>;
    using Softened::out, Softened::most, Softened::sum;

    /* Row of the result for an index among the positions and heads of the group. */
    static __device__ __forceinline__ long row_at(int b, int group, int at) {
        return ((long)b * A::queries + at / HEADS) * A::heads + group * HEADS + at % HEADS;
    }

    /* Index of a row among the positions and heads of the group: position = index / HEADS. */
    static __device__ __forceinline__ int number(int tile, int m, int r) {
        return tile * ROWS + moec_result_row(m, 2 * r);
    }

    template <class Q>
    static __device__ __forceinline__ void load(uint16_t *shared, const Q &q, int b, int group,
                                                int tile) {
        constexpr int P = moec_padded(E), S = moec_stride(E);
        for (int i = threadIdx.x; i < ROWS * (P / 2); i += MOEC_ATTEND_THREADS) {
            const int row = i / (P / 2), column = i % (P / 2) * 2, at = tile * ROWS + row;
            moec_query_pair<A::heads * E>(shared + row * S + column, q,
                                          (long)b * A::queries + at / HEADS,
                                          (group * HEADS + at % HEADS) * E + column,
                                          at < COUNT && column < E, at < COUNT && column + 1 < E);
        }
    }

    /* Stores the keys and values of the new position for the heads of the group. */
    template <class Key, class Value>
    static __device__ __forceinline__ void put(const Key &key, const Value &value, int b,
                                               int group) {
        for (int i = threadIdx.x; i < KEYS * E; i += MOEC_ATTEND_THREADS)
            key(b, group * KEYS * E + i);
        for (int i = threadIdx.x; i < VALUES * C; i += MOEC_ATTEND_THREADS)
            value(b, group * VALUES * C + i);
    }

    /* s += rows that read key head `head` of the group times 16 of its keys. */
    static __device__ __forceinline__ void score_head(float s[M][N][4], const uint16_t *query,
                                                      const uint16_t *key, int tile, int head) {
#pragma unroll 4
        for (int k = 0; k < moec_padded(E); k += 16) {
            unsigned right[4];
            moec_load_matrices(right, moec_right_at<E>(key, 0, k));
#pragma unroll
            for (int m = 0; m < M; m++) {
                unsigned left[4];
                moec_load_matrices(left, moec_left_at<E>(query, 16 * m, k));
#pragma unroll
                for (int i = 0; i < 4; i++)
                    if (KEYS > 1 && number(tile, m, i % 2) % HEADS * KEYS / HEADS != head)
                        left[i] = 0;
                moec_mma(s[m][0], left, right);
                moec_mma(s[m][1], left, right + 2);
            }
        }
    }

    /* out += weights of the rows that read value head `head` of the group times 16 of its
     * values. */
    __device__ __forceinline__ void add_head(const unsigned weight[M][4], const uint16_t *value,
                                             int tile, int head) {
#pragma unroll
        for (int n = 0; n < moec_padded(C) / 8; n += 2) {
            unsigned right[4];
            moec_load_matrices_transposed(right, moec_left_at<C>(value, 0, n * 8));
#pragma unroll
            for (int m = 0; m < M; m++) {
                unsigned left[4];
#pragma unroll
                for (int i = 0; i < 4; i++)
                    left[i] = VALUES == 1 || number(tile, m, i % 2) % HEADS * VALUES / HEADS == head
                                  ? weight[m][i]
                                  : 0;
                moec_mma(out[m][n], left, right);
                moec_mma(out[m][n + 1], left, right + 2);
            }
        }
    }

    /* Converts the scores of keys before `end` to weights; the first query has position
     * `position`. */
    template <class In>
    __device__ __forceinline__ void reassociate(float s[M][N][4], unsigned weight[M][4],
                                                const In &in, int b, int group, int tile,
                                                int position, int at, int end) {
        typedef decltype(in.bias) Bias;
        const float *documents = in.documents + (long)b * A::places;
        float factor[M][2];
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int n = 0; n < N; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int key = at + moec_result_column(n, i),
                              place = position + number(tile, m, i / 2) / HEADS;
                    const bool seen = key < end && moec_sees<A>(documents, place, key);
                    s[m][n][i] = seen ? moec_bent<A, Bias>(s[m][n][i]) : -INFINITY;
                    if (!MoecAbsent<Bias>::VALUE && seen)
                        s[m][n][i] += moec_bias_at(
                            moec_bias_of<A>(in.bias, b,
                                            group * HEADS + number(tile, m, i / 2) % HEADS),
                            place, key);
                }
        if (this->soften(s, moec_power<A, Bias>(), factor)) this->fade(factor);
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                weight[m][i] = moec_bf16_pair(s[m][i / 2][i % 2 * 2], s[m][i / 2][i % 2 * 2 + 1]);
    }

    /* The keys first .. end-1 of one group of heads. */
    template <class In>
    __device__ __forceinline__ void run(uint16_t *shared, const In &in, int b, int group, int tile,
                                        int position, int first, int end) {
        const int warp = threadIdx.x / 32;
        uint16_t *ring = shared + QUERY + warp * RING * SLOT;
        const int start = first + warp * MOEC_STEP_KEYS, step = MOEC_ATTEND_WARPS * MOEC_STEP_KEYS;
        const int units = start < end ? (end - start + step - 1) / step * UNITS : 0;
        const auto fetch = [&](int unit) {
            const int at = moec_row_of_key<A>(start + unit / UNITS * step), head = unit % UNITS;
            uint16_t *to = ring + unit % RING * SLOT;
            if (unit < units && head < KEYS)
                moec_fetch<E, A::key_heads, MOEC_STEP_KEYS, 32>(
                    to, moec_head<E>(in.k, b, A::keys, A::key_heads, group * KEYS + head), at,
                    A::keys);
            if (unit < units && head >= KEYS)
                moec_fetch<C, A::value_heads, MOEC_STEP_KEYS, 32>(
                    to,
                    moec_head<C>(in.v, b, A::keys, A::value_heads, group * VALUES + head - KEYS),
                    at, A::keys);
            moec_copy_commit();
        };
        /* The next unit has arrived. All lanes are done with the unit before it, whose buffer
         * receives the last one. */
        const auto next = [&](int unit) {
            moec_copy_wait<RING - 2>();
            __syncwarp();
            fetch(unit + RING - 1);
            return ring + unit % RING * SLOT;
        };
        for (int unit = 0; unit < RING - 1; unit++) fetch(unit);
        for (int unit = 0; unit < units;) {
            const int at = start + unit / UNITS * step;
            float s[M][N][4] = {};
            unsigned weight[M][4];
            for (int head = 0; head < KEYS; head++) score_head(s, shared, next(unit++), tile, head);
            reassociate(s, weight, in, b, group, tile, position, at, end);
            for (int head = 0; head < VALUES; head++) add_head(weight, next(unit++), tile, head);
        }
        moec_copy_wait<0>();
    }

    /* Combines the results of all warps in the state of each row: maximum, sum, output. */
    __device__ __forceinline__ void finish(float *states, float *scratch, int b, int group,
                                           int tile, int part) {
        const int warp = threadIdx.x / 32;
        moec_barrier(); /* all threads are done reading */
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                float *state = states + (warp * ROWS + moec_result_row(m, 2 * r)) * (C + 2);
                const float total = moec_row_sum(sum[m][r]);
                if (threadIdx.x % 4 == 0) {
                    state[0] = most[m][r] * (1.0f / MOEC_LOG2E);
                    state[1] = total;
                }
#pragma unroll
                for (int n = 0; n < moec_padded(C) / 8; n++)
#pragma unroll
                    for (int i = 0; i < 2; i++)
                        if (moec_result_column(n, i) < C)
                            state[2 + moec_result_column(n, i)] = out[m][n][2 * r + i];
            }
        moec_barrier();
        for (int row = warp; row < ROWS && tile * ROWS + row < COUNT; row += MOEC_ATTEND_WARPS) {
            const long at = row_at(b, group, tile * ROWS + row);
            float *to = scratch + (at * A::parts + part) * (C + 2), largest = -INFINITY,
                  total = 0.0f;
            float factor[MOEC_ATTEND_WARPS];
#pragma unroll
            for (int i = 0; i < MOEC_ATTEND_WARPS; i++)
                largest = fmaxf(largest, states[(i * ROWS + row) * (C + 2)]);
#pragma unroll
            for (int i = 0; i < MOEC_ATTEND_WARPS; i++) {
                const float *state = states + (i * ROWS + row) * (C + 2);
                factor[i] = state[0] == -INFINITY ? 0.0f : expf(state[0] - largest);
                total += factor[i] * state[1];
            }
            for (int c = threadIdx.x % 32; c < C; c += 32) {
                float x = 0.0f;
#pragma unroll
                for (int i = 0; i < MOEC_ATTEND_WARPS; i++)
                    x += factor[i] * states[(i * ROWS + row) * (C + 2) + 2 + c];
                to[2 + c] = x;
            }
            if (threadIdx.x % 32 == 0) {
                to[0] = largest;
                to[1] = total;
            }
        }
    }
};

/* q: a pointer or a function of the row and the column. key, value: functions that store the new
 * keys and values, for a single query, or MoecNoElements. */
template <class A, class Shape, class Q, class K, class V, class Key, class Value, class Store,
          class Bias = MoecAll>
MOEC_DEVICE void moec_attend_step_rounded(const Q &q, const K *k, const V *v, const float *sink,
                                          const float *documents, const int32_t *position,
                                          const Key &key, const Value &value, const Store &store,
                                          float *lse, float *scratch, unsigned *arrived,
                                          MoecAll = MoecAll(), Bias bias = Bias()) {
    MOEC_SHARED(uint16_t, shared);
    typedef MoecStep<A, Shape> Step;
    const MoecAttended<float, K, V, Bias> in = {NULL, k, v, NULL, documents, bias};
    /* 16 keys read together never reach over the end of a ring */
    static_assert(A::keys == A::places || A::keys % MOEC_STEP_KEYS == 0, "a ring of 16 keys");
    const long from = moec_seen<A>(*position).first / MOEC_STEP_KEYS * MOEC_STEP_KEYS,
               last = moec_seen<A>(*position + A::queries - 1).end;
    const int each =
        MOEC_STEP_KEYS * moec_most(4, moec_ceil_div(last - from, (long)A::parts * MOEC_STEP_KEYS));
    const int parts = (int)moec_ceil_div(last - from, (long)each);
    for (int task = blockIdx.x; task < A::batch * Step::GROUPS * Step::TILES * A::parts;
         task += gridDim.x) {
        const int part = task % A::parts, tile = task / A::parts % Step::TILES;
        const int group = task / A::parts / Step::TILES % Step::GROUPS,
                  b = task / A::parts / Step::TILES / Step::GROUPS;
        const int first = from + part * each, end = moec_least(first + (long)each, last);
        if (part >= parts) continue;
        Step step;
        moec_barrier(); /* all are done with the task before */
        Step::load(shared, q, b, group, tile);
        if (part == parts - 1) Step::put(key, value, b, group);
        moec_barrier();
        step.begin(NULL);
        step.run(shared, in, b, group, tile, *position, first, end);
        step.finish((float *)shared, scratch, b, group, tile, part);
        if (!moec_arrives_last(arrived + task / A::parts, parts)) continue;
        moec_attend_join<A, Step::LIVE>(
            MoecParts<Store>{sink, store, lse, scratch}, parts,
            (int)moec_least(Step::ROWS, Step::COUNT - tile * Step::ROWS),
            [&](int row) { return Step::row_at(b, group, tile * Step::ROWS + row); });
    }
}

#endif
