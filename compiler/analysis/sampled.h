/* sampled: values of expressions where matrix products, parameters and inputs are random numbers.
 *
 * An identity of expressions, such as sum[n] weight[n] = 1, is tested by evaluation at a few random
 * points. An expression that has the same value at all of them is constant with near certainty
 * (Schwartz 1980, Zippel 1979), independent of how it is written:
 *
 *     p[s,n] / total[s]      exp(logit[s,n] - lse[s])      p[s,n] / (total[s] + 1e-20)
 *
 * Random leaves are the products of parameters with activations, parameters, inputs, states,
 * values of the previous iteration, results of calls, and sums over the batch or the sequence. A
 * top-k choice along another axis is evaluated.
 */
#ifndef SAMPLED_H
#define SAMPLED_H

#include "ir/ir.h"

typedef struct Sampler Sampler;

/* `made` and `choice`, by tensor id: the statement that defines a tensor, the top-k call that marks
 * it, or NULL. `leaf`, by tensor id: its values are random. All of them outlive the sampler. */
Sampler *sampler_new(Arena *arena, Statement **made, Statement **choice, const bool *leaf);

/* Draws new random leaves. With `whole`, a choice that is not evaluated marks every element. */
void sampler_draw(Sampler *sampler, uint64_t seed, bool whole);

/* Values of indices; an index without one is 0. */
enum { MAX_BOUND = 2 * MAX_LOOPS };
typedef struct Bound {
    const Index *index[MAX_BOUND];
    long value[MAX_BOUND];
    int count;
} Bound;

void bound_set(Bound *bound, const Index *index, long value);

/* Binds the indices of a statement's target to the values that the subscripts of `read` have in
 * `at`. */
Bound bound_through(Sampler *sampler, const Statement *statement, const Expr *read,
                    const Bound *at);

/* A number that is not finite: the value is unknown. */
double sampled_value(Sampler *sampler, const Expr *expr, const Bound *at);
/* A random value of the index. */
long sampled_index(const Sampler *sampler, const Index *index);

/* Of the choices that the last draw did not evaluate: the product of their shares k / size. */
double sampler_share(const Sampler *sampler);
#endif
