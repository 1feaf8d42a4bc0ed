/* limits: tensors that training watches.
 *
 *     --watch ffn.h=1e4    the largest absolute value of every ffn.h may be 1e4
 *
 * A step in which one exceeds its limit, or is not finite, does not update the weights. Each
 * micro-batch copies the watched tensors to the host. */
#ifndef LIMITS_H
#define LIMITS_H

#include "model/call.h"
#include "model/selection.h"

enum { LIMIT_NAME = 200 };

/* The equation of a watched tensor. */
typedef struct WatchedEquation {
    char *name, *file; /* name: "block.{i}.ffn.h"; file: NULL: unknown */
    int line;
} WatchedEquation;

typedef struct WatchedTensors {
    SelectedNames names;
    double *most; /* by name */
    WatchedEquation *equations;
    int equation_count;
    /* The first element of a step that exceeds its limit. */
    bool exceeded;
    char element[LIMIT_NAME]; /* "block.0.ffn.h[0,3,5]" */
    double value, limit;
    const WatchedEquation *equation; /* or NULL */
} WatchedTensors;

/* texts: NAME=LIMIT. Later training programs of the compiler return the tensors. NULL after a
 * message. */
WatchedTensors *limits_open(const TextList *texts, MoecCompiler *compiler);
void limits_close(WatchedTensors *limits);
/* Compares the outputs of the last run of a training call. False after a device error, which was
 * printed. */
bool limits_check(WatchedTensors *limits, Call *call);

#endif
