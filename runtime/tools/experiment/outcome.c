#include "tools/experiment/internal.h"

#include "abi/json_make.h"
#include "base/files.h"
#include "base/memory.h"
#include "tools/experiment/experiment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>

RunResult run_reading(const Plan *plan, const MoecVariant *variant, long seed) {
    History history;
    RunResult result = {.loss = NAN};
    AUTO_FREE char *folder = plan_folder(plan, variant, seed);
    AUTO_FREE char *log = path_join(folder, "log.jsonl");
    if (file_exists(log) && history_open(&history, folder, false)) {
        result = result_of(&history, plan->experiment->metric);
        history_free(&history);
    }
    return result;
}

/* A new string; step 0: of the end. */
static char *outcome_path(const Plan *plan, const MoecVariant *variant, long seed, long step) {
    AUTO_FREE char *folder = plan_folder(plan, variant, seed);
    return step ? memory_format("%s/at_%ld.json", folder, step) : path_join(folder, "result.json");
}

bool run_result_at(const Plan *plan, const MoecVariant *variant, long seed, long step,
                   RunResult *result) {
    AUTO_FREE char *path = outcome_path(plan, variant, seed, step);
    json_auto_t *object = file_json(path);
    json_t *loss = json_object_get(object, "loss");
    const char *metric = json_field_text(object, "metric");
    *result = (RunResult){.diverged = json_is_true(json_object_get(object, "diverged")),
                          .stopped = json_is_true(json_object_get(object, "stopped"))};
    result->step = (long)json_integer_value(json_object_get(object, "step"));
    result->loss = json_is_number(loss) ? json_number_value(loss) : NAN;
    snprintf(result->metric, sizeof result->metric, "%s", metric ? metric : "");
    return metric != NULL;
}

bool run_keep_at(const Plan *plan, const MoecVariant *variant, long seed, long step,
                 const RunResult *result) {
    json_auto_t *object =
        json_make("{s:b, s:I, s:s, s:f}", "diverged", result->diverged, "step",
                  (json_int_t)result->step, "metric", result->metric, "loss", result->loss);
    if (result->stopped) json_object_set_new(object, "stopped", json_true());
    AUTO_FREE char *path = outcome_path(plan, variant, seed, step),
                   *text = json_write(object, JSON_INDENT(2));
    return file_write(path, text, strlen(text));
}

bool run_result(const Plan *plan, const MoecVariant *variant, long seed, RunResult *result) {
    return run_result_at(plan, variant, seed, 0, result);
}

bool run_keep(const Plan *plan, const MoecVariant *variant, long seed, const RunResult *result) {
    return run_keep_at(plan, variant, seed, 0, result);
}

/* ---- result ---- */

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
