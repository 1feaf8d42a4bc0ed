/* packing: the rows of a mask in the order of their groups, CALL_PACK of compiler/ir/ir.h. */
#ifndef MOEC_PACKING_H
#define MOEC_PACKING_H

#include "calls.h"

typedef struct MoecEntry {
    long group, other;
    long coordinate[MOEC_MAX_RANK];
} MoecEntry;

/* The coordinates of the first entry of row `row`: of neighbours along the last dimension. */
MOEC_FUNCTION void moec_row_begin(const MoecPack *pack, long row, MoecEntry *entry) {
    entry->coordinate[pack->rank - 1] = 0;
    for (int i = pack->rank - 2; i >= 0; i--) {
        entry->coordinate[i] = row % pack->shape[i];
        row /= pack->shape[i];
    }
}

/* Group and rest of the entry with those coordinates. */
MOEC_FUNCTION void moec_entry_parts(const MoecPack *pack, const int32_t *const *through,
                                    MoecEntry *entry) {
    entry->group = entry->other = 0;
    for (int j = 0; j < pack->through_count; j++) {
        long place = 0;
        for (int i = 0; i < pack->rank; i++)
            place += entry->coordinate[i] * pack->through_stride[j][i];
        entry->group = entry->group * pack->through_size[j] + through[j][place];
    }
    for (int i = 0; i < pack->rank; i++) {
        long *part = pack->key[i] ? &entry->group : &entry->other;
        *part = *part * pack->shape[i] + entry->coordinate[i];
    }
}

/* first[i+1] holds the size of part i; afterwards first[i] is where part i begins. */
MOEC_FUNCTION void moec_running_sum(long count, int32_t *first) {
    for (long i = 0; i < count; i++) first[i + 1] += first[i];
}

/* Undoes that each first[i] was moved to the end of its part while the part was filled. */
MOEC_FUNCTION void moec_step_back(long count, int32_t *first) {
    for (long i = count; i > 0; i--) first[i] = first[i - 1];
    first[0] = 0;
}

/* Counts the true entries by group and by rest; returns how many there are, at most pack->rows. */
MOEC_FUNCTION long moec_pack_count(const MoecPack *pack, const float *mask,
                                   const int32_t *const *through, const MoecPacked *packed,
                                   long entries) {
    const long last = pack->shape[pack->rank - 1];
    MoecEntry entry;
    long count = 0;
    for (long i = 0; i < entries && count < pack->rows; i += last) {
        moec_row_begin(pack, i / last, &entry);
        for (long j = 0; j < last && count < pack->rows; j++) {
            if (mask[i + j] == 0.0f) continue;
            entry.coordinate[pack->rank - 1] = j;
            moec_entry_parts(pack, through, &entry);
            packed->group[entry.group + 1]++;
            packed->start[entry.other + 1]++;
            count++;
        }
    }
    return count;
}

/* Entry number `number` gets a row. */
MOEC_INLINE void moec_pack_entry(const MoecPack *pack, const MoecEntry *entry,
                                 const MoecPacked *packed, long number) {
    const int row = packed->group[entry->group]++;
    for (int j = 0; j < pack->rank; j++) packed->coordinate[j][row] = (int)entry->coordinate[j];
    packed->other[row] = (int)entry->other;
    if (packed->row_of != NULL) packed->row_of[number] = row;
}

MOEC_FUNCTION void moec_pack_fill(const MoecPack *pack, const float *mask,
                                  const int32_t *const *through, const MoecPacked *packed,
                                  long count) {
    const long last = pack->shape[pack->rank - 1];
    MoecEntry entry;
    for (long i = 0, done = 0; done < count; i += last) {
        moec_row_begin(pack, i / last, &entry);
        for (long j = 0; j < last && done < count; j++) {
            if (mask[i + j] == 0.0f) continue;
            entry.coordinate[pack->rank - 1] = j;
            moec_entry_parts(pack, through, &entry);
            moec_pack_entry(pack, &entry, packed, i + j);
            done++;
        }
    }
    for (long row = count; row < pack->rows; row++) {
        for (int j = 0; j < pack->rank; j++) packed->coordinate[j][row] = 0;
        packed->other[row] = packed->list[row] = 0;
    }
    for (long row = 0; row < count; row++)
        packed->list[packed->start[packed->other[row]]++] = (int)row;
}

MOEC_ENTRY void moec_pack(const MoecPack *pack, const float *mask, const int32_t *const *through,
                          const MoecPacked *packed) {
    long groups = 1, others = 1;
    for (int j = 0; j < pack->through_count; j++) groups *= pack->through_size[j];
    for (int i = 0; i < pack->rank; i++) {
        groups *= pack->key[i] ? pack->shape[i] : 1;
        others *= pack->key[i] ? 1 : pack->shape[i];
    }
    long entries = 1;
    for (int i = 0; i < pack->rank; i++) entries *= pack->shape[i];
    moec_clear(packed->group, (size_t)(groups + 1) * sizeof *packed->group);
    moec_clear(packed->start, (size_t)(others + 1) * sizeof *packed->start);
    if (packed->row_of != NULL)
        for (long i = 0; i < entries; i++) packed->row_of[i] = -1;
    const long count = moec_pack_count(pack, mask, through, packed, entries);
    moec_running_sum(groups, packed->group);
    moec_running_sum(others, packed->start);
    moec_pack_fill(pack, mask, through, packed, count);
    moec_step_back(groups, packed->group);
    moec_step_back(others, packed->start);
}

#endif
