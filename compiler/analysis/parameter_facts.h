/* parameter_facts: the role of each parameter in the equations of a model.
 *
 *     q[s,h,e] = sum[d] x[s,d] * query[d,h,e]    query: product; d summed, h and e kept
 *     h[s,n,f] = sum[d] x[s,n,d] * up[n,d,f]     up: product; d summed, f kept, n shared
 *     q[s,h,e] = q[s,h,e] + bias[h,e]            bias: shift, independent of its rank
 *     y[s,d]   = x[s,d] * weight[d]              weight: scale
 *     x[s,d]   = embedding[tokens[s],d]          embedding: lookup; its first axis looked up
 *     x[s,d]   = x[s,d] + place[s,d]             place: lookup, by the position in the sequence
 *
 * Expressions of parameters alone count as their parameters: `stop_gradient(w)`, `1 + w`, a
 * low-rank product, a normalized weight.
 */
#ifndef PARAMETER_FACTS_H
#define PARAMETER_FACTS_H

#include "ir/ir.h"

/* Uses of an axis of a parameter; several may apply to one axis. */
typedef enum AxisUse {
    AXIS_SUMMED = 1,    /* summed over in a product with another factor: part of the fan-in */
    AXIS_KEPT = 2,      /* in the result of a product, not in the other operand: part of the
                           fan-out */
    AXIS_SHARED = 4,    /* in both: one product for each of its values (heads, channels) */
    AXIS_LOOKED_UP = 8, /* subscripted by a token, a class, a position or another computed
                           integer */
    AXIS_POINTWISE = 16 /* combined value by value: scaled, added, under a function */
} AxisUse;

/* Uses of a parameter. Uses that the loss does not depend on count only if there are no others. */
typedef struct ParameterFacts {
    bool product;            /* multiplied and summed over, as a matrix */
    bool lookup;             /* rows of it are read */
    bool scale;              /* multiplied with another factor without a sum over its own axes */
    bool shift;              /* added to another term */
    bool other;              /* under a function together with another value, or alone */
    bool trained;            /* a gradient reaches it; true if the program has no loss */
    unsigned axes[MAX_RANK]; /* AxisUse, by axis; see tensor->lead */
} ParameterFacts;

/* Sets tensor->facts of every parameter.
 *
 * Needs:   an elaborated program, before the backward pass and before decode.
 */
void parameter_facts(Program *program);

/* True if an optimizer updates it: it is not frozen and a gradient reaches it. */
bool is_trained(const Tensor *parameter);

/* The side of an axis of a parameter as matrices, rows by columns; ahead: there is one matrix for
 * each of its values. */
typedef enum MatrixSide { SIDE_AHEAD, SIDE_ROWS, SIDE_COLUMNS } MatrixSide;
MatrixSide matrix_side_of(const Tensor *parameter, int axis);

/* True if it is a matrix for an optimizer, to which weight decay applies. */
bool is_matrix(const Tensor *parameter);

/* The value of an optimizer option for this parameter alone; NULL: none. */
OwnNumber *tensor_own(const Tensor *parameter, const char *name);

#endif
