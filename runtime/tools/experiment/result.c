#include "tools/experiment/result.h"

#include <math.h>
#include <stdio.h>

RunResult result_of(const History *history, const char *metric) {
    static const char *const metrics[] = {"val_bits_per_byte", "val_bits_per_token", "val_loss",
                                          "loss"};
    RunResult result = {
        .diverged = history->diverged != NULL, .step = history_step(history), .loss = NAN};
    int column = metric ? history_column(history, metric) : -1;
    if (column >= 0) {
        snprintf(result.metric, sizeof result.metric, "%s", history->names[column]);
        result.loss = history_last(history, metric);
    }
    for (int i = 0; i < 4 && !metric && !*result.metric; i++) {
        if (history_column(history, metrics[i]) < 0) continue;
        snprintf(result.metric, sizeof result.metric, "%s", metrics[i]);
        result.loss = i < 3 ? history_last(history, metrics[i]) : history_tail(history, "loss");
    }
    if (result.diverged || !isfinite(result.loss)) result.loss = NAN;
    return result;
}
