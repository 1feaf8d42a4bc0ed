/* step: one optimizer step: gradients of some micro-batches, their norm, clipping, the update of
 * every parameter. */
#ifndef STEP_H
#define STEP_H

#include "model/call.h"
#include "data/data.h"
#include "data/order.h"
#include "training/probes.h"
#include "training/settings.h"

typedef struct Stepper {
    Call *train;
    Call *gather; /* NULL: no state is a mean over the micro-batches of a step */
    Call *whole;  /* NULL: every parameter is updated element by element */
    const Data *data;
    const int32_t
        *given; /* the windows of a step, one micro-batch after the other; NULL: of data */
    Order order;
    Settings settings;
    uint64_t seed;
    int32_t *windows;
    double loss;    /* mean over the micro-batches so far */
    Probes *probes; /* of all micro-batches of the step */
    double **sums;  /* over the micro-batches, of every output of gather */
} Stepper;

typedef struct StepResult {
    double loss, norm, rate; /* norm before clipping; learning rate of this step */
} StepResult;

/* Makes the rest; train, data, order, settings and seed are set before. step_release frees what was
 * made. False after a message of the device. */
bool step_prepare(Stepper *stepper);
void step_release(Stepper *stepper);
/* States that are means over a step become those of what train reads now, as if this micro-batch
 * were a whole step. False after a message of the device. */
bool step_gather(Stepper *stepper, uint64_t seed);
/* Step number `step` (from 0), reading windows from `position` on, or those given. When loss or
 * norm is not finite the weights are left as they were. False after a message about the data. */
bool step_run(Stepper *stepper, long step, uint64_t position, StepResult *result);

#endif
