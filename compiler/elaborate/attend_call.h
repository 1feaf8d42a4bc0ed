/* attend_call.h: what the two ways to elaborate an attention share: by a call (attend_call.c), by
 * equations (attend_scores.c). */
#ifndef ATTEND_CALL_H
#define ATTEND_CALL_H

#include "elaborate/elaborate.h"

/* One attend as it is written. */
typedef struct Attending {
    const Node *node;
    Value *query, *keys, *values; /* [place, heads, width] */
    Index *key;                   /* the place of a key, `t` of attend[t](...) */
    bool named;
    AttendOptions options;
    Value *mask; /* an expression over places and heads of queries and places of keys, or NULL */
    Value *bias; /* the same, added to the scores */
    Value *sink; /* over places and heads of queries */
    Value *documents; /* over places of queries */
} Attending;

/* Takes masks that are made of t <= s, s - t < window and number[s] == number[t] for options of the
 * call. False: this one is not. */
bool mask_is_known(Elaborator *e, Attending *attending);
/* What the attention gives, by equations. */
Value *attend_scores(Elaborator *e, Attending *attending);

#endif
