/* DIR/plans.json: { "plans": [ { "time", "hash", "reason", "finished_runs", "plan" } ] }. The first
 * is registered before the first run, each other one by `moec sweep --amend REASON`. Runs that a
 * change makes useless are moved to DIR/earlier_plans/HASH. */
#include "tools/experiment/internal.h"

#include "abi/json_make.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/hashing.h"
#include "base/memory.h"
#include "base/message.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Hash of the canonical text of a plan: a new string. */
static char *plan_hash(const json_t *plan) {
    AUTO_FREE char *text = json_write(plan, JSON_COMPACT | JSON_SORT_KEYS);
    XXH128_hash_t hash = XXH3_128bits(text, strlen(text));
    return memory_format("%016" PRIx64 "%016" PRIx64, hash.high64, hash.low64);
}

static const char *hash_of(const json_t *entry) {
    const char *hash = json_field_text(entry, "hash");
    return hash ? hash : "";
}

static bool count_finished(void *data, const char *folder) {
    AUTO_FREE char *path = path_join(folder, "result.json");
    *(int *)data += file_exists(path);
    return true;
}

static int finished_in(const char *out, const char *variant) {
    AUTO_FREE char *folder = path_join(out, variant);
    int count = 0;
    if (file_is_folder(folder)) folder_each(folder, count_finished, &count);
    return count;
}

/* Runs of the variants of a plan that have ended. */
static int finished_runs(const char *out, const json_t *plan) {
    const char *name;
    json_t *variant;
    int count = 0;
    json_object_foreach(json_object_get(plan, "variants"), name, variant) {
        count += finished_in(out, name);
    }
    return count;
}

/* The plans in the folder; an empty list if there are none. */
static json_t *plans_read(const char *out) {
    AUTO_FREE char *path = path_join(out, "plans.json");
    json_t *file = file_json(path), *plans = json_object_get(file, "plans");
    plans = json_is_array(plans) ? json_incref(plans) : json_array();
    json_decref(file);
    return plans;
}

static bool plans_write(const char *out, json_t *plans) {
    json_auto_t *file = json_make("{s:O}", "plans", plans);
    AUTO_FREE char *text = json_write(file, JSON_INDENT(2));
    return folder_write_text(out, "plans.json", text);
}

bool registry_add(const char *out, json_t *plan, const json_t *before, const char *reason) {
    json_auto_t *plans = plans_read(out);
    size_t count = json_array_size(plans);
    char *hash = plan_hash(plan), when[TIME_TEXT];
    bool good = true;
    if (!count || strcmp(hash_of(json_array_get(plans, count - 1)), hash) != 0) {
        time_text(when);
        json_array_append_new(plans,
                              json_make("{s:s, s:s, s:s?, s:i, s:O}", "time", when, "hash", hash,
                                        "reason", reason, "finished_runs",
                                        finished_runs(out, before ? before : plan), "plan", plan));
        good = plans_write(out, plans);
    }
    free(hash);
    return good;
}

/* ---- runs that a change makes useless ---- */

/* Whether the runs of a variant are those of the new plan as well. */
static bool is_reused(const json_t *before, const json_t *now, const char *name) {
    const json_t *old = json_object_get(json_object_get(before, "variants"), name),
                 *own = json_object_get(json_object_get(now, "variants"), name);
    return own && json_field_equal(old, own, "model") && json_field_equal(before, now, "data") &&
           json_field_equal(before, now, "val") && json_field_equal(before, now, "tokenizer") &&
           json_field_equal(before, now, "seconds") &&
           json_field_equal(before, now, "diverged_above");
}

static bool move_aside(const char *out, const char *name, const char *aside) {
    AUTO_FREE char *from = path_join(out, name), *to = path_join(aside, name);
    bool there = file_exists(from), good = !there || (folder_make(aside) && rename(from, to) == 0);
    if (!good) error_message("check the folder", "cannot move %s: %s", from, strerror(errno));
    return good;
}

bool registry_set_aside(const char *out, const json_t *before, const json_t *now) {
    AUTO_FREE char *hash = plan_hash(before),
                   *aside = memory_format("%s/earlier_plans/%s", out, hash);
    const char *name;
    json_t *variant;
    bool good = true, all = true;
    json_object_foreach(json_object_get(before, "variants"), name, variant) {
        if (!good || is_reused(before, now, name)) continue;
        good = move_aside(out, name, aside);
        all = false;
    }
    if (good && !all) good = move_aside(out, "forecast.json", aside);
    return good;
}

/* ---- as JSON ---- */

/* Variants that were tried and are not in the plan any more, with their finished runs. */
static void add_set_aside(json_t *list, const char *out, const json_t *entry) {
    AUTO_FREE char *aside = memory_format("%s/earlier_plans/%s", out, hash_of(entry));
    const char *name;
    json_t *variant;
    json_object_foreach(json_object_get(json_object_get(entry, "plan"), "variants"), name,
                        variant) {
        int runs = finished_in(aside, name);
        if (runs)
            json_array_append_new(list,
                                  json_make("{s:s, s:i}", "variant", name, "finished_runs", runs));
    }
}

json_t *registry_json(const char *out, bool lasting) {
    char *path = path_join(out, "sweep.json"), *hash;
    json_auto_t *plan = file_json(path), *plans = plans_read(out);
    json_t *entry;
    json_auto_t *changes = json_array(), *aside = json_array();
    json_t *registry = NULL;
    size_t at, count = json_array_size(plans);
    free(path);
    json_array_foreach(plans, at, entry) {
        json_t *change = json_make("{s:s, s:O?, s:O}", "hash", hash_of(entry), "reason",
                                   json_object_get(entry, "reason"), "finished_runs",
                                   json_object_get(entry, "finished_runs"));
        if (!lasting) json_object_set(change, "time", json_object_get(entry, "time"));
        json_array_append_new(changes, change);
        add_set_aside(aside, out, entry);
    }
    hash = plan_hash(plan);
    if (plan && count)
        registry =
            json_make("{s:s, s:b, s:O?, s:O, s:O}", "hash", hash, "registered",
                      !strcmp(hash, hash_of(json_array_get(plans, count - 1))), "hypothesis",
                      json_object_get(plan, "hypothesis"), "plans", changes, "set_aside", aside);
    free(hash);
    return registry;
}
