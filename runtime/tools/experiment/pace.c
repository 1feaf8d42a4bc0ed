#include "tools/experiment/internal.h"

#include "abi/json_make.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"
#include "tools/experiment/experiment.h"

#include <jansson.h>
#include <math.h>
#include <string.h>
#include <sys/wait.h>

enum { TRIAL_STEPS = 12 };

/* Median seconds per step of a short run. 0 after a message. */
static double measure_pace(const Plan *plan, const MoecVariant *variant) {
    RunOrder order = {variant, 1, plan->devices[0], .steps = TRIAL_STEPS, .trial = true};
    AUTO_FREE char *folder = order_folder(plan, &order);
    History history;
    double seconds = 0;
    int status = 0;
    pid_t process = process_begin(plan, &order);
    bool good = process > 0 && waitpid(process, &status, 0) == process && status == 0;
    if (good && history_open(&history, folder, false)) {
        seconds = history_median(&history, "seconds");
        history_free(&history);
    }
    if (!(seconds > 0))
        error_message("see output.txt in its directory", "a trial of %s has failed, in %s",
                      variant->name, folder);
    return seconds > 0 ? seconds : 0;
}

static bool store_pace(const char *path, double seconds, long steps) {
    json_auto_t *object =
        json_make("{s:f, s:I}", "step_seconds", seconds, "steps", (json_int_t)steps);
    AUTO_FREE char *text = json_write(object, JSON_INDENT(2));
    return file_write(path, text, strlen(text));
}

long pace_steps(const Plan *plan, const MoecVariant *variant) {
    AUTO_FREE char *path = memory_format("%s/%s/pace.json", plan->out, variant->name);
    json_auto_t *object = file_json(path);
    long steps = (long)json_integer_value(json_object_get(object, "steps"));
    if (steps <= 0) {
        double seconds = measure_pace(plan, variant);
        steps = seconds > 0 ? (long)fmax(1, plan->experiment->seconds / seconds) : 0;
        if (steps && !store_pace(path, seconds, steps)) steps = 0;
        if (steps)
            progress_line("%s: %.4g s/step, %ld steps in %g s", variant->name, seconds, steps,
                          plan->experiment->seconds);
    }
    return steps;
}
