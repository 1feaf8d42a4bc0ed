/* transfer: settings of the parameters of a model, derived from another model.
 *
 *     transfer.c     a parametrization, evaluated for each parameter
 *     counterpart.c  matches the parameters of both models
 */
#ifndef TRANSFER_H
#define TRANSFER_H

#include "analysis/parameter_flow.h"
#include "elaborate/elaborate.h"

/* A setting of a parameter from a parametrization, and its expression. */
typedef struct TunedNumber {
    const char *name;     /* "lr", "init", "forward", an option of the optimizer */
    double plain;         /* the option of the model */
    double before, after; /* of this parameter: without and with the parametrization */
    const char *clause;   /* "lr / fan_in", one expression per equation */
} TunedNumber;

typedef struct Tuned {
    const ParameterFlow *flow, *base; /* base: its counterpart, or NULL */
    const char *kind;                 /* of the parametrization */
    Span span;                        /* of that kind */
    List numbers;                     /* TunedNumber *, all settings */
    Init init;
} Tuned;

/* The result of a transfer. */
struct Tuning {
    const char *rule, *base;
    const Program *from, *to;
    List rows; /* Tuned *, one per parameter */
};

/* The counterparts in `base`, by index in `flows`; NULL without one. */
const ParameterFlow **match_parameters(Arena *arena, const List *flows, const List *base);
/* "block.{i}.ffn.up" and "block.3.ffn.up" as "block.*.ffn.up". */
const char *pattern_of(Arena *arena, const char *path);

#endif
