#include "tools/experiment/experiment.h"

#include "abi/json_make.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 4 }; /* of folders within folders that are looked through */

static bool folder_has(const char *folder, const char *name) {
    AUTO_FREE char *path = path_join(folder, name);
    return file_exists(path);
}

static json_t *folder_json(const char *folder, const char *name) {
    AUTO_FREE char *path = path_join(folder, name);
    return file_json(path);
}

/* ---- one run ---- */

/* The last part of a path; of "gate_at_v/seed_2" the one before. A new string. */
static char *folder_base_name(const char *folder) {
    char *copy = memory_format("%s", folder);
    for (;;) {
        size_t length = strlen(copy);
        while (length > 1 && copy[length - 1] == '/') copy[--length] = 0;
        char *slash = strrchr(copy, '/'), *last = slash ? slash + 1 : copy;
        if (!slash || slash == copy || strncmp(last, "seed_", 5) != 0) {
            char *name = memory_format("%s", last);
            free(copy);
            return name;
        }
        *slash = 0;
    }
}

static long run_seed(const Run *run) {
    const json_t *seed = json_object_get(run->account, "seed");
    const char *slash = strrchr(run->folder, '/');
    long number;
    if (json_is_integer(seed)) return (long)json_integer_value(seed);
    return sscanf(slash ? slash + 1 : run->folder, "seed_%ld", &number) == 1 ? number : -1;
}

/* Halving stops runs before their end; their results are not comparable with those of complete
 * runs. */
static bool was_stopped(const Run *run) {
    json_auto_t *result = folder_json(run->folder, "result.json");
    return json_is_true(json_object_get(result, "stopped"));
}

/* A run that a sweep has looked after has its result; any other has ended at its last step. */
static bool has_ended(const Run *run) {
    const json_t *steps = json_object_get(run->account, "steps");
    return run->result.diverged || folder_has(run->folder, "result.json") ||
           (steps ? run->result.step >= json_integer_value(steps) : run->history.rows > 0);
}

static bool read_run(Run *run, const char *folder, const char *metric) {
    *run = (Run){.folder = memory_format("%s", folder)};
    if (!history_open(&run->history, folder, false)) {
        free(run->folder);
        return false;
    }
    run->account = folder_json(folder, "run.json");
    run->seed = run_seed(run);
    run->result = result_of(&run->history, metric);
    run->result.stopped = was_stopped(run);
    run->ended = has_ended(run);
    return true;
}

/* ---- groups ---- */

static Group *find_group(const Gathering *gathering, const char *name) {
    for (int i = 0; i < gathering->count; i++)
        if (strcmp(gathering->groups[i].name, name) == 0) return &gathering->groups[i];
    return NULL;
}

/* A new string that JSON can hold: bytes of a folder's name that are no UTF-8 become '?'. */
static char *valid_name(const char *name) {
    char *copy = memory_format("%s", name);
    json_auto_t *string = json_text(copy);
    for (char *at = copy; !string && *at; at++)
        if ((unsigned char)*at > 127) *at = '?';
    return copy;
}

static Group *append_group(Gathering *gathering, const char *name) {
    size_t size = (size_t)(gathering->count + 1) * sizeof *gathering->groups;
    gathering->groups = memory_grow(gathering->groups, size);
    Group *group = &gathering->groups[gathering->count++];
    *group = (Group){.name = valid_name(name)};
    return group;
}

static void append_run(Group *group, const Run *run, char *spec) {
    group->runs = memory_grow(group->runs, (size_t)(group->count + 1) * sizeof *group->runs);
    group->runs[group->count++] = *run;
    if (!group->spec)
        group->spec = spec;
    else
        free(spec);
}

/* One that has the same spec, length and data, and not this seed yet. */
static Group *find_alike(const Gathering *gathering, const Run *run, const char *spec) {
    static const char *const same[] = {"steps", "data", "tokens_per_step"};
    for (int i = 0; spec && i < gathering->count; i++) {
        Group *group = &gathering->groups[i];
        bool alike = group->spec && !group->sets && strcmp(group->spec, spec) == 0;
        for (size_t k = 0; alike && k < sizeof same / sizeof *same; k++)
            alike = json_field_equal(run->account, group->runs[0].account, same[k]);
        for (int k = 0; alike && k < group->count; k++) alike = group->runs[k].seed != run->seed;
        if (alike) return group;
    }
    return NULL;
}

static bool gather_run(Gathering *gathering, const char *folder) {
    Run run;
    if (!read_run(&run, folder, NULL)) return false;
    char *spec = run_spec(folder), *name = folder_base_name(folder);
    Group *group = find_alike(gathering, &run, spec);
    if (!group) group = append_group(gathering, find_group(gathering, name) ? folder : name);
    append_run(group, &run, spec);
    free(name);
    return true;
}

/* ---- folders ---- */

typedef struct Seeds {
    Gathering *gathering;
    Group *group;
} Seeds;

static bool visit_seed(void *data, const char *folder) {
    const Seeds *seeds = data;
    Run run;
    if (!folder_has(folder, "log.jsonl")) return true;
    char **metric = &seeds->gathering->metric;
    if (!read_run(&run, folder, *metric)) return false;
    if (*metric && *run.result.metric) { /* its current name */
        free(*metric);
        *metric = memory_format("%s", run.result.metric);
    }
    append_run(seeds->group, &run, run_spec(folder));
    return true;
}

/* A text of an object as a new string, or NULL. */
static char *field_copy(const json_t *object, const char *name) {
    const char *text = json_field_text(object, name);
    return text ? memory_format("%s", text) : NULL;
}

static TestRules read_test_rules(const json_t *rules) {
    static const double power = 0.8;
    const char *correction = json_field_text(rules, "correction");
    const json_t *own = json_object_get(rules, "power");
    TestRules read = {.equivalence = json_number_value(json_object_get(rules, "equivalence")),
                      .detect = json_number_value(json_object_get(rules, "detect")),
                      .power = own ? json_number_value(own) : power};
    for (int i = 0; correction && i <= CORRECTION_NONE; i++)
        if (!strcmp(correction, correction_name((PValueCorrection)i)))
            read.correction = (PValueCorrection)i;
    return read;
}

/* The rules of the first sweep apply to all folders. */
static void take_rules(Gathering *gathering, const json_t *sweep) {
    if (gathering->experiment) return;
    gathering->experiment = field_copy(sweep, "experiment");
    gathering->metric = field_copy(sweep, "metric");
    gathering->higher = json_object_get(sweep, "better") != NULL;
    gathering->rules = read_test_rules(json_object_get(sweep, "statistics"));
    gathering->design = json_incref(json_object_get(sweep, "design"));
}

static bool gather_variant(Gathering *gathering, const char *folder, const char *name,
                           json_t *variant) {
    char *path = path_join(folder, name);
    Group *group = append_group(gathering, find_group(gathering, name) ? path : name);
    Seeds seeds = {gathering, group};
    bool good = folder_each(path, visit_seed, &seeds);
    free(path);
    if (!group->count) {
        free(group->name);
        gathering->count--;
        return good;
    }
    group->sets = json_incref(json_object_get(variant, "sets"));
    group->structure = field_copy(variant, "structure");
    group->tuned = field_copy(variant, "tuned");
    return good;
}

/* All variants of a sweep in its order; those that are the same model as another have no runs. */
static bool gather_sweep(Gathering *gathering, const char *folder, json_t *sweep) {
    const char *name;
    json_t *variant;
    bool good = true;
    if (!gathering->experiment) gathering->folder = memory_format("%s", folder);
    take_rules(gathering, sweep);
    json_object_foreach(json_object_get(sweep, "variants"), name, variant) {
        good = good && gather_variant(gathering, folder, name, variant);
    }
    return good;
}

typedef struct FolderSearch {
    Gathering *gathering;
    int depth;
} FolderSearch;

static bool visit_any(void *data, const char *folder) {
    FolderSearch *search = data;
    json_auto_t *sweep = folder_json(folder, "sweep.json");
    bool good = true;
    if (sweep) {
        good = gather_sweep(search->gathering, folder, sweep);
    } else if (folder_has(folder, "log.jsonl")) {
        good = gather_run(search->gathering, folder);
    } else if (search->depth < DEPTH) {
        search->depth++;
        good = folder_each(folder, visit_any, search);
        search->depth--;
    }
    return good;
}

/* ---- cost of a model ---- */

static void describe_group(Group *group) {
    if (!group->spec) return;
    AUTO(MoecCompiler) *compiler = moec_open_bundle(group->spec, strlen(group->spec), NULL, 0);
    const char *cost = moec_cost_json(compiler),
               *options = cost ? moec_options_json(compiler) : NULL;
    if (options) {
        group->cost = json_loads(cost, 0, NULL);
        group->options = json_loads(options, 0, NULL);
    } else {
        note_message("%s: this version cannot read the spec of the run; its cost is omitted",
                     group->name);
    }
}

static long runs_of(const Gathering *gathering) {
    long runs = 0;
    for (int i = 0; i < gathering->count; i++) runs += gathering->groups[i].count;
    return runs;
}

bool gather(Gathering *gathering, const char *const *folders, int count) {
    *gathering = (Gathering){0};
    FolderSearch search = {gathering, 0};
    for (int i = 0; i < count; i++) {
        long before = runs_of(gathering);
        if (file_is_folder(folders[i]) && !visit_any(&search, folders[i])) return false;
        if (runs_of(gathering) == before)
            return error_message("pass output directories of moec train or moec sweep",
                                 file_is_folder(folders[i]) ? "%s contains no run"
                                                            : "%s is not a directory",
                                 folders[i]);
    }
    for (int i = 0; i < gathering->count; i++) describe_group(&gathering->groups[i]);
    return true;
}

static void free_group(Group *group) {
    for (int i = 0; i < group->count; i++) {
        free(group->runs[i].folder);
        history_free(&group->runs[i].history);
        json_decref(group->runs[i].account);
    }
    free(group->runs);
    free(group->name);
    free(group->spec);
    free(group->structure);
    free(group->tuned);
    json_decref(group->sets);
    json_decref(group->cost);
    json_decref(group->options);
}

void gathering_free(Gathering *gathering) {
    for (int i = 0; i < gathering->count; i++) free_group(&gathering->groups[i]);
    free(gathering->groups);
    free(gathering->experiment);
    free(gathering->metric);
    free(gathering->folder);
    json_decref(gathering->design);
    *gathering = (Gathering){0};
}

int gathering_find(const Gathering *gathering, const char *name) {
    for (int i = 0; i < gathering->count; i++)
        if (strcmp(gathering->groups[i].name, name) == 0) return i;
    AUTO_FREE char *help = memory_format("choose one of: ");
    for (int i = 0; i < gathering->count; i++)
        help = memory_append(help, "%s%s", i ? ", " : "", gathering->groups[i].name);
    error_message(help, "no run is named '%s'", name);
    return -1;
}
