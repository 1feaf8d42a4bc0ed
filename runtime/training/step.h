/* step: one optimizer step: gradients of the micro-batches, gradient norm, clipping, update of all
 * parameters. */
#ifndef STEP_H
#define STEP_H

#include "model/call.h"
#include "data/data.h"
#include "data/mixture.h"
#include "training/probes.h"
#include "training/gradient_sum.h"
#include "training/limits.h"
#include "training/spec.h"

typedef struct Stepper {
    Call *train;
    Call *gather; /* NULL: no state is a mean over the micro-batches of a step */
    Call *whole;  /* NULL: every parameter is updated element by element */
    const Data *data;
    const int32_t *given; /* samples of a step, in micro-batch order; NULL: read from `data` */
    Order order;
    const Mixture *mixture; /* the samples of a run; NULL: those of `data` in `order` */
    uint64_t pieces; /* with a mixture: training samples per sample of it, of equal length; 0: 1 */
    Settings settings;
    uint64_t seed;
    int32_t *windows;
    GradientSum gradient_sum; /* mesh and lanes may be set; lanes 0: those of the settings */
    double loss;              /* mean over the micro-batches so far */
    WatchedTensors *limits;   /* of watched tensors, or NULL; a step that exceeds one ends there */
    Probes *probes;           /* of all micro-batches of the step */
    double *rows;  /* results of a micro-batch, with a mesh of all: the loss, then the probes */
    double *sums;  /* over the micro-batches, of every output of gather */
    float *states; /* those of the layers when the step began; NULL: there are none */
    long wrong;    /* the first own micro-batch whose loss was not finite; -1: none */
    double *means; /* the outputs of gather, of one micro-batch or of all like `rows` */
} Stepper;

typedef struct StepResult {
    double loss, norm, rate; /* norm before clipping; learning rate of this step */
} StepResult;

/* Allocates the remaining fields; train, data, order, settings and seed must be set. step_release
 * frees them. False after a device error, which was printed. */
bool step_prepare(Stepper *stepper);
void step_release(Stepper *stepper);
/* Sets states that are means over a step from the current inputs of `train`, as if this micro-batch
 * were a whole step. False after a device error, which was printed. */
bool step_gather(Stepper *stepper, uint64_t seed);
/* Runs step number `step` (from 0) on the samples from `position` on, or on `given`. The weights
 * are unchanged if loss or norm is not finite or a limit is exceeded. False after a message about
 * the data. */
bool step_run(Stepper *stepper, long step, uint64_t position, StepResult *result);
/* After a step whose loss or norm is not finite: prints the first value that is not finite, in the
 * process that has the first such micro-batch. compiler: of the same spec. */
void step_print_fault(Stepper *stepper, MoecCompiler *compiler, long step, uint64_t position);

#endif
