/* Export of a tokenizer to GGUF: byte-level BPE with a pre-tokenizer that llama.cpp names, and
 * SentencePiece BPE, whose merges llama.cpp derives from token scores. */
#include "abi/json_make.h"
#include "abi/utf8_cut.h"
#include "base/memory.h"
#include "base/message.h"
#include "tools/exchange/internal.h"

#include <stdlib.h>
#include <string.h>

/* The first entry whose mark occurs in the pre-tokenizer. */
static const GgufCut *find_pre_tokenizer(const json_t *object) {
    const json_t *cutter = json_object_get(object, "pre_tokenizer");
    AUTO_FREE char *text = json_write(cutter, JSON_COMPACT);
    const char *type = json_field_text(cutter, "type");
    const GgufCut *found = NULL;
    int count;
    const GgufCut *cuts = gguf_cuts(&count);
    for (int i = 0; text && !found && i < count; i++)
        if (strstr(text, cuts[i].mark)) found = &cuts[i];
    if (text && type && strcmp(type, "ByteLevel") == 0 && !strstr(text, "\"use_regex\":false"))
        found = gguf_cut_named("gpt-2");
    return found;
}

typedef struct Tokens {
    char **texts;
    int32_t *types;
    long count;
} Tokens;

static void set_token(Tokens *tokens, const json_t *id, const char *text, int32_t type) {
    json_int_t token_id = json_integer_value(id);
    if (!json_is_integer(id) || !text || token_id < 0 || token_id >= tokens->count) return;
    free(tokens->texts[token_id]);
    tokens->texts[token_id] = memory_format("%s", text);
    tokens->types[token_id] = type;
}

/* Ids without a token get the names that the converters of llama.cpp use. */
static Tokens vocabulary_tokens(const json_t *object, long vocabulary) {
    Tokens tokens = {memory_new(sizeof(char *) * (size_t)(vocabulary + 1)),
                     memory_new(sizeof(int32_t) * (size_t)(vocabulary + 1)), vocabulary};
    const json_t *model = json_object_get(object, "model");
    bool bytes = json_is_true(json_object_get(model, "byte_fallback"));
    const char *text, *unknown = json_field_text(model, "unk_token");
    json_t *id, *added;
    size_t i;
    unsigned byte;
    json_object_foreach(json_object_get(model, "vocab"), text, id) {
        bool is_byte = bytes && sscanf(text, "<0x%2X>", &byte) == 1 && strlen(text) == 6;
        set_token(&tokens, id, text, is_byte ? GGUF_BYTE : GGUF_NORMAL);
    }
    json_array_foreach(json_object_get(object, "added_tokens"), i, added) {
        const char *content = json_field_text(added, "content");
        bool special = json_is_true(json_object_get(added, "special"));
        bool is_unknown = content && unknown && !strcmp(content, unknown);
        set_token(&tokens, json_object_get(added, "id"), content,
                  is_unknown ? GGUF_UNKNOWN
                  : special  ? GGUF_CONTROL
                             : GGUF_USER_DEFINED);
    }
    for (long k = 0; k < vocabulary; k++) {
        if (tokens.texts[k]) continue;
        tokens.texts[k] = memory_format("[PAD%ld]", k);
        tokens.types[k] = GGUF_UNUSED;
    }
    return tokens;
}

static void add_tokens(Gguf *gguf, Tokens *tokens) {
    gguf_texts(gguf, "tokenizer.ggml.tokens", (const char *const *)tokens->texts,
               (size_t)tokens->count);
    gguf_numbers(gguf, "tokenizer.ggml.token_type", tokens->types, (size_t)tokens->count);
    for (long k = 0; k < tokens->count; k++) free(tokens->texts[k]);
    free(tokens->texts);
    free(tokens->types);
}

/* "a b", or a list of both, as "a b": a new string. */
static char *merge_text(const json_t *merge) {
    const char *left = json_string_value(json_array_get(merge, 0)),
               *right = json_string_value(json_array_get(merge, 1)),
               *both = json_string_value(merge);
    return both ? memory_format("%s", both)
                : memory_format("%s %s", left ? left : "", right ? right : "");
}

/* A new string: both parts of a merge as one token. */
static char *merged_text(const json_t *merge) {
    char *text = merge_text(merge), *space = strchr(text, ' ');
    if (space) memmove(space, space + 1, strlen(space));
    return text;
}

static void add_merges(Gguf *gguf, const json_t *merges) {
    size_t count = json_array_size(merges), i;
    AUTO_FREE char **texts = memory_new(sizeof *texts * (count + 1));
    json_t *merge;
    json_array_foreach(merges, i, merge) {
        texts[i] = merge_text(merge);
    }
    gguf_texts(gguf, "tokenizer.ggml.merges", (const char *const *)texts, count);
    for (i = 0; i < count; i++) free(texts[i]);
}

/* ---- SentencePiece ---- */

/* Scores of the tokens: lower for later merges. */
static float *merge_scores(const json_t *model, long vocabulary) {
    float *scores = memory_new(sizeof *scores * (size_t)(vocabulary + 1));
    const json_t *tokens = json_object_get(model, "vocab"),
                 *merges = json_object_get(model, "merges");
    json_t *merge;
    size_t i;
    json_array_foreach(merges, i, merge) {
        AUTO_FREE char *text = merged_text(merge);
        const json_t *id = json_object_get(tokens, text);
        json_int_t token_id = json_is_integer(id) ? json_integer_value(id) : -1;
        if (token_id >= 0 && token_id < vocabulary && scores[token_id] == 0)
            scores[token_id] = -(float)(i + 1);
    }
    return scores;
}

/* The vocabulary without added tokens, which are found before any merge. */
static json_t *merged_vocabulary(const json_t *object) {
    json_t *made = json_copy(json_object_get(json_object_get(object, "model"), "vocab")), *added;
    size_t i;
    json_array_foreach(json_object_get(object, "added_tokens"), i, added) {
        json_object_del(made, json_field_text(added, "content"));
    }
    return made;
}

/* True if the merges derived from the scores equal those of the tokenizer. Derived merges are all
 * splits of a token into two tokens, and those of one token are adjacent. Splits of the same token
 * have the same rank. */
static bool merges_follow(const json_t *object, const float *scores) {
    const json_t *model = json_object_get(object, "model");
    json_auto_t *made = merged_vocabulary(object);
    json_auto_t *again = gguf_merges(json_object_get(model, "vocab"), scores, made);
    json_t *known = json_object(), *merge;
    size_t i, at = 0;
    bool same = true;
    json_array_foreach(again, i, merge) {
        AUTO_FREE char *text = merge_text(merge), *joined = merged_text(merge);
        json_object_set_new(known, text, json_text(joined));
    }
    json_array_foreach(json_object_get(model, "merges"), i, merge) {
        char *joined = merged_text(merge);
        const bool counts = json_object_get(made, joined);
        free(joined);
        if (!counts) continue;
        AUTO_FREE char *text = merge_text(merge), *other = merge_text(json_array_get(again, at++));
        const char *one = json_field_text(known, text), *two = json_field_text(known, other);
        same = same && one && two && strcmp(one, two) == 0;
    }
    same = same && at == json_array_size(again);
    json_decref(known);
    return same;
}

/* Reads whether spaces become "▁" and whether a text starts with one; false if the tokenizer does
 * neither. */
static bool spaces(const json_t *object, bool *prefix) {
    AUTO_FREE char *normaliser = json_write(json_object_get(object, "normalizer"), JSON_COMPACT),
                   *cutter = json_write(json_object_get(object, "pre_tokenizer"), JSON_COMPACT);
    bool replaced = normaliser && strstr(normaliser, "\"Replace\"") && strstr(normaliser, "▁");
    bool metaspace = cutter && strstr(cutter, "\"Metaspace\"");
    bool other = normaliser && (strstr(normaliser, "NFKC") || strstr(normaliser, "NFC") ||
                                strstr(normaliser, "Precompiled") || strstr(normaliser, "Lower"));
    *prefix = (normaliser && strstr(normaliser, "\"Prepend\"")) ||
              (metaspace && !strstr(cutter, "\"prepend_scheme\":\"never\""));
    if (metaspace && strstr(cutter, "\"prepend_scheme\":\"first\""))
        note_message("this tokenizer adds a space before the first text only; llama.cpp also adds "
                     "it after special tokens");
    return (replaced || metaspace) && !other;
}

static bool add_sentencepiece(Gguf *gguf, const json_t *object, long vocabulary) {
    const json_t *model = json_object_get(object, "model");
    bool prefix, known = spaces(object, &prefix);
    AUTO_FREE float *scores = merge_scores(model, vocabulary);
    bool good = known && merges_follow(object, scores);
    if (good) {
        Tokens tokens = vocabulary_tokens(object, vocabulary);
        const char *unknown = json_field_text(model, "unk_token");
        const json_t *id = json_object_get(json_object_get(model, "vocab"), unknown);
        gguf_text(gguf, "tokenizer.ggml.model", "llama");
        gguf_text(gguf, "tokenizer.ggml.pre", "default");
        gguf_flag(gguf, "tokenizer.ggml.add_space_prefix", prefix);
        if (id)
            gguf_number(gguf, "tokenizer.ggml.unknown_token_id", (uint32_t)json_integer_value(id));
        add_tokens(gguf, &tokens);
        gguf_reals(gguf, "tokenizer.ggml.scores", scores, (size_t)vocabulary);
    }
    return good ||
           error_message("add --no-tokenizer to export without the tokenizer",
                         known ? "the merges of this SentencePiece tokenizer do not follow from "
                                 "token scores, which GGUF requires"
                               : "GGUF cannot represent the text normalization of this tokenizer");
}

/* ---- all kinds ---- */

/* Prints notes about properties that GGUF cannot represent. */
static void tell_left_out(const json_t *object, const GgufCut *cut) {
    static const char *const flags[] = {"single_word", "lstrip", "rstrip"};
    const json_t *normaliser = json_object_get(object, "normalizer");
    const char *type = json_field_text(normaliser, "type"), *token = NULL;
    json_t *added;
    size_t i;
    json_array_foreach(json_object_get(object, "added_tokens"), i, added) {
        for (int k = 0; k < 3; k++)
            if (json_is_true(json_object_get(added, flags[k])))
                token = json_field_text(added, "content");
    }
    if (token)
        note_message(
            "GGUF cannot represent single_word, lstrip or rstrip of token '%.*s'; only its "
            "exact text is matched",
            utf8_cut(token, 60), token);
    bool has_nfc = type && strcmp(type, "NFC") == 0;
    if (cut && (cut->nfc ? !has_nfc : type != NULL))
        note_message("GGUF cannot represent the normalizer of this tokenizer; '%s' implies %s",
                     cut->name, cut->nfc ? "NFC normalization" : "no normalization");
}

bool gguf_tokenizer(Gguf *gguf, const Tokenizer *tokenizer, long vocabulary) {
    if (!tokenizer) {
        gguf_text(gguf, "tokenizer.ggml.model", "no_vocab");
        return true;
    }
    if (tokenizer_size(tokenizer) > vocabulary)
        return error_message("add --no-tokenizer to export without the tokenizer",
                             "the tokenizer has %ld tokens, but the embedding has %ld rows",
                             tokenizer_size(tokenizer), vocabulary);
    size_t length;
    json_error_t error;
    const char *json = tokenizer_json(tokenizer, &length);
    json_auto_t *object = json_loadb(json, length, 0, &error);
    const json_t *model = json_object_get(object, "model");
    const char *type = json_field_text(model, "type");
    const GgufCut *cut = find_pre_tokenizer(object);
    bool bpe = type && !strcmp(type, "BPE"), good = false;
    tell_left_out(object, cut);
    if (bpe && cut) {
        Tokens tokens = vocabulary_tokens(object, vocabulary);
        gguf_text(gguf, "tokenizer.ggml.model", "gpt2");
        gguf_text(gguf, "tokenizer.ggml.pre", cut->name);
        add_tokens(gguf, &tokens);
        add_merges(gguf, json_object_get(model, "merges"));
        good = true;
    } else if (bpe && json_is_true(json_object_get(model, "byte_fallback"))) {
        good = add_sentencepiece(gguf, object, vocabulary);
    } else {
        error_message("add --no-tokenizer to export without the tokenizer",
                      "this tokenizer is neither SentencePiece BPE nor a byte-level BPE that "
                      "llama.cpp supports");
    }
    return good;
}

/* Uses the first element of a list. */
static void add_special_id(Gguf *gguf, const json_t *config, const char *from, const char *to) {
    const json_t *id = json_object_get(config, from);
    if (json_is_array(id)) id = json_array_get(id, 0);
    if (json_is_integer(id) && json_integer_value(id) >= 0)
        gguf_number(gguf, to, (uint32_t)json_integer_value(id));
}

/* The token that the template adds at one end of a text, and the flag that it is added. */
static void add_end(Gguf *gguf, const TokenList *tokens, const char *id, const char *flag) {
    if (tokens->count == 1) gguf_number(gguf, id, (uint32_t)tokens->items[0]);
    gguf_flag(gguf, flag, tokens->count == 1);
    if (tokens->count > 1)
        note_message("the tokenizer adds %zu tokens at an end of a text, but GGUF supports one; "
                     "they are omitted",
                     tokens->count);
}

void gguf_specials(Gguf *gguf, const Tokenizer *tokenizer, const char *config,
                   const char *tokenizer_config, const char *jinja) {
    json_error_t error;
    json_auto_t *ids = config ? json_loads(config, 0, &error) : NULL;
    json_auto_t *object = tokenizer_config ? json_loads(tokenizer_config, 0, &error) : NULL;
    const char *chat = jinja ? jinja : json_field_text(object, "chat_template");
    const TokenList *before = tokenizer_before(tokenizer), *after = tokenizer_after(tokenizer);
    add_end(gguf, before, "tokenizer.ggml.bos_token_id", "tokenizer.ggml.add_bos_token");
    add_end(gguf, after, "tokenizer.ggml.eos_token_id", "tokenizer.ggml.add_eos_token");
    if (before->count != 1)
        add_special_id(gguf, ids, "bos_token_id", "tokenizer.ggml.bos_token_id");
    if (after->count != 1) add_special_id(gguf, ids, "eos_token_id", "tokenizer.ggml.eos_token_id");
    add_special_id(gguf, ids, "pad_token_id", "tokenizer.ggml.padding_token_id");
    if (chat) gguf_text(gguf, "tokenizer.chat_template", chat);
}
