/* spec: opening the spec or run of a command line; its training options. */
#ifndef SPEC_H
#define SPEC_H

#include "base/text_list.h"
#include "model/model.h"
#include "moec.h"

#include <stdbool.h>

/* settings: the options of the spec's `train` record that the runtime uses. */

typedef struct Settings {
    long batch, context; /* sequences per micro-batch; tokens per sequence */
    long accumulate;     /* micro-batches per step */
    long most_parts;     /* the most micro-batches of a step in any stage of the training */
    long steps, seed;
    long evaluate;      /* steps between evaluations; 0 = only at the end */
    long checkpoint;    /* steps between checkpoints */
    double rate, clip;  /* clip 0 = no gradient clipping */
    long processes;     /* train.mesh.data; 0 = those of the launcher */
    long lanes;         /* train.reduction_lanes; 0 = number of processes */
    bool fast;          /* train.reduction */
    bool zero;          /* train.zero */
    char precision[16]; /* train.precision */
} Settings;

/* Values of `train` in the spec, defaults for missing options. */
Settings settings_of(MoecCompiler *compiler);

/* spec: opening the spec or run of a command line. */

/* Opens FILE, FILE:MODEL, - for stdin, a run directory or a checkpoint, with the texts of --set.
 * NULL after the reports were printed. */
MoecCompiler *spec_open(const char *operand, const TextList *sets);
/* The same without printing reports; NULL, after a message, when a run holds no spec. */
MoecCompiler *spec_open_quietly(const char *operand, const TextList *sets);
/* FILE or FILE:EXPERIMENT, without printing reports; *file receives a new string, the FILE. */
MoecCompiler *spec_open_experiment(const char *operand, const TextList *sets, char **file);
/* Whether the operand is a run directory or a checkpoint. */
bool spec_is_run(const char *operand);
/* Whether the file may be written: it is new, or `force` is set. False after a message. */
bool spec_may_write(const char *path, bool force);

/* Whether the spec has a refinement; false after a message. */
bool spec_refines(const MoecCompiler *compiler);
/* Whether it generates token by token; false after a message for a model that refines. */
bool spec_generates(MoecCompiler *compiler);

/* Whether a prompt of so many tokens is accepted; false after a message. Its time grows with the
 * square of its length, and far beyond the context length of training the output is useless. */
bool spec_length_fits(MoecCompiler *compiler, long length);

/* The program variant by the value of --mode; false for another value. */
bool graph_named(const char *name, MoecGraph *graph);

#endif
