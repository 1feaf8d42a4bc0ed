/* Import of a GGUF file: keys as a configuration, tokenizer, special tokens and chat template. */
#include "abi/json_make.h"
#include "abi/utf8_cut.h"
#include "base/memory.h"
#include "base/message.h"
#include "tools/exchange/internal.h"

#include <stdlib.h>
#include <string.h>

static const char *const tokens_key = "tokenizer.ggml.tokens";

/* ---- the configuration ---- */

static const TensorEntry *find_entry(const GgufFile *file, const char *name) {
    for (int i = 0; i < file->count; i++)
        if (strcmp(file->entries[i].name, name) == 0) return &file->entries[i];
    return NULL;
}

/* Adds values that some files omit but tensor shapes determine. */
static void add_seen(const GgufFile *file, json_t *config) {
    const TensorEntry *embedding = find_entry(file, "token_embd.weight");
    if (!json_object_get(config, "arch.vocab_size") && embedding)
        json_object_set_new(config, "arch.vocab_size", json_integer(embedding->shape[0]));
    if (!json_object_get(config, "arch.tie_word_embeddings"))
        json_object_set_new(config, "arch.tie_word_embeddings",
                            json_boolean(!find_entry(file, "output.weight")));
}

Config *gguf_config(const GgufFile *file) {
    const char *architecture = json_field_text(file->keys, "general.architecture");
    if (!architecture) {
        error_message("download or convert the file again", "%s has no general.architecture",
                      file->path);
        return NULL;
    }
    json_t *config = json_object(), *value;
    const char *key;
    size_t length = strlen(architecture);
    json_object_foreach(file->keys, key, value) {
        bool own = !strncmp(key, architecture, length) && key[length] == '.';
        AUTO_FREE char *name =
            own ? memory_format("arch%s", key + length) : memory_format("%s", key);
        if (strncmp(key, "tokenizer.", 10) != 0) json_object_set(config, name, value);
    }
    add_seen(file, config);
    Config *found = gguf_rotation_read(file, config) ? config_of(file->path, config) : NULL;
    json_decref(config);
    return found;
}

/* ---- the tokenizer ---- */

static const char *gguf_string(const GgufFile *file, const char *key) {
    return json_field_text(file->keys, key);
}

static bool flag_of(const GgufFile *file, const char *key, bool otherwise) {
    const json_t *value = json_object_get(file->keys, key);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

/* Token whose id is the value of a key, or NULL. */
static const char *token_of(const GgufFile *file, const char *key) {
    const json_t *id = json_object_get(file->keys, key),
                 *tokens = json_object_get(file->keys, tokens_key);
    json_int_t token_id = json_is_integer(id) ? json_integer_value(id) : -1;
    return token_id < 0 ? NULL : json_string_value(json_array_get(tokens, (size_t)token_id));
}

static json_t *tokenizer_damaged(const GgufFile *file, const char *what) {
    error_message("add --no-tokenizer to import without the tokenizer", "%s: %s", file->path, what);
    return NULL;
}

/* True if the key has a token id outside the vocabulary. */
static bool beyond(const GgufFile *file, const char *key) {
    return json_object_get(file->keys, key) && !token_of(file, key);
}

/* Vocabulary {"a": 0, ...} without the padding of the embedding. Added tokens are also stored in
 * `added`, merged tokens in `made`. NULL after a message. */
static json_t *vocabulary_of(const GgufFile *file, json_t *added, json_t *made) {
    const json_t *tokens = json_object_get(file->keys, tokens_key),
                 *types = json_object_get(file->keys, "tokenizer.ggml.token_type");
    if (beyond(file, "tokenizer.ggml.bos_token_id") || beyond(file, "tokenizer.ggml.eos_token_id"))
        return tokenizer_damaged(file,
                                 "bos_token_id or eos_token_id is not a token of the tokenizer");
    json_t *vocabulary = json_object(), *token;
    size_t i;
    json_array_foreach(tokens, i, token) {
        const char *text = json_string_value(token);
        json_int_t type = types ? json_integer_value(json_array_get(types, i)) : GGUF_NORMAL;
        if (!text || json_string_length(token) != strlen(text) ||
            json_object_get(vocabulary, text)) {
            json_decref(vocabulary);
            return tokenizer_damaged(file, "a token of the tokenizer is duplicate or not a string");
        }
        if (type == GGUF_UNUSED && !strncmp(text, "[PAD", 4)) continue;
        json_object_set_new(vocabulary, text, json_integer((json_int_t)i));
        bool control = type == GGUF_CONTROL || type == GGUF_UNKNOWN;
        if (control || type == GGUF_USER_DEFINED)
            json_array_append_new(added, json_make("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id",
                                                   (json_int_t)i, "content", text, "single_word", 0,
                                                   "lstrip", 0, "rstrip", 0, "normalized", 0,
                                                   "special", control));
        else if (type == GGUF_NORMAL)
            json_object_set_new(made, text, json_integer((json_int_t)i));
    }
    return vocabulary;
}

static json_t *special_piece(const char *text) {
    return json_make("{s:{s:s, s:i}}", "SpecialToken", "id", text, "type_id", 0);
}

/* Tokens added before and after a text. */
static json_t *bos_eos_template(const GgufFile *file, bool begins) {
    const char *first = token_of(file, "tokenizer.ggml.bos_token_id"),
               *last = token_of(file, "tokenizer.ggml.eos_token_id");
    if (!flag_of(file, "tokenizer.ggml.add_bos_token", begins)) first = NULL;
    if (!flag_of(file, "tokenizer.ggml.add_eos_token", false)) last = NULL;
    if (!first && !last) return json_null();
    json_t *single = json_array(), *specials = json_object();
    const char *const ends[] = {first, last};
    const char *const keys[] = {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"};
    for (int i = 0; i < 2; i++) {
        if (i == 1)
            json_array_append_new(single,
                                  json_make("{s:{s:s, s:i}}", "Sequence", "id", "A", "type_id", 0));
        if (!ends[i]) continue;
        json_array_append_new(single, special_piece(ends[i]));
        json_object_set_new(specials, ends[i],
                            json_make("{s:s, s:[O], s:[s]}", "id", ends[i], "ids",
                                      json_object_get(file->keys, keys[i]), "tokens", ends[i]));
    }
    json_t *pair = json_copy(single);
    json_array_append_new(pair, json_make("{s:{s:s, s:i}}", "Sequence", "id", "B", "type_id", 1));
    return json_make("{s:s, s:o, s:o, s:o}", "type", "TemplateProcessing", "single", single, "pair",
                     pair, "special_tokens", specials);
}

/* A BPE model. The result owns vocabulary and merges. */
static json_t *bpe_json(json_t *vocabulary, json_t *merges, bool sentencepiece, bool whole,
                        const char *unknown) {
    return json_make("{s:s, s:n, s:s?, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE",
                     "dropout", "unk_token", unknown, "continuing_subword_prefix",
                     "end_of_word_suffix", "fuse_unk", sentencepiece, "byte_fallback",
                     sentencepiece, "ignore_merges", whole, "vocab", vocabulary, "merges", merges);
}

static json_t *byte_level_json(bool cuts) {
    return json_make("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                     "trim_offsets", 1, "use_regex", cuts);
}

static json_t *cutter_of(const GgufCut *cut) {
    if (cut->digits)
        return json_make("{s:s, s:[{s:s, s:b}, o]}", "type", "Sequence", "pretokenizers", "type",
                         "Digits", "individual_digits", 1, byte_level_json(true));
    if (!cut->pattern) return byte_level_json(true);
    return json_make("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type", "Sequence", "pretokenizers",
                     "type", "Split", "pattern", "Regex", cut->pattern, "behavior", "Isolated",
                     "invert", 0, byte_level_json(false));
}

/* A byte-level BPE tokenizer; NULL after a message. */
static json_t *byte_level_of(const GgufFile *file) {
    const char *name = gguf_string(file, "tokenizer.ggml.pre");
    const GgufCut *cut = gguf_cut_named(name ? name : "gpt-2");
    json_t *merges = json_object_get(file->keys, "tokenizer.ggml.merges");
    if (!cut) {
        error_message("add --no-tokenizer to import without the tokenizer",
                      "%s: pre-tokenizer '%.*s' is not supported", file->path, utf8_cut(name, 60),
                      name);
        return NULL;
    }
    json_auto_t *added = json_array(), *made = json_object();
    json_t *whole = NULL, *vocabulary = vocabulary_of(file, added, made);
    if (vocabulary) {
        json_t *model = bpe_json(vocabulary, merges ? json_incref(merges) : json_array(), false,
                                 cut->whole, NULL);
        json_t *normaliser = cut->nfc ? json_make("{s:s}", "type", "NFC") : json_null();
        whole = json_make("{s:s, s:O, s:o, s:o, s:o, s:o, s:o}", "version", "1.0", "added_tokens",
                          added, "normalizer", normaliser, "pre_tokenizer", cutter_of(cut),
                          "post_processor", bos_eos_template(file, false), "decoder",
                          byte_level_json(true), "model", model);
    }
    return whole;
}

/* Scores of all tokens; NULL if there are too few. */
static float *token_scores(const GgufFile *file) {
    const json_t *list = json_object_get(file->keys, "tokenizer.ggml.scores");
    size_t count = json_array_size(json_object_get(file->keys, tokens_key));
    if (json_array_size(list) != count) return NULL;
    float *scores = memory_new(sizeof *scores * (count + 1));
    for (size_t i = 0; i < count; i++)
        scores[i] = (float)json_number_value(json_array_get(list, i));
    return scores;
}

/* Normalizer that replaces spaces by "▁"; prefix: also adds one at the start. */
static json_t *space_normaliser(bool prefix) {
    json_t *replace = json_make("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String", " ",
                                "content", "▁");
    if (!prefix) return replace;
    return json_make("{s:s, s:[{s:s, s:s}, o]}", "type", "Sequence", "normalizers", "type",
                     "Prepend", "prepend", "▁", replace);
}

static json_t *space_decoder(bool prefix) {
    json_t *steps =
        json_make("[{s:s, s:{s:s}, s:s}, {s:s}, {s:s}]", "type", "Replace", "pattern", "String",
                  "▁", "content", " ", "type", "ByteFallback", "type", "Fuse");
    if (prefix)
        json_array_append_new(steps, json_make("{s:s, s:s, s:i, s:i}", "type", "Strip", "content",
                                               " ", "start", 1, "stop", 0));
    return json_make("{s:s, s:o}", "type", "Sequence", "decoders", steps);
}

/* A SentencePiece BPE tokenizer; NULL after a message. */
static json_t *sentencepiece_of(const GgufFile *file) {
    bool prefix = flag_of(file, "tokenizer.ggml.add_space_prefix", true);
    AUTO_FREE float *scores = token_scores(file);
    if (!scores) return tokenizer_damaged(file, "the tokenizer has fewer scores than tokens");
    json_auto_t *added = json_array(), *made = json_object();
    json_t *vocabulary = vocabulary_of(file, added, made), *whole = NULL;
    if (vocabulary) {
        json_t *model = bpe_json(vocabulary, gguf_merges(vocabulary, scores, made), true, false,
                                 token_of(file, "tokenizer.ggml.unknown_token_id"));
        whole = json_make("{s:s, s:O, s:o, s:n, s:o, s:o, s:o}", "version", "1.0", "added_tokens",
                          added, "normalizer", space_normaliser(prefix), "pre_tokenizer",
                          "post_processor", bos_eos_template(file, true), "decoder",
                          space_decoder(prefix), "model", model);
    }
    return whole;
}

json_t *gguf_tokenizer_json(const GgufFile *file, bool *none) {
    const char *kind = gguf_string(file, "tokenizer.ggml.model"),
               *json = gguf_string(file, "tokenizer.huggingface.json");
    json_error_t error;
    *none = !kind || strcmp(kind, "no_vocab") == 0;
    if (*none) return NULL;
    if (json) {
        json_t *object = json_loads(json, 0, &error);
        return object ? object
                      : tokenizer_damaged(file, "tokenizer.huggingface.json is not valid JSON");
    }
    if (strcmp(kind, "gpt2") == 0) return byte_level_of(file);
    if (strcmp(kind, "llama") == 0) return sentencepiece_of(file);
    error_message("add --no-tokenizer to import without the tokenizer",
                  "%s: tokenizer model '%.*s' is not supported; expected gpt2 or llama", file->path,
                  utf8_cut(kind, 60), kind);
    return NULL;
}

/* ---- the other files ---- */

static void add_json_file(json_t *files, const char *name, json_t *object) {
    AUTO_FREE char *text = json_write(object, JSON_INDENT(2));
    json_object_set_new(files, name, json_text(text));
    json_decref(object);
}

/* Adds the training context length under the name used in config.json. */
static void add_context(const GgufFile *file, json_t *config) {
    AUTO_FREE char *key =
        memory_format("%s.context_length", gguf_string(file, "general.architecture"));
    json_t *context = json_object_get(file->keys, key);
    if (json_is_integer(context)) json_object_set(config, "max_position_embeddings", context);
}

json_t *gguf_files(const GgufFile *file, bool bare) {
    static const char *const names[][2] = {{"bos_token", "tokenizer.ggml.bos_token_id"},
                                           {"eos_token", "tokenizer.ggml.eos_token_id"},
                                           {"pad_token", "tokenizer.ggml.padding_token_id"}};
    json_t *files = json_object(), *config = json_object(), *tokens = json_object();
    const char *chat = gguf_string(file, "tokenizer.chat_template");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = token_of(file, names[i][1]);
        if (!text) continue;
        AUTO_FREE char *id = memory_format("%s_id", names[i][0]);
        json_object_set(config, id, json_object_get(file->keys, names[i][1]));
        json_object_set_new(tokens, names[i][0], json_text(text));
    }
    add_context(file, config);
    add_json_file(files, "file:config.json", config);
    if (bare) {
        json_decref(tokens);
        return files;
    }
    json_object_set_new(tokens, "tokenizer_class", json_text("PreTrainedTokenizerFast"));
    add_json_file(files, "file:tokenizer_config.json", tokens);
    if (chat) json_object_set_new(files, "file:chat_template.jinja", json_text(chat));
    return files;
}
