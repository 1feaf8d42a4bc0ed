/* stages: the steps of a training run in stages (train.stages), each with its own batch size,
 * context length and micro-batches. A stage has a program of its own, unless another one has the
 * same shape. A run without stages has one, to the end.
 *
 * The position of a run in its data counts parts of samples of train.context_length: a sample of a
 * shorter stage is one or several of them. */
#ifndef STAGES_H
#define STAGES_H

#include "training/step.h"

#include <jansson.h>

typedef struct TrainStage {
    long first, end; /* its steps: first .. end-1 */
    uint64_t pieces; /* its samples per sample of train.context_length */
    Settings settings;
    Call *train;
    Stepper stepper;
} TrainStage;

typedef struct TrainStages {
    TrainStage all[TRAIN_SHAPES];
    int count;
    uint64_t parts; /* that a sample of train.context_length has */
    int sharing;    /* processes that divide the sequences of a micro-batch; 1: each has its own */
} TrainStages;

/* Reads the stages of the spec; the last one has the settings of `train`. False after a message. */
bool stages_read(TrainStages *stages, MoecCompiler *compiler, const Settings *settings);
/* Adds the shapes of their training programs. */
int stages_shapes(const TrainStages *stages, GraphShape *shapes, int count);
/* Opens their calls; false after a message. */
bool stages_open(TrainStages *stages, Model *model);
/* Prepares the steppers; `usual`: of the last stage, whose call and settings each replaces. */
bool stages_prepare(TrainStages *stages, const Stepper *usual);
void stages_close(TrainStages *stages);
TrainStage *stages_at(TrainStages *stages, long step);
/* The first sample of a step in samples of its stage, and the position after the step. */
uint64_t stage_sample(const TrainStages *stages, const TrainStage *stage, uint64_t position);
uint64_t stage_after(const TrainStages *stages, const TrainStage *stage, uint64_t position);
/* Sequences of a step of the stage, over all processes. */
long stage_sequences(const TrainStages *stages, const TrainStage *stage);
/* Positions of a step of the stage, over all processes. */
double stage_tokens(const TrainStages *stages, const TrainStage *stage);
/* The same, as the mean of so many steps. */
double stages_tokens_per_step(const TrainStages *stages, long steps);

#endif
