#include "tokenizer/internal.h"

#include "base/message.h"
#include "base/files.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* Puts the added tokens into the sets in which they are looked for: special ones first. */
static bool index_added(Tokenizer *tokenizer, bool special) {
    AUTO(Matcher) *matcher = matcher_new();
    AUTO(Text) spare = {0};
    bool good = true, begins;
    for (int i = 0; i < tokenizer->added_count && good; i++) {
        AddedToken *token = &tokenizer->added[i];
        if (token->special != special) continue;
        text_append(&token->shown, token->content, token->length);
        if (token->normalised)
            good =
                normalise(&tokenizer->normalisers, matcher, &token->shown, &spare, false, &begins);
        added_put(token->normalised ? &tokenizer->normalised : &tokenizer->plain,
                  token->shown.bytes, token->shown.length, i);
    }
    return good;
}

/* The template may only add existing tokens. */
static bool check_template(const Tokenizer *tokenizer, const TokenList *tokens) {
    for (size_t i = 0; i < tokens->count; i++)
        if (!tokenizer_name(tokenizer, tokens->items[i]).bytes)
            return error_message("download the file again",
                                 "%s: post_processor adds token %d, which does not exist",
                                 tokenizer->name, (int)tokens->items[i]);
    return true;
}

static bool finish_added(Tokenizer *tokenizer) {
    tokenizer->size = tokenizer->vocabulary.size;
    for (int i = 0; i < tokenizer->added_count; i++)
        if (tokenizer->added[i].token >= tokenizer->size)
            tokenizer->size = tokenizer->added[i].token + 1;
    tokenizer->added_of = memory_new(sizeof(int32_t) * ((size_t)tokenizer->size + 1));
    for (int32_t i = 0; i < tokenizer->size; i++) tokenizer->added_of[i] = -1;
    for (int i = 0; i < tokenizer->added_count; i++) {
        const AddedToken *token = &tokenizer->added[i];
        tokenizer->added_of[token->token] = i;
        dictionary_put(&tokenizer->added_numbers, token->content, token->length, token->token);
    }
    tokenizer->plain.all = tokenizer->normalised.all = tokenizer->added;
    tokenizer->plain.word = pattern_of_expression(tokenizer->name, "\\w", 2, WORD_RUST);
    tokenizer->normalised.word = tokenizer->plain.word;
    return tokenizer->plain.word && index_added(tokenizer, true) && index_added(tokenizer, false) &&
           check_template(tokenizer, &tokenizer->before) &&
           check_template(tokenizer, &tokenizer->after);
}

static bool read_parts(Tokenizer *tokenizer, const json_t *root) {
    if (!json_is_object(root) || !json_object_get(root, "model"))
        return error_message("use a tokenizer.json of the Hugging Face tokenizers library",
                             "%s is not a tokenizer.json: key 'model' is missing", tokenizer->name);
    bool good = read_normalisers(tokenizer, json_object_get(root, "normalizer")) &&
                read_splitters(tokenizer, json_object_get(root, "pre_tokenizer")) &&
                read_processors(tokenizer, json_object_get(root, "post_processor")) &&
                read_decoders(tokenizer, json_object_get(root, "decoder")) &&
                read_vocabulary(tokenizer, json_object_get(root, "model")) &&
                read_added(tokenizer, json_object_get(root, "added_tokens"));
    if (good && json_is_object(json_object_get(root, "truncation")))
        note_message("%s: truncation is ignored, texts are encoded completely", tokenizer->name);
    if (good && json_is_object(json_object_get(root, "padding")))
        note_message("%s: padding is ignored", tokenizer->name);
    return good && finish_added(tokenizer);
}

Tokenizer *tokenizer_read(const char *name, const char *json, size_t length) {
    json_error_t error;
    json_t *root = json_loadb(json, length, JSON_ALLOW_NUL, &error);
    if (!root) {
        error_message("use a tokenizer.json of the Hugging Face tokenizers library",
                      "%s:%d:%d: invalid JSON: %s", name, error.line, error.column, error.text);
        return NULL;
    }
    Tokenizer *tokenizer = memory_new(sizeof *tokenizer);
    tokenizer->name = memory_format("%s", name);
    tokenizer->json = memory_new(length + 1);
    memcpy(tokenizer->json, json, length);
    tokenizer->json_length = length;
    bool good = read_parts(tokenizer, root);
    json_decref(root);
    if (good) return tokenizer;
    tokenizer_close(tokenizer);
    return NULL;
}

Tokenizer *tokenizer_open(const char *path) {
    Mapping mapping;
    if (!file_map(path, "use the tokenizer.json of the model", &mapping)) return NULL;
    Tokenizer *tokenizer = tokenizer_read(path, (const char *)mapping.bytes, mapping.length);
    file_unmap(&mapping);
    return tokenizer;
}

void tokenizer_close(Tokenizer *tokenizer) {
    if (!tokenizer) return;
    normalisers_free(&tokenizer->normalisers);
    splitters_free(&tokenizer->splitters);
    decoders_free(&tokenizer->decoders);
    vocabulary_free(&tokenizer->vocabulary);
    for (int i = 0; i < tokenizer->added_count; i++) {
        free(tokenizer->added[i].content);
        text_free(&tokenizer->added[i].shown);
    }
    free(tokenizer->added);
    free(tokenizer->added_of);
    dictionary_free(&tokenizer->added_numbers);
    trie_free(&tokenizer->plain.trie);
    trie_free(&tokenizer->normalised.trie);
    pattern_free(tokenizer->plain.word);
    tokens_free(&tokenizer->before);
    tokens_free(&tokenizer->after);
    free(tokenizer->name);
    free(tokenizer->json);
    free(tokenizer);
}

const char *tokenizer_json(const Tokenizer *tokenizer, size_t *length) {
    *length = tokenizer->json_length;
    return tokenizer->json;
}

long tokenizer_size(const Tokenizer *tokenizer) {
    return tokenizer->size;
}

int32_t tokenizer_find(const Tokenizer *tokenizer, const char *bytes, size_t length) {
    int32_t token = dictionary_find(&tokenizer->added_numbers, bytes, length);
    return token >= 0 ? token : dictionary_find(&tokenizer->vocabulary.numbers, bytes, length);
}

bool tokenizer_is_special(const Tokenizer *tokenizer, int32_t token) {
    if (token < 0 || token >= tokenizer->size || tokenizer->added_of[token] < 0) return false;
    return tokenizer->added[tokenizer->added_of[token]].special;
}

bool tokenizer_bytes(const Tokenizer *tokenizer, Text *out, size_t *ends) {
    AUTO(Matcher) *matcher = matcher_new();
    bool good = true;
    for (int32_t token = 0; token < tokenizer->size && good; token++) {
        Name name = tokenizer_name(tokenizer, token);
        if (name.bytes) good = decode_alone(&tokenizer->decoders, matcher, &name, out);
        ends[token] = out->length;
    }
    return good;
}

const TokenList *tokenizer_before(const Tokenizer *tokenizer) {
    return &tokenizer->before;
}

const TokenList *tokenizer_after(const Tokenizer *tokenizer) {
    return &tokenizer->after;
}

Name tokenizer_name(const Tokenizer *tokenizer, int32_t token) {
    if (token < 0 || token >= tokenizer->size) return (Name){0};
    int32_t added = tokenizer->added_of[token];
    if (added >= 0)
        return (Name){tokenizer->added[added].shown.bytes,
                      (uint32_t)tokenizer->added[added].shown.length};
    return token < tokenizer->vocabulary.size ? tokenizer->vocabulary.names[token] : (Name){0};
}

/* A special token that is written otherwise than it is called is not taken for one. */
bool tokenizer_shows(const Tokenizer *tokenizer, int32_t token, bool skip_special) {
    if (!tokenizer_name(tokenizer, token).bytes) return false;
    if (!skip_special || !tokenizer_is_special(tokenizer, token)) return true;
    const AddedToken *added = &tokenizer->added[tokenizer->added_of[token]];
    return added->length != added->shown.length ||
           memcmp(added->content, added->shown.bytes, added->length) != 0;
}

void tokenizer_strings(const Tokenizer *tokenizer, const int32_t *tokens, size_t count,
                       bool skip_special, Strings *strings) {
    for (size_t i = 0; i < count; i++) {
        Name name = tokenizer_name(tokenizer, tokens[i]);
        if (!tokenizer_shows(tokenizer, tokens[i], skip_special)) continue;
        text_append(&strings->text, name.bytes, name.length);
        strings_end(strings);
    }
}

bool tokenizer_decode(const Tokenizer *tokenizer, const int32_t *tokens, size_t count,
                      bool skip_special, Text *out) {
    AUTO(Strings) strings = {0};
    tokenizer_strings(tokenizer, tokens, count, skip_special, &strings);
    AUTO(Matcher) *matcher = matcher_new();
    return decode_strings(&tokenizer->decoders, matcher, &strings, out);
}
