/* bench: declarations of the parts of `moec bench`. */
#ifndef BENCH_H
#define BENCH_H

#include "tools/command/line/arguments.h"
#include "model/call.h"
#include "data/data.h"
#include "training/spec.h"
#include "training/step.h"

#include <jansson.h>
#include <stdbool.h>

typedef struct Bench {
    const char *operand, *graph, *device;
    Device *on;
    Settings settings;
    bool routed;          /* it selects: experts, or keys of attention */
    bool rounded, coarse; /* products of operands in 16 bits or fewer; in 4 or fewer */
    bool json;
    bool kernels;      /* each of them is timed as well */
    const char *trace; /* file of a trace, with `kernels`; or NULL */
    bool quick;        /* small peaks, few steps: a test of the measurement */
    long prefix;       /* decoding: positions in the KV cache at the start */
    long batch;        /* decoding: sequences decoded together */
    TextList sets;
    json_t *report;
} Bench;

/* One line of the report and one member of the JSON object. */
void bench_tell(const Bench *bench, const char *name, double value);
void bench_tell_text(const Bench *bench, const char *name, const char *value);
/* Prints the report, as JSON with --json. */
void bench_print_report(const Bench *bench);
/* Random tokens for a call, all sequences alike or not, and as data of steps. */
void bench_fill(Call *call, bool alike);
Data *bench_data(long vocabulary);
/* One optimizer step, whose loss has to be a number. */
bool bench_step(Stepper *stepper, long step);

/* Measures start times in child processes; before the device is opened. */
bool bench_starts(const Bench *bench);
bool bench_training(const Bench *bench);
bool bench_decoding(const Bench *bench);

/* Opens the spec; with --kernels, its kernels can be timed. */
MoecCompiler *bench_open(const Bench *bench);
/* With --kernels: runs `work` with each kernel timed; prints the table. */
bool bench_kernels(const Bench *bench, Engine *engine, bool (*work)(void *data), void *data);
void bench_print_kernels(const Bench *bench);

/* bench_trace: the launches of a step as a file of chrome://tracing and Perfetto. units: those of
 * moec_explain; False after a message. */
bool bench_write_trace(const Bench *bench, const KernelTimes *times, const json_t *units);
/* The unit of moec_explain that a row of the CPU is about, or NULL. */
const json_t *bench_unit_of(const json_t *units, const KernelTime *row);

/* Compares the gradient with differences of the loss; model->gradients are then those of the call.
 * loss: output slot of the differentiated value. False after a message. */
bool bench_gradient(const Bench *bench, Call *call, int loss);

#endif
