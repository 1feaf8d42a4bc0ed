/* export: moec export: writes a trained model for other programs. */
#include "abi/json_make.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"
#include "base/text_list.h"
#include "data/shards.h"
#include "tools/command/exchange/torch_folder.h"
#include "tools/command/line/commands.h"
#include "tools/exchange/exchange.h"
#include "model/model.h"
#include "training/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Export {
    const char *run, *out, *layout, *layouts_file, *type;
    const BlockType *blocks; /* of --type, or NULL */
    TextList sets;
    bool bare; /* without a tokenizer */
    bool json;
    Safetensors *file;
    MoecCompiler *compiler, *layouts;
    Model *model;
    Conversion *conversion;
    const MoecPair *pairs;
    int pair_count;
} Export;

static bool find_layout(const Export *export) {
    int count;
    const char *const *names = moec_layouts(export->layouts, &count);
    AUTO_FREE char *remedy = memory_format("known layouts: ");
    bool found = false;
    for (int i = 0; i < count; i++) {
        remedy = memory_append(remedy, "%s%s", i ? ", " : "", names[i]);
        found = found || strcmp(names[i], export->layout) == 0;
    }
    if (!found) error_message(remedy, "unknown layout '%s'", export->layout);
    return found;
}

static bool open_layouts(Export *export) {
    if (export->layouts) moec_close(export->layouts);
    export->layouts = moec_open_layouts(export->layouts_file, getenv("MOEC_PATH"));
    return reports_good(export->layouts);
}

/* "gguf" selects the first architecture that can express the model. */
static bool find_architecture(Export *export) {
    int count, pairs;
    if (strcmp(export->layout, "gguf") != 0) return true;
    const char *const *names = moec_layouts(export->layouts, &count);
    for (int i = 0; i < count; i++) {
        if (strncmp(names[i], "gguf_", 5) != 0) continue;
        MoecCompiler *layouts = moec_open_layouts(export->layouts_file, getenv("MOEC_PATH"));
        bool says = moec_layout_pairs(layouts, names[i], export->compiler, &pairs) != NULL;
        moec_close(layouts);
        if (!says) continue;
        export->layout = names[i];
        return true;
    }
    return error_message(
        "--format gguf_llama, gguf_qwen3 ... list the differences to each; --format gguf_moec "
        "stores the spec in the file, for moec import alone",
        "cannot export to GGUF: no supported GGUF architecture matches this model");
}

/* A GGUF file with the spec of the run. */
static bool exports_own(const Export *export) {
    return !strcmp(export->layout, GGUF_OWN);
}

/* Types of weights belong to the command that runs a model: a format has none. Specs of
 * earlier versions lack some of these options. */
static bool spec_of_run(Export *export) {
    static const char *const types[][2] = {
        {"inference.weight_dtype", "inference.weight_dtype=f32"},
        {"inference.kv_cache_dtype", "inference.kv_cache_dtype=f32"},
        {"inference.head_dtype", "inference.head_dtype=f32"}};
    TextList *sets = &export->sets;
    MoecCompiler *own = checkpoint_spec(export->file, sets->items, sets->count);
    if (!own) return false;
    if (exports_own(export)) {
        export->compiler = own;
        return true;
    }
    for (int i = 0; i < 3; i++) {
        const char *type = moec_option(own, types[i][0]);
        if (type && strcmp(type, "f32") != 0 && strcmp(type, "same") != 0)
            sets->items[sets->count++] = types[i][1];
    }
    moec_close(own);
    export->compiler = checkpoint_spec(export->file, sets->items, sets->count);
    const char *type = safetensors_quantized(export->file);
    const bool gguf = strncmp(export->layout, "gguf", 4) == 0;
    if (type && !(gguf && (export->type || !strcmp(type, "int4") || !strcmp(type, "mxfp4"))))
        note_message("the %s weights of %s are written as float32, with the same values%s", type,
                     export->run, gguf ? "; --type q8_0 rounds them again" : "");
    return export->compiler != NULL;
}

/* Options are checked only if all tensors fit: the message about a tensor is the clearer one. */
static bool look_for_option(Export *export) {
    const GraphShape shape = {.graph = MOEC_FORWARD};
    export->file = checkpoint_open(export->run);
    if (!export->file || !spec_of_run(export)) return false;
    if (!exports_own(export) && !moec_stores_weights(export->compiler, export->run))
        return reports_good(export->compiler);
    if (!exports_own(export) &&
        (!open_layouts(export) || !find_architecture(export) || !find_layout(export)))
        return false;
    export->model = model_describe(export->compiler, &shape);
    if (!export->model || !model_fits(export->model, export->file)) return false;
    if (exports_own(export)) return true;
    export->conversion = match_export(export->layouts, export->layout, export->compiler,
                                      export->model, export->file);
    if (moec_failed(export->layouts) || !export->conversion) return false;
    export->pairs =
        moec_layout_pairs(export->layouts, export->layout, export->compiler, &export->pair_count);
    return reports_good(export->layouts) && export->pairs;
}

/* next: format of the next command. */
static void report_export(const Export *export, int count, const char *path, const char *type,
                          const char *next) {
    if (!export->json)
        printf("%s: %d tensors in %s, layout '%s'\n", path, count, type, export->layout);
    written_message(path, next, path);
    if (export->json)
        json_result_written(path,
                            json_make("{s:s, s:s, s:i, s:s}", "model", moec_model(export->compiler),
                                      "layout", export->layout, "tensors", count, "type", type));
}

static bool write_model_files(const Export *export, const char *folder) {
    AUTO_FREE char *weights = path_join(folder, "model.safetensors"),
                   *config = path_join(folder, "config.json");
    const NewConfig said = {.pairs = export->pairs,
                            .count = export->pair_count,
                            .type = conversion_type(export->conversion),
                            .before = checkpoint_file(export->file, "config.json"),
                            .layout = export->layout,
                            .layouts = export->layouts};
    json_auto_t *notes =
        json_make("{s:s}", "format", "pt"); /* required by the transformers library */
    return conversion_write(export->conversion, weights, notes) &&
           folder_write_tokenizer(folder, export->file) && config_write(config, &said);
}

/* All files or none. */
static bool write_model_folder(const Export *export) {
    AUTO_FREE char *weights = path_join(export->out, "model.safetensors"),
                   *config = path_join(export->out, "config.json");
    AsideFolder aside;
    bool good = (!file_exists(config) && !file_exists(weights)) ||
                error_message("choose another --out", "%s already contains a model", export->out);
    good = good && aside_folder_open(&aside, export->out) &&
           aside_folder_close(&aside, write_model_files(export, aside.partial));
    if (good)
        report_export(export, export->conversion->count, export->out,
                      conversion_type(export->conversion), "moec import %s --out DIR");
    return good;
}

/* One file; "DIR/model.gguf". */
static bool write_gguf(const Export *export) {
    AUTO_FREE char *path = path_join(export->out, "model.gguf");
    const Safetensors *file = export->file;
    Gguf gguf = {.blocks = export->blocks};
    const char *type = conversion_type(export->conversion); /* before vectors are widened */
    const char *json = export->bare ? NULL : safetensors_note(file, "tokenizer");
    AUTO(Tokenizer) *tokenizer = json ? tokenizer_read(export->run, json, strlen(json)) : NULL;
    long vocabulary = (long)moec_option_number(export->compiler, "vocab_size", 0);
    gguf_text(&gguf, "general.name", moec_model(export->compiler));
    bool made = false;
    bool good =
        (!json || tokenizer) &&
        (!file_exists(path) || error_message("choose another --out", "%s already exists", path)) &&
        gguf_tokenizer(&gguf, tokenizer, vocabulary) && folder_make_new(export->out, &made);
    if (good && tokenizer)
        gguf_specials(&gguf, tokenizer, checkpoint_file(file, "config.json"),
                      checkpoint_file(file, "tokenizer_config.json"),
                      checkpoint_file(file, "chat_template.jinja"));
    good = good && (gguf_write(&gguf, path, export->conversion, export->pairs, export->pair_count,
                               checkpoint_file(file, "config.json")) ||
                    folder_abandon(export->out, made));
    AUTO_FREE char *types =
        gguf.blocks ? gguf_types(export->conversion) : memory_format("%s", type);
    if (good) report_export(export, export->conversion->count, path, types, "llama-cli -m %s");
    return good;
}

static bool write_own(const Export *export) {
    AUTO_FREE char *path = path_join(export->out, "model.gguf"), *types = NULL;
    const GgufOwn own = {export->file, export->compiler, export->model, export->bare};
    int count;
    bool made = false;
    const bool good =
        (!file_exists(path) || error_message("choose another --out", "%s already exists", path)) &&
        folder_make_new(export->out, &made) &&
        (gguf_own_write(&own, path, &count, &types) || folder_abandon(export->out, made));
    if (good) report_export(export, count, path, types, "moec import %s --out DIR");
    return good;
}

/* 0, or EXIT_USAGE after a message. */
static int check_type(const Command *command, Export *export) {
    if (!export->type) return 0;
    if (exports_own(export))
        return arguments_wrong(command, "omit --type", "--type does not apply to %s", GGUF_OWN);
    if (strncmp(export->layout, "gguf", 4) != 0)
        return arguments_wrong(command, "add --format gguf, or omit --type",
                               "--type applies to GGUF files only");
    export->blocks = block_type_named(export->type);
    if (export->blocks) return 0;
    return arguments_wrong(
        command, "use q8_0, q5_0, q4_0, q4_k or mxfp4; omit --type to keep the type of the weights",
        "--type cannot be '%s'", export->type);
}

int command_export(const Command *command, int argc, char **argv) {
    Export export = {0};
    const Option table[] = {
        {OPTION_TEXT, "--format", "LAYOUT", &export.layout,
         "model family: llama, qwen3, gpt2 ...; gguf for llama.cpp; gguf_moec: any model as "
         "one file, with its spec"},
        {OPTION_TEXT, "--out", "DIR", &export.out, "directory to create"},
        {OPTION_TEXT, "--layout", "FILE", &export.layouts_file,
         "custom layouts (default: those of the standard library)"},
        {OPTION_TEXT, "--type", "TYPE", &export.type,
         "quantization of the matrices in GGUF: q8_0, q5_0, q4_0, q4_k, mxfp4 (default: none)"},
        {OPTION_FLAG, "--no-tokenizer", NULL, &export.bare, "GGUF without the tokenizer"},
        SET_OPTION(&export.sets),
        {OPTION_FLAG, "--json", NULL, &export.json, "result as JSON"},
    };
    int code = arguments_read(command, OPTIONS(table), argc, argv, &export.run);
    if (code >= 0) return code;
    if (!export.layout || !export.out)
        return arguments_wrong(command, NULL, "moec export requires --format and --out");
    code = check_type(command, &export);
    if (code) return code;
    bool good = look_for_option(&export) &&
                (exports_own(&export)                     ? write_own(&export)
                 : strncmp(export.layout, "gguf", 4) == 0 ? write_gguf(&export)
                                                          : write_model_folder(&export));
    conversion_free(export.conversion);
    model_close(export.model);
    if (export.layouts) moec_close(export.layouts);
    if (export.compiler) moec_close(export.compiler);
    safetensors_close(export.file);
    return good ? 0 : EXIT_INPUT;
}
