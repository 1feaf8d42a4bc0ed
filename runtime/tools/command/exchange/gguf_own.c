/* gguf_own: a run as one GGUF file with its spec, and back: see torch_folder.h. */
#include "tools/command/exchange/torch_folder.h"

#include "abi/json_make.h"
#include "abi/quantity.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"
#include "tools/command/line/commands.h"
#include "tools/exchange/exchange.h"
#include "training/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GGUF_RANK = 4 };

/* Before the name of the note, "file:config.json". */
static const char key_start[] = "moec.", file_key[] = "moec.file:";

/* All elements in their order. */
static MoecSlice whole_slice(size_t elements) {
    MoecSlice slice = {.factor = 1, .rank = 1};
    slice.size[0] = (long)elements;
    slice.their_step[0] = slice.our_step[0] = 1;
    return slice;
}

/* Parameters, then layer states. */
static const PublicTensor *gguf_own_tensor(const Model *model, int i) {
    const int parameters = model->parameter_count;
    return i < parameters ? &model->parameters[i] : &model->states[i - parameters];
}

/* ---- writing ---- */

static void add_own_keys(const GgufOwn *own, Gguf *gguf) {
    const char *tokenizer = own->bare ? NULL : safetensors_note(own->file, "tokenizer"), *name;
    json_t *files = safetensors_files(own->file), *text;
    gguf_text(gguf, "general.architecture", "moec");
    gguf_text(gguf, "general.name", moec_model(own->compiler));
    gguf_text(gguf, "moec.spec", moec_bundle(own->compiler));
    if (tokenizer) gguf_text(gguf, "moec.tokenizer", tokenizer);
    json_object_foreach(files, name, text) {
        AUTO_FREE char *key = memory_format("%s%s", key_start, name);
        if (json_is_string(text)) gguf_text(gguf, key, json_string_value(text));
    }
    json_decref(files);
}

bool gguf_own_write(const GgufOwn *own, const char *path, int *tensors, char **types) {
    const Model *model = own->model;
    const int count = model->parameter_count + model->state_count;
    AUTO(Conversion) *conversion = conversion_new(count, false);
    AUTO_FREE MoecSlice *slices = memory_new(sizeof *slices * ((size_t)count + 1));
    Gguf gguf = {0};
    bool good = true;
    for (int i = 0; i < count && good; i++) {
        const PublicTensor *one = gguf_own_tensor(model, i);
        const TensorEntry *entry = safetensors_find(own->file, one->name);
        const bool flat = one->rank < 1 || one->rank > GGUF_RANK;
        const long elements = (long)one->count;
        slices[i] = whole_slice(one->count);
        conversion_target(conversion, i, one->name, flat ? 1 : one->rank,
                          flat ? &elements : one->shape);
        good = entry ? conversion_origin(conversion, i, own->file->path, entry, &slices[i])
                     : error_message("use a checkpoint of moec train or moec import",
                                     "%s has no tensor %s", own->file->path, one->name);
    }
    add_own_keys(own, &gguf);
    good = good && gguf_write(&gguf, path, conversion, NULL, 0, NULL);
    *tensors = count;
    *types = good ? gguf_types(conversion) : NULL;
    return good;
}

/* ---- reading ---- */

static const char *own_text(const GgufFile *file, const char *key) {
    return json_field_text(file->keys, key);
}

bool gguf_own_is(const GgufFile *file) {
    const char *architecture = own_text(file, "general.architecture");
    return architecture && !strcmp(architecture, "moec");
}

static bool own_damaged(const Shards *shards, const char *what, const char *name) {
    return error_message("write the file again with moec export --format " GGUF_OWN, "%s: %s%s",
                         shards->path, what, name);
}

static bool add_own_tensors(const Shards *shards, const Model *model, Conversion *conversion,
                            MoecSlice *slices) {
    for (int i = 0; i < conversion->count; i++) {
        const PublicTensor *one = gguf_own_tensor(model, i);
        const int at = shards_find(shards, one->name);
        if (at < 0) return own_damaged(shards, "missing tensor ", one->name);
        if (entry_elements(shards->entries[at]) != one->count)
            return own_damaged(shards, "another number of elements in tensor ", one->name);
        slices[i] = whole_slice(one->count);
        conversion_target(conversion, i, one->name, one->rank, one->shape);
        if (!conversion_origin(conversion, i, shards->path, shards->entries[at], &slices[i]))
            return false;
    }
    return true;
}

/* The notes of a checkpoint. */
static json_t *own_notes(const Shards *shards, const Model *model, MoecCompiler *compiler,
                         const char *tokenizer) {
    const TrainState place = {.seed = 1, .best = INFINITY};
    json_t *notes = json_object(), *files = json_object(), *text;
    const Companions companions = {.tokenizer = tokenizer, .files = files};
    const char *key;
    json_object_foreach(shards->gguf->keys, key, text) {
        if (!strncmp(key, file_key, strlen(file_key)))
            json_object_set(files, key + strlen(key_start), text);
    }
    for (int i = 0; i < model->parameter_count; i++) {
        AUTO_FREE char *axes = memory_format("axes:%s", model->parameters[i].name);
        json_object_set_new(notes, axes, json_text(model->parameters[i].axes));
    }
    checkpoint_note(notes, moec_model(compiler), moec_bundle(compiler), &companions, &place);
    json_decref(files);
    return notes;
}

static void report_own(const TorchImport *import, MoecCompiler *compiler, const Model *model) {
    const size_t elements = model_elements(model);
    const char *name = moec_model(compiler);
    if (!import->json)
        printf("%s: model '%s' with the spec of the file, %s parameters\n", import->out, name,
               quantity_count((double)elements).text);
    written_message(import->out, "moec generate %s --prompt TEXT", import->out);
    if (import->json)
        json_result_written(import->out, json_make("{s:s, s:s, s:I}", "model", name, "layout",
                                                   GGUF_OWN, "parameters", (json_int_t)elements));
}

static bool write_own_run(const Shards *shards, const TorchImport *import, MoecCompiler *compiler) {
    const GraphShape shape = {.graph = MOEC_FORWARD};
    const char *text = import->bare ? NULL : own_text(shards->gguf, "moec.tokenizer");
    AUTO(Tokenizer) *tokenizer = text ? tokenizer_read(shards->path, text, strlen(text)) : NULL;
    AUTO(Model) *model = !text || tokenizer ? model_describe(compiler, &shape) : NULL;
    if (!model) return false;
    const int count = model->parameter_count + model->state_count;
    AUTO(Conversion) *conversion = conversion_new(count, true);
    AUTO_FREE MoecSlice *slices = memory_new(sizeof *slices * ((size_t)count + 1));
    json_auto_t *notes = own_notes(shards, model, compiler, text);
    AUTO_FREE char *path = path_join(import->out, "last.safetensors");
    bool made = false;
    const bool good =
        add_own_tensors(shards, model, conversion, slices) && folder_make_new(import->out, &made) &&
        (conversion_write(conversion, path, notes) || folder_abandon(import->out, made));
    if (good) report_own(import, compiler, model);
    return good;
}

bool gguf_own_read(const Shards *shards, const TorchImport *import) {
    const char *spec = own_text(shards->gguf, "moec.spec");
    if (!spec) return own_damaged(shards, "it has no key moec.spec", "");
    AUTO(MoecCompiler) *compiler =
        moec_open_bundle(spec, strlen(spec), import->sets->items, import->sets->count);
    return reports_good(compiler) && write_own_run(shards, import, compiler);
}
