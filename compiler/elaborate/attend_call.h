/* attend_call: declarations that the two implementations of attention share: as a call
 * (attend_call.c) and as equations (attend_scores.c). */
#ifndef ATTEND_CALL_H
#define ATTEND_CALL_H

#include "elaborate/elaborate.h"

/* One attend in the source. */
typedef struct Attending {
    const Node *node;
    Value *query, *keys, *values; /* [position, heads, width] */
    Index *key;                   /* the position of a key, `t` of attend[t](...) */
    bool named;
    AttendOptions options;
    Value *mask;      /* an expression over query position, query head and key position, or NULL */
    Value *bias;      /* the same, added to the scores */
    Value *sink;      /* over query position and query head */
    Value *documents; /* over query position */
} Attending;

/* Converts a mask of the terms t <= s, s - t < window and number[s] == number[t] to options of the
 * call. False: the mask has other terms. */
bool mask_is_known(Elaborator *e, Attending *attending);
/* The result of the attention as equations. */
Value *attend_scores(Elaborator *e, Attending *attending);

#endif
