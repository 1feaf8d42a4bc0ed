/* import: moec import: converts a Hugging Face model directory or a GGUF file to a run: spec,
 * weights, tokenizer. Everything is checked before the first write. */
#include "abi/json_make.h"
#include "abi/quantity.h"
#include "abi/utf8_cut.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"
#include "tools/command/exchange/torch_folder.h"
#include "tools/command/line/commands.h"
#include "tools/exchange/exchange.h"
#include "model/model.h"
#include "training/checkpoint.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Import {
    const char *folder, *out, *file;
    bool bare; /* without a tokenizer */
    bool json;
    TextList sets;
    MoecCompiler *layouts, *compiler;
    const char *layout;
    char *name; /* of the model */
    const char *spec;
    Config *config;
    Shards *shards;
    Model *model;
    Tokenizer *tokenizer;
    json_t *files; /* stored with the weights */
    Conversion *conversion;
} Import;

/* "Qwen3-0.6B" becomes "qwen3_0_6b". */
static char *model_name(const char *folder) {
    AUTO_FREE char *copy = memory_format("%s", folder);
    for (size_t end = strlen(copy); end > 0 && copy[end - 1] == '/';) copy[--end] = 0;
    const char *slash = strrchr(copy, '/');
    const char *base = slash ? slash + 1 : copy;
    size_t length = gguf_is(base) ? strlen(base) - 5 : strlen(base);
    char *name = memory_format("%s%.*s", isalpha((unsigned char)*base) ? "" : "model_",
                               length < 60 ? (int)length : 60, base);
    for (char *at = name; *at; at++)
        *at = isalnum((unsigned char)*at) ? (char)tolower((unsigned char)*at) : '_';
    return name;
}

/* "decoder", which specs use, and "if", a keyword, become "decoder_model" and "if_model". */
static void unused_name(Import *import) {
    if (moec_layout_name(import->layouts, import->name)) return;
    import->name = memory_append(import->name, "_model");
}

/* NULL for a folder. */
static const GgufFile *gguf_of(const Import *import) {
    return import->shards ? import->shards->gguf : NULL;
}

/* "llama, mistral and qwen3" */
static char *layout_names(MoecCompiler *layouts) {
    int count;
    const char *const *names = moec_layouts(layouts, &count);
    char *text = memory_format("%s", "");
    for (int i = 0; i < count; i++)
        text = memory_append(text, "%s%s", !i ? "" : i == count - 1 ? " and " : ", ", names[i]);
    return text;
}

static bool recognise(Import *import) {
    const Config *config = import->config;
    import->layout = moec_layout_of(import->layouts, config->pairs, config->count);
    if (import->layout) return true;
    const char *key = gguf_of(import) ? "general.architecture" : "model_type",
               *type = config_text(config, key);
    const char *shown = type ? type : "(none)";
    AUTO_FREE char *names = layout_names(import->layouts);
    AUTO_FREE char *remedy =
        memory_format(*names ? "known layouts: %s; --layout FILE adds custom ones"
                             : "%s has no layout, see stdlib/LAYOUTS.md",
                      *names ? names : import->file);
    error_message(remedy, "%s: no layout supports %s '%.*s'", config->path, key,
                  utf8_cut(shown, 60), shown);
    return false;
}

/* Prints the errors of a compiler about the configuration. In layouts of GGUF, "arch." is a prefix
 * of keys. Returns false. */
static bool report_config(const Import *import, MoecCompiler *compiler) {
    const Config *config = import->config;
    AUTO_FREE char *text = memory_format("%s: %s", config->path, moec_reports(compiler));
    message_reports(text);
    if (gguf_of(import))
        note_message(
            "keys arch.* of config.json are the keys %s.* of %s; download or convert it again",
            config_text(config, "general.architecture"), config->path);
    return false;
}

static bool make_spec(Import *import) {
    const char *const *others = NULL;
    int count = 0;
    import->spec = moec_layout_spec(import->layouts, import->layout, import->name,
                                    import->config->pairs, import->config->count, &others, &count);
    if (!import->spec) return report_config(import, import->layouts);
    for (int i = 0; i < count; i++)
        note_message("%s: layout '%s' does not use the key '%.*s'; it is ignored",
                     import->config->path, import->layout, utf8_cut(others[i], 60), others[i]);
    return true;
}

static bool open_spec(Import *import) {
    const char *bundle = moec_layout_bundle(import->layouts, import->name, import->spec);
    import->compiler =
        moec_open_bundle(bundle, strlen(bundle), import->sets.items, import->sets.count);
    if (!moec_failed(import->compiler) || import->sets.count) return reports_good(import->compiler);
    report_config(import, import->compiler);
    note_message("%s.moe follows from %s by layout '%s'; correct one of the two", import->name,
                 import->config->path, import->layout);
    return false;
}

/* The tokenizer of the GGUF file. */
static bool read_tokenizer(Import *import) {
    bool none;
    json_auto_t *object = gguf_tokenizer_json(import->shards->gguf, &none);
    if (!object) return none;
    AUTO_FREE char *text = json_write(object, JSON_COMPACT);
    import->tokenizer = tokenizer_read(import->folder, text, strlen(text));
    return import->tokenizer || error_message("--no-tokenizer imports without it",
                                              "the tokenizer of %s cannot be used", import->folder);
}

/* The tokenizer of the directory, if there is one. */
static bool open_tokenizer_json(Import *import) {
    AUTO_FREE char *path = path_join(import->folder, "tokenizer.json");
    bool there = file_exists(path);
    import->tokenizer = there ? tokenizer_open(path) : NULL;
    return !there || import->tokenizer ||
           error_message("--no-tokenizer imports without it", "%s cannot be used", path);
}

static bool open_folder_tokenizer(Import *import) {
    if (import->bare) return true;
    if (!(gguf_of(import) ? read_tokenizer(import) : open_tokenizer_json(import))) return false;
    long vocabulary = (long)moec_option_number(import->compiler, "vocab_size", 0);
    long size = import->tokenizer ? tokenizer_size(import->tokenizer) : 0;
    return !vocabulary || size <= vocabulary ||
           error_message("it belongs to another model; --no-tokenizer imports without it",
                         "the tokenizer of %s has %ld tokens, but the embedding has %ld rows",
                         import->folder, size, vocabulary);
}

/* A GGUF file is open already; the weights of a directory are opened last. */
static bool open_config(Import *import) {
    if (gguf_is(import->folder)) {
        import->config = gguf_config(import->shards->gguf);
        return import->config != NULL;
    }
    AUTO_FREE char *path = path_join(import->folder, "config.json");
    import->config = config_open(path);
    return import->config != NULL;
}

static bool read_files(Import *import) {
    const GgufFile *gguf = gguf_of(import);
    import->files =
        gguf ? gguf_files(gguf, import->bare) : folder_files(import->folder, import->bare);
    return import->files != NULL;
}

static bool look(Import *import) {
    const GraphShape shape = {.graph = MOEC_FORWARD};
    bool good = open_config(import);
    if (good) import->layouts = moec_open_layouts(import->file, getenv("MOEC_PATH"));
    good = good && reports_good(import->layouts);
    if (good) unused_name(import);
    good = good && recognise(import) && make_spec(import) && open_spec(import) &&
           open_folder_tokenizer(import) && read_files(import) &&
           (import->shards || (import->shards = shards_open(import->folder))) &&
           (import->model = model_describe(import->compiler, &shape)) != NULL;
    if (good)
        import->conversion = match_import(import->layouts, import->layout, import->compiler,
                                          import->model, import->shards);
    return import->conversion != NULL;
}

static bool write_weights(const Import *import, const char *path) {
    json_auto_t *notes = json_object();
    const TrainState place = {.seed = 1, .best = INFINITY};
    size_t length;
    const Companions companions = {
        .tokenizer = import->tokenizer ? tokenizer_json(import->tokenizer, &length) : NULL,
        .files = import->files};
    for (int i = 0; i < import->model->parameter_count; i++) {
        const PublicTensor *one = &import->model->parameters[i];
        AUTO_FREE char *key = memory_format("axes:%s", one->name);
        json_object_set_new(notes, key, json_text(one->axes));
    }
    checkpoint_note(notes, moec_model(import->compiler), moec_bundle(import->compiler), &companions,
                    &place);
    return conversion_write(import->conversion, path, notes);
}

/* Writes the files outside of the standard library that the spec uses next to it. */
static bool write_used(const Import *import, const char *folder) {
    int count;
    const MoecDocument *files = moec_layout_files(import->layouts, &count);
    bool good = true;
    for (int i = 0; i < count && good; i++) {
        const char *slash = strrchr(files[i].path, '/');
        AUTO_FREE char *path = path_join(folder, slash ? slash + 1 : files[i].path);
        good = file_write(path, files[i].text, files[i].length);
    }
    return good;
}

/* Quantized tensors become float32. The weights of Q4_0 are those of int4, of MXFP4 of mxfp4. */
static void note_widened(const Shards *shards) {
    int count = 0;
    const char *packed = NULL, *type = "int8";
    for (int i = 0; i < shards->count; i++) {
        const BlockType *blocks = shards->entries[i]->blocks;
        count += blocks != NULL;
        if (!blocks || packed) continue;
        if (!strcmp(blocks->name, "Q4_0")) packed = blocks->name, type = "int4";
        if (!strcmp(blocks->name, "MXFP4")) packed = blocks->name, type = "mxfp4";
    }
    if (count)
        note_message("%d quantized tensors are stored as float32; add --set "
                     "inference.weight_dtype=%s to moec generate for less memory%s%s",
                     count, type, packed ? ", with the same values of " : "", packed ? packed : "");
}

static void report_import(const Import *import, const char *spec) {
    size_t count = model_elements(import->model);
    if (!import->json)
        printf("%s: model '%s', layout '%s', %s parameters in %d tensors%s; spec %s\n", import->out,
               import->name, import->layout, quantity_count((double)count).text,
               import->shards->count, import->tokenizer ? ", with tokenizer" : "", spec);
    note_widened(import->shards);
    written_message(import->out, "moec generate %s --prompt TEXT", import->out);
    if (import->json)
        json_result_written(import->out,
                            json_make("{s:s, s:s, s:I, s:i, s:b, s:o}", "model", import->name,
                                      "layout", import->layout, "parameters", (json_int_t)count,
                                      "tensors", import->shards->count, "tokenizer",
                                      import->tokenizer != NULL, "spec", json_escaped(spec)));
}

/* The spec of the configuration; with --set, its model becomes the base of one with these options.
 */
static char *spec_of_user(const Import *import) {
    const char *name = import->name, *spec = import->spec;
    AUTO_FREE char *head = memory_format("model %s = ", name);
    const char *model = strstr(spec, head);
    if (!import->sets.count || !model) return memory_format("%s", spec);
    char *text = memory_format("%.*smodel %s_config = %s\nmodel %s = %s_config {\n",
                               (int)(model - spec), spec, name, model + strlen(head), name, name);
    for (int i = 0; i < import->sets.count; i++) {
        const char *set = import->sets.items[i], *value = strchr(set, '=');
        char *longer =
            value ? memory_format("%s  %.*s = %s\n", text, (int)(value - set), set, value + 1)
                  : memory_format("%s  %s\n", text, set);
        free(text);
        text = longer;
    }
    char *whole = memory_format("%s}\n", text);
    free(text);
    return whole;
}

/* The weights contain the spec, too; the file next to them is for the user. */
static bool write_run_files(const Import *import, const char *folder, const char *base) {
    AUTO_FREE char *weights = path_join(folder, "last.safetensors"),
                   *spec = path_join(folder, base), *text = spec_of_user(import);
    if (!write_weights(import, weights) || !write_used(import, folder)) return false;
    const MoecDocument document = {spec, text, strlen(text)};
    AUTO(MoecCompiler) *compiler = moec_open_document(&document, 1, import->name, NULL);
    const char *formatted = moec_format(compiler);
    return formatted ? file_write(spec, formatted, strlen(formatted)) : reports_good(compiler);
}

/* All files or none. */
static bool write_run(const Import *import) {
    AsideFolder aside;
    AUTO_FREE char *base = memory_format("%s.moe", import->name),
                   *spec = path_join(import->out, base);
    bool good = aside_folder_open(&aside, import->out) &&
                aside_folder_close(&aside, write_run_files(import, aside.partial, base));
    if (good) report_import(import, spec);
    return good;
}

static void release(Import *import) {
    conversion_free(import->conversion);
    model_close(import->model);
    shards_close(import->shards);
    tokenizer_close(import->tokenizer);
    json_decref(import->files);
    config_close(import->config);
    if (import->compiler) moec_close(import->compiler);
    if (import->layouts) moec_close(import->layouts);
    free(import->name);
}

int command_import(const Command *command, int argc, char **argv) {
    Import import = {0};
    const char *name = NULL;
    const Option table[] = {
        {OPTION_TEXT, "--out", "RUN", &import.out, "run directory to create"},
        {OPTION_TEXT, "--layout", "FILE", &import.file,
         "custom layouts (default: those of the standard library)"},
        {OPTION_TEXT, "--name", "NAME", &name, "name of the model (default: of the directory)"},
        {OPTION_FLAG, "--no-tokenizer", NULL, &import.bare, "import without the tokenizer"},
        {OPTION_FLAG, "--json", NULL, &import.json, "result as JSON"},
        SET_OPTION(&import.sets),
    };
    int code = arguments_read(command, OPTIONS(table), argc, argv, &import.folder);
    if (code >= 0) return code;
    if (!import.out) return arguments_wrong(command, NULL, "moec import requires --out");
    import.name = model_name(name ? name : import.folder);
    bool good = (file_is_folder(import.folder) || gguf_is(import.folder) ||
                 error_message("use a directory with config.json and safetensors, or a .gguf file",
                               "%s is not a directory", import.folder)) &&
                (!checkpoint_within(import.out) ||
                 error_message("choose another --out", "%s already contains a run", import.out));
    const TorchImport torch = {import.folder, import.out, &import.sets, import.bare, import.json};
    bool own = good && torch_folder_is(import.folder);
    if (good && gguf_is(import.folder)) import.shards = shards_open(import.folder);
    good = good && (import.shards || !gguf_is(import.folder));
    if (good && import.shards && gguf_own_is(import.shards->gguf))
        good = gguf_own_read(import.shards, &torch);
    else
        good = good && (own ? torch_folder_read(&torch) : look(&import) && write_run(&import));
    release(&import);
    return good ? 0 : EXIT_INPUT;
}
