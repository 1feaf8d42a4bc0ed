/* result: result of a run. */
#ifndef RESULT_H
#define RESULT_H

#include "tools/experiment/history.h"

typedef struct RunResult {
    bool diverged;
    bool stopped;    /* before its end, because others were better */
    long step;       /* its last one */
    double loss;     /* NaN of one that diverged */
    char metric[96]; /* name of the loss: "val_bits_per_byte"; "" if there is none */
} RunResult;

/* The last number called `metric`; NULL: the last measure of held-out data, or else the mean loss
 * of the last tenth of the steps. */
RunResult result_of(const History *history, const char *metric);

#endif
