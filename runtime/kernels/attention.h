/* attention: softmax attention forward, backward and against a cache.
 *
 * Tensors are contiguous: q[batch, queries, heads, width], k[batch, keys, key_heads, width], v[batch, keys, value_heads, value_width],
 * o[batch, queries, heads, value_width], lse[batch, queries, heads], sink[heads]. Query head h reads key head h*key_heads/heads
 * and value head h*value_heads/heads.
 */
#ifndef MOEC_ATTENTION_H
#define MOEC_ATTENTION_H

#include "matmul.h"

enum { MOEC_MASK_CAUSAL, MOEC_MASK_NONE, MOEC_MASK_WINDOW };

typedef struct MoecAttend {
    long batch; /* all leading dimensions in one */
    long queries, keys;
    long heads, key_heads, value_heads;
    long width, value_width;
    int mask;
    long window; /* MOEC_MASK_WINDOW: query i sees keys i-window+1 .. i */
    float scale;
    float cap; /* scores become cap*tanh(score/cap); 0: none */
    long best; /* moec_attend_step: read only the `best` largest-weight values, weights not renormalised; 0: all */
} MoecAttend;

/* Writes o and lse. sink: NULL when there is none. queries == keys unless the mask is MOEC_MASK_NONE. */
MOEC_FUNCTION void moec_attend(const MoecAttend *attend, const float *q, const float *k, const float *v,
                               const float *sink, float *o, float *lse);

/* The same for new tokens against a cache: query s stands at place position+s and sees keys 0 .. position+s (with a window the
 * last `window` of them; without a mask 0 .. position+queries-1). `keys` is the capacity of the cache. */
MOEC_FUNCTION void moec_attend_step(const MoecAttend *attend, long position, const float *q, const float *k,
                                    const float *v, const float *sink, float *o, float *lse);

typedef struct MoecAttendSaved {
    const float *q, *k, *v, *sink, *o, *lse, *output_grad; /* output_grad has the shape of o; sink may be NULL */
} MoecAttendSaved;

/* Overwrites dq, dk, dv and, with a sink, dsink[heads] (else dsink is NULL). */
MOEC_FUNCTION void moec_attend_grad(const MoecAttend *attend, const MoecAttendSaved *saved, float *dq, float *dk,
                                    float *dv, float *dsink);

#endif
