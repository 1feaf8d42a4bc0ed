#include "tokenizer/vocabulary.h"

#include "base/message.h"

#include <stdlib.h>

void vocabulary_free(Vocabulary *vocabulary) {
    dictionary_free(&vocabulary->numbers);
    dictionary_free(&vocabulary->words);
    pairs_free(&vocabulary->merges);
    trie_free(&vocabulary->trie);
    text_free(&vocabulary->prefix);
    text_free(&vocabulary->suffix);
    for (int i = 0; i < vocabulary->owned_count; i++) free(vocabulary->owned[i]);
    free(vocabulary->owned);
    free(vocabulary->names);
    free(vocabulary->scores);
    free(vocabulary->unknown_name);
}

void model_work_free(ModelWork *work) {
    tokens_free(&work->symbols);
    tokens_free(&work->reversed);
    free(work->before);
    free(work->after);
    free(work->heap);
    free(work->path);
}

bool unknown_add(const Vocabulary *vocabulary, TokenList *out) {
    if (vocabulary->unknown < 0)
        return error_message(
            "use a tokenizer with an unknown token",
            "a word is not in the vocabulary, and neither is the unknown token '%s'",
            vocabulary->unknown_name ? vocabulary->unknown_name : "");
    tokens_add(out, vocabulary->unknown);
    return true;
}

bool fallback_add(const Vocabulary *vocabulary, const char *bytes, size_t length, TokenList *out) {
    for (size_t i = 0; i < length; i++)
        if (vocabulary->fallback[(unsigned char)bytes[i]] < 0) return false;
    for (size_t i = 0; i < length; i++)
        tokens_add(out, vocabulary->fallback[(unsigned char)bytes[i]]);
    return true;
}

/* wordpiece: the longest token that a word begins with, then the longest "##..." of the rest, and
 * so on; a word that cannot be written so is unknown as a whole. And whole words alone. */

bool wordpiece_encode(const Vocabulary *vocabulary, const char *bytes, size_t length,
                      TokenList *out) {
    size_t before = out->count, at = 0;
    bool fits = (long)character_count(bytes, length) <= vocabulary->word_limit;
    while (fits && at < length) {
        size_t matched = 0;
        int32_t from = at ? vocabulary->continuing : 0;
        int32_t token =
            from < 0 ? -1
                     : trie_longest(&vocabulary->trie, from, bytes + at, length - at, &matched);
        fits = token >= 0;
        if (fits) tokens_add(out, token);
        at += matched;
    }
    if (fits) return true;
    out->count = before;
    return unknown_add(vocabulary, out);
}

bool words_encode(const Vocabulary *vocabulary, const char *bytes, size_t length, TokenList *out) {
    int32_t token = dictionary_find(&vocabulary->numbers, bytes, length);
    if (token < 0) return unknown_add(vocabulary, out);
    tokens_add(out, token);
    return true;
}
