#include "training/stages.h"

#include "base/message.h"

#include <limits.h>

static uint64_t common_multiple(uint64_t a, uint64_t b) {
    uint64_t larger = a, smaller = b;
    while (smaller) {
        const uint64_t rest = larger % smaller;
        larger = smaller;
        smaller = rest;
    }
    return a / larger * b;
}

bool stages_read(TrainStages *stages, MoecCompiler *compiler, const Settings *settings) {
    int count;
    const MoecStage *given = moec_stages(compiler, &count);
    long first = 0, most = settings->accumulate;
    if (count >= TRAIN_SHAPES)
        return error_message("merge some of them", "train.stages has more than %d stages",
                             TRAIN_SHAPES - 1);
    stages->parts = 1;
    stages->sharing = 1;
    stages->count = count + 1;
    for (int i = 0; i <= count; i++) {
        TrainStage *stage = &stages->all[i];
        *stage = (TrainStage){.first = first, .end = LONG_MAX, .settings = *settings, .pieces = 1};
        if (i == count) break;
        stage->settings.batch = given[i].batch;
        stage->settings.context = given[i].context;
        stage->settings.accumulate = given[i].accumulate;
        stage->pieces = (uint64_t)(settings->context / given[i].context);
        stage->end = first += given[i].steps;
        stages->parts = common_multiple(stages->parts, stage->pieces);
        if (given[i].accumulate > most) most = given[i].accumulate;
    }
    for (int i = 0; i <= count; i++) stages->all[i].settings.most_parts = most;
    return true;
}

int stages_shapes(const TrainStages *stages, GraphShape *shapes, int count) {
    if (stages->count == 1) {
        shapes[count++] = (GraphShape){.graph = MOEC_TRAIN};
        return count;
    }
    for (int i = 0; i < stages->count; i++) {
        const Settings *settings = &stages->all[i].settings;
        int same = 0;
        while (same < i && (stages->all[same].settings.batch != settings->batch ||
                            stages->all[same].settings.context != settings->context))
            same++;
        if (same < i) continue;
        shapes[count++] = (GraphShape){
            .graph = MOEC_TRAIN, .batch = settings->batch, .context = settings->context};
    }
    return count;
}

bool stages_open(TrainStages *stages, Model *model) {
    for (int i = 0; i < stages->count; i++) {
        TrainStage *stage = &stages->all[i];
        const MoecGraphEntry *graph = model_graph_of_shape(
            model, MOEC_GRAPH_TRAIN, stage->settings.batch, stage->settings.context);
        if (stages->count == 1) graph = model_graph(model, MOEC_GRAPH_TRAIN);
        if (!graph || !(stage->train = call_open(model, graph, NULL))) return false;
        if (stage->pieces > 1 && examples_words(stage->train))
            return error_message("omit context_length in train.stages",
                                 "the model reads examples, whose length is fixed");
    }
    return true;
}

bool stages_prepare(TrainStages *stages, const Stepper *usual) {
    for (int i = 0; i < stages->count; i++) {
        TrainStage *stage = &stages->all[i];
        stage->stepper = *usual;
        stage->stepper.train = stage->train;
        stage->stepper.settings = stage->settings;
        stage->stepper.order.context = call_context(stage->train);
        stage->stepper.pieces = stage->pieces;
        if (!step_prepare(&stage->stepper)) return false;
    }
    return true;
}

void stages_close(TrainStages *stages) {
    for (int i = 0; i < stages->count; i++) {
        step_release(&stages->all[i].stepper);
        call_close(stages->all[i].train);
    }
}

TrainStage *stages_at(TrainStages *stages, long step) {
    TrainStage *stage = stages->all;
    while (step >= stage->end) stage++;
    return stage;
}

uint64_t stage_sample(const TrainStages *stages, const TrainStage *stage, uint64_t position) {
    const uint64_t parts = stages->parts / stage->pieces;
    return (position + parts - 1) / parts;
}

long stage_sequences(const TrainStages *stages, const TrainStage *stage) {
    return stage->train->graph->batch * stage->settings.accumulate * stages->sharing;
}

uint64_t stage_after(const TrainStages *stages, const TrainStage *stage, uint64_t position) {
    const uint64_t samples = (uint64_t)stage_sequences(stages, stage);
    return (stage_sample(stages, stage, position) + samples) * (stages->parts / stage->pieces);
}

double stage_tokens(const TrainStages *stages, const TrainStage *stage) {
    return (double)(stage_sequences(stages, stage) * stage->train->graph->context);
}

double stages_tokens_per_step(const TrainStages *stages, long steps) {
    double tokens = 0;
    for (int i = 0; i < stages->count; i++) {
        const TrainStage *stage = &stages->all[i];
        const long end = stage->end < steps ? stage->end : steps;
        if (end > stage->first)
            tokens += (double)(end - stage->first) * stage_tokens(stages, stage);
    }
    return steps > 0 ? tokens / (double)steps
                     : stage_tokens(stages, &stages->all[stages->count - 1]);
}
