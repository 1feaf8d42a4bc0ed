/* past: equations that relate a position of the sequence to the positions before it.
 *
 *     p[s,t] = sum[d] q[s,d] * k[t,d]          s is the current position, t any other
 *     m[s,t] = where(t <= s, p[s,t], -1e30)    a number for t after s: -1e30
 *     w[s,t] = exp(m[s,t] - (max[t] m[s,t]))   and 0: the maximum is at an earlier position
 *     y[s,d] = sum[t] w[s,t] * v[t,d]          v of a later position adds nothing
 *
 * A block of positions is later than s if its last position is:
 *
 *     m[b,d] = sum[t] (floor(t / 4) == b) * x[t,d]         a summary of positions up to 4 * b + 3
 *     p[s,b] = where((b + 1) * 4 <= s + 1, p[s,b], -1e30)  a number for a later block: -1e30
 */
#ifndef PAST_H
#define PAST_H

#include "ir/ir.h"

/* A score that excludes a position from a softmax. */
#define LEFT_OUT (-1e9)

typedef struct Past {
    Program *program;
    Axis *sequence;
    int *dimension;   /* by tensor: that of the current position, the only one over the sequence or
                       one of several; -1: none */
    bool *open;       /* by tensor: its values for later positions are not constant */
    double *ahead;    /* by tensor of one other position: its value at later positions, if that is
                         constant; else NAN */
    bool *scored;     /* by tensor: the same, and greater than LEFT_OUT for the position itself */
    bool *from_score; /* by tensor: the maximum of such values, LEFT_OUT for later positions */
    List blocks;      /* PastBlocks *: axes over blocks of positions */
    bool *summary;    /* by tensor: an element for each of them, of the positions in it */
    int count;        /* number of tensors */
} Past;

/* An axis of which each index is for `size` positions, from index * size on. */
typedef struct PastBlocks {
    const Axis *axis;
    long size;
} PastBlocks;

Past past_of(Program *program);
/* The index of a statement that runs over the current position, or NULL. */
Index *current_position(const Past *past, const Statement *statement);
/* True if the index subscripts the target. */
bool on_left(const Statement *statement, const Index *index);
/* True if the axis runs over positions, or over blocks of them. */
bool is_past_axis(const Past *past, const Axis *axis);
/* True if the statement adds up the positions of each block: sum[t] (floor(t / 4) == b) * x[t]. */
bool makes_summary(const Past *past, const Statement *statement);
/* True if the value depends on `other`, a later position or block. */
bool past_reads(const Past *past, const Expr *value, const Index *other);
/* True if left side - right side of a comparison is `times * (other - position) + rest`. */
bool position_distance(const Expr *comparison, const Index *other, const Index *position,
                       double *times, double *rest);
/* True if the value is `times * position + rest`. */
bool is_of_position(const Expr *expr, const Index *position, double *times, double *rest);
/* True for this position or an earlier one: s, s - 2 * w, floor(s / 4), max(s - 3, 0). */
bool looks_back(const Expr *sub, const Index *position);
bool is_comparison(OpCode op);
/* True if the value is `times * (other - position) + rest`. */
bool is_distance(const Expr *expr, const Index *other, const Index *position, double *times,
                 double *rest);
/* The value for an `other` after the current position, and for one that is not after it. */
Expr *value_ahead(const Past *past, Expr *value, const Index *other, const Index *position);
Expr *value_behind(const Past *past, Expr *value, const Index *other, const Index *position);

bool check_causal(Program *program, const Past *past);
/* True if one of its loops runs over the axis. */
bool runs_over(const Statement *statement, const Axis *axis);
/* The dimension of a tensor that runs over an axis, or -1. */
int dimension_of(const Tensor *tensor, const Axis *axis);

#endif
