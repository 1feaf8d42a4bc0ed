#include "training/checkpoint.h"

#include "abi/json_make.h"
#include "base/message.h"
#include "base/memory.h"
#include "model/model.h"
#include "base/build.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char choices_note[] = "kernel_choices";

static void add_note(json_t *notes, const char *name, const char *text) {
    json_object_set_new(notes, name, json_text(text));
}

static void add_number(json_t *notes, const char *name, const char *format, double number) {
    char text[40];
    snprintf(text, sizeof text, format, number);
    add_note(notes, name, text);
}

const char *checkpoint_file(const Safetensors *file, const char *name) {
    AUTO_FREE char *note = memory_format("file:%s", name);
    return safetensors_note(file, note);
}

void checkpoint_note(json_t *notes, const char *model, const char *bundle,
                     const Companions *companions, const TrainState *place) {
    char seed[24], position[24], tokens[24];
    snprintf(seed, sizeof seed, "%" PRIu64, place->seed);
    snprintf(position, sizeof position, "%" PRIu64, place->position);
    snprintf(tokens, sizeof tokens, "%" PRIu64, place->tokens);
    add_note(notes, "format", "moec");
    add_note(notes, "version", MOEC_VERSION);
    add_note(notes, "model", model);
    add_note(notes, "spec", bundle);
    if (companions->tokenizer) add_note(notes, "tokenizer", companions->tokenizer);
    if (companions->files) json_object_update(notes, companions->files);
    add_note(notes, "seed", seed);
    add_note(notes, "position", position);
    add_note(notes, "tokens", tokens);
    add_number(notes, "step", "%.0f", (double)place->step);
    add_number(notes, "best_loss", "%.17g", place->best);
    if (place->lanes > 1) add_number(notes, "reduction_lanes", "%.0f", (double)place->lanes);
}

bool checkpoint_write(const char *path, const Model *model, const char *bundle,
                      const Companions *companions, const TrainState *place, bool optimizer) {
    json_t *notes = json_object();
    int count;
    TensorEntry *entries = model_entries(model, optimizer, notes, &count);
    if (!entries) {
        json_decref(notes);
        return false;
    }
    checkpoint_note(notes, model->table->model, bundle, companions, place);
    if (optimizer && json_object_size(model->device->choices)) {
        AUTO_FREE char *choices = json_write(model->device->choices, JSON_COMPACT | JSON_SORT_KEYS);
        add_note(notes, choices_note, choices);
    }
    bool written = safetensors_write(path, entries, count, notes);
    entries_free(entries, count);
    json_decref(notes);
    return written;
}

/* ---- reading: every note must have the form that checkpoint_write writes ---- */

static const uint64_t most_steps = (uint64_t)1 << 40, most = (uint64_t)1 << 62;

static bool whole(const char *text, uint64_t limit, uint64_t *value) {
    size_t digits = strspn(text, "0123456789");
    if (!digits || text[digits] || digits > 20 || (digits > 1 && *text == '0')) return false;
    errno = 0;
    *value = strtoull(text, NULL, 10);
    return !errno && *value <= limit;
}

/* A loss, or infinity before the first. */
static bool noted_loss(const char *text, double *value) {
    char *end;
    *value = strtod(text, &end);
    bool number =
        (isdigit((unsigned char)*text) || *text == '-') && !text[strspn(text, "0123456789.e+-")];
    return strcmp(text, "inf") == 0 || (number && !*end && isfinite(*value));
}

/* "1.20.3" */
static bool version(const char *text) {
    int parts = 0;
    for (; parts < 3 && isdigit((unsigned char)*text); parts++) {
        text += strspn(text, "0123456789");
        if (parts < 2 && *text++ != '.') return false;
    }
    return parts == 3 && !*text;
}

/* True if the second line of the spec names this model. */
static bool same_model(const char *name, const char *bundle) {
    const char *line = strchr(bundle, '\n');
    size_t length = strlen(name);
    return length && line && strncmp(line + 1, "model ", 6) == 0 &&
           strncmp(line + 7, name, length) == 0 && line[7 + length] == '\n';
}

json_t *checkpoint_choices(const Safetensors *file) {
    const char *note = safetensors_note(file, choices_note), *key;
    json_t *choices = note ? json_loads(note, 0, NULL) : NULL, *value;
    bool good = json_is_object(choices);
    json_object_foreach(choices, key, value) good = good && json_is_string(value);
    if (good) return choices;
    json_decref(choices);
    return NULL;
}

static bool noted_choices(const Safetensors *file) {
    json_auto_t *choices = checkpoint_choices(file);
    return choices || !safetensors_note(file, choices_note);
}

/* Returns the first note that is present and malformed, or NULL. Missing notes keep the value in
 * `*place`. */
static const char *wrong_note(const Safetensors *file, TrainState *place) {
    uint64_t step = (uint64_t)place->step;
    const struct {
        const char *name;
        uint64_t limit, *value;
    } numbers[] = {{"step", most_steps, &step},
                   {"seed", UINT64_MAX, &place->seed},
                   {"position", most, &place->position},
                   {"tokens", most, &place->tokens},
                   {"reduction_lanes", most_steps, &place->lanes}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        const char *text = safetensors_note(file, numbers[i].name);
        if (text && !whole(text, numbers[i].limit, numbers[i].value)) return numbers[i].name;
    }
    place->step = (long)step;
    const char *best = safetensors_note(file, "best_loss"),
               *format = safetensors_note(file, "format"),
               *number = safetensors_note(file, "version"),
               *model = safetensors_note(file, "model"), *bundle = safetensors_note(file, "spec");
    if (best && !noted_loss(best, &place->best)) return "best_loss";
    if (format && strcmp(format, "moec") != 0) return "format";
    if (number && !version(number)) return "version";
    if (!noted_choices(file)) return choices_note;
    return model && bundle && !same_model(model, bundle) ? "model" : NULL;
}

static bool notes_good(const Safetensors *file, TrainState *place) {
    const char *wrong = wrong_note(file, place);
    return !wrong || error_message("use another copy; the file was changed after it was written",
                                   "%s: note '%s' does not have the form that moec train writes",
                                   file->path, wrong);
}

bool checkpoint_place(const Safetensors *file, TrainState *place) {
    static const char *const names[] = {"step",   "seed",    "position", "tokens", "best_loss",
                                        "format", "version", "model",    "spec"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!safetensors_note(file, names[i]))
            return error_message("use a checkpoint written by moec train",
                                 "%s is not a training checkpoint: note '%s' is missing",
                                 file->path, names[i]);
    return notes_good(file, place);
}

long checkpoint_step(const Safetensors *file) {
    TrainState place = {0};
    wrong_note(file, &place);
    return place.step;
}

/* True if the argument is a spec instead of a trained model. */
static bool is_spec(const char *operand) {
    size_t length = strlen(operand);
    return (length > 4 && strcmp(operand + length - 4, ".moe") == 0) || strstr(operand, ".moe:");
}

/* Opens a file with valid notes. A file without a spec is from another program and may have any
 * notes. */
static Safetensors *open_sound(const char *path) {
    Safetensors *file = safetensors_open(path);
    TrainState place = {0};
    if (!file || !safetensors_note(file, "spec") || notes_good(file, &place)) return file;
    safetensors_close(file);
    return NULL;
}

char *checkpoint_path(const char *folder) {
    static const char *const names[] = {"best.safetensors", "last.safetensors"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *path = path_join(folder, names[i]);
        if (file_exists(path)) return path;
        free(path);
    }
    return NULL;
}

bool checkpoint_within(const char *folder) {
    AUTO_FREE char *path = checkpoint_path(folder);
    return path != NULL;
}

Safetensors *checkpoint_open(const char *operand) {
    if (is_spec(operand)) {
        error_message("train it with moec train SPEC --data TEXT --out RUN, then use RUN",
                      "%s is a spec, but this command needs a trained model", operand);
        return NULL;
    }
    if (!file_is_folder(operand)) return open_sound(operand);
    AUTO_FREE char *path = checkpoint_path(operand);
    Safetensors *file = path ? open_sound(path) : NULL;
    if (!path)
        error_message("use a run directory written by moec train --out",
                      "%s contains no checkpoint", operand);
    return file;
}

MoecCompiler *checkpoint_spec_quietly(const Safetensors *file, const char *const *sets,
                                      int set_count) {
    const char *bundle = safetensors_note(file, "spec");
    if (bundle) return moec_open_bundle(bundle, strlen(bundle), sets, set_count);
    error_message("use a checkpoint written by moec train", "%s does not contain its spec",
                  file->path);
    return NULL;
}

bool checkpoint_tokenizer(const Safetensors *file, Tokenizer **tokenizer) {
    const char *json = safetensors_note(file, "tokenizer");
    *tokenizer = json ? tokenizer_read(file->path, json, strlen(json)) : NULL;
    return !json || *tokenizer;
}

MoecCompiler *checkpoint_spec(const Safetensors *file, const char *const *sets, int set_count) {
    MoecCompiler *compiler = checkpoint_spec_quietly(file, sets, set_count);
    if (!compiler || reports_good(compiler)) return compiler;
    moec_close(compiler);
    return NULL;
}

bool checkpoint_readable(const char *path) {
    AUTO(Safetensors) *file = safetensors_open(path);
    TrainState place = {0};
    AUTO(Tokenizer) *tokenizer = NULL;
    bool good = file && checkpoint_place(file, &place) && checkpoint_tokenizer(file, &tokenizer);
    AUTO(MoecCompiler) *compiler = good ? checkpoint_spec(file, NULL, 0) : NULL;
    good = good && compiler;
    return good || error_message("use another disk; please report this if the disk is intact",
                                 "%s was written but cannot be read back", path);
}
