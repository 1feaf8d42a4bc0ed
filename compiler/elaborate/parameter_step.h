/* parameter_step: what the optimizer's program for elements and that for whole parameters share. */
#ifndef PARAMETER_STEP_H
#define PARAMETER_STEP_H

#include "elaborate/elaborate.h"

/* Does an optimizer ask what a parameter is, or name its rows and columns? */
bool sees_parameters(const Node *optimizer);
/* What it does to one parameter of the model, appended to the block at hand: NULL, or the optimizer
 * that it hands the parameter to. A parameter of a repeat: layer by layer. */
const Value *parameter_step(Elaborator *e, const Tensor *parameter, const Value *optimizer);

/* Numbers of a step that the runtime gives: lr, step, steps, clip; of elements what they belong to,
 * matrix. */
void step_scalars(Elaborator *e, Scope *scope, bool elements);
/* The share of the newest weights in their mean, which at first is that of all steps. */
Expr *newest_share(Elaborator *e, const Scope *scope);
/* Reports where both the optimizer and train.ema_decay keep a mean; true when only the latter. */
bool keeps_average(Elaborator *e, const Scope *scope, const Node *optimizer);
/* Begins with the body of an optimizer or a schedule. */
void enter_body(Elaborator *e, Frame *frame, Scope *scope, const Node *layer, Record *given);

#endif
