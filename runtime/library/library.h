/* library: what is behind MoecModel. */
#ifndef LIBRARY_H
#define LIBRARY_H

#include "library/moec.h"
#include "moec.h"
#include "model/decoder.h"
#include "model/reports.h"
#include "tokenizer/tokenizer.h"
#include "training/checkpoint.h"
#include "training/step.h"

#include <math.h>

struct MoecModel {
    MoecCompiler *compiler;
    Safetensors *file;
    Tokenizer *tokenizer; /* NULL: tokens are bytes */
    Model *model;
    Call *run, *train; /* NULL: not wanted */
    bool split;        /* training is moec_forward and moec_backward */
    Decoder *decoder;
    Settings settings;
    Stepper stepper;
    long step;
    long length;      /* tokens of a text */
    int32_t *windows; /* for inputs that have only the tokens */
};

/* Between these two the messages of this thread are kept for moec_message. */
void library_begin(void);
int library_end(bool good);

#endif
