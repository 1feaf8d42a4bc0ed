/* limits: values that training watches.
 *
 *     --watch ffn.h=1e4              the largest absolute value of every ffn.h may be 1e4
 *     --watch 'gradient:*.up=10'     the same of the gradient of the weights *.up
 *     --watch loss=8                 the loss of a micro-batch, an auxiliary loss or a probe
 *     --watch grad_norm=100          the norm of the whole gradient
 *
 * A step in which one exceeds its limit, or is not finite, does not update the weights. Each
 * micro-batch copies the watched tensors to the host, each step watched weights and gradients. */
#ifndef LIMITS_H
#define LIMITS_H

#include "mesh/mesh.h"
#include "model/call.h"
#include "model/selection.h"

enum { LIMIT_NAME = 200 };

/* The equation of a watched tensor; of a weight and its gradient the first one that reads it. */
typedef struct WatchedEquation {
    char *name, *file; /* name: "block.{i}.ffn.h"; file: NULL: unknown */
    int line;
    bool reads;
} WatchedEquation;

typedef struct WatchedNames {
    SelectedNames names;
    double *most; /* by name */
} WatchedNames;

typedef struct WatchedTensors {
    WatchedNames tensors, gradients; /* gradients: of weights with these names */
    double norm;                     /* of the gradient; NaN: no limit */
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
/* The same for the weights before a step. */
bool limits_check_weights(WatchedTensors *limits, const Model *model);
/* The same for the gradient of a step: `factor` times that of the model in a range of elements, and
 * its norm. */
bool limits_check_gradient(WatchedTensors *limits, const Model *model, MeshRange range,
                           double factor, double norm);

#endif
