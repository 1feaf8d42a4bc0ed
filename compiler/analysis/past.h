/* past: equations that relate a place of the sequence to the places before it.
 *
 *     p[s,t] = sum[d] q[s,d] * k[t,d]          s is the place at hand, t any other
 *     m[s,t] = where(t <= s, p[s,t], -1e30)    for t ahead of s it is a number: -1e30
 *     w[s,t] = exp(m[s,t] - (max[t] m[s,t]))   and 0: the largest is one of those that count
 *     y[s,d] = sum[t] w[s,t] * v[t,d]          v of a place ahead adds nothing
 */
#ifndef PAST_H
#define PAST_H

#include "ir/ir.h"

/* A score that is to leave a place out of a softmax. */
#define LEFT_OUT (-1e9)

typedef struct Past {
    Program *program;
    Axis *sequence;
    int *place; /* by tensor: the dimension of the place at hand, the only one over the sequence or
                   one of several; -1: it has none */
    bool *open; /* by tensor: what it holds for places ahead is no number to count on */
    double *ahead;    /* by tensor of one other place: what it holds there, if that is one number;
                         else NAN */
    bool *scored;     /* by tensor: that, and more than LEFT_OUT for the place itself */
    bool *from_score; /* by tensor: the largest of such values, LEFT_OUT ahead */
} Past;

Past past_of(Program *program);
/* The index of a statement that is the place at hand, or NULL. */
Index *past_place(const Past *past, const Statement *statement);
/* Whether the index subscripts the target. */
bool on_left(const Statement *statement, const Index *index);
/* Whether the value depends on what `other`, a place ahead, stands for. */
bool past_reads(const Past *past, const Expr *value, const Index *other);
/* Whether the left side of a comparison less the right one is times * (other - place) + rest. */
bool places_apart(const Expr *comparison, const Index *other, const Index *place, double *times,
                  double *rest);
/* What is left of the value for an `other` ahead of the place, or for one that is not. */
Expr *value_ahead(const Past *past, Expr *value, const Index *other, const Index *place);
Expr *value_behind(const Past *past, Expr *value, const Index *other, const Index *place);

#endif
