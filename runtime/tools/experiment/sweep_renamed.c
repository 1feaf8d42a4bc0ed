#include "tools/experiment/internal.h"

/* sweep_renamed: continuation of a sweep that began with option names that are deprecated now. */

#include "abi/json_make.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"
#include "base/text_list.h"
#include "model/model.h"
#include "tools/experiment/experiment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The plan without variants and metric: these contain names of options and probes. */
static json_t *plain_part(json_t *plan) {
    json_t *part = json_copy(plan);
    json_object_del(part, "variants");
    json_object_del(part, "metric");
    return part;
}

static bool is_same_otherwise(json_t *before, json_t *now) {
    json_auto_t *one = plain_part(before), *other = plain_part(now);
    return json_equal(one, other) && json_object_size(json_object_get(before, "variants")) ==
                                         json_object_size(json_object_get(now, "variants"));
}

/* The spec of a run of the variant with this name: a new string, or NULL. */
static char *spec_of(const Plan *plan, const char *name) {
    char *spec = NULL;
    for (long seed = 1; seed <= plan->experiment->seeds && !spec; seed++) {
        AUTO_FREE char *folder = memory_format("%s/%s/seed_%ld", plan->out, name, seed);
        if (file_is_folder(folder)) spec = run_spec(folder);
    }
    return spec;
}

static MoecCompiler *open_variant(const Plan *plan, const MoecVariant *variant) {
    const char *sets[2 * (LIST_LIMIT + SET_LIMIT)];
    int count = 0;
    for (int i = 0; i < plan->set_count; i++) sets[count++] = plan->sets[i];
    for (int i = 0; i < variant->set_count && count < 2 * LIST_LIMIT; i++)
        sets[count++] = variant->sets[i];
    return moec_open(plan->file, plan->experiment->model, sets, count, getenv("MOEC_PATH"));
}

/* Whether a run with that spec trains the variant and is measured by the same metric. */
static bool trains_variant(const Plan *plan, const MoecVariant *variant, const char *spec,
                           const char *metric) {
    AUTO(MoecCompiler) *then = moec_open_bundle(spec, strlen(spec), NULL, 0),
                       *now = open_variant(plan, variant);
    bool same = !moec_failed(then) && !moec_failed(now) && moec_same_training(then, now);
    const char *asked = plan->experiment->metric;
    if (same && (metric || asked))
        same = metric && asked && !strcmp(moec_log_name(then, metric), asked);
    return same;
}

static bool rename_folder(const Plan *plan, const char *old, const char *now) {
    AUTO_FREE char *from = path_join(plan->out, old), *to = path_join(plan->out, now);
    return !strcmp(old, now) || !file_exists(from) || rename(from, to) == 0 ||
           error_message("rename it by hand", "cannot rename %s to %s: %s", from, to,
                         strerror(errno));
}

bool plan_adopt(const Plan *plan, json_t *before, json_t *now) {
    if (!is_same_otherwise(before, now)) return false;
    const char *metric = json_field_text(before, "metric");
    json_t *variants = json_object_get(before, "variants");
    bool same = true, any = false;
    int i = 0;
    for (void *at = json_object_iter(variants); at && same;
         at = json_object_iter_next(variants, at)) {
        const MoecVariant *variant = &plan->experiment->variants[i++];
        AUTO_FREE char *spec = variant->same ? NULL : spec_of(plan, json_object_iter_key(at));
        if (spec) same = any = trains_variant(plan, variant, spec, metric);
    }
    if (!same || !any) return false;
    i = 0;
    for (void *at = json_object_iter(variants); at && same;
         at = json_object_iter_next(variants, at))
        same = rename_folder(plan, json_object_iter_key(at), plan->experiment->variants[i++].name);
    if (same)
        note_message(
            "%s was begun with names of options that are deprecated; it continues with the "
            "current names",
            plan->out);
    return same;
}
