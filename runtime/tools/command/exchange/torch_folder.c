/* torch_folder: moec emit --target torch: a folder that the transformers library loads as a custom
 * model. */
#include "tools/command/exchange/torch_folder.h"

#include "abi/json_make.h"
#include "abi/torch_words.h"
#include "abi/step_path.h"
#include "base/build.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"
#include "model/model.h"
#include "tools/exchange/exchange.h"
#include "training/checkpoint.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Releases `object`. */
static bool write_json(const char *folder, const char *name, json_t *object) {
    AUTO_FREE char *text = memory_append(json_write(object, JSON_INDENT(2)), "\n");
    bool good = folder_write_text(folder, name, text);
    json_decref(object);
    return good;
}

static bool write_python(const char *folder, const char *part, const char *model,
                         const char *text) {
    AUTO_FREE char *name = memory_format("%s_%s.py", part, model);
    return folder_write_text(folder, name, text);
}

static bool write_config(const TorchFolder *folder, const MoecTorch *torch) {
    const char *model = moec_model(folder->compiler), *name = torch->class_name;
    AUTO_FREE char *configuration = memory_format("configuration_%s.%sConfig", model, name),
                   *modeling = memory_format("modeling_%s.%sForCausalLM", model, name),
                   *architecture = memory_format("%sForCausalLM", name);
    json_auto_t *config =
        json_make("{s:[s], s:{s:s, s:s}, s:s, s:I, s:I, s:s, s:b, s:s}", "architectures",
                  architecture, "auto_map", "AutoConfig", configuration, "AutoModelForCausalLM",
                  modeling, "model_type", model, "vocab_size", (json_int_t)torch->vocabulary,
                  "max_position_embeddings", (json_int_t)torch->context, "dtype", "float32",
                  "use_cache", torch->hindrance == NULL, "moec_version", MOEC_VERSION);
    AUTO_FREE char *text = json_write(config, JSON_INDENT(2));
    /* Without the last brace; the options are JSON with the shortest numbers. */
    AUTO_FREE char *whole =
        memory_format("%.*s,\n  \"options\": %s\n}\n", (int)strlen(text) - 2, text, torch->options);
    return folder_write_text(folder->out, "config.json", whole);
}

static bool has_entry(const TensorEntry *entries, int count, const char *name, size_t length) {
    for (int i = 0; i < count; i++)
        if (!strncmp(entries[i].name, name, length) && !entries[i].name[length]) return true;
    return false;
}

/* Whether an entry continues the path with the name of a layer or weight, not with a number. */
static bool has_named_entry(const TensorEntry *entries, int count, const char *name,
                            size_t length) {
    for (int i = 0; i < count; i++) {
        const char *other = entries[i].name;
        if (!strncmp(other, name, length) && other[length] == '.' &&
            !isdigit((unsigned char)other[length + 1]))
            return true;
    }
    return false;
}

static char *torch_name(const TensorEntry *entries, int count, const char *name) {
    char *made = memory_format("%s", "");
    for (const char *from = name; *from;) {
        size_t length = strcspn(from, "."), path = (size_t)(from - name) + length;
        const char *end = from + length;
        bool weight = *end && has_entry(entries, count, name, path),
             list = *end && isdigit((unsigned char)end[1]) &&
                    has_named_entry(entries, count, name, path);
        made = memory_append(made, "%.*s%s%s%s%s", (int)length, from,
                             torch_is_reserved(from, length) ? "_" : "", weight ? TORCH_LAYER : "",
                             list ? TORCH_STEPS : "", *end ? "." : "");
        from = end + (*end == '.');
    }
    return made;
}

char **torch_names(const TensorEntry *entries, int count) {
    char **names = memory_new(((size_t)count + 1) * sizeof *names);
    for (int i = 0; i < count; i++) names[i] = torch_name(entries, count, entries[i].name);
    return names;
}

static void rename_entries(TensorEntry *entries, int count) {
    AUTO_FREE char **names = torch_names(entries, count);
    for (int i = 0; i < count; i++) {
        free(entries[i].name);
        entries[i].name = names[i];
    }
}

/* The weights of the run, or initial ones. Both programs read the names; the library also needs the
 * note "format". */
static bool write_named_weights(const TorchFolder *folder, Model *model) {
    uint64_t seed = (uint64_t)moec_option_number(folder->compiler, "train.seed", 1);
    model_initialise(model, seed);
    if (folder->file && !model_read(model, folder->file, false)) return false;
    json_auto_t *notes = json_object();
    int count;
    TensorEntry *entries = model_entries(model, false, notes, &count);
    if (!entries) return false;
    rename_entries(entries, count);
    json_object_set_new(notes, "format", json_text("pt"));
    AUTO_FREE char *path = path_join(folder->out, "model.safetensors");
    bool good = safetensors_write(path, entries, count, notes);
    entries_free(entries, count);
    return good;
}

/* The number of parameters and the cost per token, from the JSON of the model. */
static bool write_card(const TorchFolder *folder, const MoecTorch *torch) {
    const char *model = moec_model(folder->compiler);
    long step = folder->file ? checkpoint_step(folder->file) : 0;
    AUTO_FREE char *origin =
        step > 0 ? memory_format("The weights are those of training step %ld.", step)
                 : memory_format("**The weights are random: this model is not trained.**");
    AUTO_FREE char *decodes =
        torch->hindrance ? memory_format("The model cannot generate text: %s.", torch->hindrance)
                         : memory_format("`model.generate(%s)` generates text.", torch->arguments);
    AUTO_FREE char *text = memory_format(
        "---\nlibrary_name: transformers\npipeline_tag: text-generation\n---\n\n# %s\n\n"
        "Written by moec %s with `moec emit %s --target torch`. %s\n\n"
        "```python\nfrom transformers import AutoModelForCausalLM\n\n"
        "model = AutoModelForCausalLM.from_pretrained(\"FOLDER\", trust_remote_code=True)\n```\n\n"
        "%s The equations of the model are the comments of `modeling_%s.py`. `moec_spec.txt` is "
        "the spec\n"
        "that they come from; `moec import FOLDER --out RUN` reads the folder back.\n\n"
        "## Size and cost\n\n```\n%s```\n",
        model, MOEC_VERSION, folder->operand, origin, decodes, model,
        moec_cost_text(folder->compiler));
    return folder_write_text(folder->out, "README.md", text);
}

static bool write_files(const TorchFolder *folder, const MoecTorch *torch, Model *model) {
    const char *name = moec_model(folder->compiler);
    json_t *generation =
        json_make("{s:b, s:b}", "do_sample", 0, "use_cache", torch->hindrance == NULL);
    bool good = write_python(folder->out, "modeling", name, torch->modeling) &&
                write_python(folder->out, "configuration", name, torch->configuration) &&
                folder_write_text(folder->out, TORCH_SPEC, moec_bundle(folder->compiler)) &&
                (!folder->file || folder_write_tokenizer(folder->out, folder->file)) &&
                write_card(folder, torch) && write_named_weights(folder, model);
    return write_json(folder->out, "generation_config.json", generation) && good &&
           write_config(folder, torch); /* last: without it the folder is not a model */
}

bool torch_folder_write(const TorchFolder *folder) {
    const GraphShape shape = {.graph = MOEC_FORWARD};
    const MoecTorch *torch = moec_emit_torch(folder->compiler);
    if (!torch) return reports_good(folder->compiler);
    if (torch->by_training)
        note_message("equations of training alone, such as dropout, are not part of the PyTorch "
                     "model");
    AUTO(Model) *model = model_describe(folder->compiler, &shape);
    return model && write_files(folder, torch, model);
}
