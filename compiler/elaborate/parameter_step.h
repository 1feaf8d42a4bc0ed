/* parameter_step: declarations that the elementwise program and the programs of single parameters
 * share. */
#ifndef PARAMETER_STEP_H
#define PARAMETER_STEP_H

#include "elaborate/elaborate.h"

/* Whether an optimizer reads properties of a parameter, or its rows and columns. */
bool sees_parameters(const Node *optimizer);
/* Appends the step of one parameter of the model to the current block. Returns NULL, or the
 * optimizer that it delegates the parameter to. A parameter of a repeat is processed layer by
 * layer. */
const Value *parameter_step(Elaborator *e, const Tensor *parameter, const Value *optimizer);

/* Scalar inputs of a step: lr, step, steps, clip; for elements also matrix, whether they belong to
 * one. */
void step_scalars(Elaborator *e, Scope *scope, bool elements);
/* The weight of the current parameters in their EMA, with bias correction. */
Expr *newest_share(Elaborator *e, const Scope *scope);
/* True if train.ema_decay keeps an EMA; reports an optimizer that keeps one, too. */
bool keeps_average(Elaborator *e, const Scope *scope, const Node *optimizer);
/* Enters the body of an optimizer or a schedule. */
void enter_body(Elaborator *e, Frame *frame, Scope *scope, const Node *layer, Record *given);

#endif
