/* transfer: what a model's parameters get instead of what they declare, derived from another model.
 *
 *     transfer.c     a parametrization, evaluated for each parameter
 *     counterpart.c  which parameter of the base stands for which
 */
#ifndef TRANSFER_H
#define TRANSFER_H

#include "analysis/parameter_flow.h"
#include "elaborate/elaborate.h"

/* A number that a parametrization gave a parameter, and the text that gave it. */
typedef struct TunedNumber {
    const char *name;     /* "lr", "init", "forward", an option of the optimizer */
    double plain;         /* as the model's own option says */
    double before, after; /* of this parameter: without the rule, with it */
    const char *clause;   /* "lr / fan_in", one for each equation */
} TunedNumber;

typedef struct Tuned {
    const ParameterFlow *flow, *base; /* base: its counterpart, or NULL */
    const char *kind;                 /* of the parametrization */
    Span span;                        /* of that kind */
    List numbers;                     /* TunedNumber *, every setting that there is */
    Init init;
} Tuned;

/* What a transfer made of a model. */
struct Tuning {
    const char *rule, *base;
    const Program *from, *to;
    List rows; /* Tuned *, one for each parameter */
};

/* The counterparts, by place in `flows`: of the base's flows, or NULL. */
const ParameterFlow **match_parameters(Arena *arena, const List *flows, const List *base);
/* "block.{i}.ffn.up" and "block.3.ffn.up" as "block.*.ffn.up". */
const char *pattern_of(Arena *arena, const char *path);

#endif
