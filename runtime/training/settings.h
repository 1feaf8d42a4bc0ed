/* settings: the options of the spec's `train` record that the runtime uses. */
#ifndef SETTINGS_H
#define SETTINGS_H

#include "moec.h"

typedef struct Settings {
    long batch, context; /* sequences per micro-batch; tokens per sequence */
    long accumulate;     /* micro-batches per step */
    long steps, seed;
    long evaluate;     /* steps between evaluations; 0 = only at the end */
    long checkpoint;   /* steps between checkpoints */
    double rate, clip; /* clip 0 = no gradient clipping */
} Settings;

/* Values of `train` in the spec, defaults for missing options. */
Settings settings_of(MoecCompiler *compiler);

#endif
