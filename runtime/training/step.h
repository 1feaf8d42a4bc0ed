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
    Call *gather; /* NULL: no state is a mean over the micro-batches of a step */
    const Data *data;
    Order order;
    Settings settings;
    uint64_t seed;
    int32_t *windows;
    double **outputs; /* mean over the micro-batches of every output, by slot: its elements */
} Stepper;

typedef struct StepResult {
    double loss, norm, rate; /* norm before clipping; learning rate of this step */
} StepResult;

/* Makes windows and outputs; train, data, order, settings and seed are set before. step_release
 * frees those two alone. */
void step_prepare(Stepper *stepper);
void step_release(Stepper *stepper);
/* A step in its parts, for windows that are not read from data: a beginning, every micro-batch with
 * its windows in stepper->windows, an end. False after a message of the device. */
bool step_begin(Stepper *stepper, long step);
bool step_part(Stepper *stepper, long step, long part);
bool step_end(Stepper *stepper, long step, StepResult *result);
/* Step number `step` (from 0), reading windows from `position` on. When loss or norm is not finite
 * the weights are left as they were. False after a message about the data. */
bool step_run(Stepper *stepper, long step, uint64_t position, StepResult *result);

#endif
