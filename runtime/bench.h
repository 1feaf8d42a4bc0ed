/* bench: what the parts of `moec bench` share. */
#ifndef BENCH_H
#define BENCH_H

#include "arguments.h"
#include "call.h"
#include "data.h"
#include "settings.h"
#include "step.h"

#include <jansson.h>
#include <stdbool.h>

typedef struct Bench {
    const char *operand, *graph, *device;
    Device *on;
    Settings settings;
    double active; /* parameters that a token visits */
    bool routed;   /* they are not all */
    bool rounded;             /* products of bf16 */
    bool json;
    TextList sets;
    json_t *report;
} Bench;

/* One line of the report and one member of the JSON object. */
void bench_tell(const Bench *bench, const char *name, double value);
void bench_tell_text(const Bench *bench, const char *name, const char *value);
/* Random tokens for a call, all sequences alike or not, and as data of steps. */
void bench_fill(Call *call, bool alike);
Data *bench_data(long vocabulary);
/* One optimizer step, whose loss has to be a number. */
bool bench_step(Stepper *stepper, long step);

/* Starts from nothing, in processes of their own; before the device is opened. */
bool bench_starts(const Bench *bench);
bool bench_training(const Bench *bench);
bool bench_decoding(const Bench *bench);

/* Whether the loss changes along its gradient as that says; model->gradients are then those of the
 * call. loss: the slot of what is differentiated. False after a message. */
bool bench_gradient(const Bench *bench, Call *call, int loss);

#endif
