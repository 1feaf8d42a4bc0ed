/* against: moec verify --against: foreign code compared with the definition of a layer or a model.
 * The code runs in a process of its own (client.c), the definition in the reference interpreter
 * (bounds.c). Every case runs twice, the second time in reverse order: code that keeps something
 * from an earlier call, or reads memory that it did not set, returns other values then.
 */
#include "tools/against/against.h"

#include "base/memory.h"
#include "base/message.h"

#include <stdlib.h>
#include <string.h>

static bool same_values(const double *one, const double *other, size_t count) {
    return (!one && !other) || (one && other && !memcmp(one, other, count * sizeof *one));
}

static bool same_answers(const AgainstShape *shape, const AgainstAnswer *one,
                         const AgainstAnswer *other) {
    bool same = true;
    for (int i = 0; i < shape->count; i++)
        same = same && same_values(one->results[i], other->results[i], shape->tensors[i].count) &&
               same_values(one->gradients[i], other->gradients[i], shape->tensors[i].count);
    return same;
}

bool against_run_cases(AgainstPlan *plan, AgainstClient *client) {
    for (int i = 0; i < plan->case_count; i++) {
        if (!client_run(client, &plan->cases[i], &plan->cases[i].first)) return false;
    }
    for (int i = plan->case_count - 1; i >= 0; i--) {
        AgainstCase *one = &plan->cases[i];
        if (!client_run(client, one, &one->second)) return false;
        one->repeats = same_answers(one->shape, &one->first, &one->second);
        if (one->repeats) answer_free(&one->second, one->shape->count);
    }
    return true;
}

static bool judge_cases(const AgainstOptions *options, const AgainstSubject *subject,
                        const AgainstPlan *plan, json_t *json) {
    AgainstVerdict *verdicts = memory_new(sizeof *verdicts * (size_t)(plan->case_count + 1));
    bool good = true;
    for (int i = 0; i < plan->case_count && good; i++) {
        good = judge_case(&plan->cases[i], &verdicts[i]);
    }
    const AgainstReport report = {options, subject, plan, verdicts};
    good = good && report_print(&report, json);
    for (int i = 0; i < plan->case_count; i++) free(verdicts[i].differences);
    free(verdicts);
    return good;
}

/* The options of the spec; those of a layer without the prefix of its model. */
static json_t *subject_options(const AgainstSubject *subject, const AgainstShape *shape) {
    json_t *all = json_loads(moec_options_json(shape->compiler), 0, NULL), *own = json_object(),
           *value;
    const char *path;
    json_object_foreach(all, path, value) {
        const bool inner = !strncmp(path, "inner.", 6);
        if (!subject->text || inner) json_object_set(own, path + (subject->text ? 6 : 0), value);
    }
    json_decref(all);
    return own;
}

bool against_compare(const AgainstOptions *options, json_t *json) {
    AgainstPlan plan = {0};
    AgainstSubject subject = {.options = options, .plan = &plan};
    AgainstClient client = {.to = -1, .from = -1};
    bool good = plan_read(&plan, options) && subject_open(&subject) && plan_make(&plan, &subject) &&
                client_open(&client, options);
    progress_phase("the code");
    if (good) {
        json_auto_t *own = subject_options(&subject, &plan.shapes[0]);
        good = client_describe(&client, own) && against_match(&client, &subject, &plan.shapes[0]) &&
               against_run_cases(&plan, &client);
    }
    client_close(&client);
    progress_phase("the definition");
    good = good && judge_cases(options, &subject, &plan, json);
    progress_phase(NULL);
    plan_free(&plan);
    subject_free(&subject);
    return good;
}
