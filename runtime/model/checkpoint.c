#include "model/checkpoint.h"

#include "base/complain.h"
#include "base/memory.h"
#include "model/reports.h"
#include "base/version.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void add_note(json_t *notes, const char *name, const char *text) {
    json_object_set_new(notes, name, json_string(text));
}

static void add_number(json_t *notes, const char *name, const char *format, double number) {
    char text[40];
    snprintf(text, sizeof text, format, number);
    add_note(notes, name, text);
}

bool checkpoint_write(const char *path, const Model *model, const char *bundle, const Place *place,
                      bool optimizer) {
    json_t *notes = json_object();
    int count;
    Entry *entries = model_entries(model, optimizer, notes, &count);
    if (!entries) {
        json_decref(notes);
        return false;
    }
    char seed[24], position[24], tokens[24];
    snprintf(seed, sizeof seed, "%" PRIu64, place->seed);
    snprintf(position, sizeof position, "%" PRIu64, place->position);
    snprintf(tokens, sizeof tokens, "%" PRIu64, place->tokens);
    add_note(notes, "format", "moec");
    add_note(notes, "version", MOEC_VERSION);
    add_note(notes, "model", model->table->model);
    add_note(notes, "spec", bundle);
    add_note(notes, "seed", seed);
    add_note(notes, "position", position);
    add_note(notes, "tokens", tokens);
    add_number(notes, "step", "%.0f", (double)place->step);
    add_number(notes, "best_loss", "%.17g", place->best);
    bool written = safetensors_write(path, entries, count, notes);
    entries_free(entries, count);
    json_decref(notes);
    return written;
}

bool checkpoint_place(const Safetensors *file, Place *place) {
    const char *step = safetensors_note(file, "step"), *seed = safetensors_note(file, "seed");
    const char *position = safetensors_note(file, "position"),
               *best = safetensors_note(file, "best_loss");
    const char *tokens = safetensors_note(file, "tokens");
    if (!step || !seed || !position || !best || !tokens)
        return complain("use a checkpoint that moec train has written",
                        "%s is no checkpoint of a training run", file->path);
    place->step = strtol(step, NULL, 10);
    place->seed = strtoull(seed, NULL, 10);
    place->position = strtoull(position, NULL, 10);
    place->tokens = strtoull(tokens, NULL, 10);
    place->best = strtod(best, NULL);
    return true;
}

Safetensors *checkpoint_open(const char *operand) {
    if (!file_is_folder(operand)) return safetensors_open(operand);
    char *best = path_join(operand, "best.safetensors"),
         *last = path_join(operand, "last.safetensors");
    Safetensors *file = NULL;
    if (file_exists(best) || file_exists(last))
        file = safetensors_open(file_exists(best) ? best : last);
    else
        complain("give the folder that moec train --out has filled", "%s holds no checkpoint",
                 operand);
    free(best);
    free(last);
    return file;
}

MoecCompiler *checkpoint_spec(const Safetensors *file, const char *const *sets, int set_count) {
    const char *bundle = safetensors_note(file, "spec");
    if (!bundle) {
        complain("use a checkpoint that moec train has written", "%s does not hold its spec",
                 file->path);
        return NULL;
    }
    MoecCompiler *compiler = moec_open_bundle(bundle, strlen(bundle), sets, set_count);
    if (reports_good(compiler)) return compiler;
    moec_close(compiler);
    return NULL;
}
