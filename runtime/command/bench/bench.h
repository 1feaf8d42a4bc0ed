/* bench: what the parts of `moec bench` share. */
#ifndef BENCH_H
#define BENCH_H

#include "command/line/arguments.h"
#include "model/call.h"
#include "data/data.h"
#include "training/settings.h"
#include "training/step.h"

#include <jansson.h>
#include <stdbool.h>

typedef struct Bench {
    const char *operand, *graph, *device;
    Device *on;
    Settings settings;
    bool routed;  /* a token does not visit all parameters */
    bool rounded; /* products of bf16 */
    bool json;
    bool kernels; /* each of them is timed as well */
    bool quick;   /* small ceilings, few steps: for trying out what measures */
    long prefix;  /* decoding: so many places are in the caches already */
    long batch;   /* decoding: so many texts side by side */
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

/* The spec, to be compiled so that its kernels can be timed when that is wanted. */
MoecCompiler *bench_open(const Bench *bench);
/* Does the work with every kernel timed, when that is wanted; and the lines for a reader. */
bool bench_kernels(const Bench *bench, Engine *engine, bool (*work)(void *data), void *data);
void bench_print_kernels(const Bench *bench);

/* Whether the loss changes along its gradient as that says; model->gradients are then those of the
 * call. loss: the slot of what is differentiated. False after a message. */
bool bench_gradient(const Bench *bench, Call *call, int loss);

#endif
