/* shapes: argument structures of device kernels, and sizes that a kernel template and its launcher
 * share. Included by kernels, by the runtime and by the compiler. */
#ifndef MOEC_SHAPES_H
#define MOEC_SHAPES_H

#include "abi.h"

/* Threads of a block: tiles of products; products of a single row; choices; packs; attention, and a
 * warpgroup. */
enum {
    MOEC_TILE_THREADS = 256,
    MOEC_ROW_THREADS = 512,
    MOEC_CHOICE_THREADS = 256,
    MOEC_PACK_THREADS = 1024,
    MOEC_ATTEND_THREADS = 128,
    MOEC_GROUP_THREADS = 128
};

/* Elements of bf16 in the 16 bytes that a thread copies at once; of a line that warpgroups read,
 * swizzled in blocks of so many bytes, which begin at multiples of them. */
enum { MOEC_VECTOR = 8, MOEC_SWIZZLED = 64, MOEC_SWIZZLED_ALIGN = 1024 };

/* Terms of a sum that an instruction for numbers of 8 bits adds. */
enum { MOEC_UNITS = 32 };

/* A pack (CALL_PACK of compiler/ir/ir.h): a counting sort of the true entries of a mask by group.
 * An entry is the pair of its key coordinates (keys of them) and its other coordinates. */
typedef struct MoecPackOnDevice {
    int rank;
    long shape[MOEC_MAX_RANK]; /* of the mask */
    int key[MOEC_MAX_RANK];    /* 1: the dimension is part of the group */
    long rows, keys, groups, others;
    int in_order; /* the key coordinates are the last ones */
    const float *mask;
    int through_count; /* further parts of the group, before the keys: values of int tensors */
    const int32_t *through[MOEC_MAX_RANK];
    long through_size[MOEC_MAX_RANK];
    long through_stride[MOEC_MAX_RANK][MOEC_MAX_RANK]; /* by dimension of the mask */
    int32_t *coordinate[MOEC_MAX_RANK];                /* [rank] of [rows] */
    int32_t *group;                                    /* [groups+1] */
    int32_t *row_of;                                   /* [shape], -1 where the mask is 0 */
    int32_t *other;                                    /* [rows] */
    int32_t *start, *list;                             /* [others+1], [rows] */
} MoecPackOnDevice;

/* The rows of an exchange between processes, see MoecExchange. The results are those of COUNTS. */
typedef struct MoecExchangeOnDevice {
    long groups, keys, members, own; /* own: this process among the members of its group */
    long size, room;                 /* numbers of a row; rows */
    const int32_t *table;
    int32_t *first, *group, *slot;
    int key_count;
    long key_sizes[MOEC_MAX_RANK];
    int32_t *key[MOEC_MAX_RANK];
} MoecExchangeOnDevice;

/* A product over packed rows: see MoecGrouped in calls.h. */
typedef struct MoecGroupedOnDevice {
    long groups, n, k;
    long a_row;
    long b_group, b_k, b_n;
    long c_row;
    int accumulate;
    const int32_t *weight; /* of each row, the same within a group; NULL: that of its group */
} MoecGroupedOnDevice;

/* Bytes of shared memory of a block of the kernels whose names end with _wgmma, of which two blocks
 * fit on a multiprocessor, and of those that end with _wide, which have one for themselves. */
enum { MOEC_WGMMA_SHARED = 96 * 1024 + 1024, MOEC_WIDE_SHARED = 192 * 1024 + 1024 };

/* The operands of those kernels come in boxes of so many elements of so many lines: see
 * MoecMatrices. */
enum { MOEC_BOX = 64 };

/* The elements of one parameter that a range of thread blocks of the optimizer kernel updates. */
typedef struct MoecShare {
    long block;        /* the first of its blocks */
    long first, count; /* its elements in the block of weights */
    int group;         /* its numbers, see MoecUpdate.own */
} MoecShare;

#endif
