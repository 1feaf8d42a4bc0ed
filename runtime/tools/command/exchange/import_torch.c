/* import_torch: the way back from a folder of moec emit --target torch: its spec and its weights,
 * bit by bit, also after training in PyTorch. */
#include "tools/command/exchange/torch_folder.h"

#include "abi/json_make.h"
#include "base/files.h"
#include "base/memory.h"
#include "model/model.h"
#include "tools/command/line/commands.h"
#include "tools/exchange/exchange.h"
#include "training/checkpoint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool torch_folder_is(const char *path) {
    AUTO_FREE char *spec = path_join(path, TORCH_SPEC);
    return file_exists(spec);
}

/* The spec of the folder with `count` settings, which the compiler keeps; NULL after a message. */
static MoecCompiler *open_settings(const char *folder, const char *const *sets, int count) {
    Mapping text;
    AUTO_FREE char *path = path_join(folder, TORCH_SPEC);
    MoecCompiler *compiler = NULL;
    if (file_map(path, "write the folder again with moec emit", &text)) {
        compiler = moec_open_bundle((const char *)text.bytes, text.length, sets, count);
        file_unmap(&text);
    }
    if (!compiler || reports_good(compiler)) return compiler;
    moec_close(compiler);
    return NULL;
}

/* The numbers of config.json that differ from those of the spec, "path=value", and then the
 * settings of the command. Returns their count. */
static int changed_options(const TorchImport *import, MoecCompiler *compiler, char ***sets) {
    static const char prefix[] = "options.";
    AUTO_FREE char *file = path_join(import->folder, "config.json");
    AUTO(Config) *config = config_open(file);
    int count = 0;
    *sets = memory_new((size_t)((config ? config->count : 0) + import->sets->count + 1) *
                       sizeof **sets);
    for (int i = 0; config && i < config->count; i++) {
        const MoecPair *pair = &config->pairs[i];
        const char *path = pair->key + sizeof prefix - 1;
        if (pair->kind != MOEC_PAIR_NUMBER || strncmp(pair->key, prefix, sizeof prefix - 1) != 0 ||
            moec_option_number(compiler, path, pair->number) == pair->number)
            continue;
        (*sets)[count++] = memory_format("%s=%.17g", path, pair->number);
    }
    for (int i = 0; i < import->sets->count; i++)
        (*sets)[count++] = memory_format("%s", import->sets->items[i]);
    return count;
}

/* The spec with the options that PyTorch used. *sets: `count` settings to free after it is closed.
 */
static MoecCompiler *open_spec(const TorchImport *import, char ***sets, int *count) {
    MoecCompiler *compiler = open_settings(import->folder, NULL, 0);
    *count = compiler ? changed_options(import, compiler, sets) : 0;
    if (!*count) return compiler;
    moec_close(compiler);
    return open_settings(import->folder, (const char *const *)*sets, *count);
}

/* The tensors of the folder under their public names, with the notes of a checkpoint. */
static bool write_renamed(const TorchImport *import, Model *model, MoecCompiler *compiler,
                          const Safetensors *file, const Companions *companions, const char *path) {
    const TrainState place = {.seed = 1, .best = INFINITY};
    json_auto_t *notes = json_object();
    int count = 0;
    TensorEntry *own = model_entries(model, false, notes, &count), *entries;
    char **names = torch_names(own, count);
    checkpoint_note(notes, moec_model(compiler), moec_bundle(compiler), companions, &place);
    entries = memory_new((size_t)file->count * sizeof *entries);
    for (int i = 0; i < file->count; i++) {
        entries[i] = file->entries[i];
        for (int j = 0; j < count; j++)
            if (!strcmp(names[j], file->entries[i].name)) entries[i].name = own[j].name;
    }
    bool good = folder_make(import->out) && safetensors_write(path, entries, file->count, notes);
    for (int i = 0; i < count; i++) free(names[i]);
    free(names);
    if (own) entries_free(own, count);
    free(entries);
    return good;
}

/* Reads the written file as commands do: it has all tensors of the model in their shapes. */
static bool check_weights(Model *model, const char *path) {
    Safetensors *file = safetensors_open(path);
    bool good = file && model_read(model, file, false);
    safetensors_close(file);
    if (!good) remove(path);
    return good;
}

static bool write_run(const TorchImport *import, MoecCompiler *compiler, Model *model) {
    AUTO_FREE char *source = path_join(import->folder, "model.safetensors"),
                   *target = path_join(import->out, "last.safetensors"),
                   *tokens = path_join(import->folder, "tokenizer.json");
    bool made = !file_exists(import->out), tokenized = !import->bare && file_exists(tokens);
    AUTO(Tokenizer) *tokenizer = tokenized ? tokenizer_open(tokens) : NULL;
    AUTO(Safetensors) *file = !tokenized || tokenizer ? safetensors_open(source) : NULL;
    size_t length;
    Companions companions = {.tokenizer = tokenizer ? tokenizer_json(tokenizer, &length) : NULL};
    companions.files = file ? folder_files(import->folder, import->bare) : NULL;
    bool good = companions.files &&
                write_renamed(import, model, compiler, file, &companions, target) &&
                check_weights(model, target);
    if (!good && made) rmdir(import->out);
    json_decref(companions.files);
    return good;
}

bool torch_folder_read(const TorchImport *import) {
    const GraphShape shape = {.graph = MOEC_FORWARD};
    AUTO_FREE char **sets = NULL;
    int count = 0;
    AUTO(MoecCompiler) *compiler = open_spec(import, &sets, &count);
    AUTO(Model) *model = compiler ? model_describe(compiler, &shape) : NULL;
    bool good = model && write_run(import, compiler, model);
    if (good) written_message(import->out, "moec eval %s --data PATH", import->out);
    if (good && import->json)
        json_result_written(import->out,
                            json_make("{s:s, s:s, s:I}", "model", moec_model(compiler), "layout",
                                      "torch", "parameters", (json_int_t)model_elements(model)));
    for (int i = 0; i < count; i++) free(sets[i]);
    return good;
}
