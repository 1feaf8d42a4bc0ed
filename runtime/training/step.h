/* step: one optimizer step: gradients of some micro-batches, their norm, clipping, the update of
 * every parameter. */
#ifndef STEP_H
#define STEP_H

#include "model/call.h"
#include "data/data.h"
#include "data/order.h"
#include "training/settings.h"

typedef struct Stepper {
    Call *train;
    const Data *data;
    Order order;
    Settings settings;
    uint64_t seed;
    int32_t *windows;
    double *outputs; /* mean over the micro-batches of every output of one value, by slot */
} Stepper;

typedef struct StepResult {
    double loss, norm, rate; /* norm before clipping; learning rate of this step */
} StepResult;

/* Makes windows and outputs; train, data, order, settings and seed are set before. step_release
 * frees those two alone. */
void step_prepare(Stepper *stepper);
void step_release(Stepper *stepper);
/* Step number `step` (from 0), reading windows from `position` on. When loss or norm is not finite
 * the weights are left as they were. False after a message about the data. */
bool step_run(Stepper *stepper, long step, uint64_t position, StepResult *result);

#endif
