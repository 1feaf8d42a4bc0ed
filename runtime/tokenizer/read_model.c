/* read_model: the vocabulary of a tokenizer.json and its model data. */
#include "tokenizer/internal.h"

#include "base/message.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "▁", which represents a space in vocabularies of SentencePiece. */
static const char metaspace[] = "\xE2\x96\x81";

static char *own(Vocabulary *vocabulary, size_t bytes) {
    vocabulary->owned =
        memory_grow(vocabulary->owned, sizeof(char *) * (size_t)(vocabulary->owned_count + 1));
    return vocabulary->owned[vocabulary->owned_count++] = memory_new(bytes + 1);
}

static bool add_vocabulary_entry(Tokenizer *tokenizer, const char *bytes, size_t length,
                                 json_int_t number) {
    Vocabulary *vocabulary = &tokenizer->vocabulary;
    if (number < 0 || number >= TOKEN_LIMIT)
        return error_message("use token ids from 0 to 16777215", "%s: token '%s' has the id %lld",
                             tokenizer->name, bytes, (long long)number);
    if (number >= vocabulary->size) {
        int32_t size = vocabulary->size ? vocabulary->size : 256;
        while (size <= number) size *= 2;
        vocabulary->names = memory_grow(vocabulary->names, sizeof(Name) * (size_t)size);
        memset(vocabulary->names + vocabulary->size, 0,
               sizeof(Name) * (size_t)(size - vocabulary->size));
        vocabulary->size = size;
    }
    vocabulary->names[number] = (Name){bytes, (uint32_t)length};
    dictionary_put(&vocabulary->numbers, bytes, length, (int32_t)number);
    return true;
}

/* Numbers end where tokens do. */
static void trim(Vocabulary *vocabulary) {
    while (vocabulary->size && !vocabulary->names[vocabulary->size - 1].bytes) vocabulary->size--;
    for (int32_t i = 0; i < vocabulary->size; i++)
        vocabulary->count += vocabulary->names[i].bytes != NULL;
}

/* {"a": 0, ...}. */
static bool read_object(Tokenizer *tokenizer, const json_t *object) {
    if (!json_is_object(object)) return read_damaged(tokenizer, "the 'vocab' of the model");
    size_t room = 0, length;
    const char *key;
    json_t *value;
    json_t *all = (json_t *)(uintptr_t)object;
    json_object_keylen_foreach(all, key, length, value) room += length + 1;
    char *at = own(&tokenizer->vocabulary, room);
    json_object_keylen_foreach(all, key, length, value) {
        memcpy(at, key, length);
        if (!json_is_integer(value)) return read_damaged(tokenizer, "the 'vocab' of the model");
        if (!add_vocabulary_entry(tokenizer, at, length, json_integer_value(value))) return false;
        at += length + 1;
    }
    trim(&tokenizer->vocabulary);
    return true;
}

/* [["a", -1.5], ...]. */
static bool read_scores(Tokenizer *tokenizer, const json_t *list) {
    Vocabulary *vocabulary = &tokenizer->vocabulary;
    size_t i;
    json_t *entry;
    if (!json_is_array(list) || !json_array_size(list))
        return read_damaged(tokenizer, "the 'vocab' of the model");
    vocabulary->scores = memory_new(sizeof(double) * json_array_size(list));
    double least = INFINITY;
    json_array_foreach(list, i, entry) {
        const json_t *name = json_array_get(entry, 0), *score = json_array_get(entry, 1);
        if (!json_is_string(name) || !json_is_number(score))
            return read_damaged(tokenizer, "the 'vocab' of the model");
        size_t length = json_string_length(name);
        char *bytes = memcpy(own(vocabulary, length), json_string_value(name), length);
        if (!add_vocabulary_entry(tokenizer, bytes, length, (json_int_t)i)) return false;
        vocabulary->scores[i] = json_number_value(score);
        least = fmin(least, vocabulary->scores[i]);
        if (length) trie_put(&vocabulary->trie, bytes, length, (int32_t)i);
    }
    vocabulary->unknown_score = least - 10;
    trim(vocabulary);
    return true;
}

static void read_unknown(Vocabulary *vocabulary, const json_t *part) {
    const json_t *name = json_object_get(part, "unk_token");
    if (!json_is_string(name)) return;
    vocabulary->unknown_name = memory_format("%s", json_string_value(name));
    vocabulary->unknown =
        dictionary_find(&vocabulary->numbers, json_string_value(name), json_string_length(name));
}

static void find_fallback(Vocabulary *vocabulary) {
    char name[8];
    for (int byte = 0; byte < 256; byte++) {
        int length = snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
        vocabulary->fallback[byte] = dictionary_find(&vocabulary->numbers, name, (size_t)length);
    }
}

/* "a b" or ["a", "b"]; the parts point into the value. */
static bool halves(const json_t *merge, Name parts[2]) {
    if (json_is_string(merge)) {
        const char *text = json_string_value(merge);
        size_t length = json_string_length(merge);
        const char *space = memchr(text, ' ', length);
        if (!space) return false;
        parts[0] = (Name){text, (uint32_t)(space - text)};
        parts[1] = (Name){space + 1, (uint32_t)(length - parts[0].length - 1)};
        return !memchr(parts[1].bytes, ' ', parts[1].length);
    }
    for (size_t i = 0; i < 2; i++) {
        const json_t *part = json_array_get(merge, i);
        if (!json_is_string(part)) return false;
        parts[i] = (Name){json_string_value(part), (uint32_t)json_string_length(part)};
    }
    return true;
}

static bool add_merge(Tokenizer *tokenizer, const json_t *merge, int32_t rank, Text *joined) {
    Vocabulary *vocabulary = &tokenizer->vocabulary;
    Name parts[2];
    if (!halves(merge, parts)) return read_damaged(tokenizer, "a line of 'merges'");
    size_t cut = parts[1].length >= vocabulary->prefix.length ? vocabulary->prefix.length : 0;
    joined->length = 0;
    text_append(joined, parts[0].bytes, parts[0].length);
    text_append(joined, parts[1].bytes + cut, parts[1].length - cut);
    int32_t left = dictionary_find(&vocabulary->numbers, parts[0].bytes, parts[0].length);
    int32_t right = dictionary_find(&vocabulary->numbers, parts[1].bytes, parts[1].length);
    int32_t token = dictionary_find(&vocabulary->numbers, joined->bytes, joined->length);
    if (left < 0 || right < 0 || token < 0)
        return error_message(
            "download the file again",
            "%s: the merge of '%.*s' and '%.*s' contains a token that is not in the vocabulary",
            tokenizer->name, (int)parts[0].length, parts[0].bytes, (int)parts[1].length,
            parts[1].bytes);
    TokenPair *pair = pairs_put(&vocabulary->merges, pair_key(left, right));
    pair->first = rank;
    pair->second = token;
    return true;
}

/* Whether no merge makes a token in which "▁" follows something else. */
static bool never_joins_spaces(const Vocabulary *vocabulary) {
    size_t width = strlen(metaspace);
    for (size_t i = 0; i < vocabulary->merges.size; i++) {
        const TokenPair *merge = &vocabulary->merges.slots[i];
        if (merge->key == PAIR_EMPTY) continue;
        const Name *name = &vocabulary->names[merge->second];
        bool other = false;
        for (size_t at = 0; at < name->length;) {
            bool space = name->length - at >= width && !memcmp(name->bytes + at, metaspace, width);
            if (space && other) return false;
            other = !space;
            at += space ? width : (size_t)character_length((unsigned char)name->bytes[at]);
        }
    }
    return true;
}

/* Tokens as the bytes that their letters represent. */
static void find_words(Vocabulary *vocabulary) {
    for (int32_t token = 0; token < vocabulary->size; token++) {
        const Name *name = &vocabulary->names[token];
        char *bytes = name->bytes ? own(vocabulary, name->length) : NULL;
        size_t length = 0;
        int taken, byte = 0;
        for (size_t at = 0; bytes && at < name->length && byte >= 0; at += (size_t)taken) {
            byte = byte_of_letter(character_at(name->bytes + at, &taken));
            bytes[length++] = (char)byte;
        }
        if (bytes && byte >= 0) dictionary_put(&vocabulary->words, bytes, length, token);
    }
}

/* If the last step before the model maps bytes to letters, the model reads the bytes directly. */
static void take_bytes(Tokenizer *tokenizer) {
    Vocabulary *vocabulary = &tokenizer->vocabulary;
    SplitterList *list = &tokenizer->splitters;
    if (!list->count || list->items[list->count - 1].kind != SPLIT_LETTERS) return;
    if (vocabulary->byte_fallback || vocabulary->prefix.length || vocabulary->suffix.length) return;
    list->count--;
    vocabulary->byte_level = true;
    AUTO(Text) letter = {0};
    for (int byte = 0; byte < 256; byte++) {
        letter.length = 0;
        text_append_character(&letter, letter_of_byte((unsigned char)byte));
        vocabulary->letters[byte] =
            dictionary_find(&vocabulary->numbers, letter.bytes, letter.length);
    }
    if (vocabulary->ignore_merges) find_words(vocabulary);
}

static bool read_bpe(Tokenizer *tokenizer, const json_t *part) {
    Vocabulary *vocabulary = &tokenizer->vocabulary;
    const json_t *merges = json_object_get(part, "merges");
    size_t i;
    json_t *merge;
    Text joined = {0};
    if (json_number_value(json_object_get(part, "dropout")) != 0)
        return read_refuse(tokenizer, "option", "dropout");
    if (!read_object(tokenizer, json_object_get(part, "vocab"))) return false;
    if (!json_is_array(merges)) return read_damaged(tokenizer, "'merges'");
    vocabulary->byte_fallback = read_flag(part, "byte_fallback", false);
    vocabulary->fuse_unknown = read_flag(part, "fuse_unk", false);
    vocabulary->ignore_merges = read_flag(part, "ignore_merges", false);
    read_text(part, "continuing_subword_prefix", &vocabulary->prefix);
    read_text(part, "end_of_word_suffix", &vocabulary->suffix);
    read_unknown(vocabulary, part);
    bool good = true;
    json_array_foreach(merges, i, merge) {
        good = good && add_merge(tokenizer, merge, (int32_t)i, &joined);
    }
    text_free(&joined);
    take_bytes(tokenizer);
    vocabulary->cuts_at_spaces =
        !vocabulary->byte_level && !vocabulary->ignore_merges && !vocabulary->prefix.length &&
        !vocabulary->suffix.length &&
        dictionary_find(&vocabulary->numbers, metaspace, strlen(metaspace)) >= 0 &&
        never_joins_spaces(vocabulary);
    return good;
}

static bool read_unigram(Tokenizer *tokenizer, const json_t *part) {
    Vocabulary *vocabulary = &tokenizer->vocabulary;
    const json_t *unknown = json_object_get(part, "unk_id");
    vocabulary->byte_fallback = read_flag(part, "byte_fallback", false);
    if (!read_scores(tokenizer, json_object_get(part, "vocab"))) return false;
    if (!json_is_integer(unknown)) return true;
    json_int_t number = json_integer_value(unknown);
    if (number < 0 || number >= vocabulary->size) return read_damaged(tokenizer, "'unk_id'");
    vocabulary->unknown = (int32_t)number;
    return true;
}

static bool read_wordpiece(Tokenizer *tokenizer, const json_t *part) {
    Vocabulary *vocabulary = &tokenizer->vocabulary;
    const json_t *limit = json_object_get(part, "max_input_chars_per_word");
    vocabulary->word_limit = json_is_integer(limit) ? (long)json_integer_value(limit) : 100;
    if (!read_object(tokenizer, json_object_get(part, "vocab"))) return false;
    read_unknown(vocabulary, part);
    if (!read_text(part, "continuing_subword_prefix", &vocabulary->prefix))
        text_append(&vocabulary->prefix, "##", 2);
    for (int32_t i = 0; i < vocabulary->size; i++)
        if (vocabulary->names[i].length)
            trie_put(&vocabulary->trie, vocabulary->names[i].bytes, vocabulary->names[i].length, i);
    vocabulary->continuing =
        trie_walk(&vocabulary->trie, vocabulary->prefix.bytes, vocabulary->prefix.length);
    return true;
}

static bool read_words(Tokenizer *tokenizer, const json_t *part) {
    if (!read_object(tokenizer, json_object_get(part, "vocab"))) return false;
    read_unknown(&tokenizer->vocabulary, part);
    return true;
}

/* Older files do not name the kind. */
static const char *model_kind(const json_t *part) {
    const char *type = read_type(part);
    if (*type) return type;
    if (json_object_get(part, "merges")) return "BPE";
    if (json_is_array(json_object_get(part, "vocab"))) return "Unigram";
    return json_object_get(part, "continuing_subword_prefix") ? "WordPiece" : "WordLevel";
}

bool read_vocabulary(Tokenizer *tokenizer, const json_t *part) {
    static const struct {
        const char *name;
        ModelKind kind;
        bool (*read)(Tokenizer *, const json_t *);
    } kinds[] = {{"BPE", VOCABULARY_BPE, read_bpe},
                 {"Unigram", VOCABULARY_UNIGRAM, read_unigram},
                 {"WordPiece", VOCABULARY_WORDPIECE, read_wordpiece},
                 {"WordLevel", VOCABULARY_WORDS, read_words}};
    if (!json_is_object(part)) return read_damaged(tokenizer, "'model'");
    tokenizer->vocabulary.unknown = -1;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].name, model_kind(part)) != 0) continue;
        tokenizer->vocabulary.kind = kinds[i].kind;
        if (!kinds[i].read(tokenizer, part)) return false;
        find_fallback(&tokenizer->vocabulary);
        return true;
    }
    return read_refuse(tokenizer, "model", model_kind(part));
}

bool read_added(Tokenizer *tokenizer, const json_t *list) {
    size_t i, count = json_array_size(list);
    json_t *entry;
    if (list && !json_is_null(list) && !json_is_array(list))
        return read_damaged(tokenizer, "'added_tokens'");
    tokenizer->added = memory_new(sizeof(AddedToken) * (count + 1));
    json_array_foreach(list, i, entry) {
        const json_t *content = json_object_get(entry, "content"),
                     *id = json_object_get(entry, "id");
        if (!json_is_string(content) || !json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= TOKEN_LIMIT)
            return read_damaged(tokenizer, "'added_tokens'");
        AddedToken *token = &tokenizer->added[tokenizer->added_count++];
        *token = (AddedToken){.length = json_string_length(content),
                              .single_word = read_flag(entry, "single_word", false),
                              .takes_left = read_flag(entry, "lstrip", false),
                              .takes_right = read_flag(entry, "rstrip", false),
                              .normalised = read_flag(entry, "normalized", true),
                              .special = read_flag(entry, "special", false)};
        token->content = memory_new(token->length + 1);
        memcpy(token->content, json_string_value(content), token->length);
        int32_t known =
            dictionary_find(&tokenizer->vocabulary.numbers, token->content, token->length);
        token->token = known >= 0 ? known : (int32_t)json_integer_value(id);
    }
    return true;
}
