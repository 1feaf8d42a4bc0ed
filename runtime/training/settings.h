/* settings: what the spec's `train` record says to the runtime. */
#ifndef SETTINGS_H
#define SETTINGS_H

#include "moec.h"

typedef struct Settings {
    long batch, context; /* sequences of a micro-batch; tokens of a sequence */
    long accumulate;     /* micro-batches of a step */
    long steps, seed;
    long evaluate;     /* steps between evaluations, 0: only at the end */
    long checkpoint;   /* steps between checkpoints */
    double rate, clip; /* clip 0: gradients are not clipped */
} Settings;

/* Those of `train` in the spec, each at its default where nothing was said. */
Settings settings_of(MoecCompiler *compiler);

#endif
