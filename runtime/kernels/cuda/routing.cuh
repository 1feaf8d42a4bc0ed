/* routing: top-k selection and sums of packed rows for device kernels. One thread block makes one
 * selection, so the order is fixed. */
#ifndef MOEC_ROUTING_CUH
#define MOEC_ROUTING_CUH

#include "prelude.cuh"

/* Adds rows of `from` to rows of `to`, WIDTH columns at a time: to row i those that list[start[i]]
 * and the next name. */
template <int WIDTH, class From>
MOEC_DEVICE void moec_add_rows(const int32_t *start, const int32_t *list, long rows, long columns,
                               const From *from, float *to) {
    const long vectors = columns / WIDTH;
    for (long iteration = moec_first(); iteration < rows * vectors; iteration += moec_step()) {
        const long row = iteration / vectors, column = iteration % vectors * WIDTH;
        const int first = start[row], end = start[row + 1];
        float sum[WIDTH];
        if (first == end) continue;
        moec_read(sum, from + list[first] * columns + column);
#pragma unroll 4
        for (int n = first + 1; n < end; n++) {
            float more[WIDTH];
            moec_read(more, from + list[n] * columns + column);
#pragma unroll
            for (int i = 0; i < WIDTH; i++) sum[i] += more[i];
        }
        float before[WIDTH];
        moec_read(before, to + row * columns + column);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) before[i] += sum[i];
        moec_write(to + row * columns + column, before);
    }
}

/* Maps a float to an integer with the same order: the bits of negative numbers are inverted, both
 * zeros are equal, NaN is smallest. */
MOEC_DEVICE uint32_t moec_order(float x) {
    const uint32_t bits = __float_as_uint(x + 0.0f);
    const uint32_t order = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
    return x == x ? order : 0u;
}

/* Returns the k-th largest order of p[size], which a whole thread block finds digit by digit.
 * *equal receives how many elements of that order are among the k. Counts are integers, so the
 * order of additions does not matter. */
MOEC_DEVICE uint32_t moec_threshold(long size, long stride, long k, const float *p, long *equal) {
    __shared__ int count[256];
    uint32_t prefix = 0, known = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        moec_barrier();
        for (int i = threadIdx.x; i < 256; i += blockDim.x) count[i] = 0;
        moec_barrier();
        for (long i = moec_thread(); i < size; i += moec_threads()) {
            const uint32_t order = moec_order(p[i * stride]);
            if ((order & known) == prefix) atomicAdd(&count[order >> shift & 255u], 1);
        }
        moec_barrier();
        uint32_t digit = 255;
        while (digit > 0 && count[digit] < k) k -= count[digit--];
        prefix |= digit << shift;
        known |= 255u << shift;
    }
    *equal = k;
    return prefix;
}

/* Calls `take(i)` for the k largest of p, by index within a thread; on a tie, the lowest indices
 * are selected. Calls `take(i, false)` for the others. */
template <class Take>
MOEC_DEVICE void moec_choose(long size, long stride, long k, const float *p, Take take) {
    long equal = 0;
    const uint32_t least = moec_threshold(size, stride, k, p, &equal);
    for (long from = 0; from < size; from += moec_threads()) {
        const long i = from + moec_thread();
        const uint32_t order = i < size ? moec_order(p[i * stride]) : 0u;
        int total;
        const int before = moec_block_before(i < size && order == least, &total);
        if (i < size) take(i, order > least || (order == least && before < equal));
        equal -= total;
    }
}

#endif
