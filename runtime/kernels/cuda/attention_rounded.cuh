/* attention_rounded: attention with products by tensor cores. Their operands are bf16; floats are
 * rounded during the copy into shared memory. Scores, softmax and all sums are f32.
 *
 * A thread block has four warps. Each owns 16 * Shape::tiles rows (queries; keys for dk and dv),
 * whose results stay in registers. The other operand is processed in parts of Shape::part rows.
 * Shared memory holds two parts: one is multiplied while the next is loaded. Thread blocks with
 * consecutive numbers process heads of the same positions, so that heads with a common key head
 * share it in the L2 cache. Each element is written by one thread block.
 *
 * Scores of a warp are s[tile][n][4]: results of 16 by 8 in the order of moec_mma. A thread has
 * rows lane/4 and lane/4 + 8, columns 8n + 2(lane%4) and the next. */
#ifndef MOEC_ATTENTION_ROUNDED_CUH
#define MOEC_ATTENTION_ROUNDED_CUH

#include "attention.cuh"

/* Chosen by the compiler (emit_cuda_attend.c), which asks for the shared memory, too. */
template <int TILES, int PART, int BYTES> struct MoecShape {
    static constexpr int tiles = TILES, part = PART, rows = 64 * TILES, bytes = BYTES;
};

/* Elements between two rows in shared memory: the rows of an 8 by 8 matrix are in different
 * banks. */
static __host__ __device__ constexpr int moec_padded(int width) { return (width + 15) / 16 * 16; }
static __host__ __device__ constexpr int moec_stride(int width) { return moec_padded(width) + 8; }

#define MOEC_LOG2E 1.4426950408889634f

/* ---- rows on their way into shared memory ---- */

/* Row 0 of one head of x[batch, rows, heads, W]; the next row is heads * W further. */
template <int W, class T> MOEC_DEVICE T *moec_head(T *x, long b, long rows, long heads, long head) {
    return x + (b * rows * heads + head) * W;
}

MOEC_DEVICE void moec_put_pair(uint16_t *to, float low, float high) {
    *(unsigned *)to = moec_bf16_pair(low, high);
}

/* Two neighbours of a row as bf16. */
MOEC_DEVICE void moec_round_pair(uint16_t *to, const float *from, bool first, bool second) {
    moec_put_pair(to, first ? from[0] : 0.0f, second ? from[1] : 0.0f);
}
MOEC_DEVICE void moec_round_pair(uint16_t *to, const MoecBf16 *from, bool first, bool second) {
    to[0] = first ? from[0].bits : 0;
    to[1] = second ? from[1].bits : 0;
}

/* Offset of element `column` of a row of W elements in shared memory: eight elements from each
 * multiple of eight are contiguous. */
template <int W> struct MoecPaddedRows {
    static __device__ __forceinline__ int place(int row, int column) {
        return row * moec_stride(W) + column;
    }
};

/* Copies COUNT rows of W numbers with stride STEP into shared memory with THREADS threads. Only
 * `there` rows exist, or all of them if WHOLE; the others become zero. */
template <int W, int STEP, int COUNT, int THREADS, class Rows, bool WHOLE, class T>
struct MoecFetch {
    enum { P = moec_padded(W) };

    static __device__ __forceinline__ void pairs(uint16_t *to, const T *from, int there) {
        for (int i = threadIdx.x % THREADS; i < COUNT * (P / 2); i += THREADS) {
            const int row = i / (P / 2), column = i % (P / 2) * 2;
            moec_round_pair(to + Rows::place(row, column), from + row * STEP + column,
                            row < there && column < W, row < there && column + 1 < W);
        }
    }

    /* Not unrolled for a whole thread block: loads in flight would use registers that the caller
     * needs. */
    static __device__ __forceinline__ void fours(uint16_t *to, const float *from, int there) {
#pragma unroll(THREADS == 32 ? 8 : 1)
        for (int i = threadIdx.x % THREADS; i < COUNT * (P / 4); i += THREADS) {
            const int row = i / (P / 4), column = i % (P / 4) * 4;
            float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (row < there && column < W) x = *(const float4 *)(from + row * STEP + column);
            moec_put_pair(to + Rows::place(row, column), x.x, x.y);
            moec_put_pair(to + Rows::place(row, column) + 2, x.z, x.w);
        }
    }

    /* By asynchronous copies. A thread keeps its column, so that it steps through one address. Its
     * offset is computed again for every part, because the caller needs the registers. */
    static __device__ __forceinline__ void eights(uint16_t *to, const MoecBf16 *from, int there) {
        constexpr int ACROSS = P / 8, ROWS = ACROSS < THREADS ? THREADS / ACROSS : 1;
        const int thread = (threadIdx.x + (WHOLE ? moec_recomputed() : 0)) % THREADS,
                  first = ACROSS < THREADS ? thread / ACROSS : 0;
        const int own = (thread - first * ACROSS) * 8;
        static_assert(ACROSS <= THREADS, "a row is wider than all threads");
        if (first >= ROWS) return;
        const MoecBf16 *const place = from + (first * STEP + own);
#pragma unroll
        for (int pass = 0; pass < (COUNT + ROWS - 1) / ROWS; pass++) {
            const int row = first + pass * ROWS;
            const bool is = WHOLE || (row < there && own < W);
            if (COUNT % ROWS == 0 || row < COUNT)
                moec_copy_async(to + Rows::place(row, own),
                                WHOLE ? place + pass * (ROWS * STEP)
                                : is  ? from + row * STEP + own
                                      : from,
                                is ? 16 : 0);
        }
    }

    static __device__ __forceinline__ void run(uint16_t *to, const float *from, int there) {
        if constexpr (W % 4 == 0)
            fours(to, from, there);
        else
            pairs(to, from, there);
    }
    static __device__ __forceinline__ void run(uint16_t *to, const MoecBf16 *from, int there) {
        if constexpr (W % 8 == 0)
            eights(to, from, there);
        else
            pairs(to, from, there);
    }
};

/* COUNT rows of a head from `first` on; the head has `rows`, at least first + COUNT if WHOLE. */
template <int W, int HEADS, int COUNT, int THREADS = MOEC_ATTEND_THREADS,
          class Rows = MoecPaddedRows<W>, bool WHOLE = false, class T>
MOEC_DEVICE void moec_fetch(uint16_t *to, const T *head, int first, int rows) {
    MoecFetch<W, HEADS * W, COUNT, THREADS, Rows, WHOLE, T>::run(
        to, head + (long)first * (HEADS * W), rows - first);
}

/* ---- products of a warp ---- */

/* Lane's row of the four matrices that make 16 by 16 of the left operand; of the right one, 16 of
 * its rows; of the right one transposed. */
template <int W> MOEC_DEVICE const uint16_t *moec_left_at(const uint16_t *x, int row, int k) {
    return x + (row + threadIdx.x % 16) * moec_stride(W) + k + threadIdx.x % 32 / 16 * 8;
}
template <int W> MOEC_DEVICE const uint16_t *moec_right_at(const uint16_t *x, int row, int k) {
    return x + (row + threadIdx.x % 32 / 16 * 8 + threadIdx.x % 8) * moec_stride(W) + k +
           threadIdx.x % 16 / 8 * 8;
}

/* s = a b' for the rows of the warp and 8N rows of b. */
template <int W, int M, int N>
MOEC_DEVICE void moec_multiply(float s[M][N][4], const uint16_t *a, const uint16_t *b) {
    const int row = threadIdx.x / 32 * 16 * M;
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) s[m][n][i] = 0.0f;
                /* Unrolled as a whole it would read ahead more than there are registers for. */
#pragma unroll 4
    for (int k = 0; k < moec_padded(W); k += 16) {
        unsigned left[M][4];
#pragma unroll
        for (int m = 0; m < M; m++)
            moec_load_matrices(left[m], moec_left_at<W>(a, row + 16 * m, k));
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            unsigned right[4];
            moec_load_matrices(right, moec_right_at<W>(b, n * 8, k));
#pragma unroll
            for (int m = 0; m < M; m++) {
                moec_mma(s[m][n], left[m], right);
                moec_mma(s[m][n + 1], left[m], right + 2);
            }
        }
    }
}

/* out += s b, s rounded, b of 8N rows of W numbers. */
template <int W, int M, int N>
MOEC_DEVICE void moec_multiply_add(float out[M][moec_padded(W) / 8][4], const float s[M][N][4],
                                   const uint16_t *b) {
#pragma unroll
    for (int k = 0; k < N; k += 2) {
        unsigned left[M][4];
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                left[m][i] =
                    moec_bf16_pair(s[m][k + i / 2][i % 2 * 2], s[m][k + i / 2][i % 2 * 2 + 1]);
#pragma unroll
        for (int n = 0; n < moec_padded(W) / 8; n += 2) {
            unsigned right[4];
            moec_load_matrices_transposed(right, moec_left_at<W>(b, k * 8, n * 8));
#pragma unroll
            for (int m = 0; m < M; m++) {
                moec_mma(out[m][n], left[m], right);
                moec_mma(out[m][n + 1], left[m], right + 2);
            }
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

/* Rows and columns of part i of result n, counted from the first of the warp. */
MOEC_DEVICE int moec_result_row(int m, int i) { return 16 * m + threadIdx.x % 32 / 4 + i / 2 * 8; }
MOEC_DEVICE int moec_result_column(int n, int i) { return n * 8 + threadIdx.x % 4 * 2 + i % 2; }

/* Two neighbours of a row. */
template <class Store>
MOEC_DEVICE void moec_store_pair(const Store &store, long row, long column, const float (&x)[2]) {
    store(row, column, x);
}
template <class T>
MOEC_DEVICE void moec_store_pair(const MoecPlainRows<T> &store, long row, long column,
                                 const float (&x)[2]) {
    moec_write(store.to + row * store.width + column, x);
}

/* out, times its row's number, for rows from `first` on of `rows` and columns from `column` on;
 * `before` rows are those of other sequences. */
template <int W, int M, class Store>
MOEC_DEVICE void moec_store_rows(const Store &store, const float out[M][moec_padded(W) / 8][4],
                                 const float factor[M][2], long before, int first, int rows,
                                 long column) {
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < moec_padded(W) / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i += 2) {
                const int row = first + moec_result_row(m, i);
                const int at = moec_result_column(n, 0);
                const float pair[2] = {out[m][n][i] * factor[m][i / 2],
                                       out[m][n][i + 1] * factor[m][i / 2]};
                if (row >= rows || at >= W) continue;
                if constexpr (W % 2 == 0) {
                    moec_store_pair(store, before + row, column + at, pair);
                } else {
                    store(before + row, column + at, pair[0]);
                    if (at + 1 < W) store(before + row, column + at + 1, pair[1]);
                }
            }
}

/* ---- masks ---- */

/* True if the mask hides some pair of `rows` positions from `row` and `keys` keys from `key`. The
 * next function: true if it hides all of them. */
MOEC_TEMPLATE bool moec_hides_some(int row, int rows, int key, int keys) {
    return A::documents || key + keys > A::keys ||
           (A::mask != MOEC_MASK_NONE && key + keys - 1 > row) ||
           (A::mask == MOEC_MASK_WINDOW && key <= row + rows - 1 - A::window);
}
MOEC_TEMPLATE bool moec_hides_all(int row, int rows, int key, int keys) {
    return (A::mask != MOEC_MASK_NONE && key > row + rows - 1) ||
           (A::mask == MOEC_MASK_WINDOW && key + keys - 1 <= row - A::window);
}

/* First part from `at` that shares a document with the positions of `span`. */
MOEC_TEMPLATE int moec_next_part(const MoecSpan &span, const float *documents, int at, int end,
                                 int part) {
    while (A::documents && at < end && moec_apart<A>(span, documents, at, part)) at += part;
    return at;
}

/* Inputs of an attention. */
template <class Q, class K, class V, class Bias = MoecAll> struct MoecAttended {
    const Q *q;
    const K *k;
    const V *v;
    const float *sink, *documents;
    Bias bias;
};

/* Processes parts in order, starting with the part at `at`: work(half, at) processes the part at
 * `at`. ready() waits for the copies of this thread. `bring(half, at, behind)` starts the copies of
 * the next part. At this point every thread has the part at `at` in buffer `half` and has finished
 * the previous one. `behind` is the part after it, or -1 if there is none. */
template <class Next, class Ready, class Bring, class Work>
MOEC_DEVICE void moec_part_by_part(int at, int end, const Next &next, const Ready &ready,
                                   const Bring &bring, const Work &work) {
    bring(1, -1, at < end ? at : -1);
    moec_copy_commit();
    for (int half = 0; at < end; half ^= 1) {
        const int behind = next(at);
        ready();
        moec_barrier();
        bring(half, at, behind < end ? behind : -1);
        moec_copy_commit();
        work(half, at);
        at = behind;
    }
}

/* The same with two buffers; fetch(half, at) starts the copy of a part into one of them. */
template <class Next, class Fetch, class Work>
MOEC_DEVICE void moec_each_part(int at, int end, const Next &next, const Fetch &fetch,
                                const Work &work) {
    moec_part_by_part(
        at, end, next, [] { moec_copy_wait<0>(); },
        [&](int half, int, int behind) {
            if (behind >= 0) fetch(half ^ 1, behind);
        },
        work);
}

/* The keys and values that a block of Shape::rows queries of head h sees, in parts: see
 * moec_part_by_part. */
template <class A, class Shape, class In> struct MoecSeenKeys {
    enum { COUNT = Shape::part };
    const In &in;
    long b;
    int h, from;

    __device__ __forceinline__ const auto *keys() const {
        return moec_head<A::width>(in.k, b, A::keys, A::key_heads, h * A::key_heads / A::heads);
    }
    __device__ __forceinline__ const auto *values() const {
        return moec_head<A::value_width>(in.v, b, A::keys, A::value_heads,
                                         h * A::value_heads / A::heads);
    }

    template <class Ready, class Bring, class Work>
    __device__ __forceinline__ void part_by_part(const Ready &ready, const Bring &bring,
                                                 const Work &work) const {
        const float *documents = in.documents + b * A::keys;
        const MoecSpan span = moec_span<A>(documents, from, Shape::rows);
        const int end = moec_visible<A>(moec_least(from + Shape::rows, A::queries) - 1).end;
        const auto from_on = [&](int at) {
            return moec_next_part<A>(span, documents, at, end, COUNT);
        };
        moec_part_by_part(
            from_on(moec_visible<A>(from).first / COUNT * COUNT), end,
            [&](int at) { return from_on(at + COUNT); }, ready, bring, work);
    }
};

/* Offset of the values of a part after its keys, and the size of both. */
template <class A, class Shape> struct MoecKeyPart {
    enum {
        VALUE = Shape::part * moec_stride(A::width),
        SIZE = VALUE + Shape::part * moec_stride(A::value_width)
    };
};

/* The keys and values that a block of queries of head h sees: work(key, at) for each part of which
 * the warp sees some. In `shared` is room for two. */
template <class A, class Shape, class In, class Work>
MOEC_DEVICE void moec_each_part_of_keys(uint16_t *shared, const In &in, long b, int h, int from,
                                        const Work &work) {
    typedef MoecKeyPart<A, Shape> Part;
    enum { E = A::width, C = A::value_width, COUNT = Shape::part };
    const int row = from + threadIdx.x / 32 * 16 * Shape::tiles;
    const MoecSeenKeys<A, Shape, In> seen = {in, b, h, from};
    const auto *k = seen.keys();
    const auto *v = seen.values();
    seen.part_by_part([] { moec_copy_wait<0>(); },
                      [&](int half, int, int behind) {
                          uint16_t *to = shared + (half ^ 1) * Part::SIZE;
                          if (behind < 0) return;
                          moec_fetch<E, A::key_heads, COUNT>(to, k, behind, A::keys);
                          moec_fetch<C, A::value_heads, COUNT>(to + Part::VALUE, v, behind,
                                                               A::keys);
                      },
                      [&](int half, int at) {
                          if (!moec_hides_all<A>(row, 16 * Shape::tiles, at, COUNT))
                              work(shared + half * Part::SIZE, at);
                      });
}

/* Factor that converts a score from moec_bent to a power of 2. Products are used directly if their
 * order is that of the scores. */
template <class A, class Bias> static __host__ __device__ constexpr bool moec_is_direct() {
    return A::cap == 0.0f && A::scale > 0.0f && MoecAbsent<Bias>::VALUE;
}
template <class A, class Bias = MoecAll> static __device__ constexpr float moec_power() {
    return moec_is_direct<A, Bias>() ? A::scale * MOEC_LOG2E : MOEC_LOG2E;
}
template <class A, class Bias = MoecAll> MOEC_DEVICE float moec_bent(float product) {
    return moec_is_direct<A, Bias>() ? product : moec_score<A>(product);
}

/* Sets x = value where the mask hides a pair; the first pair is position `row` and key `at`. */
template <class A, int M, int N>
MOEC_DEVICE void moec_hide(float x[M][N][4], float value, const float *documents, int row, int at) {
    if (!moec_hides_some<A>(row, 16 * M, at, 8 * N)) return;
    float own[M][2] = {};
#pragma unroll
    for (int m = 0; A::documents && m < M; m++)
#pragma unroll
        for (int r = 0; r < 2; r++)
            own[m][r] = documents[moec_least(row + moec_result_row(m, 2 * r), A::keys - 1)];
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const int key = at + moec_result_column(n, j);
            float number = 0.0f;
            /* volatile: read here, not registers ahead of its use */
            if (A::documents && key < A::keys) number = *(volatile const float *)(documents + key);
#pragma unroll
            for (int m = 0; m < M; m++)
#pragma unroll
                for (int i = j; i < 4; i += 2)
                    if (!moec_shows<A>(row + moec_result_row(m, i), key) ||
                        (A::documents && own[m][i / 2] != number))
                        x[m][n][i] = value;
        }
}

/* Scores out of products, still to be multiplied by moec_power; nothing where the mask hides. */
template <class A, int M, int N, class Bias = MoecAll>
MOEC_DEVICE void moec_score_all(float s[M][N][4], const float *documents, int row, int at,
                                Bias bias = Bias()) {
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                s[m][n][i] = moec_bent<A, Bias>(s[m][n][i]);
                if (!MoecAbsent<Bias>::VALUE)
                    s[m][n][i] += moec_bias_near<A>(bias, row + moec_result_row(m, i),
                                                    at + moec_result_column(n, i));
            }
    moec_hide<A, M, N>(s, -INFINITY, documents, row, at);
}

/* ---- forward ---- */

/* Running sums of the rows of a warp: maximum score as a power of 2, sum of weights relative to it,
 * and values times weights. */
template <int C, int M> struct MoecSoftened {
    enum { COLUMNS = moec_padded(C) / 8 };
    float out[M][COLUMNS][4], most[M][2], sum[M][2];

    /* sink: of the head, or NULL. */
    __device__ __forceinline__ void begin(const float *sink) {
        const float start = sink != NULL ? *sink * MOEC_LOG2E : -INFINITY;
        const float share = sink != NULL && threadIdx.x % 4 == 0 ? 1.0f : 0.0f;
#pragma unroll
        for (int m = 0; m < M; m++) {
            most[m][0] = most[m][1] = start;
            sum[m][0] = sum[m][1] = share;
#pragma unroll
            for (int n = 0; n < COLUMNS; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) out[m][n][i] = 0.0f;
        }
    }

    /* Converts scores to weights; scores times `power` are exponents of 2. Returns true if a
     * maximum increased: earlier sums are then multiplied by the factors. */
    template <int N>
    __device__ __forceinline__ bool soften(float s[M][N][4], float power, float factor[M][2]) {
        bool fades = false;
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                float largest = -INFINITY, total = 0.0f;
#pragma unroll
                for (int n = 0; n < N; n++)
                    largest = fmaxf(largest, fmaxf(s[m][n][2 * r], s[m][n][2 * r + 1]));
                largest = fmaxf(most[m][r], moec_row_max(largest) * power);
                const float less = largest == -INFINITY ? 0.0f : largest;
#pragma unroll
                for (int n = 0; n < N; n++)
#pragma unroll
                    for (int i = 2 * r; i < 2 * r + 2; i++) {
                        s[m][n][i] = moec_exp2(fmaf(s[m][n][i], power, -less));
                        total += s[m][n][i];
                    }
                factor[m][r] = moec_exp2(most[m][r] - less);
                fades |= largest > most[m][r];
                sum[m][r] = sum[m][r] * factor[m][r] + total; /* of this thread's columns */
                most[m][r] = largest;
            }
        return __any_sync(0xffffffffu, fades);
    }

    __device__ __forceinline__ void fade(const float factor[M][2]) {
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int n = 0; n < COLUMNS; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) out[m][n][i] *= factor[m][i / 2];
    }

    /* Stores the results of head h for the positions from `row`, and their log-sum-exp values. */
    template <class A, class Store>
    __device__ __forceinline__ void finish(const Store &store, float *lse, long b, int h, int row) {
        float factor[M][2];
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const float total = moec_row_sum(sum[m][r]);
                const int place = row + moec_result_row(m, 2 * r);
                factor[m][r] = 1.0f / total;
                if (threadIdx.x % 4 == 0 && place < A::queries)
                    lse[(b * A::queries + place) * A::heads + h] =
                        most[m][r] * (1.0f / MOEC_LOG2E) + logf(total);
            }
        moec_store_rows<C, M>(store, out, factor, b * A::queries, row, A::queries, h * C);
    }
};

/* The blocks of `rows` queries of all heads: work(b, h, from). Those with most keys come first. */
template <class A, class Work>
MOEC_DEVICE void moec_one_block(int rows, int task, const Work &work) {
    const int blocks = (A::queries + rows - 1) / rows;
    work(task / A::heads / blocks, task % A::heads, (blocks - 1 - task / A::heads % blocks) * rows);
}
template <class A, class Work> MOEC_DEVICE void moec_each_block(int rows, const Work &work) {
    const int blocks = (A::queries + rows - 1) / rows;
    for (int task = blockIdx.x; task < A::batch * A::heads * blocks; task += gridDim.x)
        moec_one_block<A>(rows, task, work);
}

template <class A, class Shape> struct MoecForward : MoecSoftened<A::value_width, Shape::tiles> {
    enum { M = Shape::tiles, N = Shape::part / 8, E = A::width, C = A::value_width };
    enum { KEY = Shape::rows * moec_stride(E) };
    static_assert(2 * (KEY + 2 * MoecKeyPart<A, Shape>::SIZE) <= Shape::bytes, "shared memory");

    /* One block of queries of head h against all keys that they see. */
    template <class In>
    __device__ __forceinline__ void run(uint16_t *shared, const In &in, long b, int h, int from) {
        const int row = from + threadIdx.x / 32 * 16 * M;
        const float *documents = in.documents + b * A::keys;
        moec_barrier(); /* the block before is done with shared memory */
        moec_fetch<E, A::heads, Shape::rows>(shared, moec_head<E>(in.q, b, A::queries, A::heads, h),
                                             from, A::queries);
        const auto bias = moec_bias_of<A>(in.bias, b, h);
        this->begin(in.sink != NULL ? in.sink + h : NULL);
        moec_each_part_of_keys<A, Shape>(
            shared + KEY, in, b, h, from, [&](const uint16_t *key, int at) {
                float s[M][N][4], factor[M][2];
                moec_multiply<E, M, N>(s, shared, key);
                moec_score_all<A, M, N>(s, documents, row, at, bias);
                if (this->soften(s, moec_power<A, decltype(in.bias)>(), factor)) this->fade(factor);
                moec_multiply_add<C, M, N>(this->out, s, key + MoecKeyPart<A, Shape>::VALUE);
            });
    }
};

template <class A, class Shape, class Q, class K, class V, class Store, class Bias = MoecAll>
MOEC_DEVICE void moec_attend_rounded(const Q *q, const K *k, const V *v, const float *sink,
                                     const float *documents, const Store &store, float *lse,
                                     MoecAll = MoecAll(), Bias bias = Bias()) {
    MOEC_SHARED(uint16_t, shared);
    const MoecAttended<Q, K, V, Bias> in = {q, k, v, sink, documents, bias};
    moec_each_block<A>(Shape::rows, [&](long b, int h, int from) {
        MoecForward<A, Shape> forward;
        forward.run(shared, in, b, h, from);
        forward.template finish<A>(store, lse, b, h, from + threadIdx.x / 32 * 16 * Shape::tiles);
    });
}

#endif
