/* parameter_facts: what each parameter of a model is, read off its equations.
 *
 *     q[s,h,e] = sum[d] x[s,d] * query[d,h,e]    query: product; d summed, h and e kept
 *     h[s,n,f] = sum[d] x[s,n,d] * up[n,d,f]     up: product; d summed, f kept, n shared
 *     q[s,h,e] = q[s,h,e] + bias[h,e]            bias: shift, whatever its number of axes
 *     y[s,d]   = x[s,d] * weight[d]              weight: scale
 *     x[s,d]   = embedding[tokens[s],d]          embedding: lookup; its first axis looked up
 *     x[s,d]   = x[s,d] + place[s,d]             place: lookup, by the place in the sequence
 *
 * What is made of parameters alone is looked through: `stop(w)`, `1 + w`, a product of low rank, a
 * normalised weight are used as what they are made of.
 */
#ifndef PARAMETER_FACTS_H
#define PARAMETER_FACTS_H

#include "ir/ir.h"

/* What an axis is where its parameter is used; several may hold of one axis. */
typedef enum AxisUse {
    AXIS_SUMMED = 1,    /* summed over in a product with something else: part of the fan-in */
    AXIS_KEPT = 2,      /* of the result of a product, not of the other operand: of the fan-out */
    AXIS_SHARED = 4,    /* of both: one product for each of its values (heads, channels) */
    AXIS_LOOKED_UP = 8, /* by a token, a class, any number that is computed, or a place */
    AXIS_POINTWISE = 16 /* met value by value: scaled, added, under a function */
} AxisUse;

/* How a parameter is used. Ways that the loss does not depend on count only for a parameter that
 * has no other. */
typedef struct ParameterFacts {
    bool product; /* multiplied and summed over, as a matrix */
    bool lookup;  /* rows of it are taken */
    bool scale;   /* multiplied with something else, nothing of its own summed over */
    bool shift;   /* added to something else */
    bool other;   /* under a function together with something else, or alone */
    bool trained; /* a gradient reaches it; where a program has no loss: unknown, and true */
    unsigned axes[MAX_RANK]; /* AxisUse, by axis; see tensor->lead */
} ParameterFacts;

/* Fills tensor->facts of every parameter.
 *
 * Needs:   an elaborated program, before the backward pass and before decode.
 */
void parameter_facts(Program *program);

/* Does an optimizer move it? Not what is frozen, nor what no gradient reaches. */
bool is_trained(const Tensor *parameter);

/* A matrix in the sense of an optimizer: what weight decay is meant for. */
bool is_matrix(const Tensor *parameter);

#endif
