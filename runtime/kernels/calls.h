/* calls: kernel functions that generated programs call, and their arguments, unless their header
 * declares them. A standalone program compiles the functions itself. Hosted programs share one
 * compiled object of them (MOEC_KERNELS_HERE), and include declarations (MOEC_KERNELS_APART). */
#ifndef MOEC_CALLS_H
#define MOEC_CALLS_H

#include "abi.h"
#include "prelude.h"

#if defined(MOEC_KERNELS_HERE) || defined(MOEC_KERNELS_APART)
#define MOEC_ENTRY __attribute__((visibility("hidden")))
#else
#define MOEC_ENTRY MOEC_FUNCTION
#endif

/* ---- products: matmul.h ---- */

/* Product `index` of the table: lent to the host when it has one for it, else ours. */
MOEC_ENTRY void moec_product(const MoecRun *run, int index, const MoecProduct *product,
                             const void *a, const void *b, void *c);

/* A product and its operands. */
typedef struct MoecProductCall {
    int index; /* in the table */
    const MoecProduct *product;
    const void *a, *b;
    void *c;
} MoecProductCall;

enum { MOEC_SHARED_CALLS = 4 };

/* Up to MOEC_SHARED_CALLS products, none of which writes memory that another accesses: ours share a
 * parallel region. */
MOEC_ENTRY void moec_shared_products(const MoecRun *run, const MoecProductCall *calls, int count);

/* All weights as bf16: see MoecTable.round. */
MOEC_ENTRY void moec_round(const float *weights, MoecBf16 *rounded, size_t count);

/* Quantizes all weights in groups: each becomes the nearest multiple of (largest magnitude of its
 * group) / 127. A NaN or infinity makes its whole group NaN or infinite. */
MOEC_ENTRY void moec_round_groups(const float *weights, MoecGroup *rounded, size_t count);

/* Converts a parameter to the type of its copy. */
MOEC_ENTRY void moec_round_copy(const MoecWeightCopy *one, const float *weights, void *rounded);
MOEC_ENTRY void moec_round_panels(const MoecWeightCopy *one, const float *weights, void *rounded);

/* ---- attention: attention.h, attention_grad.h, attention_chosen.h, attention_step.h ---- */

typedef struct MoecAttend {
    long batch;                 /* all leading dimensions in one */
    long queries, keys, places; /* of documents; there are as many keys, or attention_step.h */
    long heads, key_heads, value_heads;
    long width, value_width;
    int mask;
    long window; /* MOEC_MASK_WINDOW: query i sees keys i-window+1 .. i */
    float scale;
    float cap; /* scores become cap*tanh(score/cap); 0: none */
    long best; /* moec_attend_step: read only the `best` largest-weight values, weights not
                  renormalised; 0: all */
    int rounded;
    MoecType q_type, k_type, v_type, o_type, grad_type;
    long chosen_block[3]; /* queries, heads and keys per element of `chosen` */
    int chosen_all;       /* `chosen` is the same for all of the batch */
    int chosen_words;     /* MOEC_WORD elements are the bits of a number, not in a step */
    int bias_all;         /* `bias` is the same for all of the batch */
} MoecAttend;

/* Writes o and lse. sink: NULL when there is none. queries == keys unless the mask is
 * MOEC_MASK_NONE. */
MOEC_ENTRY void moec_attend(const MoecAttend *attend, const void *q, const void *k, const void *v,
                            const float *sink, const float *documents, void *o, float *lse);

typedef struct MoecAttendSaved {
    const void *q, *k, *v;
    const float *sink, *documents;
    const void *o;
    const float *lse;
    const void *output_grad; /* has the shape of o; sink and documents may be NULL */
    const float *chosen;     /* only of moec_attend_chosen_grad */
    const float *bias;       /* see MoecAttendWork */
} MoecAttendSaved;

/* Overwrites dq, dk, dv and, unless NULL, dsink[heads] and dbias[batch, heads, distances]. Heads
 * that add to the same dk or dv are one task. */
MOEC_ENTRY void moec_attend_grad(const MoecAttend *attend, const MoecAttendSaved *saved, float *dq,
                                 float *dk, float *dv, float *dsink, float *dbias);

/* k_scale[batch, keys, key_heads] and v_scale[batch, keys, value_heads] are the scales of int8 k
 * and v. The scales, sink, documents, bias and, in a step, chosen may be NULL.
 *
 * bias[batch, heads, distances] is added to the scores: element s - t for the query at position s
 * and the key at position t, from 1 - keys with MOEC_MASK_NONE, else from 0. */
typedef struct MoecAttendWork {
    const void *q, *k, *v;
    const float *sink, *documents, *k_scale, *v_scale;
    void *o;
    float *lse;
    const float *chosen, *bias;
} MoecAttendWork;

/* The same with work->bias. */
MOEC_ENTRY void moec_attend_biased(const MoecAttend *attend, const MoecAttendWork *work);

/* The same only for the pairs in work->chosen, see attention_chosen.h; o and its gradient are f32
 * or as stored, o is f32. */
MOEC_ENTRY void moec_attend_chosen(const MoecAttend *attend, const MoecAttendWork *work);
MOEC_ENTRY void moec_attend_chosen_grad(const MoecAttend *attend, const MoecAttendSaved *saved,
                                        float *dq, float *dk, float *dv, float *dsink,
                                        float *dbias);

/* Attention of new tokens over a cache: query s has position position+s and attends to keys 0 ..
 * position+s, or with a sliding window to the last `window` of them. No other mask is possible.
 * `keys` is the capacity of the cache; a window needs window + queries - 1. Positions are less than
 * `places`. */
MOEC_ENTRY void moec_attend_step(const MoecAttend *options, long position,
                                 const MoecAttendWork *work);

/* ---- packing: CALL_PACK of compiler/ir/ir.h ---- */

typedef struct MoecPack {
    int rank;
    long shape[MOEC_MAX_RANK]; /* of the mask */
    int key[MOEC_MAX_RANK];    /* 1: the dimension is part of the group, else of the rest */
    long rows; /* how many rows there are; true entries beyond are dropped, rows beyond have
                  coordinates 0 */
    /* Further parts of the group, before those of the mask: the value of an int tensor at some
     * coordinates of the entry. */
    int through_count;
    long through_stride[MOEC_MAX_RANK][MOEC_MAX_RANK]; /* of the tensor, by dimension of the mask */
    long through_size[MOEC_MAX_RANK];                  /* its values are below */
} MoecPack;

typedef struct MoecPacked {
    int32_t *const *coordinate; /* [rank] of [rows] */
    int32_t *group;             /* [groups+1], first row of each group */
    int32_t *row_of;            /* [shape], -1 where the mask is 0; may be NULL */
    int32_t *other; /* [rows], the combination of the dimensions that are not keys, row-major */
    int32_t *start, *list; /* [others+1], [rows]: the rows of each such combination, ascending */
} MoecPacked;

/* A counting sort of the true entries by group, stable in their row-major order. through:
 * pack->through_count tensors. */
MOEC_ENTRY void moec_pack(const MoecPack *pack, const float *mask, const int32_t *const *through,
                          const MoecPacked *packed);

/* Memory to zeros, by several threads where it is much. */
MOEC_ENTRY void moec_clear(void *memory, size_t bytes);

/* ---- products over packed rows ---- */

typedef enum MoecGroupedKind {
    MOEC_ROWS_BY_WEIGHT, /* c[r,n] (+)= sum[k] a[A(r),k] * b[g][k,n]            for rows r of group
                            g */
    MOEC_ROWS_BY_ROWS    /* c[g][k,n] (+)= sum[r in g] a[A(r),k] * b[B(r),n]; the result of an empty
                         group is 0
                       */
} MoecGroupedKind;

/* A(r) is a_gather[r], or r when a_gather is NULL; B(r) likewise. Strides in elements; a's k has
 * stride 1, c's n too. Rows by weight: b strides b_group, b_k, b_n (one of the last two is 1); c
 * row stride c_row. Rows by rows:   b row stride b_k, b_n is 1; c strides b_group (g), c_row (k), 1
 * (n). */
typedef struct MoecGrouped {
    MoecGroupedKind kind;
    long groups, n, k;
    long a_row;
    long b_group, b_k, b_n;
    long c_row;
    int accumulate;
    int rounded; /* a and b may be rounded to bf16, sums stay f32 */
    MoecType a_type, b_type, c_type;
} MoecGrouped;

typedef struct MoecRows {
    const int32_t *group; /* [groups+1] */
    /* rows by weight: b_gather is the weight of each row, the same within a group; NULL: that of
     * the group */
    const int32_t *a_gather, *b_gather;
} MoecRows;

MOEC_ENTRY void moec_grouped_product(const MoecGrouped *grouped, const MoecRows *rows,
                                     const void *a, const void *b, void *c);

typedef struct MoecGroupedCall {
    const MoecGrouped *grouped; /* MOEC_ROWS_BY_WEIGHT */
    const MoecRows *rows;
    const void *a, *b;
    void *c;
} MoecGroupedCall;

/* The same as moec_shared_products. */
MOEC_ENTRY void moec_shared_grouped(const MoecGroupedCall *calls, int count);

#endif
