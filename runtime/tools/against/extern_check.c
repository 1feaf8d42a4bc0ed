/* extern: the hand-written kernels of a model are compared with the equations of their layers,
 * before a program calls them for the first time and in `moec verify`. A kernel that differs is
 * refused: the program computes the equations. */
#include "tools/against/against.h"

#include "base/cache.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "rows = 2, s = 16, d = 64": a new string. */
static char *extern_sizes_text(const MoecExtern *external) {
    char *text = memory_format("rows = %ld", external->rows);
    for (int i = 0; i < external->size_count; i++) {
        char *longer =
            memory_format("%s, %s = %ld", text, external->sizes[i].name, external->sizes[i].size);
        free(text);
        text = longer;
    }
    return text;
}

/* ---- refusals ---- */

/* The function under comparison: that of the gradients after the other one. */
static const MoecExtern *compared_function(const AgainstExtern *external) {
    return external->gradient ? external->gradient : external->forward;
}

static void refusal_message(const AgainstExtern *compared, const char *reason) {
    const MoecExtern *external = compared_function(compared);
    AUTO_FREE char *sizes = extern_sizes_text(external);
    note_message("%s:%d: extern %s is refused at %s; the equations of layer '%s' run instead:\n    "
                 "%s",
                 external->spec, external->line, external->name, sizes, external->layer, reason);
}

/* "y[0,3] is 1 instead of 2 (norm.moe:5)": a new string. */
static char *difference_text(const AgainstSubject *subject, const AgainstCase *one,
                             const AgainstDifference *difference, const char *equation) {
    AgainstTensor located = *difference->tensor;
    if (difference->gradient) subject_locate(subject, one->shape, &located);
    AUTO_FREE char *element = element_index_text(&located, difference->first);
    AUTO_FREE char *where = difference->gradient && located.file
                                ? memory_format("first read in %s:%d", located.file, located.line)
                                : memory_format("computed in %s", equation);
    return memory_format("%s%s[%s] is %.9g instead of %.9g, bound %.1e; %s; %s values",
                         difference->gradient ? "the gradient of " : "", located.name, element,
                         difference->given, difference->exact, difference->bound, where,
                         against_kind_names[one->kind]);
}

/* ---- one kernel ---- */

typedef enum Outcome { AGREES, DIFFERS, FAILS } Outcome;

/* Compares all cases; a difference is printed. */
static Outcome judge_extern(const AgainstSubject *subject, AgainstPlan *plan,
                            const AgainstExtern *external) {
    Outcome outcome = AGREES;
    for (int i = 0; i < plan->case_count && outcome == AGREES; i++) {
        AgainstVerdict verdict;
        if (!judge_case(&plan->cases[i], &verdict)) outcome = FAILS;
        if (outcome == AGREES && verdict.difference_count) {
            outcome = DIFFERS;
            AUTO_FREE char *text = difference_text(
                subject, &plan->cases[i], &verdict.differences[0], external->forward->equation);
            refusal_message(external, text);
        }
        free(verdict.differences);
    }
    return outcome;
}

/* After some errors of a kernel, such as a write far outside of its operands, a GPU is unusable for
 * this process. */
static bool is_usable(Device *device) {
    void *block = device->kind->allocate(device, 4);
    if (block) device->kind->release(device, block, 4);
    return block != NULL;
}

/* Runs the code; its messages about crashes and zones are the reason of a refusal. */
static Outcome run_extern(AgainstPlan *plan, AgainstClient *client, const AgainstExtern *external) {
    char *messages = NULL;
    size_t length = 0;
    FILE *before = message_file(), *held = open_memstream(&messages, &length);
    if (!held) return FAILS;
    message_to(held);
    json_t *none = json_object();
    const bool loads = client_describe(client, none),
               good = loads && against_run_cases(plan, client);
    json_decref(none);
    fclose(held);
    message_to(before == stderr ? NULL : before);
    if (!good) {
        if (!loads)
            line_message("%s:%d: extern \"%s\":", external->forward->spec, external->forward->line,
                         compared_function(external)->name);
        if (!loads && external->device) fputs(messages, message_file());
        const char *start = strstr(messages, ": error"),
                   *text = start ? strchr(start + 2, ':') : NULL;
        messages[strcspn(messages, "\n")] = 0;
        text = text ? text + 2 : messages;
        if (loads)
            refusal_message(external, text);
        else if (!external->device)
            error_message("define the function in the file", "%s", text);
    }
    free(messages);
    if (!loads) return FAILS;
    if (good) return AGREES;
    if (!external->device || is_usable(external->device)) return DIFFERS;
    error_message("correct the kernel, or remove its extern statement",
                  "the GPU is not usable after an error of %s", compared_function(external)->name);
    return FAILS;
}

static Outcome compare_extern(AgainstOptions *options, const char *library) {
    const AgainstExtern *external = options->external;
    AgainstPlan plan = {0};
    AgainstSubject subject = {.options = options, .plan = &plan};
    AgainstClient client = {.to = -1, .from = -1};
    options->code = library;
    Outcome outcome = plan_read(&plan, options) && subject_open_extern(&subject, options) &&
                              plan_make(&plan, &subject) && client_open(&client, options)
                          ? AGREES
                          : FAILS;
    if (outcome == AGREES) outcome = run_extern(&plan, &client, external);
    client_close(&client);
    if (outcome == AGREES) outcome = judge_extern(&subject, &plan, external);
    plan_free(&plan);
    subject_free(&subject);
    free((void *)(uintptr_t)options->sizes);
    return outcome;
}

/* Builds and compares one kernel. */
static Outcome build_and_compare(const AgainstExtern *external) {
    TextList sets = {0};
    const MoecExtern *forward = external->forward;
    for (int i = 0; i < forward->option_count && i < LIST_LIMIT; i++)
        sets.items[sets.count++] = forward->options[i];
    AgainstOptions options = {.external = external,
                              .title = compared_function(external)->name,
                              .operand = forward->spec,
                              .device = "cpu",
                              .dtypes = "f32",
                              .seed = 1,
                              .sets = &sets};
    if (external->device) return compare_extern(&options, forward->name);
    Workplace place = {.lock = -1};
    const char *folder = getenv("TMPDIR");
    if (!cache_workplace(&place, folder && *folder ? folder : "/tmp", false)) {
        error_message("set TMPDIR to a folder that you can write to", "cannot create a folder");
        return FAILS;
    }
    AUTO_FREE char *output = path_join(place.folder, "extern.so"),
                   *code = memory_format("%s:%s", output, forward->function);
    const Outcome outcome = extern_library_build(external, place.folder, output)
                                ? compare_extern(&options, code)
                                : FAILS;
    cache_leave(&place);
    return outcome;
}

/* ---- earlier comparisons ---- */

enum { KNOWN_LIMIT = 64 };
static char *known_keys[KNOWN_LIMIT]; /* of this process */
static int known_count;
static bool fresh; /* earlier processes do not count */

void externs_compare_again(void) {
    fresh = true;
}

/* The path of a mark in the cache that the kernel agrees at these sizes, with this spec, compiler
 * and device: a new string, or NULL without a cache. */
static char *agreement_path(const AgainstExtern *external, const Device *device) {
    XXH3_state_t *state = cache_begin();
    AUTO_FREE char *sizes = extern_sizes_text(external->forward);
    const char *const texts[] = {moec_bundle(external->compiler),
                                 compared_function(external)->name,
                                 sizes,
                                 device->name,
                                 getenv("MOEC_CC"),
                                 getenv("MOEC_CFLAGS")};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        cache_add(state, texts[i] ? texts[i] : "");
    for (int i = 0; i < external->forward->option_count; i++)
        cache_add(state, external->forward->options[i]);
    return cache_path(state, ".agrees");
}

static bool agreed_before(const char *path) {
    for (int i = 0; i < known_count; i++)
        if (!strcmp(known_keys[i], path)) return true;
    char *mark = fresh ? NULL : cache_read_text(path);
    free(mark);
    return mark != NULL;
}

/* Frees the path later. */
static void note_agreement(char *path) {
    cache_write_text(path, "the kernel agrees with the equations\n");
    if (known_count < KNOWN_LIMIT)
        known_keys[known_count++] = path;
    else
        free(path);
}

/* The same as check_extern, unless it agreed before. */
static Outcome check_once(const AgainstExtern *external, const Device *device) {
    char *path = agreement_path(external, device);
    if (path && agreed_before(path)) {
        free(path);
        return AGREES;
    }
    const Outcome outcome = build_and_compare(external);
    if (outcome == AGREES) {
        AUTO_FREE char *sizes = extern_sizes_text(external->forward);
        (fresh ? note_message : detail_message)(
            "extern %s agrees with the equations of layer '%s' at %s",
            compared_function(external)->name, external->forward->layer, sizes);
    }
    if (path && outcome == AGREES)
        note_agreement(path);
    else
        free(path);
    return outcome;
}

/* ---- all kernels of a program ---- */

static bool has_key(const void *const *refused, int count, const void *key) {
    for (int i = 0; i < count; i++)
        if (refused[i] == key) return true;
    return false;
}

static ExternCheck check_programs(Device *device, MoecCompiler *compiler,
                                  MoecProgram *const *programs, int count) {
    const void *refused[KNOWN_LIMIT];
    int refusals = 0;
    for (int i = 0; i < count; i++) {
        int calls;
        const MoecExtern *list = moec_externs(compiler, programs[i], &calls);
        for (int j = 0; j < calls; j++) {
            if (list[j].gradient || has_key(refused, refusals, list[j].key)) continue;
            AgainstExtern external = {
                .compiler = compiler, .forward = &list[j], .device = device->apart ? device : NULL};
            Outcome outcome = check_once(&external, device);
            for (int k = 0; k < calls && outcome == AGREES; k++) {
                if (!list[k].gradient || list[k].forward != j) continue;
                external.gradient = &list[k];
                outcome = check_once(&external, device);
            }
            if (outcome == FAILS) return EXTERNS_FAIL;
            if (outcome == AGREES) continue;
            moec_refuse_extern(compiler, compared_function(&external));
            if (refusals < KNOWN_LIMIT) refused[refusals++] = compared_function(&external)->key;
        }
    }
    return refusals ? EXTERNS_REFUSED : EXTERNS_AGREE;
}

/* A failed kernel makes the device that it runs on unusable: the comparison has one of its own. */
ExternCheck externs_check(Device *device, MoecCompiler *compiler, MoecProgram *const *programs,
                          int count) {
    if (!device->apart) return check_programs(device, compiler, programs, count);
    AUTO_FREE char *name = memory_format("%.*s", (int)strcspn(device->name, " "), device->name);
    AUTO(Device) *own = device_open(name);
    return own ? check_programs(own, compiler, programs, count) : EXTERNS_FAIL;
}
