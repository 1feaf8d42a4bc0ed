#include "training/internal.h"

#include "abi/json_make.h"
#include "base/build.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "AMD EPYC 9654 96-Core Processor" */
char *processor_name(void) {
    char *line = NULL, *name = NULL;
    size_t capacity = 0;
    AUTO(FILE) *file = fopen("/proc/cpuinfo", "re");
    while (file && !name && getline(&line, &capacity, file) > 0) {
        const char *colon = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
        if (colon) name = memory_format("%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
    }
    free(line);
    return name;
}

static json_t *start_json(const Account *account) {
    json_t *command = json_array();
    for (int i = 0; account->command && account->command[i]; i++)
        json_array_append_new(command, json_escaped(account->command[i]));
    char when[TIME_TEXT], *processor = processor_name();
    time_text(when);
    json_t *start = json_make("{s:o, s:I, s:s, s:o, s:o, s:I, s:s, s:s}", "command", command,
                              "step", (json_int_t)account->step, "when", when, "device",
                              json_escaped(account->device), "processor", json_escaped(processor),
                              "processors", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "version",
                              MOEC_VERSION, "commit", build_commit);
    free(processor);
    return start;
}

/* Earlier starts of the run; none if the run restarts from step 0. */
static json_t *starts_before(const char *path, const Account *account) {
    json_auto_t *before = account->step ? file_json(path) : NULL;
    json_t *starts = json_object_get(before, "starts");
    starts = json_is_array(starts) ? json_incref(starts) : json_array();
    return starts;
}

bool account_write(const char *folder, const Account *account) {
    AUTO_FREE char *path = path_join(folder, "run.json");
    json_t *starts = starts_before(path, account);
    json_array_append_new(starts, start_json(account));
    json_auto_t *root = json_make(
        "{s:s, s:I, s:I, s:f, s:o, s:I, s:b, s:o, s:o, s:o, s:o}", "model", account->model, "seed",
        (json_int_t)account->seed, "steps", (json_int_t)account->steps, "tokens_per_step",
        account->tokens_per_step, "data", json_escaped(account->data), "data_tokens",
        (json_int_t)account->data_tokens, "text", account->text, "val",
        json_escaped(account->validation), "tokenizer", json_escaped(account->tokenizer), "starts",
        starts, "spec", json_escaped(account->spec));
    AUTO_FREE char *text = json_write(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    return file_write(path, text, strlen(text));
}
