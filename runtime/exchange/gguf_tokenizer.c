/* The tokenizer of a GGUF file: byte-level BPE, whose cutting llama.cpp knows by a name. */
#include "base/memory.h"
#include "base/message.h"
#include "exchange/gguf.h"

#include <stdlib.h>
#include <string.h>

/* Types of tokens. */
enum { NORMAL = 1, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5 };

/* A part of the pattern that cuts, and what llama.cpp calls it; the first that fits. */
static const struct {
    const char *pattern, *name;
} cuts[] = {
    {"\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*", "llama-bpe"},
    {"\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*", "qwen2"},
    {"\"use_regex\":true", "gpt-2"},
};

static const char *cut_name(const json_t *object) {
    const json_t *cutter = json_object_get(object, "pre_tokenizer");
    char *text = json_dumps(cutter, JSON_COMPACT);
    const char *name = NULL, *type = json_string_value(json_object_get(cutter, "type"));
    for (size_t i = 0; text && !name && i < sizeof cuts / sizeof *cuts; i++)
        if (strstr(text, cuts[i].pattern)) name = cuts[i].name;
    if (text && type && strcmp(type, "ByteLevel") == 0 && !strstr(text, "\"use_regex\":false"))
        name = "gpt-2";
    free(text);
    return name;
}

typedef struct Tokens {
    char **texts;
    int32_t *types;
    long count;
} Tokens;

static void set_token(Tokens *tokens, const json_t *id, const char *text, int32_t type) {
    json_int_t place = json_integer_value(id);
    if (!json_is_integer(id) || !text || place < 0 || place >= tokens->count) return;
    free(tokens->texts[place]);
    tokens->texts[place] = memory_format("%s", text);
    tokens->types[place] = type;
}

/* Ids without a token are named, as the converters of llama.cpp name them. */
static void add_tokens(Gguf *gguf, const json_t *object, long vocabulary) {
    Tokens tokens = {memory_new(sizeof(char *) * (size_t)vocabulary),
                     memory_new(sizeof(int32_t) * (size_t)vocabulary), vocabulary};
    const char *text;
    json_t *id, *added;
    size_t i;
    json_object_foreach(json_object_get(json_object_get(object, "model"), "vocab"), text, id) {
        set_token(&tokens, id, text, NORMAL);
    }
    json_array_foreach(json_object_get(object, "added_tokens"), i, added) {
        bool special = json_is_true(json_object_get(added, "special"));
        set_token(&tokens, json_object_get(added, "id"),
                  json_string_value(json_object_get(added, "content")),
                  special ? CONTROL : USER_DEFINED);
    }
    for (long k = 0; k < vocabulary; k++) {
        if (tokens.texts[k]) continue;
        tokens.texts[k] = memory_format("[PAD%ld]", k);
        tokens.types[k] = UNUSED;
    }
    gguf_texts(gguf, "tokenizer.ggml.tokens", (const char *const *)tokens.texts,
               (size_t)vocabulary);
    gguf_numbers(gguf, "tokenizer.ggml.token_type", tokens.types, (size_t)vocabulary);
    for (long k = 0; k < vocabulary; k++) free(tokens.texts[k]);
    free(tokens.texts);
    free(tokens.types);
}

/* "a b", or a list of the two. */
static void add_merges(Gguf *gguf, const json_t *merges) {
    size_t count = json_array_size(merges), i;
    char **texts = memory_new(sizeof *texts * (count + 1));
    json_t *merge;
    json_array_foreach(merges, i, merge) {
        const char *left = json_string_value(json_array_get(merge, 0)),
                   *right = json_string_value(json_array_get(merge, 1)),
                   *both = json_string_value(merge);
        texts[i] = both ? memory_format("%s", both)
                        : memory_format("%s %s", left ? left : "", right ? right : "");
    }
    gguf_texts(gguf, "tokenizer.ggml.merges", (const char *const *)texts, count);
    for (i = 0; i < count; i++) free(texts[i]);
    free(texts);
}

bool gguf_tokenizer(Gguf *gguf, const char *json, long vocabulary) {
    json_error_t error;
    json_t *object = json ? json_loads(json, 0, &error) : NULL;
    const char *type = json_string_value(json_object_get(json_object_get(object, "model"), "type"));
    const char *cut = object ? cut_name(object) : NULL;
    if (!json) {
        gguf_text(gguf, "tokenizer.ggml.model", "no_vocab");
        return true;
    }
    bool good = type && !strcmp(type, "BPE") && cut;
    if (good) {
        gguf_text(gguf, "tokenizer.ggml.model", "gpt2");
        gguf_text(gguf, "tokenizer.ggml.pre", cut);
        add_tokens(gguf, object, vocabulary);
        add_merges(gguf, json_object_get(json_object_get(object, "model"), "merges"));
    }
    json_decref(object);
    return good || error_message("--no-tokenizer leaves it out",
                                 "this tokenizer is none of the byte-level ones that llama.cpp has "
                                 "a name for");
}

/* One of a list is the first. */
static void add_id(Gguf *gguf, const json_t *config, const char *from, const char *to) {
    const json_t *id = json_object_get(config, from);
    if (json_is_array(id)) id = json_array_get(id, 0);
    if (json_is_integer(id) && json_integer_value(id) >= 0)
        gguf_number(gguf, to, (uint32_t)json_integer_value(id));
}

void gguf_specials(Gguf *gguf, const char *config, const char *tokenizer_config,
                   const char *jinja) {
    json_error_t error;
    json_t *ids = config ? json_loads(config, 0, &error) : NULL;
    json_t *object = tokenizer_config ? json_loads(tokenizer_config, 0, &error) : NULL;
    const json_t *begins = json_object_get(object, "add_bos_token");
    const char *chat = jinja ? jinja : json_string_value(json_object_get(object, "chat_template"));
    add_id(gguf, ids, "bos_token_id", "tokenizer.ggml.bos_token_id");
    add_id(gguf, ids, "eos_token_id", "tokenizer.ggml.eos_token_id");
    add_id(gguf, ids, "pad_token_id", "tokenizer.ggml.padding_token_id");
    if (json_is_boolean(begins))
        gguf_flag(gguf, "tokenizer.ggml.add_bos_token", json_is_true(begins));
    if (chat) gguf_text(gguf, "tokenizer.chat_template", chat);
    json_decref(ids);
    json_decref(object);
}
