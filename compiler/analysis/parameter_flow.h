/* parameter_flow: the destination of each parameter's product and the number of terms in the sum
 * there. Hyperparameter transfer uses both.
 *
 *     e[s,n,d] = sum[f] h[s,n,f] * down[n,f,d]           computed from x[s,d]
 *     y[s,d]   = sum[n] chosen[s,n] * weight[s,n] * e[s,n,d]
 *     z[s,d]   = y[s,d] + shared[s,d]                    shared: f' terms, from x as well
 *     x'[s,d]  = x[s,d] + z[s,d]
 *
 * `down` has fan-in |f|. `active` instances of it are added in y and |f| * active + |f'| terms in
 * z. z is a residual branch: it is added to its own input. A normalization of z would cancel a
 * factor of `down`: its scale belongs to the branch instead, as do all biases in z.
 */
#ifndef PARAMETER_FLOW_H
#define PARAMETER_FLOW_H

#include "ir/ir.h"

typedef struct ParameterFlow {
    Tensor *tensor;
    bool product, lookup; /* as in parameter_facts.h */
    double fan_in;        /* terms of one sum: the axes summed over, times `active` */
    double fan_out;       /* results that depend on one operand */
    double meets;   /* fan-in of all products that are added at its destination, including itself */
    double active;  /* instances whose results are added, selected ones only; 1 for one instance */
    double weights; /* constant sum of their weights; 0 if it is not constant or there is no sum */
    double share;   /* coefficient of an average active instance: weights / active times the numbers
                       on the path; without a constant sum, 1 */
    bool uneven;    /* a sum of instances has weights without a constant sum */
    bool branch;    /* the result of its product is added to its own input */
    bool joins;     /* a factor of it is one of such a residual branch */
    bool first;     /* no other matrix precedes it */
    bool last;      /* no other matrix follows it */
    const Statement *sum; /* its product, or NULL */
    const Tensor *end;    /* the sum at its destination */
} ParameterFlow;

/* One entry per parameter, in the order of the program.
 *
 * Needs:   parameter_facts, of an elaborated program.
 */
List parameter_flow(Program *program); /* ParameterFlow * */
/* True if the statement sums over an axis of the parameter, with another factor. */
bool is_product_with(Arena *arena, const Statement *statement, const Tensor *parameter);

#endif
