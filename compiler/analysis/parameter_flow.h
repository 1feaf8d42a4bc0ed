/* parameter_flow: where goes what a parameter makes of what it reads, and how many terms meet
 * there.
 *
 * Rules that carry settings from one size to another go by it. Of
 *
 *     e[s,n,d] = sum[f] h[s,n,f] * down[n,f,d]           x[s,d] goes in
 *     y[s,d]   = sum[n] chosen[s,n] * weight[s,n] * e[s,n,d]
 *     z[s,d]   = y[s,d] + shared[s,d]                    shared: of f' terms, made of x, too
 *     x'[s,d]  = x[s,d] + z[s,d]
 *
 * `down` has fan-in |f|, `active` instances of it meet in y, |f| * active + |f'| terms in z, and z
 * joins what it was made from.
 */
#ifndef PARAMETER_FLOW_H
#define PARAMETER_FLOW_H

#include "ir/ir.h"

typedef struct ParameterFlow {
    Tensor *tensor;
    bool product, lookup; /* as in parameter_facts.h */
    double fan_in;        /* terms of one sum: the axes summed over, times `active` */
    double fan_out;       /* results that one operand reaches */
    double meets;   /* fan-in of all products that add up where its result goes, itself included */
    double active;  /* instances whose results are added: chosen ones only; 1 for one instance */
    double weights; /* constant sum of their weights; 0 if it is not constant or there is no sum */
    double share;   /* coefficient of an average active instance: weights / active times the numbers
                       on the path; without a constant sum, 1 */
    bool joins;     /* the sum they meet in is added to what it was made from (a residual branch) */
    bool first;     /* no other matrix comes before it */
    bool last;      /* nor after it */
    const Statement *sum; /* its product, or NULL */
    const Tensor *end;    /* the sum they meet in */
} ParameterFlow;

/* One for each parameter, in the order of the program.
 *
 * Needs:   parameter_facts, of a program as it was elaborated.
 */
List parameter_flow(Program *program); /* ParameterFlow * */
/* Does the statement sum over an axis of the parameter, together with something else? */
bool is_product_with(Arena *arena, const Statement *statement, const Tensor *parameter);

#endif
