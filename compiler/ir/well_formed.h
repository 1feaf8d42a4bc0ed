/* well_formed: functions that the checks of calls share. */
#ifndef WELL_FORMED_H
#define WELL_FORMED_H

#include "ir/call.h"

typedef struct Verify {
    Arena *arena;
    const Program *program;
    const Statement *statement; /* under examination, or NULL */
    List repeats;               /* Index * of the enclosing repeats */
    bool *set;                  /* by tensor: something was stored in it */
    char *message;              /* the first error */
} Verify;

/* Later errors than the first are dropped. */
void verify_error(Verify *verify, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Reports the counts of operands of the call unless they are `right`, which it returns. */
bool verify_counts(Verify *verify, bool right);
/* The shape of an operand, with its subscripts checked. */
CallShape verify_operand(Verify *verify, const Expr *operand);
void verify_sizes(Verify *verify, const char *what, long a, long b);
void verify_like(Verify *verify, const char *name, const CallShape *model, const CallShape *shape);

#endif
