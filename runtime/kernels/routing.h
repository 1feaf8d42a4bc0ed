/* routing: choosing, packing, and products over packed rows. */
#ifndef MOEC_ROUTING_H
#define MOEC_ROUTING_H

#include "matmul.h"

/* mask[o,i,j] = 1 for the k largest p[o,.,j] (ties: lowest index first; NaN counts as smallest), else 0; p is [outer, size, inner]. */
MOEC_FUNCTION void moec_top(long outer, long size, long inner, long k, const float *p, float *mask);

/* CALL_PACK of compiler/ir.h. */
typedef struct MoecPack {
    int rank;
    long shape[MOEC_MAX_RANK]; /* of the mask */
    int key[MOEC_MAX_RANK];    /* 1: the dimension is part of the key */
    long rows;                 /* how many rows there are; true entries beyond are dropped, rows beyond have coordinates 0 */
    long through_size;         /* with `through`: dimension 0 is a key whose value is through[coordinate], below this; else 0 */
} MoecPack;

typedef struct MoecPacked {
    int *const *coordinate; /* [rank][rows], any may be NULL */
    int *group;             /* [keys+1], first row of each key value */
    int *row_of;            /* [shape], -1 where the mask is 0; may be NULL */
    int *start, *list;      /* [others+1], [rows]: rows of each combination of the dimensions that are not keys; may be NULL */
} MoecPacked;

/* through: NULL, or the key of each place of dimension 0 (the key of an enclosing relation's rows). */
MOEC_FUNCTION void moec_pack(const MoecPack *pack, const float *mask, const int *through, const MoecPacked *packed);

typedef enum MoecGroupedKind {
    MOEC_ROWS_BY_WEIGHT, /* c[r,n] (+)= sum[k] a[A(r),k] * b[g][k,n]            for rows r of group g */
    MOEC_ROWS_BY_ROWS    /* c[g][k,n] (+)= sum[r in g] a[A(r),k] * b[B(r),n]    an empty group gives 0 */
} MoecGroupedKind;

/* A(r) is a_gather[r], or r when a_gather is NULL; B(r) likewise. Strides in elements; a's k has stride 1, c's n too.
 * Rows by weight: b strides b_group, b_k, b_n (one of the last two is 1); c row stride c_row.
 * Rows by rows:   b row stride b_k, b_n is 1; c strides b_group (g), c_row (k), 1 (n). */
typedef struct MoecGrouped {
    MoecGroupedKind kind;
    long groups, n, k;
    long a_row;
    long b_group, b_k, b_n;
    long c_row;
    int accumulate;
} MoecGrouped;

typedef struct MoecRows {
    const int *group; /* [groups+1] */
    const int *a_gather, *b_gather;
} MoecRows;

MOEC_FUNCTION void moec_grouped_product(const MoecGrouped *grouped, const MoecRows *rows, const float *a,
                                        const float *b, float *c);

/* y[t,.] (+)= sum over the rows r of t of weight[r] * e[r,.]; weight NULL: 1. start, list as in MoecPacked. */
typedef struct MoecCombine {
    long others, width, e_row, y_row;
    int accumulate;
} MoecCombine;

MOEC_FUNCTION void moec_combine(const MoecCombine *combine, const int *start, const int *list, const float *weight,
                                const float *e, float *y);

#endif
