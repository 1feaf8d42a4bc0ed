/* top: top-k selection. */
#ifndef MOEC_TOP_H
#define MOEC_TOP_H

#include "calls.h"

/* mask[o,i,j] = 1 for the k largest p[o,.,j], else 0. On a tie the lowest index is selected; NaN
 * counts as the smallest value. p and mask are [outer, size, inner]; k is at most size. */
MOEC_ENTRY void moec_top(long outer, long size, long inner, long k, const float *p, float *mask);

#ifndef MOEC_KERNELS_APART

/* The k-th largest order of p[size], and in *equal how many of that order are among the k. */
MOEC_FUNCTION uint32_t moec_threshold(long size, long stride, long k, const float *p, long *equal) {
    uint32_t prefix = 0, known = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        long count[256] = {0};
        for (long i = 0; i < size; i++) {
            const uint32_t order = moec_order(p[i * stride]);
            if ((order & known) == prefix) count[order >> shift & 255u]++;
        }
        uint32_t digit = 255;
        while (digit > 0 && count[digit] < k) k -= count[digit--];
        prefix |= digit << shift;
        known |= 255u << shift;
    }
    *equal = k;
    return prefix;
}

/* One selection: all values above the k-th largest, and the first of those equal to it. */
MOEC_FUNCTION void moec_top_one(long size, long stride, long k, const float *p, float *mask) {
    long equal = 0;
    const uint32_t least = moec_threshold(size, stride, k, p, &equal);
    for (long i = 0; i < size; i++) {
        const uint32_t order = moec_order(p[i * stride]);
        const int chosen = order > least || (order == least && equal > 0);
        equal -= order == least && chosen;
        mask[i * stride] = chosen ? 1.0f : 0.0f;
    }
}

enum { MOEC_TOP_FEW = 10, MOEC_TOP_ROOM = 1024 }; /* choices; among so many */

/* The same for few choices among not too many: the largest, k times. */
MOEC_FUNCTION void moec_top_few(long size, long stride, long k, const float *p, float *mask) {
    uint32_t orders[MOEC_TOP_ROOM]; /* 0: chosen */
    for (long i = 0; i < size; i++) {
        const uint32_t order = moec_order(p[i * stride]);
        orders[i] = order != 0 ? order : 1u;
        mask[i * stride] = 0.0f;
    }
    for (long round = 0; round < k; round++) {
        uint32_t most = 0;
        int chosen = MOEC_TOP_ROOM;
#pragma omp simd reduction(max : most)
        for (int i = 0; i < (int)size; i++) most = orders[i] > most ? orders[i] : most;
#pragma omp simd reduction(min : chosen)
        for (int i = 0; i < (int)size; i++) {
            const int at = orders[i] == most ? i : MOEC_TOP_ROOM;
            chosen = at < chosen ? at : chosen;
        }
        orders[chosen] = 0;
        mask[chosen * stride] = 1.0f;
    }
}

MOEC_ENTRY void moec_top(long outer, long size, long inner, long k, const float *p, float *mask) {
#pragma omp parallel for schedule(static) if (outer * size * inner > 20000 && moec_threads() > 1)
    for (long choice = 0; choice < outer * inner; choice++) {
        const long first = choice / inner * size * inner + choice % inner;
        if (k <= MOEC_TOP_FEW && size <= MOEC_TOP_ROOM)
            moec_top_few(size, inner, k, p + first, mask + first);
        else
            moec_top_one(size, inner, k, p + first, mask + first);
    }
}

#endif
#endif
