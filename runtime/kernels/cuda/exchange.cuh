/* exchange: the parts of exchanges between the processes of a mesh that GPUs compute, see
 * MoecExchange. The order of rows and of sums is that of CPUs. */
#ifndef MOEC_EXCHANGE_CUH
#define MOEC_EXCHANGE_CUH

#include "fixed.cuh"
#include "prelude.cuh"
#include "shapes.h"

/* ---- received rows ---- */

/* Slot number `slot` of a process has rows of this key from this process. */
MOEC_DEVICE long moec_slot_key(const MoecExchangeOnDevice &rows, long slot) {
    return rows.keys / rows.members * rows.own + slot / rows.members;
}

/* The first row of a group in its process, then the end of the group. */
MOEC_DEVICE const int32_t *moec_group_bounds(const MoecExchangeOnDevice &rows, long member,
                                             long group) {
    return rows.table + member * (rows.groups + 1) + group;
}

/* The bounds of part number `part` among those of all slots. */
MOEC_DEVICE const int32_t *moec_part_bounds(const MoecExchangeOnDevice &rows, long part) {
    const long parts = rows.groups / rows.keys, slot = part / parts;
    return moec_group_bounds(rows, slot % rows.members,
                             moec_slot_key(rows, slot) * parts + part % parts);
}

/* first[part]. One block. */
extern "C" __global__ void __launch_bounds__(MOEC_PACK_THREADS)
    moec_exchange_first(MoecExchangeOnDevice rows) {
    for (long part = moec_thread(); part < rows.groups; part += moec_threads()) {
        const int32_t *bounds = moec_part_bounds(rows, part);
        rows.first[part + 1] = bounds[1] - bounds[0];
    }
    moec_running_sum(rows.groups, rows.first);
}

/* The group, slot and keys of each row; a block describes the rows of a part. Rows without room
 * end the run when they are dispatched. */
extern "C" __global__ void moec_exchange_describe(MoecExchangeOnDevice rows) {
    const long parts = rows.groups / rows.keys;
    for (long part = moec_block(); part < rows.groups; part += moec_blocks()) {
        const long slot = part / parts, group = moec_slot_key(rows, slot) * parts + part % parts,
                   end = moec_least(rows.first[part + 1], rows.room);
        for (long row = rows.first[part] + moec_thread(); row < end; row += moec_threads()) {
            long rest = group;
            rows.group[row] = (int32_t)group;
            rows.slot[row] = (int32_t)slot;
            for (int i = rows.key_count - 1; i >= 0; i--) {
                rows.key[i][row] = (int32_t)(rest % rows.key_sizes[i]);
                rest /= rows.key_sizes[i];
            }
        }
    }
}

/* ---- rows in pieces ---- */

/* The rows that a process has for another one are adjacent in its own order, and in `staged`, in
 * order of process without the own ones. In `here`, the order of the receiver, they are in pieces,
 * one for each slot. back: copied from there, else to there. */
extern "C" __global__ void __launch_bounds__(MOEC_PACK_THREADS)
    moec_exchange_pieces(MoecExchangeOnDevice rows, long pieces, int back, uint32_t *staged,
                         uint32_t *tokens, uint32_t *here) {
    const long parts = rows.groups / rows.keys, share = rows.groups / rows.members;
    for (long slot = moec_block() / pieces; slot < rows.keys; slot += moec_blocks() / pieces) {
        const long member = slot % rows.members;
        int before = 0, first, staged_before = 0, staged_first;
        for (long i = moec_thread(); i < slot; i += moec_threads()) {
            const long group = moec_slot_key(rows, i) * parts;
            before += *moec_group_bounds(rows, i % rows.members, group + parts) -
                      *moec_group_bounds(rows, i % rows.members, group);
        }
        for (long i = moec_thread(); i < member; i += moec_threads())
            if (i != rows.own)
                staged_before += *moec_group_bounds(rows, i, (rows.own + 1) * share) -
                                 *moec_group_bounds(rows, i, rows.own * share);
        moec_block_before(before, &first);
        moec_block_before(staged_before, &staged_first);
        const long group = moec_slot_key(rows, slot) * parts;
        const int start = *moec_group_bounds(rows, member, group),
                  sent = *moec_group_bounds(rows, member, rows.own * share);
        const long count = *moec_group_bounds(rows, member, group + parts) - start;
        uint32_t *there = member == rows.own ? tokens + start * rows.size
                                             : staged + (staged_first + start - sent) * rows.size,
                 *own = here + first * rows.size;
        for (long i = moec_block() % pieces * moec_threads() + moec_thread(); i < count * rows.size;
             i += pieces * moec_threads()) {
            if (back)
                there[i] = own[i];
            else
                own[i] = there[i];
        }
    }
}

/* ---- sums and gathers ---- */

/* to[i] from all[member][i], as a tree in order of the processes. */
extern "C" __global__ void moec_exchange_reduce(int kind, long members, long size, float *all,
                                                float *to) {
    for (long k = moec_first(); k < size; k += moec_step()) {
        for (long apart = 1; apart < members; apart *= 2)
            for (long i = 0; i + apart < members; i += 2 * apart) {
                float *left = &all[i * size + k];
                const float a = *left, b = all[(i + apart) * size + k];
                *left = kind == MOEC_EXCHANGE_SUM   ? a + b
                        : kind == MOEC_EXCHANGE_MAX ? (a >= b ? a : b)
                                                    : (a <= b ? a : b);
            }
        to[k] = all[k];
    }
}

/* to[outer][member][piece] = all[member][outer][piece] */
extern "C" __global__ void moec_exchange_gather(long members, long outer, long piece,
                                                const uint32_t *all, uint32_t *to) {
    for (long k = moec_first(); k < members * outer * piece; k += moec_step()) {
        const long member = k / piece % members, i = k / piece / members;
        to[k] = all[(member * outer + i) * piece + k % piece];
    }
}

#endif
