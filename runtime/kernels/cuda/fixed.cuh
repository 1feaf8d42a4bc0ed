/* fixed: the kernels that are the same in every program, compiled once: choices, packs, the weights
 * as bf16. One block makes one choice or sorts one group: no order depends on chance. */
#ifndef MOEC_FIXED_CUH
#define MOEC_FIXED_CUH

#include "prelude.cuh"
#include "routing.cuh"
#include "shapes.h"

/* ---- choices ---- */

/* mask[o,i,j] = 1 for the k largest p[o,.,j], else 0; p and mask are [outer, size, inner]. */
extern "C" __global__ void moec_top(long outer, long size, long inner, long k, const float *p,
                                    float *mask) {
    moec_begin();
    for (long choice = moec_block(); choice < outer * inner; choice += moec_blocks()) {
        const long first = choice / inner * size * inner + choice % inner;
        moec_choose(size, inner, k, p + first,
                    [&](long i, bool chosen) { mask[first + i * inner] = chosen ? 1.0f : 0.0f; });
    }
}

/* The same for no more than 32 * MOEC_TOP_EACH numbers, a choice to a warp: each lane has every
 * 32nd of them. */
enum { MOEC_TOP_EACH = 8 };

MOEC_DEVICE int moec_top_count(const uint32_t *order, long size, uint32_t least) {
    int count = 0;
#pragma unroll
    for (int j = 0; j < MOEC_TOP_EACH; j++)
        if (32 * j < size) count += __popc(__ballot_sync(0xffffffffu, order[j] >= least));
    return count;
}

extern "C" __global__ void moec_top_of_few(long outer, long size, long inner, long k,
                                           const float *p, float *mask) {
    moec_begin();
    const int lane = threadIdx.x % 32;
    const long warps = moec_step() / 32;
    for (long choice = moec_first() / 32; choice < outer * inner; choice += warps) {
        const long first = choice / inner * size * inner + choice % inner;
        uint32_t order[MOEC_TOP_EACH], least = 0;
#pragma unroll
        for (int j = 0; j < MOEC_TOP_EACH; j++)
            order[j] = 32 * j + lane < size ? moec_order(p[first + (32 * j + lane) * inner]) : 0u;
        /* The k-th largest value, bit by bit, until exactly k are not less; missing elements have
         * order 0 and are never counted. */
        for (int bit = 31, count = -1; bit >= 0 && count != k; bit--) {
            count = moec_top_count(order, size, least | 1u << bit);
            if (count >= k) least |= 1u << bit;
        }
        int equal = (int)k - (least == 0xffffffffu ? 0 : moec_top_count(order, size, least + 1));
#pragma unroll
        for (int j = 0; j < MOEC_TOP_EACH; j++) {
            const bool there = 32 * j + lane < size, same = there && order[j] == least;
            const unsigned all = __ballot_sync(0xffffffffu, same);
            const bool chosen =
                order[j] > least || (same && __popc(all & ((1u << lane) - 1u)) < equal);
            if (there) mask[first + (32 * j + lane) * inner] = chosen ? 1.0f : 0.0f;
            equal -= __popc(all);
        }
    }
}

/* ---- packs ---- */

/* Coordinates of the entry with these key and other coordinates; its row-major number. */
MOEC_DEVICE long moec_entry(const MoecPackOnDevice &pack, long key, long other, long *coordinate) {
    long number = 0, stride = 1;
    for (int i = pack.rank - 1; i >= 0; i--) {
        const long whole = pack.key[i] ? key : other, rest = whole / pack.shape[i];
        if (pack.key[i])
            key = rest;
        else
            other = rest;
        coordinate[i] = whole - rest * pack.shape[i];
        number += coordinate[i] * stride;
        stride *= pack.shape[i];
    }
    return number;
}

/* The same number alone. */
MOEC_DEVICE long moec_entry_number(const MoecPackOnDevice &pack, long key, long other) {
    long coordinate[MOEC_MAX_RANK];
    return pack.in_order ? other * pack.keys + key : moec_entry(pack, key, other, coordinate);
}

/* The part of the group of an entry that comes from further tensors. */
MOEC_DEVICE long moec_through(const MoecPackOnDevice &pack, const long *coordinate) {
    long group = 0;
    for (int i = 0; i < pack.through_count; i++) {
        long place = 0;
        for (int j = 0; j < pack.rank; j++) place += coordinate[j] * pack.through_stride[i][j];
        group = group * pack.through_size[i] + pack.through[i][place];
    }
    return group;
}

/* Entry (key, other) belongs to the group and the mask has it. */
MOEC_DEVICE bool moec_is_in(const MoecPackOnDevice &pack, long group, long other, long *number) {
    long coordinate[MOEC_MAX_RANK];
    if (other >= pack.others) return false;
    if (pack.through_count == 0) {
        *number = moec_entry_number(pack, group, other);
        return pack.mask[*number] != 0.0f;
    }
    *number = moec_entry(pack, group % pack.keys, other, coordinate);
    return pack.mask[*number] != 0.0f && moec_through(pack, coordinate) == group / pack.keys;
}

/* group[g+1] = entries of group g. */
extern "C" __global__ void __launch_bounds__(MOEC_PACK_THREADS)
    moec_pack_count(MoecPackOnDevice pack) {
    moec_begin();
    for (long g = moec_block(); g < pack.groups; g += moec_blocks()) {
        long number;
        int count = 0, total;
        for (long other = moec_thread(); other < pack.others; other += moec_threads())
            count += moec_is_in(pack, g, other, &number);
        moec_block_before(count, &total);
        if (moec_thread() == 0) pack.group[g + 1] = total;
    }
}

/* first[i+1] holds the size of part i; afterwards first[i] is where part i begins. One block. */
MOEC_DEVICE void moec_running_sum(long count, int32_t *first) {
    int sum = 0;
    for (long from = 0; from < count; from += moec_threads()) {
        const long i = from + moec_thread();
        int total;
        const int size = i < count ? first[i + 1] : 0;
        const int before = moec_block_before(size, &total);
        if (i < count) first[i + 1] = sum + before + size;
        sum += total;
    }
    if (moec_thread() == 0) first[0] = 0;
}

extern "C" __global__ void __launch_bounds__(MOEC_PACK_THREADS)
    moec_pack_sum_in_place(MoecPackOnDevice pack) {
    moec_begin();
    moec_running_sum(pack.groups, pack.group);
}

extern "C" __global__ void __launch_bounds__(MOEC_PACK_THREADS)
    moec_pack_sum_others_in_place(MoecPackOnDevice pack) {
    moec_begin();
    moec_running_sum(pack.others, pack.start);
}

MOEC_DEVICE void moec_pack_row(const MoecPackOnDevice &pack, long row, long number, long key,
                               long other) {
    long coordinate[MOEC_MAX_RANK];
    moec_entry(pack, key, other, coordinate);
    for (int i = 0; i < pack.rank; i++) pack.coordinate[i][row] = (int32_t)coordinate[i];
    pack.other[row] = (int32_t)other;
    pack.row_of[number] = (int32_t)row;
}

/* Rows beyond the last one are zeros. */
MOEC_DEVICE void moec_pack_end(const MoecPackOnDevice &pack) {
    const long used = pack.group[pack.groups];
    for (long row = used + moec_first(); row < pack.rows; row += moec_step()) {
        for (int i = 0; i < pack.rank; i++) pack.coordinate[i][row] = 0;
        pack.other[row] = pack.list[row] = 0;
    }
}

/* The rows of each group, in the order of their other coordinates. Entries without a row get -1
 * from the block that has their first possible group. */
extern "C" __global__ void __launch_bounds__(MOEC_PACK_THREADS)
    moec_pack_fill(MoecPackOnDevice pack) {
    moec_begin();
    long number;
    for (long g = moec_block(); g < pack.groups; g += moec_blocks()) {
        long row = pack.group[g];
        for (long from = 0; from < pack.others; from += moec_threads()) {
            const long other = from + moec_thread();
            int total;
            const bool is_in = moec_is_in(pack, g, other, &number);
            const long at = row + moec_block_before(is_in, &total);
            if (is_in && at < pack.rows) moec_pack_row(pack, at, number, g % pack.keys, other);
            if (other < pack.others && g < pack.keys && pack.mask[number] == 0.0f)
                pack.row_of[number] = -1;
            row += total;
        }
    }
    moec_pack_end(pack);
}

/* start[o+1] = rows with the other coordinates o. */
MOEC_DEVICE void moec_others_count(const MoecPackOnDevice &pack) {
    for (long other = moec_first(); other < pack.others; other += moec_step()) {
        int count = 0;
        for (long key = 0; key < pack.keys; key++)
            count += pack.row_of[moec_entry_number(pack, key, other)] >= 0;
        pack.start[other + 1] = count;
    }
}

/* The rows of each, ascending: they are few. */
MOEC_DEVICE void moec_others_list(const MoecPackOnDevice &pack) {
    for (long other = moec_first(); other < pack.others; other += moec_step()) {
        int32_t *list = pack.list + pack.start[other];
        int count = 0;
        for (long key = 0; key < pack.keys; key++) {
            const int row = pack.row_of[moec_entry_number(pack, key, other)];
            if (row < 0) continue;
            int at = count++;
            for (; at > 0 && list[at - 1] > row; at--) list[at] = list[at - 1];
            list[at] = row;
        }
    }
}

extern "C" __global__ void moec_pack_count_others(MoecPackOnDevice pack) {
    moec_begin();
    moec_others_count(pack);
}

extern "C" __global__ void moec_pack_list(MoecPackOnDevice pack) {
    moec_begin();
    moec_others_list(pack);
}

/* All of a pack by one block, where each group can have a few entries only: a thread has a
 * group. */
extern "C" __global__ void __launch_bounds__(MOEC_PACK_THREADS)
    moec_pack_of_few(MoecPackOnDevice pack) {
    long number;
    moec_begin();
    for (long g = moec_thread(); g < pack.groups; g += moec_threads()) {
        int count = 0;
        for (long other = 0; other < pack.others; other++)
            count += moec_is_in(pack, g, other, &number);
        pack.group[g + 1] = count;
    }
    moec_barrier();
    moec_running_sum(pack.groups, pack.group);
    moec_barrier();
    for (long g = moec_thread(); g < pack.groups; g += moec_threads()) {
        long row = pack.group[g];
        for (long other = 0; other < pack.others; other++) {
            const bool is_in = moec_is_in(pack, g, other, &number);
            if (is_in && row < pack.rows) moec_pack_row(pack, row, number, g % pack.keys, other);
            if (g < pack.keys && pack.mask[number] == 0.0f) pack.row_of[number] = -1;
            row += is_in;
        }
    }
    moec_pack_end(pack);
    moec_barrier();
    moec_others_count(pack);
    moec_barrier();
    moec_running_sum(pack.others, pack.start);
    moec_barrier();
    moec_others_list(pack);
}

/* ---- the most likely token ---- */

/* tokens[row] = the index of the largest of width[row] numbers, the lowest of equal ones; -1 if one
 * is NaN or the largest is infinite. One block per row. */
extern "C" __global__ void __launch_bounds__(1024)
    moec_most_likely(const float *logits, long width, int32_t *tokens) {
    __shared__ uint32_t orders[32], indices[32];
    const float *row = logits + moec_block() * width;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t order = 0, index = 0;
    moec_begin();
    const auto take = [&](float x, long i) {
        const uint32_t own = x == x ? moec_order(x) : 0xffffffffu;
        if (own > order) order = own, index = (uint32_t)i;
    };
    /* The indices of a thread increase: of equal numbers it keeps the lowest. */
    if (width % 4 == 0) {
#pragma unroll 8
        for (long i = 4 * moec_thread(); i < width; i += 4 * moec_threads()) {
            const float4 four = *(const float4 *)(row + i);
            take(four.x, i), take(four.y, i + 1), take(four.z, i + 2), take(four.w, i + 3);
        }
    } else {
        for (long i = moec_thread(); i < width; i += moec_threads()) take(row[i], i);
    }
    const auto join = [&](uint32_t other, uint32_t at) {
        if (other > order || (other == order && at < index)) order = other, index = at;
    };
    for (int distance = 16; distance > 0; distance /= 2)
        join(__shfl_xor_sync(0xffffffffu, order, distance),
             __shfl_xor_sync(0xffffffffu, index, distance));
    if (lane == 0) orders[warp] = order, indices[warp] = index;
    moec_barrier();
    if (threadIdx.x > 0) return;
    for (int i = 1; i < (int)blockDim.x / 32; i++) join(orders[i], indices[i]);
    const bool finite = order > moec_order(-INFINITY) && order < moec_order(INFINITY);
    tokens[moec_block()] = finite ? (int32_t)index : -1;
}

/* ---- rounding ---- */

/* Converts weights to bf16 once, for kernels that would otherwise convert them at each read.
 * Processes eight at a time; blocks of weights are multiples of 64 bytes. */
extern "C" __global__ void moec_round(const float *weights, void *rounded, long count) {
    moec_begin();
    const float4 *fours = (const float4 *)weights;
    for (long i = moec_first(); i < count / 8; i += moec_step()) {
        const float4 a = fours[2 * i], b = fours[2 * i + 1];
        ((uint4 *)rounded)[i] = make_uint4(moec_bf16_pair(a.x, a.y), moec_bf16_pair(a.z, a.w),
                                           moec_bf16_pair(b.x, b.y), moec_bf16_pair(b.z, b.w));
    }
}

#endif
